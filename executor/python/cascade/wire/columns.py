"""Blocks of columns, as docs/protocol/encoding.md ("Columns") describes them.

A block is a number of entries and then columns: of numbers (all of them in two words when they are evenly
spaced, else each) and of texts (one for all, or each). Integers are unsigned LEB128.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_ENTRIES = 4096  # of one block
MAX_SHAPE = 8  # dimensions of an array in a block
_MASK = (1 << 64) - 1


class Malformed(ValueError):
    """Bytes that are no block of columns."""


def _leb(v: int) -> bytes:
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


_SHORT = [_leb(v) for v in range(1 << 14)]


def varint(v: int) -> bytes:
    """An unsigned integer as LEB128."""
    return _SHORT[v] if v < 16384 else _leb(v)


def zigzag(v: int) -> int:
    """A signed integer as an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return (v << 1 ^ v >> 63) & _MASK


def column(values: Sequence[int]) -> bytes:
    """Numbers, modulo 2**64."""
    if not values:
        return b""
    first = values[0]
    step = values[1] - first if len(values) > 1 else 0
    if all(b - a == step for a, b in zip(values, values[1:])):  # noqa: B905 (strict would be wrong)
        return b"\0" + varint(first & _MASK) + varint(zigzag(step))
    return b"\1" + b"".join([_SHORT[v] if 0 <= v < 16384 else _leb(v & _MASK) for v in values])


def usages(rows: Sequence[Sequence[int]]) -> bytes:
    """The columns of usages: rows of Start, Duration, CPU, PeakRSS, BytesIn, BytesOut, Copied."""
    start, gaps, end = rows[0][0], [], rows[0][0]
    for row in rows:
        gaps.append(zigzag(row[0] - end))
        end = row[0] + row[1]
    rest = list(zip(*rows))[1:]  # noqa: B905 (rows are of one length)
    return varint(len(rows)) + varint(start) + column(gaps) + b"".join([column(c) for c in rest])


class Reader:
    """Reads a block. Whatever is wrong with it is Malformed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def varint(self) -> int:
        """One number."""
        data, at, shift, v = self.data, self.at, 0, 0
        try:
            while True:
                b = data[at]
                at += 1
                v |= (b & 127) << shift
                if b < 128:
                    break
                shift += 7
        except IndexError:
            raise Malformed("a number is cut off") from None
        if v > _MASK:
            raise Malformed("a number has more than 64 bits")
        self.at = at
        return v

    def count(self) -> int:
        """How many entries follow."""
        n = self.varint()
        if n > MAX_ENTRIES:
            raise Malformed(f"{n} entries, at most {MAX_ENTRIES} are allowed")
        return n

    def _form(self) -> bool:
        if self.at >= len(self.data) or self.data[self.at] > 1:
            raise Malformed("a column of unknown form")
        self.at += 1
        return self.data[self.at - 1] == 0

    def column(self, n: int) -> Sequence[int]:
        """n numbers."""
        if n == 0:
            return ()
        if not self._form():
            return [self.varint() for _ in range(n)]
        first, step = self.varint(), self.varint()
        step = step >> 1 ^ -(step & 1)
        if step == 0:
            return [first] * n
        if 0 <= first + step * (n - 1) <= _MASK:
            return range(first, first + step * n, step)
        return [(first + step * i) & _MASK for i in range(n)]

    def _text(self) -> bytes:
        n = self.varint()
        if n > len(self.data) - self.at:
            raise Malformed("a text is cut off")
        self.at += n
        return self.data[self.at - n : self.at]

    def texts(self, n: int) -> list[bytes]:
        """n texts."""
        if n == 0:
            return []
        return [self._text()] * n if self._form() else [self._text() for _ in range(n)]

    def lists(self, n: int) -> tuple[Sequence[int], int]:
        """The lengths of n lists, and their sum."""
        lengths = self.column(n)
        total = sum(lengths)
        if total > 1 << 15:
            raise Malformed("a block with too many parts")
        return lengths, total

    def end(self) -> None:
        """Nothing may follow."""
        if self.at != len(self.data):
            raise Malformed(f"{len(self.data) - self.at} bytes behind the last column")
