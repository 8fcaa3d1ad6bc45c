"""Calls on their way to the agent, as the bytes of one message: what is written at once is not held as objects until then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from ..values import MSGPACK
from ..wire import messages as m
from ..wire.codec import NUMBERS
from ..wire.text import ERRORS

MOST_CALLS = 1000  # in one message
MOST_BYTES = 1 << 20  # of values in one message, about
_REF, _DATA = tuple(m.CallRef()), tuple(m.Ref())


class Batch:
    """The calls and values of one message.

    One thread at a time makes inputs for it, and one adds them or takes the message: these are two, so each has a packer.
    """

    def __init__(self, run: int) -> None:
        self.run, self.once = run, False
        self.kinds: list[m.CallKind] = []
        self.items: list[bytes] = []
        self.refs: list[m.ItemRefs] = []  # to what values in them refer
        self.forget = 0  # kinds up to this number are needed no more
        self.size = 0  # bytes of values in it
        self._pack: Any = msgpack.Packer(unicode_errors=ERRORS).pack  # of inputs
        self._whole: Any = msgpack.Packer(unicode_errors=ERRORS).pack

    def value(self, port: int, data: m.Desc) -> bytes:
        """An input that is a value."""
        self.size += len(data.place.bytes)
        return self._pack(m.CallInput(port, data=data))  # type: ignore[no-any-return]

    def number(self, port: int, value: Any) -> bytes | None:
        """An input that is None, True, False, or a number; None for one of more than 64 bits."""
        try:
            data = self._pack(value)
        except OverflowError:
            return None
        self.size += len(data)
        place = m.INLINE, data, 0, 0, 0, ""
        return self._pack((port, m.FROM_VALUE, _REF, 0, 0, 0, 0, (_DATA, 0, MSGPACK, "", (), len(data), b"", place)))  # type: ignore[no-any-return]

    def input(self, given: m.CallInput) -> bytes:
        """An input that is none of the values."""
        return self._pack(given)  # type: ignore[no-any-return]

    def add(
        self, ref: m.CallRef, kind: int, name: str, inputs: Sequence[bytes], refs: Sequence[m.ItemRefs] = (), actor: int = 0
    ) -> None:
        """Adds a call, or a value (kind 0), with its inputs, and what they refer to. With actor the value stands for one."""
        pack, n = self._whole, len(inputs)
        for r in refs:
            self.refs.append(r._replace(item=len(self.items)))
        head = bytes((0x90 | n,)) if n < 16 else b"\xdc" + n.to_bytes(2, "big") if n < 1 << 16 else b"\xdd" + n.to_bytes(4, "big")
        fields, last = (b"\x96", pack(actor)) if actor else (b"\x95", b"")
        self.items.append(b"".join((fields, pack(ref), pack(kind), pack(name), b"\xc4\0", head, *inputs, last)))

    def full(self) -> bool:
        """Whether it is to leave."""
        return len(self.items) >= MOST_CALLS or self.size >= MOST_BYTES

    def take(self) -> bytes:
        """The message; then it is empty."""
        items, kinds, refs, self.items, self.kinds, self.refs, self.size = self.items, self.kinds, self.refs, [], [], [], 0
        forget, self.forget = self.forget, 0
        pack = self._whole
        fields, last = (b"\x96", pack(refs) + pack(forget)) if forget else (b"\x95", pack(refs)) if refs else (b"\x94", b"")
        head = b"\x92" + pack(NUMBERS[m.Calls]) + fields + pack(self.run) + pack(self.once) + pack(kinds)
        return b"".join((head, b"\xdd" + len(items).to_bytes(4, "big"), *items, last))
