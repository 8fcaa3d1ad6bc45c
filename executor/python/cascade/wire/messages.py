"""The messages between agent and executor, and those of a client. See docs/protocol.md, "Part two".

A message is the msgpack array [number, [field, field, ...]]; a record is an array of its fields. Fields that a
newer peer adds at the end are passed over, fields that an older one does not know are at their defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgpack

from .columns import MAX_SHAPE, Malformed, Reader

# Kinds of a TaskError.
TASK, PANIC, EXIT, TIMEOUT, CANCELLED, CRASH, MEMORY, READ_ONLY, INPUT, SETUP = range(1, 11)
STORE = 13
# Places of a dataset's bytes.
NOWHERE, INLINE, SEGMENT, DISK, LIVE, AGENT = range(6)
# Kinds of a ReportItem.
STARTED, PUBLISHED, FINISHED, FAILED, LEASE_RETURN, HELD, RESUMED, STEPS, BLOCK = range(1, 10)
# How an output is generated.
SINGLE, FIXED, OPEN = range(3)


class Ref(NamedTuple):
    """A dataset's name within its job."""

    task: int = 0
    output: int = 0
    element: int = 0


class Place(NamedTuple):
    """Where a dataset's bytes are."""

    kind: int = NOWHERE
    bytes: bytes = b""
    segment: int = 0
    offset: int = 0
    run: int = 0
    where: str = ""


class Desc(NamedTuple):
    """A dataset: how its bytes are read, and where they are."""

    ref: Ref = Ref()
    attempt: int = 0
    codec: str = ""
    dtype: str = ""
    shape: Sequence[int] = ()
    size: int = 0
    hash: bytes = b""
    place: Place = Place()


class Usage(NamedTuple):
    """What a run cost: nanoseconds and bytes."""

    start: int = 0
    duration: int = 0
    cpu: int = 0
    peak_rss: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    copied: int = 0


class TaskError(NamedTuple):
    """Why a run failed."""

    kind: int = 0
    message: str = ""
    codes: Sequence[str] = ()
    stack: str = ""
    task: str = ""
    attempt: int = 0
    agent: str = ""
    executor: int = 0
    exit_code: int = 0
    signal: str = ""
    log_tail: bytes = b""


class StreamEnd(NamedTuple):
    """How many elements an open generator's output has."""

    task: int = 0
    output: int = 0
    count: int = 0  # type: ignore[assignment]
    failed: bool = False


class Resources(NamedTuple):
    """What is granted to a run: cores and devices in thousandths, memory in bytes."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    custom: Sequence[Any] = ()


class KindIn(NamedTuple):
    """An input of a kind."""

    name: str = ""
    list: bool = False


class KindOut(NamedTuple):
    """An output of a kind."""

    name: str = ""
    generate: int = SINGLE
    count: int = 0  # type: ignore[assignment]
    file: bool = False
    buffer: int = 0


class Axis(NamedTuple):
    """The numbers first, first+1, ... of one axis of a group."""

    first: int = 0
    n: int = 0


class RunInput(NamedTuple):
    """The datasets of one input."""

    data: Sequence[Desc] = ()


class Lease(NamedTuple):
    """A region of shared memory to write to, or why there is none."""

    token: int = 0
    segment: int = 0
    path: str = ""
    offset: int = 0
    size: int = 0
    error: str = ""


class ReportItem(NamedTuple):
    """Something that happened to a run."""

    kind: int = 0
    run: int = 0
    at: int = 0
    outputs: Sequence[Desc] = ()
    counts: Sequence[StreamEnd] = ()
    usage: Usage | None = None
    error: TaskError | None = None
    lease: Lease | None = None
    steps: bytes = b""


class Run(NamedTuple):
    """One attempt at one task."""

    id: int = 0
    kind: int = 0
    task: int = 0
    attempt: int = 0
    name: str = ""
    with_: bytes = b""
    command: Sequence[Any] = ()
    env: Sequence[str] = ()
    inputs: Sequence[RunInput] = ()
    live: Sequence[int] = ()
    private: Sequence[int] = ()
    skip: Sequence[int] = ()
    steps: bytes = b""


class Hello(NamedTuple):
    """An executor's first message."""

    pid: int = 0
    token: str = ""
    build: str = ""
    language: str = ""
    functions: Sequence[tuple[str, str]] = ()


