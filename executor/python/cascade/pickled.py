"""Calls of anything that can be pickled, as pools of processes have them: cascade.Executor, Pool, and the backend of joblib.

    packed(f, args) ──bytes──▶ apply, in an executor ──bytes──▶ unpacked: the value, or the exception as it was raised
            └─ beside: large functions and arrays, each put once and read by reference

Pickles run code where they are loaded: results are those of a cluster that the program trusts.
"""

from __future__ import annotations

import functools
import io
import operator
import pickle
import traceback
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import byvalue, context, screen
from .context import Future, RemoteTraceback, put
from .executor.codes import SMALL
from .executor.targets import Coded, coded

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
    out = io.BytesIO()
    pickler = _pickler()(out, protocol=5)
    pickler.shared, pickler.beside = shared, []
    pickler.dump((function, args, named))
    return out.getvalue(), pickler.beside


@functools.cache
def _pickler() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Puts arrays and large functions beside what it pickles. An executor loads equal functions once."""

        shared: Shared | None
        beside: list[Future]

        def persistent_id(self, obj: Any) -> tuple[str, int | bytes] | None:
            if type(obj) is types.FunctionType:
                own = _own(obj)
                if own is None:
                    return None
                if len(own.data) <= SMALL or context._host is None:
                    return own.key, own.data
                self.beside.append(context._host.own_calls("put a function").code(own))
                return own.key, len(self.beside) - 1
            if self.shared is None or type(obj).__name__ != "ndarray" or type(obj).__module__ != "numpy":
                return None
            if obj.nbytes < _LARGE or obj.dtype.kind not in "iufc" or not obj.flags.c_contiguous:
                return None
            self.beside.append(self.shared.future(obj))
            return "", len(self.beside) - 1

    return Pickler


class _Varies(Exception):
    """A function uses what may change while it stays the same object."""


_PLAIN = (bool, int, float, complex, str, bytes, type(None), types.ModuleType, types.BuiltinFunctionType)
_codes: weakref.WeakKeyDictionary[types.FunctionType, tuple[list[Any], Coded]] = weakref.WeakKeyDictionary()


def _own(function: types.FunctionType) -> Coded | None:
    """A function of the program's own as a pickle, which is made once while all that it uses is the same.

    None for one that goes by its name, and for one that uses what may change unseen, such as a list: it is pickled anew.
    """
    if function.__module__ != "__main__" and "<locals>" not in function.__qualname__:
        return None
    used: list[Any] = []
    try:
        _uses(function, used)
    except _Varies:
        return None
    used = [u for u in used if u is not function]  # or it would be kept for ever
    known = _codes.get(function)
    if known is not None and len(known[0]) == len(used) and all(map(operator.is_, known[0], used)):
        return known[1]
    import cloudpickle

    own = coded(cloudpickle.dumps(function, protocol=5))
    _codes[function] = used, own
    return own


def _uses(value: Any, used: list[Any]) -> None:
    """Lists what a function refers to, and what the functions do that it calls."""
    if isinstance(value, _PLAIN):
        used.append(value)
    elif isinstance(value, type) and value.__module__ not in ("__main__", "__mp_main__") and "<locals>" not in value.__qualname__:
        used.append(value)
    elif type(value) is not types.FunctionType or value.__dict__:
        raise _Varies
    elif not any(value is u for u in used):
        used.append(value)
        if value.__module__ != "__main__" and "<locals>" not in value.__qualname__:
            return  # it goes by its name
        used.append(value.__code__)
        for name in _names(value.__code__):
            if name in value.__globals__:
                _uses(value.__globals__[name], used)
        for cell in value.__closure__ or ():
            try:
                _uses(cell.cell_contents, used)
            except ValueError:  # empty, so far
                raise _Varies from None
        for given in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *value.__annotations__.values()):
            _uses(given, used)


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """The names that code may look up among globals, with those of the functions in it."""
    within = [n for part in code.co_consts if isinstance(part, types.CodeType) for n in _names(part)]
    return tuple(dict.fromkeys((*code.co_names, *within)))


class _Unpickler(pickle.Unpickler):
    beside: Sequence[Any]

    def persistent_load(self, said: tuple[str, int | bytes]) -> Any:
        key, at = said
        if not key:
            return self.beside[at]  # type: ignore[index]
        return byvalue.kept(key, lambda: pickle.loads(at if isinstance(at, bytes) else self.beside[at]))


def apply(call: memoryview, beside: Sequence[Any] = ()) -> bytes:
    """Makes a call, in an executor. An exception is a result too, so that the caller raises the same."""
    try:
        unpickler = _Unpickler(io.BytesIO(call))
        unpickler.beside = beside
        function, args, named = unpickler.load()
        outcome = True, function(*args, **named)
    except (Exception, SystemExit, KeyboardInterrupt) as e:
        outcome = False, (e.with_traceback(None), "".join(traceback.format_exception(e)))
    return _answer(outcome)


def _answer(outcome: tuple[bool, Any]) -> bytes:
    if outcome[0] and type(outcome[1]) in (int, float, str, bool, bytes, type(None)):
        return pickle.dumps(outcome, protocol=5)
    import cloudpickle

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
