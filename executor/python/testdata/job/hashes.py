"""Results of so many bytes, all with the same ones, that come to memory in different ways."""

from collections.abc import Iterator
from typing import Any

import numpy

import cascade


def _numbers(n: int) -> Any:
    return numpy.arange(n, dtype="int64").astype("uint8")


def text(n: int) -> bytes:
    """Bytes."""
    return bytes(_numbers(n))


def array(n: int) -> Any:
    """An array."""
    return _numbers(n)


def strided(n: int) -> Any:
    """An array that is not contiguous."""
    return numpy.repeat(_numbers(n), 2)[::2]


def square(n: int) -> Any:
    """An array of two dimensions in room of the store, which has it already if it is large."""
    made = cascade.empty((2, n // 2), "uint8")
    made[:] = _numbers(n).reshape(2, n // 2)
    return made


def series(n: int) -> Iterator[bytes]:
    """Bytes, twice."""
    yield text(n)
    yield text(n)
