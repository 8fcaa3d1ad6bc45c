"""The state of the process that tasks share: what one changes is set back before the next.

    start ──▶ adopt ──▶ import of a task's module ──▶ adopt ──▶ function ──▶ restore ──▶ the next task
                                                                             └─ what cannot be set back: the process is replaced

Changes that a module makes when it is imported with its function belong to the process, as that happens once. Those of the
function, or of a module that it imports itself, end with the task. Variables of modules are not looked at: they are how a
process stays warm.
"""

from __future__ import annotations

import _locale
import _signal
import contextvars
import fcntl
import gc
import operator
import os
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_LIMITS = sorted({n for name, n in vars(resource).items() if name.startswith("RLIMIT_")})
_TIMERS = (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)
_STREAMS = (0, 1, 2)
_HOOKS = (
    *((sys, name) for name in ("stdin", "stdout", "stderr", "excepthook", "displayhook", "unraisablehook")),
    (threading, "excepthook"),
    *((warnings, name) for name in ("showwarning", "formatwarning")),
)
_digits: Callable[[], int | None] = getattr(sys, "get_int_max_str_digits", lambda: None)  # from 3.11 on, and late 3.10


class _Part:
    """A part of the state: how it is read and written, when it is the same, and what it is to be."""

    __slots__ = ("kept", "read", "same", "write")

    def __init__(
        self, read: Callable[[], Any], write: Callable[[Any], None], same: Callable[[Any, Any], bool] = operator.eq
    ) -> None:
        self.read, self.write, self.same, self.kept = read, write, same, read()

    def is_kept(self) -> bool:
        """Whether it is what it is to be; not when that cannot be told."""
        try:
            return self.same(self.read(), self.kept)
        except Exception:  # of what a task left there
            return False

    def put_back(self) -> bool:
        """Sets it back, and tells whether it is what it is to be."""
        try:
            self.write(self.kept)
        except Exception:
            return False
        return self.is_kept()


class State:
    """The state of the process as it is to be, compared and set back. For the main thread."""

    def __init__(self, interrupt: int) -> None:
        """Takes the process as it is, with the executor's streams and handlers, of which that of interrupt is one."""
        self._mask = os.umask(0o077)
        os.umask(self._mask)
        self._start = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._environ = os.environ
        self._decimal: Any = None
        self._copies = [*map(_copy, _STREAMS)]
        self._signals = [n for n in (*range(1, 32), interrupt) if n in _signal.valid_signals()]
        self._variables = _Part(self._read_variables, self._set_variables)
        self._files = _Part(lambda: [*map(_file, _STREAMS)], self._set_files)
        self._parts: list[_Part] = [
            _Part(_ids, _set_ids),
            _Part(_limits, _set_limits),
            self._variables,
            _Part(_sys, _set_sys),
            _Part(_hooks, _set_hooks, _identical),
            _Part(_paths, _set_paths),
            _Part(_warnings, _set_warnings),
            _Part(_logging, _set_logging),
            _Part(_root_lists, _set_root_lists, _identical),
            _Part(_defaults, _set_defaults),
            _Part(_priority, _set_priority),
            self._files,
            _Part(self._handlers, self._set_handlers, _identical),
            _Part(_wakeup, _set_wakeup),
            _Part(_loop, _set_loop, _identical),
            _Part(_timers, _set_timers),
            _Part(_blocked, _set_blocked),
            _Part(_locale_of, _set_locale),
        ]

    def adopt(self, but: Mapping[str, str | None]) -> None:
        """Takes what imports have set: not the folder and the mask, and variables of one task as they were."""
        self.untouched()
        os.environ = self._environ  # noqa: B003 (its variables are the process's, whatever the name stands for)
        if not self._files.is_kept():
            for copy in self._copies:
                if copy is not None:
                    os.close(copy)
            self._copies = [*map(_copy, _STREAMS)]
        for part in self._parts:
            part.kept = part.read()
        decimal = sys.modules.get("decimal")
        self._decimal = None if decimal is None else decimal.getcontext().copy()
        for name, value in but.items():
            if value is None:
                self._variables.kept.pop(os.fsencode(name), None)
            else:
                self._variables.kept[os.fsencode(name)] = os.fsencode(value)

    def untouched(self) -> bool:
        """Sets back folder and mask, which takes no longer than to ask whether they differ, and compares the environment."""
        try:
            os.umask(self._mask)
            os.fchdir(self._start)
        except OSError:
            return False  # of another user now
        same = self._environ._data == self._variables.kept  # type: ignore[attr-defined]
        return same and os.environ is self._environ

    def restore(self) -> tuple[bool, bool]:
        """Sets back all, which takes 20 times as long; it returns whether something differed, and whether all is as it was."""
        self.untouched()
        differed, whole = False, True
        for part in self._parts:
            if not part.is_kept():
                differed, whole = True, part.put_back() and whole
        return differed, whole and self.untouched()

    def context(self) -> contextvars.Context:
        """Where a task's function runs: its context variables are its own, and decimal's precision."""
        own = contextvars.copy_context()
        decimal = sys.modules.get("decimal")
        if decimal is not None:
            own.run(decimal.setcontext, (self._decimal or decimal.DefaultContext).copy())
        return own

    def _read_variables(self) -> dict[bytes, bytes]:
        return self._environ._data.copy() if os.environ is self._environ else {}  # type: ignore[attr-defined]

    def _set_variables(self, kept: dict[bytes, bytes]) -> None:
        os.environ = self._environ  # noqa: B003 (this one, whatever the name stood for)
        now = self._read_variables()
        for name in now.keys() - kept.keys():
            del os.environb[name]
        for name, value in kept.items():
            if now.get(name) != value:
                os.environb[name] = value
        if now.get(b"TZ") != kept.get(b"TZ"):
            time.tzset()

    def _set_files(self, kept: Any) -> None:
        for n, copy, was in zip(_STREAMS, self._copies, kept, strict=True):
            if _file(n) == was:
                continue
            if copy is None:
                os.close(n)
            else:
                os.dup2(copy, n)

    def _handlers(self) -> list[Any]:
        return [*map(_signal.getsignal, self._signals)]

    def _set_handlers(self, kept: list[Any]) -> None:
        for n, now, was in zip(self._signals, self._handlers(), kept, strict=True):
            if now is not was and was is not None:  # None: of a library in C
                _signal.signal(n, was)


