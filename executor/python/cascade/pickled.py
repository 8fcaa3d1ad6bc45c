"""Calls of anything that can be pickled, as pools of processes have them: cascade.Executor, Pool, and the backend of joblib.

    packed(f, args) ──bytes──▶ apply, in an executor ──bytes──▶ unpacked: the value, or the exception as it was raised
            └─ beside: large functions and arrays, each put once and read by reference

Pickles run code where they are loaded: results are those of a cluster that the program trusts.
"""

from __future__ import annotations

import functools
import hashlib
import io
import operator
import pickle
import traceback
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import context, screen
from .context import Future, RemoteTraceback, put

_LARGE = 256 << 10  # bytes of an array that is sent beside the calls that use it, once
_LARGE_CODE = 8 << 10  # bytes of a function, likewise: smaller ones go with each call


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
    pickler.shared, pickler.functions, pickler.beside = shared, [], []
    pickler.dump((function, args, named))
    return pickle.dumps((out.getvalue(), pickler.functions), protocol=5), pickler.beside


@functools.cache
def _pickler() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Puts arrays beside what it pickles, and functions before it: an executor loads equal ones once."""

        shared: Shared | None
        functions: list[bytes]
        beside: list[Future]

        def persistent_id(self, obj: Any) -> tuple[bool | str, int] | None:
            if type(obj) is types.FunctionType:
                code = _code(obj)
                if code is None:
                    return None
                if len(code.data) >= _LARGE_CODE:
                    self.beside.append(code.put())
                    return code.hash, len(self.beside) - 1
                self.functions.append(code.data)
                return True, len(self.functions) - 1
            if self.shared is None or type(obj).__name__ != "ndarray" or type(obj).__module__ != "numpy":
                return None
            if obj.nbytes < _LARGE or obj.dtype.kind not in "iufc" or not obj.flags.c_contiguous:
                return None
            self.beside.append(self.shared.future(obj))
            return False, len(self.beside) - 1

    return Pickler


class _Varies(Exception):
    """A function uses what may change while it stays the same object."""


_PLAIN = (bool, int, float, complex, str, bytes, type(None), types.ModuleType, types.BuiltinFunctionType)
_codes: weakref.WeakKeyDictionary[types.FunctionType, _Code] = weakref.WeakKeyDictionary()


class _Code:
    """A function as a pickle. Where it was put it stays while the function does."""

    def __init__(self, used: list[Any], data: bytes) -> None:
        self.used, self.data = used, data
        self._put: Future | None = None

    @functools.cached_property
    def hash(self) -> str:
        """The hash of the pickle, in hexadecimal digits."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()

    def put(self) -> Future:
        """The pickle as a value, which a session, or a run of a task, puts once."""
        calls = context._host and context._host.own_calls("put a function")
        if self._put is None or getattr(self._put, "calls", None) is not calls:
            self._put = context.put(self.data)
        return self._put


def _code(function: types.FunctionType) -> _Code | None:
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
    if known is not None and len(known.used) == len(used) and all(map(operator.is_, known.used, used)):
        return known
    import cloudpickle

    code = _codes[function] = _Code(used, cloudpickle.dumps(function, protocol=5))
    return code


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


@functools.lru_cache(maxsize=256)
def _loaded(code: bytes) -> Any:
    return pickle.loads(code)


_MOST = 64  # large functions that are kept
_known: OrderedDict[str, Any] = OrderedDict()  # by hash; what was used last is at the end


def _large(hash: str, code: memoryview) -> Any:
    found = _known.get(hash)
    if found is not None:
        _known.move_to_end(hash)
        return found
    made = pickle.loads(code)
    while len(_known) >= _MOST:
        _known.popitem(last=False)
    _known[hash] = made
    return made


class _Unpickler(pickle.Unpickler):
    functions: Sequence[bytes]
    beside: Sequence[Any]

    def persistent_load(self, place: tuple[bool | str, int]) -> Any:
        function, i = place
        if isinstance(function, str):
            return _large(function, self.beside[i])
        return _loaded(self.functions[i]) if function else self.beside[i]


def apply(call: memoryview, beside: Sequence[Any] = ()) -> bytes:
    """Makes a call, in an executor. An exception is a result too, so that the caller raises the same."""
    try:
        data, functions = pickle.loads(call)
        unpickler = _Unpickler(io.BytesIO(data))
        unpickler.functions, unpickler.beside = functions, beside
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
