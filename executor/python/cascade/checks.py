"""What a call was given: it is looked at before anything of it is sent or kept."""

from __future__ import annotations

import inspect
import numbers
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any


class TypeMismatch(TypeError):
    """A dataset does not hold what the function takes, or a value cannot travel."""

    __module__ = "cascade.values"  # under which people know it


def needs(kind: type | tuple[type, ...], words: str, **given: Any) -> None:
    """Refuses arguments, given by their names, that are not of a kind; words say what they are to be."""
    for name, value in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name}: it is {words}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def number(what: str, value: Any, least: int, most: int, whole: bool = False) -> Any:
    """The value of an option, which is to be a number within bounds."""
    if _is_number(value) and least <= value <= most:
        if not whole:
            return value
        if value == int(value):
            return int(value)
    raise ValueError(f"{what}={value!r}: want a {'whole ' if whole else ''}number from {least} to {most}")


def size(what: str, value: Any, most: int = (1 << 63) - 1) -> int:
    """A size as a number of bytes, or as a text such as 64MiB. Units without an i are the same, as in job files."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"{what}={value!r}: want bytes, or a text such as '64MiB' or '8GiB'")
        value = float(found[1]) if "." in found[1] else int(found[1])
        value = int(value * (1 << 10 * " kmgtp".index((found[2] or " ").lower())))
    return int(number(what, value, 0, most, whole=True))


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp]?)i?b?", re.IGNORECASE | re.ASCII)


def seconds(what: str, timeout: Any) -> None:
    """Refuses a time-out of a wait that is neither None nor a time; it may be infinite."""
    if timeout is not None and not (_is_number(timeout) and timeout >= 0):
        raise ValueError(f"{what}: timeout={timeout!r}: want seconds, 0 or more, or None")


def items(values: Any) -> list[Any]:
    """The items of a list; one text or path is a list of it alone."""
    return [values] if isinstance(values, (str, bytes, os.PathLike)) else list(values)


def listed(values: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Paths, or other texts, as texts."""
    return [os.fsdecode(v) for v in items(values)]


def texts(value: Any) -> Any:
    """A value of a job file with its paths as texts."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        return {k: texts(v) for k, v in value.items()}
    return [texts(v) for v in value] if isinstance(value, (list, tuple)) else value


def is_async(function: Any) -> bool:
    """Whether what a function returns has to be awaited."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
