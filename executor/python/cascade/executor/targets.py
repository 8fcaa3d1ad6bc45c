"""Functions as calls name them: by the name of a module's function, or by value.

cascade.call("module.f", x)     Target: the name; its executor finds the function
f.remote(x) of @cascade.remote  Target: the name, or the name and the code, which is the first input of each call
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from ..context import by_name, places
from ..values import hints_of
from .functions import resolve


class Coded:
    """A function as bytes, for which a run keeps the value that it put. Equal ones are one: see coded."""

    __slots__ = ("__weakref__", "data", "key")

    def __init__(self, data: bytes, key: str) -> None:
        self.data = data
        self.key = key  # the hash of the bytes in hexadecimal digits, and their number


_coded: WeakValueDictionary[str, Coded] = WeakValueDictionary()


def coded(data: bytes, key: str = "") -> Coded:
    """A function by its bytes, and by its key if that is known."""
    key = key or f"{hashlib.blake2b(data, digest_size=16).hexdigest()}-{len(data)}"
    return _coded.setdefault(key, Coded(data, key))


class Target:
    """A function that is called, with what its caller has to know of it."""

    def __init__(
        self, name: str, function: Callable[..., Any], names: Sequence[str], coded: Coded | None = None, strict: bool = False
    ) -> None:
        """names are those of its parameters that can be given by place; with strict arguments are compared with its signature."""
        self.name, self.coded = name, coded
        self.stream = inspect.isgeneratorfunction(inspect.unwrap(function))  # it yields
        self.stateful = False  # its process has state, which is gone with it
        self._want = hints_of(function).get("return")
        self.function, self._names, self._strict = function, names, strict
        self._ports: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}

    def wants(self, output: int, several: bool) -> Any:
        """The annotation of what it returns or yields; of one of several outputs."""
        if self.stream:
            return next(iter(typing.get_args(self._want)), None)
        parts = typing.get_args(self._want) if typing.get_origin(self._want) is tuple else ()
        return parts[output] if output < len(parts) and several else self._want

    def ports(self, count: int, named: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the arguments of a call with so many by place, and these by name."""
        found = self._ports.get((count, named))
        if found is None:
            find = self._compared if self._strict else self._given
            found = self._ports[count, named] = find(count, named)
        return found

    def _given(self, count: int, named: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(by_name(self.name, self._names, range(count), dict.fromkeys(named)))

    def _compared(self, count: int, named: tuple[str, ...]) -> tuple[str, ...]:
        short = self.name.rpartition(".")[2]
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            raise TypeError(
                f"call {self.name}: nothing tells the names of its parameters: call it in a function of your own"
            ) from None
        try:
            signature.bind(*range(count), **dict.fromkeys(named))
        except TypeError as e:
            bare = signature.replace(parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
                                     return_annotation=signature.empty)  # fmt: skip
            raise TypeError(f"call {self.name}: {e}; it is {short}{bare}") from None
        placed = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), "")
        return (*placed[:count], *(f"{rest}-{i}" for i in range(count - len(placed))), *named)


@functools.lru_cache(maxsize=256)
def target_of(name: str) -> Target:
    """A function by its name."""
    function = resolve(name)
    try:
        names = places(function)
    except (TypeError, ValueError):  # of a builtin
        names = []
    return Target(name, function, names)
