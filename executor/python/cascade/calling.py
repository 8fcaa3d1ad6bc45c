"""Functions that run as tasks when they are called with .remote, from a program and from tasks.

@cascade.remote
def f(x): ...           f.remote(3) ──▶ a call by name, when hosts can import f from its module
                                        a call by value otherwise: __main__, notebooks, functions in functions
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import context
from .checks import is_async
from .context import Options
from .executor.targets import Coded, Target, coded

RAY = {"num_cpus": "cpu", "num_gpus": "gpu", "num_returns": "returns"}


class RemoteFunction:
    """A function whose .remote(...) has it run as a task. Called as it is it runs here and now."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, function)
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__cascade_function__ = function
        self._options = options
        self._core = _Core(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the function here."""
        return self.__cascade_function__(*args, **named)

    def remote(self, *args: Any, **named: Any) -> Any:
        """Has the function run as a task, and returns a Future at once; with returns=N a list of N."""
        return self._at(context._host or opened(), args, named)

    def _at(self, host: context.Host, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """Has it run as a task that a program or a task calls."""
        calls = host.own_calls("call " + self.__name__)
        return calls.make(self._core.target(calls), self._options, args, named)

    def map(self, *iterables: Iterable[Any], **constants: Any) -> list[Any]:
        """Has the function run as many tasks, as Python's map calls it, with constants the same for all.

            refs = f.map(range(1000), scale=2)

        It returns what remote returns of each, in order. It ends with the shortest of the iterables.
        """
        if not iterables:
            raise TypeError("map takes an iterable for each parameter that differs among the calls: f.map(range(10))")
        host = context._host or opened()
        calls = host.own_calls("call " + self.__name__)
        return calls.map(self._core.target(calls), self._options, zip(*iterables), constants)  # noqa: B905

    def options(self, **changed: Any) -> RemoteFunction:
        """The same function with other options: f.options(retries=3).remote(x)."""
        other = RemoteFunction(self.__cascade_function__, _options(self._options, changed))
        other._core = self._core
        return other

    def _has_come(self, own: Coded) -> None:
        """It was loaded from its code, by which it goes on to others."""
        self._core.coded = own

    def __reduce__(self) -> Any:
        name = importable(self)
        if name is not None and _finds(name[0]):
            return _named, (*name, self._options)
        file = getattr(getattr(self.__cascade_function__, "__code__", None), "co_filename", "")
        return _bare, (), {"function": self.__cascade_function__, "options": self._options, "file": file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place(state["function"], state["file"])
        self.__init__(state["function"], state["options"])  # type: ignore[misc]


class _Core:
    """What a function has in common with itself under other options."""

    def __init__(self, of: RemoteFunction) -> None:
        self._of = of
        self.coded: Coded | None = None  # as it came here
        self._made: tuple[Any, Target] = None, Target("", of.__cascade_function__, ())  # and the host for which it was made

    def target(self, calls: Any) -> Target:
        """The function as calls name it: it is coded once for a session, and at most once in each process that it has come to."""
        if self._made[0] is not calls.host:
            self._made = calls.host, self._target(calls)
        return self._made[1]

    def _target(self, calls: Any) -> Target:
        of = self._of
        if is_async(of.__cascade_function__):
            raise TypeError(
                f"function {of.__qualname__} is async, and nothing would await it: write def, and asyncio.run(...) in it"
            )
        own = self.coded
        if own is None and not (calls.finds(of.__module__) and importable(of)):
            own = code(of, calls.finds)
        return Target(f"{of.__module__}.{of.__qualname__}", of.__cascade_function__, (), own, True)


_LOST = "<dynamic-code>"  # the file of code that was sent by value


def place(function: Any, file: str) -> None:
    """Has the code of a function, and of those beside it, come from the file where it is written, for tracebacks."""
    for f in (function, *getattr(function, "__globals__", {}).values()):
        if isinstance(f, types.FunctionType) and f.__code__.co_filename == _LOST and f.__module__ == function.__module__:
            f.__code__ = _placed(f.__code__, file)


def _placed(code: types.CodeType, file: str) -> types.CodeType:
    inner = tuple(_placed(c, file) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=file, co_consts=inner)


def _bare() -> RemoteFunction:
    return RemoteFunction.__new__(RemoteFunction)


def called_by_name(module: str, path: str) -> Any:
    """What a module has under a name."""
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def finds_by_name(module: str) -> bool:
    """Whether hosts find a module, while something is coded."""
    return _finds(module)


def _named(module: str, path: str, options: Options) -> RemoteFunction:
    """The function of a module."""
    value = called_by_name(module, path)
    if not isinstance(value, RemoteFunction):
        return RemoteFunction(value, options)
    if value._options == options:
        return value
    other = RemoteFunction(value.__cascade_function__, options)
    other._core = value._core
    return other


def importable(of: Any) -> tuple[str, str] | None:
    """The module of a function or class and its name there; None when no other process could find it so."""
    module = sys.modules.get(of.__module__)
    if module is None or of.__module__ == "__main__" or not getattr(module, "__file__", None):
        return None
    value: Any = module
    for part in of.__qualname__.split("."):
        value = getattr(value, part, None)
    if getattr(value, "__cascade_function__", value) is not of.__cascade_function__:
        return None
    return of.__module__, of.__qualname__


def _any(module: str) -> bool:
    return True


_finds: Callable[[str], bool] = _any  # whether hosts find a module, while a function is coded
_coding = threading.RLock()  # held meanwhile


def code(of: Any, finds: Callable[[str], bool]) -> Coded:
    """A function by value: with what it uses of its module, and of the functions around it. So are modules that hosts do not find."""
    global _finds
    try:
        import cloudpickle
    except ImportError:
        raise ImportError(
            f"function {of.__qualname__} is in no module that its host can import, and so must be sent by value: "
            "that takes cloudpickle (pip install cloudpickle)"
        ) from None
    with _coding:
        own = [
            x
            for name, x in list(sys.modules.items())
            if isinstance(x, types.ModuleType) and name == x.__name__ and not finds(name)
        ]
        own = [x for x in own if x.__name__ not in cloudpickle.list_registry_pickle_by_value()]
        for module in own:
            cloudpickle.register_pickle_by_value(module)
        before, _finds = _finds, finds
        try:
            pickled = cloudpickle.dumps(of)
        except Exception as e:
            raise TypeError(
                f"function {of.__qualname__} cannot be sent by value: {e}: make what it cannot take along within it"
            ) from e
        finally:
            _finds = before
            for module in own:
                cloudpickle.unregister_pickle_by_value(module)
    data = ".".join(map(str, sys.version_info[:2])).encode() + b"\n" + pickled
    return coded(data)


def opened() -> Any:
    from . import session  # a program that opens none, and an executor, do without

    session.init()
    return context._host


def _options(base: Options, changed: dict[str, Any]) -> Options:
    """Options with others in their place. Those of Ray are taken where they mean the same."""
    given = {RAY.get(name, name): value for name, value in changed.items()}
    on = given.pop("retry_exceptions", None)
    tries = given.pop("max_retries", None)
    if on:
        given.setdefault("retries", 3 if tries is None else tries)
        if on is not True:
            given.setdefault("retry_on", on)
    if unknown := [name for name in given if name not in Options._fields]:
        near = difflib.get_close_matches(unknown[0], Options._fields, 1, 0.7)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(Options._fields)}"
        raise TypeError(f"{unknown[0]} is no option of a call: {hint}")
    return context.options(**{**base._asdict(), **given})


def remote(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function one whose .remote(...) has it run as a task: @cascade.remote, or @cascade.remote(retries=2, cpu=4).

    Options are those of cascade.options. Of a class .remote(...) makes actors.
    """
    if function is None:
        return lambda f: _remote(f, options)
    return _remote(function, options)


def _remote(function: Any, options: dict[str, Any]) -> Any:
    plain = getattr(function, "__cascade_function__", function)
    if inspect.isclass(plain):
        from .actor import actor_class  # programs without actors do without

        return actor_class(plain, options)
    return RemoteFunction(_function(function), _options(Options(), options))


def _function(function: Any) -> Callable[..., Any]:
    plain = getattr(function, "__cascade_function__", function)
    if not callable(plain) or not hasattr(plain, "__qualname__"):
        raise TypeError(f"remote: {function!r} is no function: write def, or a lambda")
    return plain  # type: ignore[no-any-return]
