"""What a task's function may ask about itself, and room for its outputs.

Outside an executor the functions of this module work too, so that a task's function can be called and tested by itself.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol


class Cancelled(BaseException):
    """Raised in a task's function when the task is cancelled or its time is up. Let it pass, or clean up and raise it again."""


class Task(NamedTuple):
    """The task that runs."""

    name: str = ""  # unique in the job
    group: str = ""  # entry of the job file
    job: str = ""
    attempt: int = 0
    agent: str = ""
    cpu: float = 0.0  # cores that are granted to it
    memory: int = 0  # bytes that are granted to it
    gpu: float = 0.0
    dir: str = ""  # folder of the job, to which relative paths of the job refer
    scratch: str = ""  # folder for files that are not needed afterwards


class Gang(NamedTuple):
    """The place of a task in its gang, all of whose members were started together."""

    rank: int  # from 0 on
    size: int  # how many members there are
    members: tuple[str, ...]  # host:port of each, by rank
    port: int  # that this member has on its host


class CallFailed(RuntimeError):
    """A function that was called has failed. codes are the classes of its exception and of those that caused it."""

    def __init__(self, message: str, codes: Sequence[str] = (), stack: str = "") -> None:
        super().__init__(message)
        self.codes, self.stack = tuple(codes), stack


class Future:
    """What a called function returns, or an input of the task; as an argument of a call it is passed by reference."""

    def __init__(self, get: Callable[[], Any]) -> None:
        """Made by call and input_future."""
        self._get: Callable[[], Any] | None = get
        self._value: Any = None

    def result(self) -> Any:
        """Waits for the function and returns its value, or raises CallFailed. Meanwhile others use the task's core."""
        if self._get is not None:
            self._value = self._get()
            self._get = None
        return self._value


class Host(Protocol):
    """What an executor gives to this module."""

    def task(self) -> Task: ...

    def empty(self, size: int) -> Any: ...

    def make_call(self, name: str, arguments: dict[str, Any]) -> Future: ...

    def input_future(self, name: str) -> Future: ...


_host: Host | None = None


def _serve(host: Host | None) -> None:
    """Called by the executor."""
    global _host
    _host = host


def current() -> Task:
    """The task that the caller runs as; outside an executor one without a name."""
    return Task() if _host is None else _host.task()


def call(function: str | Callable[..., Any], /, **arguments: Any) -> Future:
    """Has a function of a module run as a task of its own, in the environment of this task, and returns at once.

    function is "module.function", or the function itself. Arguments are values, or futures of earlier calls and of inputs.
    A task that is tried again must make the same calls in the same order; completed calls are not repeated.
    Calls whose results the task has not read are stopped when it ends. Outside an executor the function runs at once.
    """
    name = function if isinstance(function, str) else f"{function.__module__}.{function.__qualname__}"
    if name.startswith("__main__.") or "<" in name:
        raise ValueError(f"call {name}: an executor finds functions of modules only: move it into one")
    if _host is not None:
        return _host.make_call(name, arguments)
    if isinstance(function, str):
        module, _, last = function.rpartition(".")
        found = getattr(importlib.import_module(module), last)
        return _at_once(name, getattr(found, "__cascade_function__", found), arguments)
    return _at_once(name, getattr(function, "__cascade_function__", function), arguments)


def _at_once(name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> Future:
    """A call where there is no executor."""
    try:
        value = function(**{k: v.result() if isinstance(v, Future) else v for k, v in arguments.items()})
    except Exception as e:
        failed = CallFailed(f"{name}: {type(e).__name__}: {e}", [type(e).__qualname__])
        failed.__cause__ = e

        def get() -> Any:
            raise failed
    else:

        def get() -> Any:
            return value

    return Future(get)


def input_future(name: str) -> Future:
    """An input of the task, by the name of its parameter, to pass it on to calls without a copy."""
    if _host is None:
        raise RuntimeError(f"input {name} as a future: outside of an executor pass the value itself")
    return _host.input_future(name)


def gang() -> Gang:
    """The place in its gang of the task that the caller runs as; RuntimeError when it is in none.

    While the task runs the environment has it too: CASCADE_GANG_RANK, _SIZE, _MEMBERS and _PORT, and what
    torch.distributed reads (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE; the master is member 0).
    """
    env = os.environ
    if "CASCADE_GANG_SIZE" not in env:
        raise RuntimeError("the task is in no gang: CASCADE_GANG_SIZE is not set")
    return Gang(int(env["CASCADE_GANG_RANK"]), int(env["CASCADE_GANG_SIZE"]),
                tuple(env["CASCADE_GANG_MEMBERS"].split(",")), int(env["CASCADE_GANG_PORT"]))  # fmt: skip


def empty(shape: int | Sequence[int], dtype: Any = float) -> Any:
    """A NumPy array of any content, to be filled and returned (or yielded) by a task.

    Large ones (over 512 KiB) lie in the store: returned as they are they become a dataset without a copy. What keeps
    looking at one after it was returned sees a copy of its own.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    size = dtype.itemsize
    for n in shape:
        if n < 0:
            raise ValueError(f"shape {shape} has a negative extent")
        size *= n
    room = None if _host is None or dtype.hasobject else _host.empty(size)
    if room is None:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(room, dtype, count=size // dtype.itemsize).reshape(shape)
