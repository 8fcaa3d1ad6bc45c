"""What a task's function may ask about itself, and room for its outputs.

Outside an executor the functions of this module work too, so that a task's function can be called and tested by itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    scratch: str = ""  # folder for files that nobody needs afterwards


class Gang(NamedTuple):
    """The place of a task in its gang, all of whose members were started together."""

    rank: int  # from 0 on
    size: int  # how many members there are
    members: tuple[str, ...]  # host:port of each, by rank
    port: int  # that this member has on its host


class Host(Protocol):
    """What an executor gives to this module."""

    def task(self) -> Task: ...

    def empty(self, size: int) -> Any: ...


_host: Host | None = None


def _serve(host: Host | None) -> None:
    """Called by the executor."""
    global _host
    _host = host


def current() -> Task:
    """The task that the caller runs as; outside an executor one without a name."""
    return Task() if _host is None else _host.task()


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
