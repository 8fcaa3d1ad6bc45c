"""Cascade for Python: what functions of tasks use, and a client that builds and submits jobs.

A task's function is an ordinary function of a module. Inputs and parameters (with:) are its keyword arguments, what it
returns are its outputs, and a function that yields generates a series. docs/python.md of the project tells more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .context import (
    ActorDiedError,
    ActorUnavailableError,
    CallCancelled,
    CallFailed,
    Cancelled,
    Future,
    Gang,
    Task,
    as_completed,
    call,
    current,
    empty,
    gang,
    get,
    input_future,
    not_repeatable,
    options,
    put,
    strand,
    wait,
)

__version__ = "0.1.0"
__all__ = ["ActorClass", "ActorDiedError", "ActorHandle", "ActorUnavailableError", "CallCancelled", "CallFailed", "Cancelled", "Cluster", "Executor", "Future", "Gang", "Graph", "Job", "JobCancelled", "Pool", "Ref",
           "RequestError", "Reused", "Session", "SessionLost", "Task", "TaskFailed", "as_completed", "call", "connect", "current", "empty",
           "exit_actor", "gang", "get", "get_actor", "init", "input_future", "is_initialized", "kill", "local", "method", "not_repeatable", "options", "progress", "put", "remote", "shutdown",
           "strand", "task", "wait"]  # fmt: skip

_CLIENT = {"ActorClass": "actor", "ActorHandle": "actor", "exit_actor": "actor", "get_actor": "actor", "kill": "actor", "method": "actor",
           "Cluster": "client", "Executor": "pool", "Pool": "pool", "Job": "job", "JobCancelled": "job", "RequestError": "peer", "Reused": "reuse", "TaskFailed": "job",
           "Session": "session", "SessionLost": "session", "connect": "client", "init": "session", "is_initialized": "session",
           "local": "client", "progress": "bars", "remote": "calling", "shutdown": "session", "Graph": "graph", "Ref": "graph", "task": "graph"}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The client is loaded when it is used: executors start without it."""
    if name in _CLIENT:
        return getattr(importlib.import_module(f".{_CLIENT[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names for users; the client is listed before it is loaded, and modules of the package are not."""
    return [*__all__, "__version__"]


if TYPE_CHECKING:
    from .actor import ActorClass, ActorHandle, exit_actor, get_actor, kill, method
    from .bars import progress
    from .calling import remote
    from .client import Cluster, connect, local
    from .graph import Graph, Ref, task
    from .job import Job, JobCancelled, TaskFailed
    from .peer import RequestError
    from .pool import Executor, Pool
    from .reuse import Reused
    from .session import Session, SessionLost, init, is_initialized, shutdown
