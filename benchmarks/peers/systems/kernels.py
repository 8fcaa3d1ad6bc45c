"""What tasks do, the same on each system. A task gets its own arguments first, then the results that it depends on."""

from __future__ import annotations

from typing import Any


def noop(args: Any = None, *xs: Any) -> None:
    """Nothing."""


def one(args: Any = None) -> int:
    return 1


def step(args: Any, x: int) -> int:
    return x + 1


def total(args: Any, *xs: int) -> int:
    return sum(xs)
