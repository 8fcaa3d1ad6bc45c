"""Calls of anything that can be pickled, as pools of processes have them: cascade.Executor, Pool, and the backend of joblib.

    packed(f, args) ──bytes──▶ apply, in an executor ──bytes──▶ unpacked: the value, or the exception as it was raised

Pickles run code where they are loaded: results are those of a cluster that the program trusts.
"""

from __future__ import annotations

import io
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import screen
from .context import Future, RemoteTraceback, put

_LARGE = 256 << 10  # bytes of an array that is sent beside the calls that use it, once


class Shared:
    """Arrays that many calls use, while this object lives. They must not change meanwhile."""

    def __init__(self) -> None:
        self._put: dict[int, tuple[Any, Future]] = {}  # by id, which is the array's as long as it is kept here

    def future(self, array: Any) -> Future:
        """The value that an array was put as."""
        found = self._put.get(id(array))
        if found is None:
            found = self._put[id(array)] = array, put(array)
        return found[1]


def packed(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], shared: Shared | None = None
) -> tuple[bytes, list[Future]]:
    """A call as bytes, with the arrays that go beside it."""
    import cloudpickle

    beside: list[Future] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> int | None:
            if shared is None or type(obj).__name__ != "ndarray" or type(obj).__module__ != "numpy":
                return None
            if obj.nbytes < _LARGE or obj.dtype.kind not in "iufc" or not obj.flags.c_contiguous:
                return None
            beside.append(shared.future(obj))
            return len(beside) - 1

    out = io.BytesIO()
    Pickler(out, protocol=5).dump((function, args, named))
    return out.getvalue(), beside


def apply(call: memoryview, beside: Sequence[Any]) -> bytes:
    """Makes a call, in an executor. An exception is a result too, so that the caller raises the same."""
    import cloudpickle

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: int) -> Any:
            return beside[place]

    try:
        function, args, named = Unpickler(io.BytesIO(call)).load()
        outcome = True, function(*args, **named)
    except (Exception, SystemExit, KeyboardInterrupt) as e:
        outcome = False, (e.with_traceback(None), "".join(traceback.format_exception(e)))
    try:
        data: bytes = cloudpickle.dumps(outcome, protocol=5)
    except Exception as e:
        what = "the result" if outcome[0] else _one_line(outcome[1][0])
        data = pickle.dumps((False, (TypeError(f"{what}: it cannot be sent to the program: {e}"), "")))
    return data


def _one_line(error: Any) -> str:
    return f"{type(error).__name__}: {error}"


class Raised(Exception):
    """The call has raised its cause."""


def unpacked(data: Any) -> Any:
    """The value of a call; Raised from the exception that it ended with."""
    well, value = pickle.loads(data)
    if well:
        return value
    error, stack = value
    if stack:
        error.__cause__ = RemoteTraceback("\n" + screen.text(stack))
    raise Raised from error
