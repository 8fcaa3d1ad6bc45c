"""Tasks that are alike become families: one entry of the job file with a loop, under which the cluster counts and plans them.

Arguments that differ among the tasks of a family are written as a function of its loop, where that is simple, and else as a list:

    sq(i=0), sq(i=1), sq(i=2) ──▶ sq: {for: {i: "0..2"}, with: {i: "${i}"}}
    sq(x=a), sq(x=c)          ──▶ sq: {for: {i: "0..1"}, in: {x: "a[${params.sq_x[i]}].out"}}, params: {sq_x: [0, 2]}

Alike are tasks of one function and the same options that take their inputs from the same families, and as far from the
inputs of the job, so that no task of a family needs another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .jobtext import written

if TYPE_CHECKING:
    from .graph import Ref

_LOOP = "i"


class Alike(NamedTuple):
    """The properties that tasks of one family share."""

    kind: Hashable
    name: str = ""  # of the family; that of its first task by default
    always: bool = False  # also one task alone is a family


class _Entry(NamedTuple):
    body: dict[str, Any]  # of a task as a job file has it, with references in the place of their names
    alike: Alike | None  # None: it has a name of its own
    input: bool  # of the job


class Families:
    """The tasks, or inputs, of a graph. Each has a key until the names are settled: what is added later has other names."""

    def __init__(self, name: Callable[[str], str]) -> None:
        """name makes a name that is not taken of one that may be."""
        self._name = name
        self._added: dict[str, _Entry] = {}  # since the names were settled last
        self._of: dict[str, str] = {}  # the key of the first task of the same family
        self._depth: dict[str, int] = {}  # the longest way from a task without inputs
        self._places: dict[str, tuple[str, int | None]] = {}  # its family, or its own name, and its place in the family
        self._sizes: dict[str, int] = {}  # of families
        self._round = 0
        self.tasks: dict[str, dict[str, Any]] = {}  # of the job file
        self.inputs: dict[str, dict[str, Any]] = {}
        self.params: dict[str, list[Any]] = {}

    def add(self, key: str, body: dict[str, Any], alike: Alike | None = None, *, input: bool = False) -> None:
        """Adds a task, or an input."""
        self._added[key] = _Entry(body, alike, input)

    def files(self, name: str, body: dict[str, Any]) -> list[str]:
        """Adds an input of several files, and returns their keys."""
        self.inputs[name] = body
        keys = [f"{name}[{i}]" for i in range(len(body["files"]))]
        for i, key in enumerate(keys):
            self._places[key], self._of[key], self._depth[key] = (name, i), name, 0
        self._sizes[name] = len(keys)
        return keys

    def task(self, key: str) -> str:
        """The name of a task, which from now on has it."""
        self.settle()
        family, place = self._places[key]
        return family if place is None else f"{family}[{place}]"

    def settle(self) -> None:
        """Gives all tasks names, and writes their entries."""
        if not self._added:
            return
        added, self._added = self._added, {}
        self._round += 1
        groups: dict[Hashable, list[str]] = {}
        for key, entry in added.items():
            refs = [r for value in entry.body.get("in", {}).values() for r in _refs(value)]
            self._depth[key] = 1 + max((self._depth[r.key] for r in refs), default=0)
            group = groups.setdefault(self._kind(key, entry), [])
            group.append(key)
            self._of[key] = group[0]
        used: set[str] = set()
        for keys in groups.values():
            alike = added[keys[0]].alike
            name = alike.name if alike and alike.name else keys[0]
            if name in used:  # what was to be one family reads from several
                name = self._name(name)
            used.add(name)
            several = len(keys) > 1 or alike is not None and alike.always
            for i, key in enumerate(keys):
                self._places[key] = name, i if several else None
            if several:
                self._sizes[name] = len(keys)
        for keys in groups.values():
            name, place = self._places[keys[0]]
            bodies = [added[key].body for key in keys]
            if added[keys[0]].input:
                self.inputs[name] = bodies[0] if place is None else {"files": bodies}
            else:
                self.tasks[name] = self._entry(name, bodies, place is not None)

    def _kind(self, key: str, entry: _Entry) -> Hashable:
        """Equal for tasks of one family."""
        if entry.alike is None:
            return key
        body = entry.body
        if entry.input:
            return self._round, entry.alike.kind
        rest = written({k: v for k, v in body.items() if k not in ("in", "with")})
        inputs = tuple(
            (name, isinstance(value, list), *map(self._shape, _refs(value))) for name, value in body.get("in", {}).items()
        )
        return self._round, entry.alike.kind, self._depth[key], rest, inputs, tuple(body.get("with", {}))

    def _shape(self, ref: Ref) -> Hashable:
        return self._of[ref.key], ref.output, ref.series, ref.element is None

    def _entry(self, name: str, bodies: Sequence[dict[str, Any]], family: bool) -> dict[str, Any]:
        """The entry of a family, or of one task, in the job file."""
        write = {"in": self._input, "with": self._value}
        body: dict[str, Any] = {"for": {_LOOP: f"0..{len(bodies) - 1}"}} if family else {}
        for key, first in bodies[0].items():
            body[key] = first
            if key in write:
                body[key] = {n: write[key](f"{name}_{n}", [b[key][n] for b in bodies]) for n in first}
        return body

    def _input(self, column: str, values: Sequence[Ref | list[Ref]]) -> str | list[str]:
        first = values[0]
        if not isinstance(first, list):
            return self._source(column, [r for value in values for r in _refs(value)])
        if len(values) == 1 and (whole := self._whole(first)):
            return [whole]
        return [self._source(column, [_refs(value)[k] for value in values]) for k in range(len(first))]

    def _whole(self, refs: list[Ref]) -> str:
        """A name for all tasks of a family, if the references are to those, in order."""
        family, place = self._places[refs[0].key] if refs else ("", None)
        if place is None or len(refs) != self._sizes[family] or refs[0].series or refs[0].element is not None:
            return ""
        same = all(
            self._places[r.key] == (family, i) and (r.output, r.series, r.element) == (refs[0].output, False, None)
            for i, r in enumerate(refs)
        )
        return f"{family}[*].{refs[0].output}" if same and len(refs) > 1 else ""

    def _source(self, column: str, refs: Sequence[Ref]) -> str:
        """A reference of each task of a family."""
        family, place = self._places[refs[0].key]
        text = family
        if place is not None:
            text += f"[{self._number(column, [self._places[r.key][1] or 0 for r in refs])}]"
        text += f".{refs[0].output}"
        if refs[0].series:
            return text + "[*]"
        if refs[0].element is None:
            return text
        return f"{text}[{self._number(column, [r.element or 0 for r in refs])}]"

    def _number(self, column: str, values: list[int]) -> str:
        value = self._value(column, values)
        return value if isinstance(value, str) else str(value)

    def _value(self, column: str, values: list[Any]) -> Any:
        """A value of each task of a family."""
        first = values[0]
        if len(values) == 1 or all(_same(first, v) for v in values):
            return first
        if all(type(v) is int for v in values) and values == list(range(first, first + len(values))):
            return "${" + (_LOOP if first == 0 else f"{_LOOP} {'+' if first > 0 else '-'} {abs(first)}") + "}"
        base = name = re.sub("[^A-Za-z0-9_]", "_", column)
        n = 1
        while name in self.params:
            n += 1
            name = f"{base}_{n}"
        self.params[name] = values
        return f"${{params.{name}[{_LOOP}]}}"


def _refs(value: Ref | list[Ref]) -> list[Ref]:
    return value if isinstance(value, list) else [value]


def _same(a: Any, b: Any) -> bool:
    """Whether two values are written alike: 1, 1.0 and True are not, nor are 0.0 and -0.0."""
    return a is b or type(a) is type(b) and a == b and written(a) == written(b)
