"""msgpack as JSON on one line, as Go's executor/value writes it: both pass the tests of executor/value/testdata/text.txt."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import struct
from typing import Any

_EPOCH = datetime.datetime(1970, 1, 1)
_AGAIN = 400 * 365 + 97  # days after which the calendar is the same
_MOST = 999  # levels
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
            0xD3: ">q"}  # fmt: skip
_WIDTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xC7: ">B", 0xC8: ">H", 0xC9: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I",
           0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}  # fmt: skip


def line(data: Any) -> bytes:
    """JSON with the keys sorted and as text, bytes in base64, times as in RFC 3339, and null for numbers that are not finite.

    ValueError for what JSON cannot say: other keys, keys that would be there twice, text that is not UTF-8, later years.
    """
    reader = _Reader(memoryview(data).cast("B"))
    try:
        text = reader.value()
    except IndexError as e:
        raise ValueError(f"damaged msgpack: {e}") from e
    if reader.at != len(reader.data):
        raise ValueError(f"damaged msgpack: {len(reader.data) - reader.at} bytes follow the value")
    return (text + "\n").encode()


class _Open:
    """A list or mapping of which more is to come."""

    def __init__(self, left: int, mapping: bool) -> None:
        self.left = left
        self.items: list[str] = []
        self.members: dict[str, str] | None = {} if mapping else None
        self.key = ""  # of the next member

    def add(self, text: str) -> None:
        self.left -= 1
        if self.members is None:
            self.items.append(text)
        else:
            self.members[self.key] = text

    def text(self) -> str:
        if self.members is None:
            return "[" + ",".join(self.items) + "]"
        return "{" + ",".join(f"{_quoted(key)}:{self.members[key]}" for key in sorted(self.members)) + "}"


class _Reader:
    """It makes JSON of msgpack while it reads it: Python's numbers do not tell those of 32 bits from others."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def value(self) -> str:
        around: list[_Open] = []  # without recursion: there may be more levels than Python has frames
        while True:
            code = self.data[self.at]
            if 0x80 <= code < 0xA0 or 0xDC <= code <= 0xDF:
                around.append(self._begin(code, len(around)))
            elif around:
                around[-1].add(self._leaf()[0])
            else:
                return self._leaf()[0]
            while not around[-1].left:
                text = around.pop().text()
                if not around:
                    return text
                around[-1].add(text)
            if around[-1].members is not None:
                around[-1].key = self._key(around[-1].members)

    def _begin(self, code: int, level: int) -> _Open:
        self.at += 1
        n = code & 15 if code < 0xA0 else self._number(_WIDTHS[code])
        mapping = code < 0x90 or code > 0xDD
        if n << mapping > len(self.data) - self.at:
            raise ValueError(f"damaged msgpack: it announces {n} values in {len(self.data) - self.at} bytes")
        if n and level == _MOST:
            raise ValueError(f"damaged msgpack: more than {_MOST} levels")
        return _Open(n, mapping)

    def _key(self, members: dict[str, str]) -> str:
        text, key = self._leaf()
        if key is None:
            raise ValueError(f"the key {text} is neither a text nor a finite number: str() makes it one")
        if key in members:
            raise ValueError(f"two keys are {key!r} as text: return keys of one kind")
        return key

    def _leaf(self) -> tuple[str, str | None]:
        """The next value, neither a list nor a mapping: as JSON, and as the text of a key, None where it cannot be one."""
        code = self.data[self.at]
        self.at += 1
        if code < 0x80 or code >= 0xE0:
            text = str(code if code < 0x80 else code - 256)
            return text, text
        if 0xA0 <= code < 0xC0 or 0xD9 <= code <= 0xDB:
            key = str(self._bytes(code & 31 if code < 0xC0 else self._number(_WIDTHS[code])), "utf-8")
            return _quoted(key), key
        if code in _NUMBERS:
            text = _written(self._number(_NUMBERS[code]), code == 0xCA)
            return text, None if text == "null" else text
        if 0xC4 <= code <= 0xC6:
            return f'"{base64.b64encode(self._bytes(self._number(_WIDTHS[code]))).decode()}"', None
        if 0xC7 <= code <= 0xC9 or 0xD4 <= code <= 0xD8:
            size = self._number(_WIDTHS[code]) if code < 0xD4 else 1 << code - 0xD4
            return self._time(self._number(">b"), bytes(self._bytes(size))), None
        if code not in (0xC0, 0xC2, 0xC3):
            raise ValueError(f"damaged msgpack: the code {code:#x} here")
        return {0xC0: "null", 0xC2: "false", 0xC3: "true"}[code], None

    def _bytes(self, n: int) -> memoryview:
        if n > len(self.data) - self.at:
            raise ValueError("damaged msgpack: it ends too early")
        self.at += n
        return self.data[self.at - n : self.at]

    def _number(self, kind: str) -> Any:
        return struct.unpack(kind, self._bytes(struct.calcsize(kind)))[0]

    def _time(self, kind: int, data: bytes) -> str:
        if kind != -1 or len(data) not in (4, 8, 12):
            raise ValueError(f"an extension of kind {kind} with {len(data)} bytes: JSON has none")
        if len(data) == 12:
            nanoseconds, seconds = struct.unpack(">Iq", data)
        else:
            both = int.from_bytes(data, "big")
            nanoseconds, seconds = (both >> 34, both & (1 << 34) - 1) if len(data) == 8 else (0, both)
        days, second = divmod(seconds + nanoseconds // 10**9, 86400)
        early = days < -_AGAIN  # Python's calendar begins with the year 1
        try:
            day = _EPOCH + datetime.timedelta(days + _AGAIN * early)
        except OverflowError:
            raise ValueError("a time after the year 9999, which JSON does not have") from None
        if (year := day.year - 400 * early) < 0:
            raise ValueError(f"a time in the year {year}: JSON has the years 0 to 9999")
        part = f".{nanoseconds % 10**9:09d}".rstrip("0").rstrip(".")
        return f'"{year:04d}-{day:%m-%d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}{part}Z"'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _written(value: float, single: bool) -> str:
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "null"
    digits = repr(value)
    if single:  # the fewest that are this number among those of 32 bits
        digits = next(d for n in range(1, 18) if _single(d := f"{value:.{n}g}") == value)
    number = decimal.Decimal(digits)
    if value == 0 or (1e-6 if not single else _single("1e-6")) <= abs(value) < (1e21 if not single else _single("1e21")):
        plain = f"{number:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, figures, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = str(figures[0]), "".join(map(str, figures[1:]))
    return f"{'-' * sign}{first}{'.' * bool(rest)}{rest}e{exponent + len(rest):+d}"


def _single(digits: str) -> float:
    """The number of 32 bits that is next to a decimal one."""
    try:
        return float(struct.unpack("f", struct.pack("f", float(digits)))[0])
    except OverflowError:
        return math.inf
