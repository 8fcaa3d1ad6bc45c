"""Functions that `cascade perf` measures."""

from __future__ import annotations

import time
from typing import Any

from .context import empty


def noop() -> None:
    """Nothing."""


def start() -> int:
    """The least that has an output."""
    return 1


def step(x: int) -> int:
    """A step of a chain."""
    return x + 1


def make(size: int) -> Any:
    """An array of so many bytes that lies in the store, of which only the ends are written."""
    array = empty(size // 8)
    array[0] = array[-1] = 1
    return array


def get(x: Any) -> int:
    """When the function has its input, in nanoseconds since 1970."""
    now = time.time_ns()
    if x[0] + x[-1] != 2:
        raise ValueError("the bytes that came are not those that were published")
    return now
