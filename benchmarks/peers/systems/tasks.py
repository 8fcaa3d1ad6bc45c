"""The kernels as tasks of Cascade, whose inputs have names: args, and the list xs."""

from __future__ import annotations

from typing import Any

import kernels


def noop() -> None:
    """Nothing; it has no output."""


def one(args: Any = None) -> int:
    return kernels.one(args)


def step(xs: list, args: Any = None) -> int:
    return kernels.step(args, *xs)


def total(xs: list, args: Any = None) -> int:
    return kernels.total(args, *xs)
