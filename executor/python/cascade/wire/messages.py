"""The messages between agent and executor, and those of a client. See docs/protocol.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

# Kinds of a TaskError.
TASK, PANIC, EXIT, TIMEOUT, CANCELLED, CRASH, MEMORY, READ_ONLY, INPUT, SETUP = range(1, 11)
STORE = 13
# Places of a dataset's bytes.
NOWHERE, INLINE, SEGMENT, DISK, LIVE, AGENT = range(6)
# Kinds of a ReportItem.
STARTED, PUBLISHED, FINISHED, FAILED, LEASE_RETURN, HELD, RESUMED, STEPS, BLOCK = range(1, 10)
# How an output is generated.
SINGLE, FIXED, OPEN = range(3)
# What an input of a call reads.
FROM_VALUE, FROM_CALL, FROM_INPUT, FROM_CALL_VALUE, FROM_INPUT_VALUE = range(5)


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


class DeviceUse(NamedTuple):
    """Values on a device: how many were copied to the host, their bytes, and how many stayed there."""

    copies: int = 0
    bytes: int = 0
    kept: int = 0


class Usage(NamedTuple):
    """What a run cost: nanoseconds and bytes."""

    start: int = 0
    duration: int = 0
    cpu: int = 0
    peak_rss: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    copied: int = 0
    device: DeviceUse | None = None


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
    function: str = ""


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
    devices: Sequence[Any] = ()


class KindIn(NamedTuple):
    """An input of a kind."""

    name: str = ""
    list: bool = False
    source: str = ""  # where it comes from, as the job says it


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
    session: bytes = bytes(16)
    output: bool = False


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
    hash_max: int = 0

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


class Reclaim(NamedTuple):
    """Asks for runs that have not started."""

    runs: Sequence[int] = ()


class Reclaimed(NamedTuple):
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
    why: str = ""


class CallRef(NamedTuple):
    """Names a call, or a value that was put, of one run."""

    strand: int = 0
    number: int = 0


class CallKind(NamedTuple):
    """What calls of one function share."""

    id: int = 0
    function: str = ""
    environment: str = ""
    inputs: Sequence[KindIn] = ()
    outputs: Sequence[KindOut] = ()
    resources: Resources = Resources()
    retries: int = 0
    retry_on: Sequence[str] = ()
    timeout: int = 0
    priority: int = 0
    here: bool = False
    stateful: bool = False
    graph: bytes = b""


class CallInput(NamedTuple):
    """An input of a call: a value, what an earlier call returns, or an input of the caller."""

    port: int = 0
    source: int = FROM_VALUE
    ref: CallRef = CallRef()
    output: int = 0
    element: int = 0
    input: int = 0
    item: int = 0
    data: Desc = Desc()


class CallItem(NamedTuple):
    """A call, or (kind 0) a value that is put, or a reference that was found in a value."""

    ref: CallRef = CallRef()
    kind: int = 0
    name: str = ""
    with_: bytes = b""
    inputs: Sequence[CallInput] = ()
    actor: int = 0  # for which the value stands


class Reference(NamedTuple):
    """A dataset to which a value refers."""

    ref: CallRef = CallRef()
    output: int = 0
    element: int = 0


class ItemRefs(NamedTuple):
    """To what a value in a message of calls refers."""

    item: int = 0
    input: int = 0
    refs: Sequence[Reference] = ()


class Listed(NamedTuple):
    """To what a value refers that a run will publish."""

    run: int = 0
    output: int = 0
    element: int = 0
    refs: Sequence[Reference] = ()


class Calls(NamedTuple):
    """A run makes tasks, and puts values."""

    run: int = 0
    once: bool = False
    kinds: Sequence[CallKind] = ()
    items: Sequence[CallItem] = ()
    refs: Sequence[ItemRefs] = ()
    forget: int = 0


class CallEnd(NamedTuple):
    """The end of a call, an element of its stream, or the answer to CallRead."""

    ref: CallRef = CallRef()
    outputs: Sequence[Desc] = ()
    error: TaskError | None = None
    element: bool = False
    read: bool = False
    counts: Sequence[StreamEnd] = ()


class CallEnds(NamedTuple):
    """Tells a run what became of its calls, in order."""

    run: int = 0
    ends: Sequence[CallEnd] = ()


class CallRead(NamedTuple):
    """Asks for a dataset to be in memory."""

    run: int = 0
    ref: CallRef = CallRef()
    output: int = 0
    element: int = 0


class CallWait(NamedTuple):
    """A run waits until n of some calls have ended; without refs, for n more items than it has seen."""

    run: int = 0
    wait: int = 0
    refs: Sequence[CallRef] = ()
    seen: int = 0
    n: int = 0
    outside: bool = False  # it waits for methods of actors too, whose calls the agent does not know


class CallGo(NamedTuple):
    """Ends a wait: the run has its cpu again, or may not wait."""

    run: int = 0
    wait: int = 0
    error: TaskError | None = None


class CallDrop(NamedTuple):
    """Results that a run needs no more; with cancel the calls end."""

    run: int = 0
    refs: Sequence[CallRef] = ()
    cancel: bool = False
    why: str = ""


class ActorName(NamedTuple):
    """Names a call of an actor: a line of calls, and a number in it from 1 on."""

    handle: int = 0
    number: int = 0


class ActorState(NamedTuple):
    """The state of an actor as its class has saved it."""

    bytes: bytes = b""


class ActorLife(NamedTuple):
    """How an actor lives that may be restarted. One that was has a number behind which its calls follow."""

    every: int = 0
    alone: bool = False
    state: ActorState | None = None


class ActorCall(NamedTuple):
    """A call of a method of an actor, or (class) the making of one."""

    name: ActorName = ActorName()
    actor: int = 0
    class_: str = ""
    method: str = ""
    args: Sequence[Desc] = ()
    life: ActorLife | None = None


class ActorGot(NamedTuple):
    """Which answers a caller has: those up to a number."""

    handle: int = 0
    through: int = 0


class ActorCalls(NamedTuple):
    """Makes actors and calls their methods, in order."""

    items: Sequence[ActorCall] = ()
    got: Sequence[ActorGot] = ()


class ActorEnd(NamedTuple):
    """The end of a call of an actor; without a name of the actor."""

    name: ActorName = ActorName()
    actor: int = 0
    outputs: Sequence[Desc] = ()
    error: TaskError | None = None
    state: ActorState | None = None


class ActorEnds(NamedTuple):
    """Tells a caller of actors what became of its calls, in order."""

    ends: Sequence[ActorEnd] = ()


class ActorDrop(NamedTuple):
    """Ends actors at once, lines in which no call follows, and calls."""

    kill: Sequence[int] = ()
    handles: Sequence[int] = ()
    calls: Sequence[ActorName] = ()
    why: str = ""
    shared: Sequence[int] = ()


class ActorFreed(NamedTuple):
    """Tells a process of actors to which of them no value refers any more."""

    run: int = 0
    actors: Sequence[int] = ()


class Reach(NamedTuple):
    """Asks for a way to a process on the host of an agent; without one for where others ask for those of this host."""

    req: int = 0
    agent: str = ""
    at: str = ""
    address: str = ""


class Reached(NamedTuple):
    """Answers Reach."""

    req: int = 0
    address: str = ""
    error: str = ""
    gone: bool = False


class Log(NamedTuple):
    """Text that a task wrote."""

    run: int = 0
    stream: int = 1
    text: bytes = b""
    function: str = ""
    agent: str = ""


class Reply(NamedTuple):
    """How a request ended."""

    req: int = 0
    code: int = 0
    message: str = ""


class Blob(NamedTuple):
    """A piece of a blob, which is named by the hash of its whole; its bytes are the body."""

    hash: bytes = b""
    offset: int = 0
    total: int = 0
    err: str = ""


class HaveReq(NamedTuple):
    """Asks which blobs the receiver lacks."""

    req: int = 0
    hashes: Sequence[bytes] = ()


class Have(NamedTuple):
    """Answers HaveReq."""

    req: int = 0
    missing: Sequence[bytes] = ()
    why: str = ""  # what befell one of them that was sent before


class NamedReq(NamedTuple):
    """Asks what the text of a job file names."""

    req: int = 0
    text: bytes = b""
    params: bytes = b""


class Named(NamedTuple):
    """Answers NamedReq: the job's name, and what may be paths of files."""

    req: int = 0
    name: str = ""
    files: Sequence[str] = ()