def _ids() -> Any:
    return os.getresuid(), os.getresgid(), os.getgroups()


def _set_ids(kept: Any) -> None:
    os.setresuid(*kept[0])
    os.setresgid(*kept[1])
    os.setgroups(kept[2])


def _limits() -> list[tuple[int, int]]:
    return [*map(resource.getrlimit, _LIMITS)]


def _set_limits(kept: list[tuple[int, int]]) -> None:
    for n, now, was in zip(_LIMITS, _limits(), kept, strict=True):
        if now != was:
            resource.setrlimit(n, was)


def _file(n: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(n)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _copy(n: int) -> int | None:
    try:
        return fcntl.fcntl(n, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return None  # it is not open


def _sys() -> Any:
    return sys.getrecursionlimit(), sys.getswitchinterval(), _digits(), gc.isenabled(), gc.get_threshold()


def _set_sys(kept: Any) -> None:
    limit, interval, digits, collects, thresholds = kept
    sys.setrecursionlimit(limit)
    sys.setswitchinterval(interval)
    if digits is not None:
        sys.set_int_max_str_digits(digits)
    (gc.enable if collects else gc.disable)()
    gc.set_threshold(*thresholds)


def _identical(now: Sequence[Any], kept: Sequence[Any]) -> bool:
    """Whether objects are the same: those of tasks may compare as they like."""
    return len(now) == len(kept) and all(map(operator.is_, now, kept))


def _hooks() -> list[Any]:
    return [*(getattr(module, name, None) for module, name in _HOOKS), sys.gettrace(), sys.getprofile()]


def _set_hooks(kept: list[Any]) -> None:
    for (module, name), was in zip(_HOOKS, kept, strict=False):
        setattr(module, name, was)
    sys.settrace(kept[-2])
    sys.setprofile(kept[-1])


def _paths() -> Any:
    return sys.path[:], sys.argv[:]


def _set_paths(kept: Any) -> None:
    sys.path[:], sys.argv[:] = kept


def _priority() -> Any:
    return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)


def _set_priority(kept: Any) -> None:
    os.sched_setaffinity(0, kept[1])
    if os.getpriority(os.PRIO_PROCESS, 0) != kept[0]:
        os.setpriority(os.PRIO_PROCESS, 0, kept[0])


def _timers() -> list[bool]:
    return [_signal.getitimer(n)[0] > 0 for n in _TIMERS]


def _set_timers(kept: list[bool]) -> None:
    for n, was in zip(_TIMERS, kept, strict=True):
        if not was:
            _signal.setitimer(n, 0)


def _blocked() -> Any:
    return _signal.pthread_sigmask(_signal.SIG_BLOCK, ())


def _set_blocked(kept: Any) -> None:
    _signal.pthread_sigmask(_signal.SIG_SETMASK, kept)


def _wakeup() -> int:
    fd: int = _signal.set_wakeup_fd(-1)
    if fd != -1:
        try:
            _set_wakeup(fd)
        except (OSError, ValueError):
            return -1  # it was closed
    return fd


def _set_wakeup(kept: int) -> None:
    _signal.set_wakeup_fd(kept)


def _loop() -> tuple[Any, Any, bool]:
    """The state of asyncio.get_event_loop(): the policy, its loop, and whether one was set, such as None by asyncio.run."""
    events: Any = sys.modules.get("asyncio.events")
    policy = getattr(events, "_event_loop_policy", None)
    of = getattr(policy, "_local", None)  # other policies than asyncio's may have none
    return policy, getattr(of, "_loop", None), getattr(of, "_set_called", False)


def _set_loop(kept: tuple[Any, Any, bool]) -> None:
    events: Any = sys.modules["asyncio.events"]
    events._event_loop_policy, loop, was_set = kept
    of = getattr(kept[0], "_local", None)
    if of is not None:
        of._loop, of._set_called = loop, was_set


def _locale_of() -> str:
    return _locale.setlocale(_locale.LC_ALL, None)


def _set_locale(kept: str) -> None:
    _locale.setlocale(_locale.LC_ALL, kept)


def _warnings() -> Any:
    return warnings.filters[:]


def _set_warnings(kept: Any) -> None:
    with warnings.catch_warnings():  # entering and leaving it tells the interpreter that they are others
        pass
    filters: Any = warnings.filters
    filters[:] = kept


def _logging() -> Any:
    logging = sys.modules.get("logging")
    if logging is None:
        return 0, 30, False, True  # as it will be: 30 is WARNING
    root = logging.root
    return root.manager.disable, root.level, root.disabled, root.propagate


def _set_logging(kept: Any) -> None:
    logging = sys.modules["logging"]
    root = logging.root
    off, level, root.disabled, root.propagate = kept
    root.setLevel(level)
    logging.disable(off)


def _root_lists() -> list[Any]:
    """Handlers and filters of the root logger, with None between."""
    logging = sys.modules.get("logging")
    return [None] if logging is None else [*logging.root.handlers, None, *logging.root.filters]


def _set_root_lists(kept: list[Any]) -> None:
    root, handlers = sys.modules["logging"].root, kept.index(None)
    root.handlers[:], root.filters[:] = kept[:handlers], kept[handlers + 1 :]


def _defaults() -> Any:
    """Defaults that modules of the standard library remember; each is None in one that was just imported."""
    found: Callable[[str], Any] = sys.modules.get
    socket, tempfile, processes = found("_socket"), found("tempfile"), found("multiprocessing.context")
    return (
        None if socket is None else socket.getdefaulttimeout(),
        None if tempfile is None else tempfile.tempdir,
        None if processes is None else processes._default_context.get_start_method(allow_none=True),
    )


def _set_defaults(kept: Any) -> None:
    found: Callable[[str], Any] = sys.modules.get
    socket, tempfile, processes = found("_socket"), found("tempfile"), found("multiprocessing.context")
    if socket is not None:
        socket.setdefaulttimeout(kept[0])
    if tempfile is not None:
        tempfile.tempdir = kept[1]
    if processes is not None:
        processes._default_context.set_start_method(kept[2], force=True)


def setenv(env: Sequence[str]) -> dict[str, str | None]:
    """Sets variables of this process for a member of a gang; it returns what they were."""
    before = {}
    for entry in env:
        name, _, value = entry.partition("=")
        before[name] = os.environ.get(name)
        os.environ[name] = value
    return before


def limit_threads(cpu: int) -> None:
    """Libraries that are loaded later use as many threads as the first task was granted cores."""
    cores = str(max(1, (cpu + 999) // 1000))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        os.environ.setdefault(name, cores)
