"""What a call was given: it is looked at before anything of it is sent or kept."""

from __future__ import annotations

import numbers
import os
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