class Content(NamedTuple):
    """The hash of something that a job rests on."""

    name: str = ""
    hash: bytes = b""


class Resume(NamedTuple):
    """The job whose results another takes over, zero for none, and the tasks that run in any case."""

    job: bytes = bytes(16)
    again: Sequence[str] = ()


class Submit(NamedTuple):
    """Makes a job."""

    req: int = 0
    job: bytes = bytes(16)
    graph: bytes = b""
    graph_hash: bytes = b""
    dir: str = ""
    tenant: str = ""
    priority: int = 0
    weight: int = 1
    hold: bool = False
    labels: Sequence[str] = ()
    registry: Sequence[Any] = ()
    watch: bool = False
    every: int = 0
    keep: bool = False
    contents: Sequence[Content] = ()
    resume: Resume | None = None
    values: bool = False  # as of Watch
    params: bytes = b""  # of the text of a job file


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
    values: bool = False  # send small outputs as soon as all are there
    outputs: Sequence[str] = ()  # those that result and values are about; none means all


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
    events: Any = ()
    bytes_out: int = 0
    task_time: int = 0
    spilled: int = 0
    copied: int = 0
    waits: str = ""
    late: str = ""
    values: Sequence[LocatedData] = ()  # small outputs, when the request asked for them


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
    host: str = ""  # that of the client, which reads shared memory by itself; the agent holds it until the request is ended
    ends: int = 0  # such a request


class Chunk(NamedTuple):
    """A piece; its bytes are the body."""

    req: int = 0
    offset: int = 0
    total: int = 0
    desc: Desc = Desc()
