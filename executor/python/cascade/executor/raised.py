"""From the error of a call to the exception that its caller gets."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable
from typing import Any

from ..context import ActorDiedError, ActorUnavailableError, CallCancelled, CallFailed, RemoteTraceback, failed_as
from ..wire import messages as m
from .actorlives import RESTARTED

DEAD = "cascade.actor-dead"  # the code of errors of calls whose actor has ended
_OWN = ("CallFailed", "CallCancelled", "ActorDiedError", "ActorUnavailableError", DEAD, RESTARTED)
_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")


def raised(name: str, error: m.TaskError, function: Callable[..., Any] | None = None) -> CallFailed:
    """The exception for the error of a call. function is what was called, if it is known here."""
    base: type[CallFailed] = CallCancelled if error.kind == m.CANCELLED else CallFailed
    if DEAD in error.codes:
        base = ActorDiedError
    elif RESTARTED in error.codes:
        base = ActorUnavailableError
    made = failed_as(_class_of(error, function), base)(f"{name}: {error.message}", error.codes, error.stack)
    made.task, made.attempt, made.agent = error.task, error.attempt, error.agent
    attempt = f", attempt {error.attempt}" if error.attempt else ""
    where = f"{error.task}{attempt}, on agent {error.agent}" if error.agent else error.task
    made.__cause__ = RemoteTraceback("\n".join(filter(None, (f"task {where}:", error.stack)))) if where or error.stack else None
    return made


def _class_of(error: m.TaskError, function: Callable[..., Any] | None) -> Any:
    """The class of the exception that a function raised, as it is known here: nothing is imported for it."""
    spaces = [getattr(function, "__globals__", {}), vars(sys.modules["__main__"]), vars(builtins)]
    for code in error.codes:
        if code in _OWN:  # the next is of what was called there
            continue
        first, *rest = code.split(".")
        for space in spaces:
            if isinstance(found := _within(space.get(first), rest), type):
                return found
        break
    stated = _CLASS.match(error.message)  # MODULE.CLASS, for a class of another module
    if stated and error.codes and stated[1].endswith("." + error.codes[0]):
        module = sys.modules.get(stated[1][: -len(error.codes[0]) - 1])
        return _within(module, error.codes[0].split(".")) if module else None
    return None


def _within(value: Any, path: list[str]) -> Any:
    for part in path:
        value = getattr(value, part, None)
    return value
