"""From an exception to the error that the agent gets."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

from ..context import CallFailed, Cancelled, RemoteTraceback
from ..wire import messages as m
from .code import missing
from .functions import SetupError
from .queue import Run, Stopped

if TYPE_CHECKING:
    from .host import Host

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class KindError(Exception):
    """An error whose kind is known where it happens."""

    def __init__(self, kind: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def failure(worker: Host, run: Run, error: BaseException) -> m.TaskError:
    """What is reported of a run that did not succeed."""
    try:
        return _failure(worker, run, error)
    finally:
        for e in _chain(error):  # the frames of the function hold its views
            if e.__traceback__ is not None:
                traceback.clear_frames(e.__traceback__)
            e.__traceback__ = None


def _failure(worker: Host, run: Run, error: BaseException) -> m.TaskError:
    why = run.stopped or (error if isinstance(error, Stopped) else None)
    if why is not None:  # whatever the function did then, it was on its way out
        text = str(why)
        if not isinstance(error, (Stopped, Cancelled)):
            text += f"; it raised: {_one_line(error)}"
        return worker.error(run, why.kind, text, stack=_stack(error) if isinstance(error, Cancelled) else "")
    match error:
        case SetupError():
            return worker.error(run, m.SETUP, str(error), stack=error.stack)
        case KindError():
            return worker.error(run, error.kind, str(error))
        case MemoryError():
            return worker.error(run, m.MEMORY, _one_line(error), _codes(error), _stack(error))
        case SystemExit() | KeyboardInterrupt():
            text = f"the function raised {_one_line(error)}: return, or raise an exception of another class"
            return worker.error(run, m.TASK, text, _codes(error), _stack(error))
    if _wrote_to_input(error):
        text = f"{_one_line(error)}: inputs are shared with other tasks: copy before writing, as in x = x.copy()"
        return worker.error(run, m.READ_ONLY, text, _codes(error), _stack(error))
    return worker.error(run, m.TASK, _one_line(error) + worker.code.hint(error) + missing(error), _codes(error), _stack(error))


def _wrote_to_input(error: BaseException) -> bool:
    """NumPy, memoryview ("cannot modify read-only memory") and xarray refuse to write to read-only memory in these words."""
    return isinstance(error, (ValueError, TypeError)) and (
        "read-only" in str(error) or "ssignment destination is a view" in str(error)
    )


def _one_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def leads_to(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an error is of a kind, or was raised while one of the kind was being handled."""
    seen: set[int] = set()  # tasks may have tied a ring of them
    while error is not None and id(error) not in seen:
        if isinstance(error, kind):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def _codes(error: BaseException) -> list[str]:
    """The classes of an exception and of what caused it, in called functions too."""
    found: list[str] = []
    for e in _chain(error):
        if not isinstance(e, RemoteTraceback):
            found += [type(e).__qualname__, *(e.codes if isinstance(e, CallFailed) else ())]
    return found


def _stack(error: BaseException) -> str:
    """The traceback, without the frames of this package."""
    try:
        told = traceback.TracebackException.from_exception(error)
        todo: list[traceback.TracebackException | None] = [told]
        while todo:
            if (one := todo.pop()) is not None:
                one.stack = traceback.StackSummary.from_list([f for f in one.stack if not f.filename.startswith(_OWN)])
                todo += [one.__cause__, one.__context__]
        return "".join(told.format()).rstrip()
    except Exception:  # it looks for files by their names, which are any text: then without lines of theirs
        frames = [
            traceback.FrameSummary(f.f_code.co_filename, line, f.f_code.co_name, line="")
            for f, line in traceback.walk_tb(error.__traceback__)
        ]
        own = [f for f in frames if not f.filename.startswith(_OWN)]
        return "".join(["Traceback (most recent call last):\n", *traceback.format_list(own), _one_line(error)])
