"""Values of calls of actors, which travel in the messages themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack

from ..values import BYTES, MSGPACK, RAW, encode
from ..wire import messages as m
from .targets import Coded

MOST_BYTES = 256 << 20  # of the arguments of a call, and of what it returns
_DATA = tuple(m.Ref())


class ByCode(NamedTuple):
    """The code of a class as an argument."""

    coded: Coded


def described(value: Any, element: int = 0) -> tuple[Any, ...]:
    """A value with its bytes, as the fields of a Desc."""
    ref = _DATA if element == 0 else (0, 0, element)
    if value is None or type(value) in (bool, int, float):
        try:
            data = msgpack.packb(value)
            return ref, 0, MSGPACK, "", (), len(data), b"", (m.INLINE, data, 0, 0, 0, "")
        except OverflowError:
            pass
    elif type(value) is ByCode:
        data = value.coded.data
        return ref, 0, RAW, BYTES, (), len(data), b"", (m.INLINE, data, 0, 0, 0, "")
    e = encode(value)
    return ref, 0, e.codec, e.dtype, [int(n) for n in e.shape], e.size, b"", (m.INLINE, e.tobytes(), 0, 0, 0, "")
