"""Futures within values: in their bytes each is a number, its place in a list that the agent is told beside them.

    value ──encode(value, found)──▶ bytes with numbers, found.futures ──▶ the agent is told what each stands for
    value ◀──decode(bytes, refer)── each number becomes a future of the task that reads
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgpack

from .checks import TypeMismatch
from .context import Future

EXTENSION = 0x52  # of msgpack; its data is the number, as a varint


class Found:
    """The futures in a value, as its bytes number them. They are kept as long as this is."""

    __slots__ = ("_places", "futures")

    def __init__(self) -> None:
        self.futures: list[Future] = []
        self._places: dict[int, int] = {}  # by id, which is the future's as long as it is kept

    def clear(self) -> None:
        """The value is encoded anew."""
        self.futures.clear()
        self._places.clear()

    def place(self, future: Future) -> int:
        """The number of a future."""
        place = self._places.setdefault(id(future), len(self.futures))
        if place == len(self.futures):
            self.futures.append(future)
        return place

    def extension(self, future: Future) -> msgpack.ExtType:
        """A future as it stands in msgpack."""
        place, data = self.place(future), bytearray()
        while place > 0x7F:
            data.append(place & 0x7F | 0x80)
            place >>= 7
        data.append(place)
        return msgpack.ExtType(EXTENSION, bytes(data))


class _Reading(threading.local):
    refer: Callable[[int], Any] | None = None


_reading = _Reading()


def read(refer: Callable[[int], Any], do: Callable[[], Any]) -> Any:
    """Decodes a value; refer makes the future of a number, which is asked for once."""
    made: dict[int, Any] = {}

    def once(place: int) -> Any:
        if place not in made:
            made[place] = refer(place)
        return made[place]

    before, _reading.refer = _reading.refer, once
    try:
        return do()
    finally:
        _reading.refer = before


def referred(place: int) -> Any:
    """The future of a number in the value that this thread decodes. Pickles call it by its name."""
    if _reading.refer is None:
        raise TypeMismatch("there is a future in it, which only called tasks and the program of their session can read")
    return _reading.refer(place)


def extended(code: int, data: bytes) -> Any:
    """What an extension of msgpack stands for."""
    if code != EXTENSION:
        return msgpack.ExtType(code, data)
    place = 0
    for i, byte in enumerate(data):
        place |= (byte & 0x7F) << 7 * i
    return referred(place)
