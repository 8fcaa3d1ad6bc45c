"""What tasks do, the same on each system. A task gets its own arguments first, then the results that it depends on."""

from __future__ import annotations

import ctypes
import functools
import os
import time
from typing import Any

import numpy as np


def noop(args: Any = None, *xs: Any) -> None:
    """Nothing."""


def one(args: Any = None) -> int:
    return 1


def echo(x: Any) -> Any:
    return x


class Counter:
    """An actor."""

    def __init__(self) -> None:
        self.calls = 0

    def echo(self, x: Any) -> Any:
        self.calls += 1
        return x

    def pid(self) -> int:
        return os.getpid()


def length(x: bytes) -> int:
    return len(x)


def step(args: Any, x: int) -> int:
    return x + 1


def total(args: Any, *xs: int) -> int:
    return sum(xs)


def sleep(seconds: float, *xs: Any) -> int:
    time.sleep(seconds)
    return 1


def pid(args: Any = None) -> int:
    """Which process runs tasks; long enough for others to get theirs."""
    time.sleep(0.02)
    return os.getpid()


def fill(array: Any) -> Any:
    """Writes an array, and into its first number when it was ready."""
    array[:] = 1.0
    array[0] = time.time()
    return array


def make(size: int) -> Any:
    """An array of so many bytes."""
    return fill(np.empty(size // 8))


def seen(args: Any, x: Any) -> float:
    """Seconds since an array was ready, when it is in the hands of another task."""
    now = time.time()
    if x[-1] != 1.0 and x.size > 1:
        raise ValueError("the bytes that came are not those that were made")
    return now - float(x[0])


def far(args: Any, x: Any) -> list:
    """What seen tells, and in which network that was."""
    return [seen(args, x), os.readlink("/proc/self/ns/net")]


def logged(args: Any) -> int:
    """Sleeps; a file gets a line at its start and one at its end: what, which, who, when."""
    path, number, seconds = args
    with open(path, "a") as log:
        log.write(f"start {number} {os.getpid()} {time.time()}\n")
        log.flush()
        time.sleep(seconds)
        log.write(f"end {number} {os.getpid()} {time.time()}\n")
    return 1


def matrix(n: int) -> Any:
    """A random matrix, the same in each run."""
    return np.random.default_rng(1).uniform(0.0, 1.0, (n, n))


def scaled_norm(i: int, m: Any) -> float:
    """The nuclear norm of a multiple of a matrix: a singular value decomposition, which takes long."""
    return float(np.linalg.svd(m * i)[1].sum())


def norm(args: Any, m: Any) -> float:
    return scaled_norm(1, m)


def next_matrix(args: Any, last: Any = None) -> Any:
    """A random matrix, multiplied by the one before: element i of a series of which none can be made alone."""
    n, i = args
    new = np.random.default_rng(i).uniform(0.0, 1.0, (n, n))
    return new if last is None else new * last


def matrices(args: Any) -> Any:
    """The series of next_matrix as a generator."""
    n, m = args
    last = None
    for i in range(m):
        last = next_matrix((n, i), last)
        yield last


@functools.cache
def pendulum() -> Any:
    import gymnasium

    return gymnasium.make("Pendulum-v1", max_episode_steps=1_000_000)


def simulate(args: Any) -> int:
    """So many steps of a pendulum; returns their number."""
    seed, count = args
    world = pendulum()
    world.reset(seed=seed)
    for _ in range(count):
        world.step(np.zeros(1, np.float32))
    return count


@functools.cache
def library() -> Any:
    """The kernel in machine code, the same for all."""
    lib = ctypes.CDLL(os.environ["PEERS_KERNEL"])
    lib.compute.restype, lib.compute.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_long]
    return lib.compute


def compute(iterations: int, *xs: float) -> float:
    """Dependent multiply-adds; the result stays between 0 and 1."""
    return library()(sum(xs) / max(len(xs), 1), iterations)