class Welcome(NamedTuple):
    """Answers Hello."""

    executor: int = 0
    agent: str = ""
    control_page: str = ""
    inline_max: int = 0
    scratch: str = ""
    shm_dir: str = ""
    calls: bool = False


class Kind(NamedTuple):
    """What all runs of one group of one job share."""

    id: int = 0
    job: bytes = bytes(16)
    group: str = ""
    function: str = ""
    command: Sequence[Any] = ()
    stdin: str = ""
    stdout: str = ""
    inputs: Sequence[KindIn] = ()
    outputs: Sequence[KindOut] = ()
    resources: Resources = Resources()
    timeout: int = 0
    env: Sequence[str] = ()
    dir: str = ""
    close: bool = False
    with_: bytes = b""
    first: int = 0
    axes: Sequence[Axis] = ()

    def name_of(self, task: int, given: str) -> str:
        """The name of a task of this kind; given is what its run says."""
        if given or not self.axes:
            return given or self.group
        local, numbers = task - self.first, []
        for axis in reversed(self.axes):
            local, at = divmod(local, max(axis.n, 1))
            numbers.append(axis.first + at)
        numbers[-1] += local * max(self.axes[0].n, 1)
        return f"{self.group}[{','.join(map(str, reversed(numbers)))}]"


class Dispatch(NamedTuple):
    """Runs, to be started one after another."""

    runs: Sequence[Run] = ()


class TakeBack(NamedTuple):
    """Asks for runs that have not started."""

    runs: Sequence[int] = ()


class TakenBack(NamedTuple):
    """Runs that will not be started."""

    runs: Sequence[int] = ()


class Cancel(NamedTuple):
    """Ends a run."""

    run: int = 0
    why: int = 0
    text: str = ""
    grace: int = 0


class Credit(NamedTuple):
    """Lets a generator publish n more elements of an output."""

    run: int = 0
    output: int = 0
    n: int = 0


class Segment(NamedTuple):
    """Announces a segment, or takes it back."""

    id: int = 0
    path: str = ""
    size: int = 0
    close: bool = False


class LeaseReq(NamedTuple):
    """Asks for room for outputs."""

    token: int = 0
    size: int = 0
    file: bool = False
    run: int = 0


class Report(NamedTuple):
    """What happened in an executor, in order."""

    items: Sequence[ReportItem] = ()


class Stop(NamedTuple):
    """Asks an executor to end."""

    now: bool = False


class Log(NamedTuple):
    """Text that a task wrote."""

    run: int = 0
    stream: int = 1
    text: bytes = b""


class Reply(NamedTuple):
    """How a request ended."""

    req: int = 0
    code: int = 0
    message: str = ""


class Submit(NamedTuple):
    """Makes a job."""

    req: int = 0
    job: bytes = bytes(16)
    graph: bytes = b""
    graph_hash: bytes = b""
    dir: str = ""
    owner: str = ""
    priority: int = 0
    weight: int = 1
    hold: bool = False
    labels: Sequence[str] = ()
    registry: Sequence[Any] = ()
    watch: bool = False
    every: int = 0
    keep: bool = False
    contents: Sequence[Any] = ()
    resume: Any = None


class Accepted(NamedTuple):
    """The job is durable."""

    req: int = 0
    job: bytes = bytes(16)
    again: bool = False


class Control(NamedTuple):
    """Steers a job: 1 cancel, 2 hold, 3 release, 4 forget, 5 rerun."""

    req: int = 0
    job: bytes = bytes(16)
    action: int = 0
    tasks: Sequence[str] = ()
    reason: str = ""


class Watch(NamedTuple):
    """Asks for a job's progress."""

    req: int = 0
    job: bytes = bytes(16)
    every: int = 0
    events: bool = False


class GroupCounts(NamedTuple):
    """How the tasks of a group stand."""

    group: str = ""
    total: int = 0
    ready: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    retries: int = 0


class Progress(NamedTuple):
    """How a job stands. Phases: 1 queued, 2 held, 3 running, 4 done, 5 failed, 6 cancelled."""

    req: int = 0
    job: bytes = bytes(16)
    name: str = ""
    phase: int = 0
    result: bool = False  # every output is there
    final: bool = False  # nothing follows
    groups: Sequence[GroupCounts] = ()
    error: TaskError | None = None
    started: int = 0
    ended: int = 0


class Query(NamedTuple):
    """Asks for rows."""

    req: int = 0
    kind: str = ""
    job: bytes = bytes(16)
    filter: str = ""
    cursor: bytes = b""
    limit: int = 0


