"""Functions of the tests' tasks, each of which does one thing that an executor must get right."""

import collections
import ctypes
import datetime
import enum
import itertools
import logging
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

import cascade

_Pair = collections.namedtuple("Pair", "a b")
_Colour = enum.IntEnum("Colour", {"RED": 3})
_ZONED = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))

kept: list[Any] = []  # what tasks leave behind in the process


def address(array: np.ndarray) -> int:
    """Where an array lies."""
    return array.__array_interface__["data"][0]


def segment(array: np.ndarray) -> str:
    """The file and offset that an array's memory is of: this is what makes two views the same physical memory."""
    at = address(array)
    with open("/proc/self/maps") as f:
        for line in f:
            span, _, offset, _, _, *path = line.split(maxsplit=5)
            first, last = (int(x, 16) for x in span.split("-"))
            if first <= at < last and path:
                return f"{os.path.basename(path[0].strip())} {at - first + int(offset, 16)}"
    return "private"


def ramp(n: int, start: float = 0.0, after: Any = None) -> Any:
    """An array that is filled in the store."""
    a = cascade.empty(n)
    a[:] = np.arange(n) + start
    return a


def ramp_place(n: int) -> tuple[Any, str]:
    """An array, and where it lies."""
    a = cascade.empty(n)
    a[:] = np.arange(n)
    return a, segment(a)


def place(x: np.ndarray) -> str:
    """Where an input lies."""
    assert not x.flags.writeable
    return segment(x)


def scale(x: np.ndarray, by: float) -> Any:
    """Small or large, copied on the way out."""
    return x * by


def stats(x: np.ndarray) -> dict[str, float]:
    """Two outputs by name."""
    return {"mean": float(x.mean()), "stddev": float(x.std())}


def describe(**inputs: Any) -> str:
    """What a task sees of its inputs."""
    lines = []
    for name, value in sorted(inputs.items()):
        text = value.tolist() if isinstance(value, np.ndarray) else bytes(value) if isinstance(value, memoryview) else value
        extra = f" {value.dtype} {value.shape}" if isinstance(value, np.ndarray) else ""
        lines.append(f"{name}: {type(value).__name__}{extra} {text!r}")
    return "\n".join(lines)


def same(value: Any = None, how: str = "") -> Any:
    """Returns values of all kinds."""
    return {
        "int": 7, "float": 2.5, "none": None, "bool": True, "list": [1, "a", None], "dict": {"a": {"b": [1.0]}},
        "str": "grün", "bytes": b"\x00\xff", "empty": np.empty((0, 3)), "scalar": np.float32(1.5),
        "f32": np.arange(6, dtype="f4").reshape(2, 3), "transposed": np.arange(6).reshape(2, 3).T,
        "big": np.arange(3, dtype=">i4"), "mask": np.array([True, False]), "complex": np.array([1 + 2j]),
        "set": {3}, "huge": 1 << 80, "text": np.array(["a", "bc"]), "scale": {"array": np.arange(4), "name": "x"},
        "named": _Pair(1, 2.5), "enum": _Colour.RED, "counter": collections.Counter("aab"), "default": collections.defaultdict(int, a=1),
        "ordered": collections.OrderedDict(b=1, a=2), "tuple": (1, ("a",)), "names": [_Pair(1, 2)], "zoned": _ZONED,
        "keys": {(1, ("x",)): "a", None: 2}, "masked": np.ma.masked, "nanoseconds": np.timedelta64(5, "ns"), "half": "\ud800",
    }[how]  # fmt: skip


def agree(made: str, seen: str) -> str:
    """Whether an array was made and seen at the same place in shared memory."""
    return "the same memory" if made == seen != "private" else f"made at {made}, seen at {seen}"


def write(x: np.ndarray) -> None:
    """Writes to its input."""
    x[0] = 1


def write_behind(x: np.ndarray) -> None:
    """Writes to its input behind NumPy's back."""
    ctypes.memset(address(x), 0, 8)


def keep(x: np.ndarray) -> float:
    """Keeps its input for later tasks of the process."""
    kept.append(x)
    return float(x[0])


def keep_output(n: int, after: Any = None) -> Any:
    """Keeps its output."""
    a = cascade.empty(n)
    a[:] = 5.0
    kept.append(a)
    return a


def kept_sum(after: Any = None) -> float:
    """What was kept is still what it was; it may be written to where it was the task's own."""
    total = float(sum(a.sum() for a in kept))
    for a in kept:
        if a.flags.writeable:
            a[:] = -1
    return total


def both(a: float, b: float, x: np.ndarray) -> str:
    """What is left when a task has written to an output that it had kept."""
    return f"{a} {b} {x.min()} {x.max()}"


def lock() -> Any:
    """Returns what cannot travel."""
    return threading.Lock()


_thing = threading.Lock()


def thing() -> Any:
    """Returns an object of this process."""
    return _thing


def is_thing(x: Any) -> bool:
    """Whether it is that object itself."""
    return x is _thing


def count(n: int, size: int = 1, die_at: int = -1, how: str = "kill") -> Any:
    """A generator, which ends its process at an element in the first attempt."""
    for i in range(n):
        if i == die_at and cascade.current().attempt == 1:
            die(how)
        out = cascade.empty(size)
        out[:] = i
        yield out


def die(how: str) -> None:
    """Ends the process, or fails, in one of many ways."""
    match how:
        case "kill":
            os.kill(os.getpid(), 9)
        case "abort":
            os.abort()
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "sys.exit":
            sys.exit("enough")
        case "error":
            inner()
        case "hog":
            hog = []
            while True:
                hog.append(bytearray(b"x" * (16 << 20)))
        case "sleep":
            time.sleep(600)
        case "loop":
            while True:
                pass


def inner() -> None:
    """Raises."""
    try:
        {}["depth"]
    except KeyError as e:
        raise ValueError("the depth is not known") from e


def total(field: list[np.ndarray]) -> float:
    """A list of inputs."""
    return float(sum(f.sum() for f in field))


def first(field: np.ndarray) -> float:
    """One element."""
    return float(field[0])


def talk() -> None:
    """Writes to its log in every way."""
    print("printed")
    print("to stderr", file=sys.stderr)
    logging.warning("warned")
    subprocess.run(["echo", "from a child"], check=True)
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()


def about() -> dict[str, Any]:
    """What a task knows of itself."""
    t = cascade.current()
    return {"name": t.name, "group": t.group, "attempt": t.attempt, "cpu": t.cpu}


def mutable(given: list[int]) -> int:
    """Changes its parameter, which must not reach other runs."""
    given.append(1)
    return len(given)


def noop() -> None:
    """Nothing."""


def step(x: Any) -> Any:
    """A step of a path."""
    return x + 1


def pair() -> tuple[int, int]:
    """Two outputs where the job wants others."""
    return 1, 2


not_a_function = 3


def lacks() -> None:
    """Imports what is not there."""
    import a_package_that_nobody_has  # noqa: F401


async def later() -> int:
    """Is never awaited."""
    return 1


async def flow() -> Any:
    """Neither."""
    yield 1


def lazy(how: str) -> Any:
    """Returns what would have to be computed."""
    return {"map": map(print, "ab"), "generator": (print(c) for c in "ab"), "coroutine": later() if how == "coroutine" else None, "chain": itertools.chain("a", "b")}[how]


def lazies() -> Any:
    """Yields what would have to be computed."""
    yield map(print, "ab")
