"""Sets in pickles have their members in an order of their own, so that equal sets are equal bytes in every process.

Python's is that of hashes, which differ from process to process, and of how the set came to be. Looked for are sets in lists,
tuples, dicts and sets; those of other objects stay as they are. So does the order of members that have none of their own, such
as not-a-numbers and objects with the repr of their class.
"""

from __future__ import annotations

from typing import Any

_NATURAL = (bool, int, float, str, bytes)
_SETS = (set, frozenset)
_CONTAINERS = (list, tuple, dict, *_SETS)


class _Sorted:
    """Is pickled as the making of a set from a list."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.members: list[Any] = []

    def __reduce__(self) -> Any:
        return self._kind, (self.members,)


def ordered(value: Any) -> Any:
    """A value to be pickled in the place of another: the other itself when there is no set in it."""
    try:
        return _ordered(value, {}) if _holds(value, set()) else value
    except Exception:  # a repr of the user's, or lists that lie too deep in each other
        return value


def _holds(value: Any, seen: set[int]) -> bool:
    cls = type(value)
    if cls in _SETS:
        return True
    if cls not in _CONTAINERS or id(value) in seen:
        return False
    seen.add(id(value))
    for part in (value.keys(), value.values()) if cls is dict else (value,):
        kinds = set(map(type, part))  # of a large list of numbers, say, this is all
        if not kinds.isdisjoint(_SETS):
            return True
        if not kinds.isdisjoint(_CONTAINERS) and any(_holds(v, seen) for v in part if type(v) in _CONTAINERS):
            return True
    return False


def _ordered(value: Any, made: dict[int, Any]) -> Any:
    """A copy of what can hold sets; what is there twice, or in itself, is so in the copy."""
    cls = type(value)
    if cls not in _CONTAINERS:
        return value
    if id(value) in made:
        return made[id(value)]
    if cls is tuple:
        copy: Any = tuple(_ordered(v, made) for v in value)
        made[id(value)] = copy
    elif cls is list:
        copy = made[id(value)] = []
        copy.extend(_ordered(v, made) for v in value)
    elif cls is dict:
        copy = made[id(value)] = {}
        copy.update((_ordered(k, made), _ordered(v, made)) for k, v in value.items())
    else:
        copy = made[id(value)] = _Sorted(cls)
        copy.members = [_ordered(v, made) for v in sorted(value, key=_by)]
    return copy


def _by(member: Any) -> Any:
    """What a member of a set is sorted by."""
    cls = type(member)
    name = f"{cls.__module__}.{cls.__qualname__}"
    if cls in _NATURAL:
        return name, member
    if cls is tuple:
        return name, [_by(m) for m in member]
    if cls is frozenset:
        return name, sorted(map(_by, member))
    return name, repr(member)