class Page(NamedTuple):
    """Rows, each a msgpack map."""

    req: int = 0
    rows: Sequence[bytes] = ()
    cursor: bytes = b""


class Locate(NamedTuple):
    """Asks where datasets are."""

    req: int = 0
    job: bytes = bytes(16)
    names: Sequence[str] = ()
    partly: bool = False


class LocatedData(NamedTuple):
    """Where a dataset is."""

    name: str = ""
    desc: Desc = Desc()
    path: str = ""
    agent: str = ""
    addresses: Sequence[str] = ()


class Located(NamedTuple):
    """Answers Locate."""

    req: int = 0
    data: Sequence[LocatedData] = ()
    missing: Sequence[str] = ()


class DatasetID(NamedTuple):
    """A dataset's name within the cluster."""

    job: bytes = bytes(16)
    ref: Ref = Ref()


class Fetch(NamedTuple):
    """Asks an agent for a piece of a dataset, or of a task's log."""

    req: int = 0
    data: DatasetID = DatasetID()
    log: bool = False
    task: str = ""
    offset: int = 0
    max: int = 0


class Chunk(NamedTuple):
    """A piece; its bytes are the body."""

    req: int = 0
    offset: int = 0
    total: int = 0


Message = Any  # one of the classes in NUMBERS

NUMBERS: dict[type, int] = {
    Reply: 1, Submit: 10, Accepted: 11, Control: 12, Watch: 13, Progress: 14, Query: 15, Page: 16, Locate: 17, Located: 18,
    Fetch: 20, Chunk: 21,
    Hello: 50, Welcome: 51, Kind: 52, Dispatch: 53, TakeBack: 54, TakenBack: 55, Cancel: 56, Credit: 57,
    Segment: 58, LeaseReq: 59, Lease: 60, Report: 61, Stop: 62, Log: 128,
}  # fmt: skip
_CLASSES = {number: cls for cls, number in NUMBERS.items()}

# Fields that are records (False) or lists of records (True).
_PARTS: dict[type, tuple[tuple[int, type, bool], ...]] = {
    Desc: ((0, Ref, False), (7, Place, False)),
    RunInput: ((0, Desc, True),),
    Run: ((8, RunInput, True),),
    Kind: ((7, KindIn, True), (8, KindOut, True), (9, Resources, False), (16, Axis, True)),
    Dispatch: ((0, Run, True),),
    ReportItem: ((3, Desc, True), (4, StreamEnd, True), (5, Usage, False), (6, TaskError, False), (7, Lease, False)),
    Report: ((0, ReportItem, True),),
    Progress: ((6, GroupCounts, True), (7, TaskError, False)),
    LocatedData: ((1, Desc, False),),
    Located: ((1, LocatedData, True),),
    DatasetID: ((1, Ref, False),),
    Fetch: ((1, DatasetID, False),),
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
        if cls is Dispatch and any(run.id == 0 and run.kind == 0 and run.steps for run in message.runs):
            message = Dispatch([one for run in message.runs for one in _unfold(run)])
        return message
    except (TypeError, ValueError) as e:
        raise Malformed(f"a message that cannot be read: {e}") from e


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    packed: bytes = msgpack.packb((NUMBERS[type(message)], message), unicode_errors="surrogateescape")
    return packed


def _unfold(run: Run) -> Iterator[Run]:
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
    inputs = iter([RunInput([next(descs) for _ in range(k)]) for k in inner])
    r.end()
    for i in range(n):
        name = names[i].decode("utf-8", "surrogateescape")
        mine = [next(inputs) for _ in range(counts[i])]
        yield Run(ids[i], kinds[i], tasks[i], attempts[i], name, withs[i], inputs=mine, live=live[i], private=private[i])


def _numbers(r: Reader, n: int) -> list[list[int]]:
    """Lists of numbers."""
    lengths, total = r.lists(n)
    flat = iter(r.column(total))
    return [[next(flat) for _ in range(k)] for k in lengths]


def _descs(r: Reader, n: int) -> list[Desc]:
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
        Desc(
            Ref(tasks[i], outputs[i], elements[i]), attempts[i], codecs[i].decode(), dtypes[i].decode(), shapes[i],
            sizes[i], hashes[i],
            Place(kinds[i], data[i], segments[i], offsets[i], runs[i], wheres[i].decode("utf-8", "surrogateescape")),
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
    only: int  # bit o: and by nobody else
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
