"""How messages become bytes and back.

A message is the msgpack array [number, [field, field, ...]]; a record is an array of its fields. Fields that a
newer peer adds at the end are passed over, fields that an older one does not know are at their defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgpack

from . import messages as m
from .columns import MAX_SHAPE, Malformed, Reader
from .text import ERRORS

Message = Any  # one of the classes in NUMBERS

NUMBERS: dict[type, int] = {
    m.Reply: 1, m.Blob: 2, m.HaveReq: 3, m.Have: 4, m.NamedReq: 7, m.Named: 8, m.Submit: 10, m.Accepted: 11, m.Control: 12, m.Watch: 13, m.Progress: 14, m.Query: 15, m.Page: 16,
    m.Locate: 17, m.Located: 18, m.Fetch: 20, m.Chunk: 21,
    m.Hello: 50, m.Welcome: 51, m.Kind: 52, m.Dispatch: 53, m.Reclaim: 54, m.Reclaimed: 55, m.Cancel: 56, m.Credit: 57,
    m.Segment: 58, m.LeaseReq: 59, m.Lease: 60, m.Report: 61, m.Stop: 62,
    m.Calls: 90, m.CallEnds: 91, m.CallRead: 92, m.CallWait: 93, m.CallGo: 94, m.CallDrop: 95,
    m.Listed: 96, m.ActorCalls: 97, m.ActorEnds: 98, m.ActorDrop: 99, m.ActorFreed: 114, m.Reach: 115, m.Reached: 116, m.Log: 128,
}  # fmt: skip
_CLASSES = {number: cls for cls, number in NUMBERS.items()}

# Fields that are records (False) or lists of records (True).
_PARTS: dict[type, tuple[tuple[int, type, bool], ...]] = {
    m.Desc: ((0, m.Ref, False), (7, m.Place, False)),
    m.Usage: ((7, m.DeviceUse, False),),
    m.RunInput: ((0, m.Desc, True),),
    m.Run: ((8, m.RunInput, True),),
    m.Kind: ((7, m.KindIn, True), (8, m.KindOut, True), (9, m.Resources, False), (16, m.Axis, True)),
    m.Dispatch: ((0, m.Run, True),),
    m.ReportItem: ((3, m.Desc, True), (4, m.StreamEnd, True), (5, m.Usage, False), (6, m.TaskError, False), (7, m.Lease, False)),
    m.Report: ((0, m.ReportItem, True),),
    m.CallKind: ((3, m.KindIn, True), (4, m.KindOut, True), (5, m.Resources, False)),
    m.CallInput: ((2, m.CallRef, False), (7, m.Desc, False)),
    m.CallItem: ((0, m.CallRef, False), (4, m.CallInput, True)),
    m.Reference: ((0, m.CallRef, False),),
    m.ItemRefs: ((2, m.Reference, True),),
    m.Listed: ((3, m.Reference, True),),
    m.Calls: ((2, m.CallKind, True), (3, m.CallItem, True), (4, m.ItemRefs, True)),
    m.CallEnd: ((0, m.CallRef, False), (1, m.Desc, True), (2, m.TaskError, False), (5, m.StreamEnd, True)),
    m.CallEnds: ((1, m.CallEnd, True),),
    m.CallRead: ((1, m.CallRef, False),),
    m.CallWait: ((2, m.CallRef, True),),
    m.CallGo: ((2, m.TaskError, False),),
    m.CallDrop: ((1, m.CallRef, True),),
    m.ActorLife: ((2, m.ActorState, False),),
    m.ActorCall: ((0, m.ActorName, False), (4, m.Desc, True), (5, m.ActorLife, False)),
    m.ActorCalls: ((0, m.ActorCall, True), (1, m.ActorGot, True)),
    m.ActorEnd: ((0, m.ActorName, False), (2, m.Desc, True), (3, m.TaskError, False), (4, m.ActorState, False)),
    m.ActorDrop: ((2, m.ActorName, True),),
    m.ActorEnds: ((0, m.ActorEnd, True),),
    m.Progress: ((6, m.GroupCounts, True), (7, m.TaskError, False), (17, m.LocatedData, True)),
    m.LocatedData: ((1, m.Desc, False),),
    m.Located: ((1, m.LocatedData, True),),
    m.DatasetID: ((1, m.Ref, False),),
    m.Submit: ((14, m.Content, True), (15, m.Resume, False)),
    m.Fetch: ((1, m.DatasetID, False),),
    m.Chunk: ((3, m.Desc, False),),
}


def _shape(cls: Any) -> tuple[int, tuple[tuple[int, type, bool], ...], tuple[Any, ...]]:
    """How many fields a class has, which of them are records, and their defaults."""
    return len(cls._fields), _PARTS.get(cls, ()), tuple(cls._field_defaults[name] for name in cls._fields)


_SHAPES = {cls: _shape(cls) for cls in {*NUMBERS, *_PARTS, *(part for parts in _PARTS.values() for _, part, _ in parts)}}
_new = tuple.__new__  # a record without the function that a NamedTuple has for it


def _load(cls: Any, fields: list[Any]) -> Any:
    """A record from its fields, a list that is its own: nil and what is missing are at the default."""
    count, parts, defaults = _SHAPES[cls]
    n = len(fields)
    for at, part, many in parts:
        if at < n and (value := fields[at]) is not None:
            fields[at] = [_load(part, f or []) for f in value] if many else _load(part, value)
    if None in fields:
        fields = [default if f is None else f for f, default in zip(fields, defaults)]  # noqa: B905
        n = len(fields)
    if n < count:
        return _new(cls, (*fields, *defaults[n:]))
    return _new(cls, fields if n == count else fields[:count])


def decode(head: bytes) -> Message | None:
    """A message from its bytes; None for one that may be ignored. Malformed if it is none."""
    try:
        number, fields, *_ = msgpack.unpackb(head, unicode_errors="surrogateescape", strict_map_key=False)
        cls = _CLASSES.get(number)
        if cls is None:
            if number >= 128:
                return None
            raise Malformed(f"a message of unknown number {number}")
        message = _load(cls, fields or [])
        if cls is m.Dispatch and any(run.id == 0 and run.kind == 0 and run.steps for run in message.runs):
            message = m.Dispatch([one for run in message.runs for one in _unfold(run)])
        return message
    except (TypeError, ValueError) as e:
        raise Malformed(f"a message that cannot be read: {e}") from e


def encode(message: Message) -> bytes:
    """The bytes of a message, which may be bytes already."""
    if type(message) is bytes:
        return message
    packed: bytes = msgpack.packb((NUMBERS[type(message)], message), unicode_errors=ERRORS)
    return packed


def _unfold(run: m.Run) -> Iterator[m.Run]:
    """The runs that an entry stands for."""
    if run.id or run.kind or not run.steps:
        yield run
        return
    r = Reader(run.steps)
    n = r.count()
    ids, kinds, tasks, attempts = (r.column(n) for _ in range(4))
    names, withs = r.texts(n), r.texts(n)
    live, private = _numbers(r, n), _numbers(r, n)
    counts, total = r.lists(n)
    inner, amount = r.lists(total)
    descs = iter(_descs(r, amount))
    inputs = iter([m.RunInput([next(descs) for _ in range(k)]) for k in inner])
    r.end()
    for i in range(n):
        name = names[i].decode("utf-8", "surrogateescape")
        mine = [next(inputs) for _ in range(counts[i])]
        yield m.Run(ids[i], kinds[i], tasks[i], attempts[i], name, withs[i], inputs=mine, live=live[i], private=private[i])


def _numbers(r: Reader, n: int) -> list[list[int]]:
    """Lists of numbers."""
    lengths, total = r.lists(n)
    flat = iter(r.column(total))
    return [[next(flat) for _ in range(k)] for k in lengths]


def _descs(r: Reader, n: int) -> list[m.Desc]:
    """Descriptors, without their number."""
    if n == 0:
        return []
    tasks, outputs, elements, attempts = (r.column(n) for _ in range(4))
    codecs, dtypes = r.texts(n), r.texts(n)
    shapes = _numbers(r, n)
    if any(len(s) > MAX_SHAPE for s in shapes):
        raise Malformed(f"an array of more than {MAX_SHAPE} dimensions in a block")
    sizes, hashes, kinds, data = r.column(n), r.texts(n), r.column(n), r.texts(n)
    segments, offsets, runs, wheres = r.column(n), r.column(n), r.column(n), r.texts(n)
    return [
        m.Desc(
            m.Ref(tasks[i], outputs[i], elements[i]), attempts[i], codecs[i].decode(), dtypes[i].decode(), shapes[i],
            sizes[i], hashes[i],
            m.Place(kinds[i], data[i], segments[i], offsets[i], runs[i], wheres[i].decode("utf-8", "surrogateescape")),
        )
        for i in range(n)
    ]  # fmt: skip


class Step(NamedTuple):
    """A run that follows another one of the same Dispatch."""

    kind: int
    task: int
    attempt: int
    reads: int  # one above the output of the run before it that is its only input; 0: it has no input
    keeps: int  # bit o: output o is wanted by the run behind as a live value
    only: int  # bit o: and by no other run
    name: str
    with_: bytes


def read_steps(data: bytes) -> list[Step]:
    """Run.steps; no bytes are no steps."""
    if not data:
        return []
    r = Reader(data)
    n = r.count()
    numbers = [r.column(n) for _ in range(6)]
    names = [t.decode("utf-8", "surrogateescape") for t in r.texts(n)]
    withs = r.texts(n)
    r.end()
    return [Step(*row) for row in zip(*numbers, names, withs)]  # noqa: B905
