"""Functions by name: found at first use, and matched with what the job wants of them."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..checks import is_async
from ..values import element_of, hints_of
from ..wire.messages import SINGLE, KindIn, KindOut
from .code import missing


class SetupError(Exception):
    """A function that is not there, or does not take what it is given. stack is set when its module failed."""

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self.stack = stack


def resolve(name: str) -> Callable[..., Any]:
    """The function "module.function", or "module.Class.method"; the module may be in packages."""
    parts = name.split(".")
    if len(parts) < 2 or not all(p.isidentifier() for p in parts):
        raise SetupError(f"{name!r} names no Python function: write ENVIRONMENT:MODULE.FUNCTION")
    for n in range(len(parts) - 1, 0, -1):
        module = _import(".".join(parts[:n]))
        if module is not None:
            return _attribute(module, parts[n:])
    raise SetupError(
        f"function {name}: there is no module {parts[0]}: name its folder under working_dir or py_modules "
        "of the environment, or its package under pip"
    )


def _import(name: str) -> types.ModuleType | None:
    """A module; None when there is none of this name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(e.name + ".")):
            return None
        raise SetupError(f"module {name} cannot be imported: {e}{missing(e)}", traceback.format_exc()) from e
    except Exception as e:
        raise SetupError(f"module {name} cannot be imported: {type(e).__name__}: {e}", traceback.format_exc()) from e


def _attribute(module: types.ModuleType, path: list[str]) -> Callable[..., Any]:
    value: Any = module
    for part in path:
        if not hasattr(value, part):
            raise SetupError(f"module {module.__name__} has no function {'.'.join(path)}: {_offer(module, path[-1])}")
        value = getattr(value, part)
    value = getattr(value, "__cascade_function__", value)
    if not callable(value):
        raise SetupError(f"{module.__name__}.{'.'.join(path)} is no function but of type {type(value).__name__}")
    return value  # type: ignore[no-any-return]


def _offer(module: types.ModuleType, name: str) -> str:
    """What a module has instead."""
    names = sorted(
        n for n, v in vars(module).items()
        if callable(v) and not n.startswith("_") and getattr(v, "__module__", "") == module.__name__
    )  # fmt: skip
    if not names:
        return f"it has no functions ({module.__file__})"
    near = difflib.get_close_matches(name, names, 1)
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"it has {listed}" + (f"; did you mean {near[0]}?" if near else "")


def python_name(name: str) -> str:
    """A name of the job file as a Python parameter."""
    return name.replace("-", "_")


CODE = "cascade_function-"  # before the hash of a function that is the first input of its runs


class Function:
    """A function prepared for the runs of a kind."""

    def __init__(
        self, name: str, call: Callable[..., Any], inputs: Sequence[KindIn], outputs: Sequence[KindOut], parameters: Sequence[str]
    ) -> None:
        """Compares a function with the job. parameters are the names of those of one run."""
        self.call = self.function = call
        self.first = 1 if inputs and inputs[0].name.startswith(CODE) else 0  # the input before is the function
        inputs = inputs[self.first :]
        self.inputs = [python_name(i.name) for i in inputs]
        self.outputs = outputs
        self.streams = [i for i, o in enumerate(outputs) if o.generate != SINGLE]
        self.singles = [i for i, o in enumerate(outputs) if o.generate == SINGLE]
        hints = hints_of(call)
        self.wants = [
            (element_of(hints.get(parameter)) if declared.list else hints.get(parameter))
            for parameter, declared in zip(self.inputs, inputs, strict=True)
        ]
        self._by_place([i.name for i in inputs])
        self._fit(name, parameters)

    def _by_place(self, given: Sequence[str]) -> None:
        """Has a function that takes some arguments by place alone called by name as well: more than it names are NAME-0, NAME-1, ..."""
        try:
            parameters = inspect.signature(self.call).parameters.values()
        except (TypeError, ValueError):
            return
        rest = next((p.name + "-" for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        more = [python_name(n) for n in given if rest and n.startswith(rest)]
        first = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY or more and p.kind is p.POSITIONAL_OR_KEYWORD]
        if not (first or more):
            return
        call, before = self.call, [n for n in first if n in given] + more

        @functools.wraps(call)
        def spread(**named: Any) -> Any:
            return call(*[named.pop(n) for n in before], **named)

        del spread.__wrapped__
        kinds = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        spread.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                *kinds,
                *(inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in more),
                *(p for p in parameters if p.kind is p.VAR_KEYWORD),
            ]
        )
        self.call = spread

    def _fit(self, name: str, parameters: Sequence[str]) -> None:
        given = [*self.inputs, *map(python_name, parameters)]
        twice = {n for n in given if given.count(n) > 1}
        if twice:
            raise SetupError(f"function {name}: {', '.join(sorted(twice))} is both an input and a parameter (with:)")
        try:
            signature = inspect.signature(self.call)
        except (TypeError, ValueError):
            return  # of a builtin: calling it will tell
        try:
            signature.bind(**dict.fromkeys(given))
        except TypeError as e:
            raise SetupError(f"function {name} does not take what it is given: {e}; it is {name}{signature}") from None
        if is_async(self.function):
            raise SetupError(f"function {name} is async: nothing would await it: write def, and asyncio.run(...) in it")
        makes = inspect.isgeneratorfunction(inspect.unwrap(self.function))
        if makes and not self.streams:
            raise SetupError(f"function {name} yields, but the job declares no series: write generates instead of out")

    def results(self, value: Any) -> list[Any]:
        """What a function returned, as one value for each output that is no series."""
        wanted = [self.outputs[i].name for i in self.singles]
        return split(value, wanted, "return")


@functools.lru_cache(maxsize=256)
def prepared(name: str, inputs: tuple[KindIn, ...], outputs: tuple[KindOut, ...], parameters: tuple[str, ...]) -> Function:
    """A Function for all kinds that say the same: to look at a signature and its annotations takes as long as many a task."""
    return Function(name, resolve(name), inputs, outputs, parameters)


_LAZY = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, map, filter, zip, enumerate, reversed)


def refuse_lazy(name: str, value: Any) -> None:
    """Refuses what a function returned or yielded that has not been computed: nothing would do so, or the reader."""
    if not isinstance(value, _LAZY) and type(value).__module__ != "itertools":
        return
    kind = type(value).__name__
    if isinstance(value, types.CoroutineType):
        value.close()  # or Python warns that it was never awaited
    fix = "return list(...) of it, or declare a series (generates)"
    if kind in ("coroutine", "async_generator"):
        fix = "await it in asyncio.run(...)"
    raise TypeError(f"function {name} gives an object of type {kind}, which nothing would compute: {fix}")


def split(value: Any, names: list[str], verb: str) -> list[Any]:
    """One value for each name: the value itself for one, a tuple in order or a dict by name for several."""
    if len(names) == 1:
        return [value]
    if not names:
        return []
    if isinstance(value, dict):
        short = {python_name(n): n for n in names}
        if {short.get(k, k) for k in value} == set(names):
            byname = {short.get(k, k): v for k, v in value.items()}
            return [byname[n] for n in names]
        raise TypeError(
            f"it must {verb} a value for each of {', '.join(names)}, the dict has {', '.join(map(str, value)) or 'none'}"
        )
    if isinstance(value, (tuple, list)) and len(value) == len(names):
        return list(value)
    what = f"{len(value)} values" if isinstance(value, (tuple, list)) else f"a value of type {type(value).__name__}"
    raise TypeError(f"it must {verb} {len(names)} values ({', '.join(names)}) as a tuple or a dict, not {what}")
