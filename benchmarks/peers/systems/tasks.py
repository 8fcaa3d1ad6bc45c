"""The kernels as tasks of Cascade, whose inputs have names: args, and the list xs."""

from __future__ import annotations

from typing import Any

import cascade
import kernels


def noop() -> None:
    """Nothing; it has no output."""


def one(args: Any = None) -> int:
    return kernels.one(args)


def step(xs: list, args: Any = None) -> int:
    return kernels.step(args, *xs)


def total(xs: list, args: Any = None) -> int:
    return kernels.total(args, *xs)


def sleep(args: float, xs: list | None = None) -> int:
    return kernels.sleep(args)


def pid() -> int:
    return kernels.pid()


def make(args: int) -> Any:
    return kernels.fill(cascade.empty(args // 8))  # the store's own memory


def seen(xs: list) -> float:
    return kernels.seen(None, *xs)


def far(xs: list) -> list:
    return kernels.far(None, *xs)


def logged(args: list) -> int:
    return kernels.logged(args)


def matrix(args: int) -> Any:
    return kernels.matrix(args)


def scaled_norm(args: int, xs: list) -> float:
    return kernels.scaled_norm(args, *xs)


def norm(x: Any) -> float:
    return kernels.norm(None, x)


def matrices(args: list) -> Any:
    yield from kernels.matrices(args)


def simulate(args: list) -> int:
    return kernels.simulate(args)


def compute(args: int, xs: list | None = None) -> float:
    return kernels.compute(args, *(xs or []))


def many(n: int) -> int:
    """Calls others, and sums what they return."""
    return sum(cascade.get([cascade.call(kernels.echo, 1) for _ in range(n)]))


def numbers(n: int) -> Any:
    yield from range(n)
