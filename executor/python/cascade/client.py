"""A client of a cluster: it submits jobs, watches them, and fetches what they made.

with cascade.connect() as cluster:
    job = cluster.submit(graph, result)
    print(job.result(result))
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import getpass
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, TextIO

import msgpack

from . import jobtext, screen
from .graph import Graph, Ref
from .inputs import host
from .jobtext import written
from .peer import NOT_FOUND, PIECE, Peer, RequestError
from .upload import ship
from .values import PICKLE, decode
from .wire import messages as m
from .wire.envelope import LinkError

_UNTIL_RESULT = -2  # as Watch.every: told when the results are there, or at the end if they never are
_TOGETHER = 256  # outputs that are asked for in one request, at most
_SERIES = re.compile(r"(.*\.[\w-]+)\[\*\]")  # the controller takes it without brackets; task[*] is a family
_watchers: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()  # of the clusters that this process started
_KINDS = {1: "error", 2: "panic", 3: "exit", 4: "timeout", 5: "cancelled", 6: "crash", 7: "out of memory", 8: "wrote to input",
          9: "input", 10: "setup", 11: "skipped", 12: "poison", 13: "store"}  # fmt: skip


@functools.cache
def _user() -> str:
    return getpass.getuser()


class JobCancelled(Exception):
    """Somebody stopped the job."""

    def __str__(self) -> str:
        return screen.text(super().__str__())


class TaskFailed(Exception):
    """A task failed, and its job with it.

    When the task raised an exception of Python's own, this one is of that class too: `except ValueError` catches it.
    """

    def __init__(self, error: m.TaskError) -> None:
        stack = f"\n\n{error.stack}" if error.stack else ""
        super().__init__(f"task {error.task}, attempt {error.attempt} on agent {error.agent}: {error.message}{stack}")
        self.task, self.attempt, self.agent = error.task, error.attempt, error.agent
        self.kind = _KINDS.get(error.kind, str(error.kind))
        self.message, self.stack = error.message, error.stack
        self.output = error.log_tail.decode("utf-8", "replace")  # the last that it wrote

    def __str__(self) -> str:
        return screen.text(Exception.__str__(self))  # that of a KeyError would be its traceback in quotes, on one line


def _task_failed(error: m.TaskError) -> TaskFailed:
    """The exception for a task's error."""
    raised = getattr(builtins, error.codes[0], None) if error.codes else None
    if isinstance(raised, type) and issubclass(raised, Exception):
        try:
            both: type[TaskFailed] = type("TaskFailed", (TaskFailed, raised), {"__module__": TaskFailed.__module__})
            return both(error)
        except TypeError:  # a class that wants arguments of its own
            pass
    return TaskFailed(error)


class Cluster:
    """A cluster, as a client sees it. One thread at a time may use it."""

    def __init__(self, address: str, stop: Callable[[], None] | None = None) -> None:
        """address is that of the controller's socket, such as ipc:///run/cascade/controller.sock."""
        self._controller = Peer(address)
        self._agents: dict[str, Peer] = {}
        self._sent: set[bytes] = set()  # packages that the controller had when it was asked last
        self._stop = stop

    @property
    def address(self) -> str:
        """That of the controller's socket."""
        return self._controller.address

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the links; jobs go on. A cluster of cascade.local ends with it."""
        stop, self._stop = self._stop, None
        try:
            for peer in [*self._agents.values(), self._controller]:
                peer.close()
            self._agents.clear()
        finally:
            if stop is not None:
                stop()

    def submit(
        self, graph: Graph | str | os.PathLike[str], *results: Ref, dir: str = "", id: str = "", keep: bool = False
    ) -> Job:
        """Hands a job to the cluster. It returns when the job is durable.

        results are the outputs that are kept to be fetched. graph may be a job file too: its path (a pathlib.Path), or its
        text. Folders and files that environments and inputs name are sent ahead of the job, as far as the cluster lacks
        them. Relative paths begin at dir, which is by default the folder of a job file that is named by its path, and the
        working folder otherwise. A second submit with the same id is the same job.
        """
        if isinstance(graph, os.PathLike):
            dir = dir or os.path.dirname(graph)
        elif not isinstance(graph, (Graph, str)):
            raise TypeError(f"a job is a Graph, the path of a job file (a pathlib.Path), or its text, not {type(graph).__name__}")
        dir = os.path.abspath(dir)

        job = uuid.UUID(id) if id else _uuid7()
        built = graph if isinstance(graph, Graph) else None
        try:
            return self._submit(self._sealed(graph, results, dir), job, dir, keep, built, results)
        except RequestError as e:
            if e.code != NOT_FOUND or not self._sent:
                raise
        self._sent.clear()  # the controller has no longer what it had
        return self._submit(self._sealed(graph, results, dir), job, dir, keep, built, results)

    def _sealed(self, graph: Graph | str | os.PathLike[str], results: tuple[Ref, ...], dir: str) -> str:
        """The text of a job of which all files are at the controller."""

        def seal(document: dict[str, Any]) -> dict[str, Any]:
            return ship(self._controller, document, dir, self._here, self._sent)

        if isinstance(graph, Graph):
            return written(seal(graph.document(*results)))
        if isinstance(graph, str):
            return jobtext.sealed(graph, dir, seal)
        with open(graph, encoding="utf-8", newline="") as f:
            return jobtext.sealed(f.read(), dir, seal)

    def _submit(self, text: str, job: uuid.UUID, dir: str, keep: bool, graph: Graph | None, results: tuple[Ref, ...]) -> Job:
        # The submit is a watch as well, which brings small results: one round trip for each less.
        told = self._controller.start(
            lambda req: m.Submit(
                req, job.bytes, text.encode(), dir=dir, owner=_user(), watch=True, every=_UNTIL_RESULT, keep=keep, values=True
            )
        )
        try:
            answer = self._controller.answer(told)
        except BaseException:
            self._controller.end(told)
            raise
        assert answer is not None  # there is no time-out
        return Job(self, uuid.UUID(bytes=answer[0].job), told, graph, (r.name for r in results if not r.series))

    def run(self, graph: Graph | str | os.PathLike[str], *results: Ref, progress: bool | None = None) -> Any:
        """Submits a job, waits for its end, and returns the values of the results: one, or a tuple."""
        job = self.submit(graph, *results)
        try:
            job.wait(progress=progress)
        except KeyboardInterrupt:
            job.cancel("the client was interrupted")
            raise
        values = tuple(job.result(r) for r in results)
        return values[0] if len(values) == 1 else values or None

    def job(self, id: str) -> Job:
        """A job that was submitted before, by its ID. ValueError for what is none; names are in jobs()."""
        try:
            return Job(self, uuid.UUID(id))
        except ValueError:
            raise ValueError(f"{id!r} is no ID of a job: Job.id has it, as have the rows of jobs()") from None

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, as rows of `cascade ls jobs`."""
        return self._rows("jobs", bytes(16), "")

    def _rows(self, kind: str, job: bytes, filter: str) -> list[dict[str, Any]]:
        rows, cursor = [], b""
        while True:
            page, _ = self._controller.ask(lambda req: m.Query(req, kind, job, filter, cursor))  # noqa: B023 (called at once)
            rows += [msgpack.unpackb(row, timestamp=3) for row in page.rows]
            cursor = page.cursor
            if not cursor:
                return rows

    def _here(self) -> str:
        """The resource that agents on this host have, if one is ready."""
        name = host()
        ready = any(row["state"] == "ready" and name in row.get("resources", {}) for row in self._rows("agents", b"", ""))
        return name if ready else ""

    def _agent(self, name: str, addresses: Any) -> Peer:
        """The link to an agent: by its socket beside the controller's, which `cascade connect` opens, or its own."""
        if name not in self._agents:
            folder = os.path.dirname(self._controller.address.removeprefix("ipc://"))
            beside = os.path.join(folder, f"agent-{name}.sock")
            own = [f"ipc://{beside}"] if os.path.exists(beside) else [a for a in addresses if a.startswith("ipc://")]
            if not own:
                raise LinkError(f"agent {name} has no Unix socket on this host: use the folder of `cascade connect`")
            self._agents[name] = Peer(own[0])
        return self._agents[name]


class Job:
    """A job of a cluster."""

    def __init__(
        self, cluster: Cluster, id: uuid.UUID, told: int = 0, graph: Graph | None = None, outputs: Iterable[str] = ()
    ) -> None:
        """told is the request to which the result and the end are told, 0 if there is none; graph what was submitted, if known.

        outputs are the names of single results that are likely to be asked for.
        """
        self._cluster, self._id, self._graph = cluster, id, graph
        self._settled: m.Progress | None = None  # how it stood when its results were there
        self._unasked = dict.fromkeys(outputs)  # those that were not asked for, in order
        self._beside: dict[str, m.LocatedData] = {}  # small ones that came with another that was
        self._told = told
        if told:
            weakref.finalize(self, cluster._controller.end, told).atexit = False

    @property
    def id(self) -> str:
        """Its name in the cluster, as the commands take it."""
        return str(self._id)

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    def watch(self, every: float = 0.2) -> Iterator[m.Progress]:
        """Yields how the job stands, whenever that has changed, at most so often (seconds), until its end.

        The controller keeps each watch until the job ends: to look now and then, use status.
        """
        return self._follow(every, None)

    def _follow(self, every: float, builds: _Builds | None) -> Iterator[m.Progress]:
        """What watch yields; while nothing changes builds tells why."""
        controller = self._cluster._controller
        req = controller.start(lambda req: m.Watch(req, self._id.bytes, int(every * 1e9)))
        try:
            while True:
                answer = controller.answer(req, builds.wait if builds else None)
                if answer is None and builds:
                    builds.look()
                if answer is None or not isinstance(answer[0], m.Progress):
                    continue
                if answer[0].result or answer[0].final:
                    self._settle(answer[0])
                yield answer[0]
                if answer[0].final:
                    return
        finally:
            controller.end(req)

    def _settle(self, progress: m.Progress) -> None:
        """Its results are there: nobody asks for what the submit brings of them any more."""
        self._settled = progress
        self._cluster._controller.end(self._told)
        self._told = 0

    def wait(self, *, progress: bool | None = None) -> None:
        """Waits for the job's end. TaskFailed says why it failed, JobCancelled that somebody stopped it.

        progress shows how it stands on standard error, or in the notebook; by default on a terminal or in a notebook.
        Unless it is False, an environment that is being built is told there too, once.
        """
        show = _Bar(progress)
        last = m.Progress()
        for last in self._follow(0.2, None if progress is False else self._builds(show.line)):
            show.update(last)
        show.end()
        _raise(last)

    @property
    def status(self) -> str:
        """How the job stands now: queued, held, running, done, failed or cancelled."""
        # Not by a watch, which the controller would keep until the job ends: programs ask again and again.
        for row in self._cluster._rows("jobs", self._id.bytes, ""):
            return str(row["phase"])
        raise RequestError(NOT_FOUND, f"no job {self.id}")

    def result(self, ref: Ref | str, *, unpickle: bool = False, progress: bool | None = None) -> Any:
        """Waits for the job and returns an output's value, a list for a series. Exceptions of wait are raised here too.

        What only Python's pickle could send is refused unless unpickle says that the job is trusted. While it waits it says on
        standard error, once, that an environment is being built; with progress how the job stands too, as wait does; with
        progress=False nothing.
        """
        if self._graph is not None and not isinstance(ref, str):
            self._graph.own(ref)
        show = _Bar(bool(progress))
        builds = None if progress is False else self._builds(show.line)
        while self._settled is None and self._told and not progress:
            answer = self._cluster._controller.answer(self._told, builds.wait if builds else None)
            if answer is None and builds:
                builds.look()
            if answer is not None and isinstance(answer[0], m.Progress) and (answer[0].result or answer[0].final):
                self._settle(answer[0])
        if self._settled is None:
            for p in self._follow(0.2, builds):
                show.update(p)
                if self._settled is not None:
                    break
            show.end()
        settled = self._settled or m.Progress()
        _raise(settled)
        name = ref if isinstance(ref, str) else ref.name
        for d in settled.values:
            if d.name == name:
                return self._value(d, unpickle)
        one = self._beside.pop(name, None) or self._with_others(name)
        if one is not None:
            return self._value(one, unpickle)
        series = _SERIES.fullmatch(name)
        asked = series[1] if series else name
        unkept = KeyError(f"{name} is no output of job {self.id} that was kept: name it when you submit the job")
        try:
            located, _ = self._cluster._controller.ask(lambda req: m.Locate(req, self._id.bytes, [asked]))
            if located.missing or not (located.data or series):
                raise unkept
            values = [self._value(d, unpickle) for d in located.data]
        except RequestError as e:
            if e.code != NOT_FOUND:
                raise
            raise unkept from e  # the job is done: its outputs are there, and at its end the others go
        return values if name.endswith("[*]") or len(values) != 1 else values[0]

    def _with_others(self, name: str) -> m.LocatedData | None:
        """One of the outputs, asked for together with others that were not yet: the controller reads the job for each request.

        None when it was asked for before, is alone, or is not there.
        """
        if name not in self._unasked:
            return None
        del self._unasked[name]
        names = [name, *itertools.islice(self._unasked, _TOGETHER - 1)]
        if len(names) == 1:
            return None
        for other in names[1:]:
            del self._unasked[other]
        try:
            located, _ = self._cluster._controller.ask(lambda req: m.Locate(req, self._id.bytes, names))
        except RequestError:
            return None  # one of them is not there: which, is told to who asks for it
        self._beside.update((d.name, d) for d in located.data if d.desc.place.kind == m.INLINE)
        self._beside.pop(name, None)
        return next((d for d in located.data if d.name == name), None)

    def _builds(self, tell: Callable[[str], None]) -> _Builds:
        return _Builds(lambda: self._cluster._rows("environments", self._id.bytes, ""), tell)

    def _value(self, d: m.LocatedData, unpickle: bool) -> Any:
        if d.desc.codec == PICKLE and not unpickle:
            raise TypeError(f"{d.name} is a pickled object of Python: result(..., unpickle=True) loads it, if you trust the job")
        return decode(d.desc.codec, d.desc.dtype, d.desc.shape, self._fetch(d))

    def _fetch(self, d: m.LocatedData) -> bytes:
        """The bytes of a dataset."""
        if d.desc.place.kind == m.INLINE or d.desc.size == 0:
            return d.desc.place.bytes
        agent = self._cluster._agent(d.agent, d.addresses)
        data = m.DatasetID(self._id.bytes, d.desc.ref)
        offsets = range(0, d.desc.size, PIECE)
        asked: list[int] = []
        out = bytearray(d.desc.size)
        for i, offset in enumerate(offsets):
            while len(asked) < min(8, len(offsets) - i) + i:  # some pieces are asked for ahead
                at = offsets[len(asked)]
                asked.append(agent.start(lambda req: m.Fetch(req, data, offset=at, max=PIECE)))  # noqa: B023 (called at once)
            answer = agent.answer(asked[i])
            agent.end(asked[i])
            assert answer is not None  # there is no time-out
            due = min(PIECE, d.desc.size - offset)
            if len(answer[1]) != due:
                raise LinkError(f"agent {d.agent} sent {len(answer[1])} of the {due} bytes of {d.name} from byte {offset} on")
            out[offset : offset + due] = answer[1]
        return bytes(out)

    def logs(self, task: str) -> str:
        """What a task has written up to now; nothing as long as it has not started. A KeyError where no task has that name."""
        rows = [r for r in self._cluster._rows("tasks", self._id.bytes, task) if r["name"] == task]
        if not rows:
            raise KeyError(f"{task} is no task of job {self.id}")
        if not rows[0].get("agent"):
            return ""
        agents = {r["name"]: r for r in self._cluster._rows("agents", bytes(16), "")}
        agent = rows[0]["agent"]
        peer = self._cluster._agent(agent, agents.get(agent, {}).get("addresses", []))
        out = b""
        while True:
            at = len(out)
            chunk, body = peer.ask(
                lambda req: m.Fetch(req, m.DatasetID(self._id.bytes), True, task, at, PIECE)  # noqa: B023 (called at once)
            )
            out += body
            if not body or len(out) >= chunk.total:
                return out.decode("utf-8", "replace")

    def cancel(self, reason: str = "") -> None:
        """Stops what runs, and starts nothing more."""
        self._cluster._controller.ask(lambda req: m.Control(req, self._id.bytes, 1, (), reason))


def _raise(progress: m.Progress) -> None:
    if progress.phase == 6:
        raise JobCancelled(progress.error.message if progress.error else "the job was cancelled")
    if progress.phase == 5:
        raise _task_failed(progress.error or m.TaskError(message="the job failed"))


class _Builds:
    """Tells of a job of which nothing is heard that an environment is being built, once, and when it is ready."""

    def __init__(self, rows: Callable[[], list[dict[str, Any]]], tell: Callable[[str], None]) -> None:
        self._rows = rows
        self._tell = tell
        self._told: set[tuple[str, str]] = set()  # what is being built, and where
        self.wait = 1.0  # seconds of silence before the next look

    def look(self) -> None:
        """Asks how the environments stand. The longer nothing is built, the later it is to be asked again."""
        with contextlib.suppress(RequestError):  # that this is not told does not end the wait
            self._compare(self._rows())
        self.wait = 1.0 if self._told else min(2 * self.wait, 60.0)

    def _compare(self, rows: list[dict[str, Any]]) -> None:
        """Tells what is new."""
        for row in rows:
            key = row["name"], row["agent"]
            if row["state"] == "building" and key not in self._told:
                self._told.add(key)
                waits = f", which waits: {row['error']}" if row.get("error") else ""
                self._tell(f"building environment {row['name']} ({row['kind']}) on agent {row['agent']}{waits}")
            elif row["state"] != "building" and key in self._told:
                self._told.remove(key)
                if row["state"] == "ready":
                    took = f"{row.get('seconds', 0):.0f} s"
                    self._tell(f"environment {row['name']} is ready after {took}; later jobs find it built")
        self._told &= {(row["name"], row["agent"]) for row in rows}  # the others were given up with their agents


class _Bar:
    """Progress on one line: rewritten on a terminal, as an output that changes in a notebook."""

    def __init__(self, wanted: bool | None, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._display: Any = None
        notebook = "ipykernel" in sys.modules
        self._on = (notebook or self._to.isatty()) if wanted is None else wanted
        if self._on and notebook:
            from IPython.display import display

            self._display = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, p: m.Progress) -> None:
        """Shows how a job stands."""
        if not self._on:
            return
        total, done = sum(g.total for g in p.groups), sum(g.done for g in p.groups)
        failed, running = sum(g.failed for g in p.groups), sum(g.running for g in p.groups)
        part = done / total if total else 0.0
        bar = "#" * int(part * 30)
        name, bad = screen.line(p.name), f", {failed} failed" if failed else ""
        line = f"{name} [{bar:<30}] {done}/{total} done, {running} running{bad}"
        if self._display is not None:
            self._display.update({"text/plain": line}, raw=True)
        else:
            self._to.write(f"\r{line}\x1b[K")
            self._to.flush()

    def line(self, text: str) -> None:
        """Prints a line beside the progress, also where none is shown."""
        clear = "\r\x1b[K" if self._on and self._display is None else ""
        self._to.write(f"{clear}{screen.line(text)}\n")
        self._to.flush()

    def end(self) -> None:
        """Nothing more is shown."""
        if self._on and self._display is None:
            self._to.write("\n")


def _uuid7() -> uuid.UUID:
    """A UUID of version 7: sorted by time (RFC 9562)."""
    ms = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (ms & (1 << 48) - 1) << 80 | 7 << 76 | (random >> 64 & 0xFFF) << 64 | 2 << 62 | random & (1 << 62) - 1
    return uuid.UUID(int=value)


def connect(to: str = "") -> Cluster:
    """A running cluster: the address of its controller's Unix socket, or the folder of `cascade connect`.

    By default it is what CASCADE_TO says. A ConnectionError says that there is no such socket.
    """
    to = to or os.environ.get("CASCADE_TO", "")
    if not to:
        raise ValueError("say which cluster: connect(ADDRESS), or CASCADE_TO in the environment; cascade.local() starts one")
    remote = "a remote cluster needs `cascade connect FOLDER --to NAME`, and that FOLDER here"
    if "://" in to and not to.startswith("ipc://"):
        raise ValueError(f"connect({to!r}): it takes the Unix socket of a controller on this host; {remote}")
    if not to.startswith("ipc://"):
        path = os.path.abspath(to)
        to = "ipc://" + (os.path.join(path, "controller.sock") if os.path.isdir(path) else path)
    path = to.removeprefix("ipc://")
    if not path.startswith("@") and not os.path.exists(path):
        raise LinkError(f"there is no socket {path}: no controller runs there; {remote}")
    return Cluster(to)


# The watcher of a cluster. Its input ends with the program that started it, however that ends: by kill -9 too, as notebooks do
# with their kernels. Then it ends the daemons, and when they have ended, as a pipe says that only they hold, removes the folder.
_WATCH = 'read -r _; folder=$1; shift; kill "$@"; read -r _ <&1; rm -rf "$folder"'


def _forked() -> None:
    """A child that was forked may live longer than its parent, whose end the watchers wait for."""
    for watcher in _watchers:
        if watcher.stdin is not None:
            watcher.stdin.close()


os.register_at_fork(after_in_child=_forked)


def local(*, state: str = "", store: str = "", cpu: float = 0.0, programs: str = "") -> Cluster:
    """Starts a cluster on this host that ends with the returned object, or with the program: cascade-controller and cascade-agent.

    state is the folder of its state, by default one that is removed at the end; store and cpu bound what it uses ("4GiB",
    cores); programs is the folder of the two programs, by default PATH is searched.
    """
    found = [shutil.which(p, path=programs or None) for p in ("cascade-controller", "cascade-agent")]
    if not found[0] or not found[1]:
        raise FileNotFoundError(
            "cascade-controller and cascade-agent are not on PATH: say where they are, local(programs=FOLDER)"
        )
    folder = tempfile.mkdtemp(prefix="cascade-py-")  # sockets have short paths
    base = os.path.abspath(state) if state else os.path.join(folder, "state")
    os.makedirs(base, mode=0o700, exist_ok=True)
    started: list[subprocess.Popen[bytes]] = []
    watch: list[subprocess.Popen[bytes]] = []
    owner = os.getpid()

    def stop() -> None:
        if os.getpid() != owner:  # a child that was forked closes, too, what it has of its parent
            return
        for process in watch:
            process.kill()
            process.communicate()
        for process in reversed(started):
            process.terminate()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    def start(held: BinaryIO, *command: str) -> None:
        with open(os.path.join(base, os.path.basename(command[0]) + ".log"), "ab") as log:
            started.append(subprocess.Popen(command, stdin=held, stdout=log, stderr=log, start_new_session=True))

    socket = os.path.join(base, "controller", "run", "controller.sock")
    try:
        ended, alive = os.pipe()
        with open(ended, "rb") as says, open(alive, "wb") as held:
            start(held, found[0], "--state", os.path.join(base, "controller"), "--durability", "crash")
            more = [f for flag, value in (("--store", store), ("--cpu", str(cpu or ""))) if value for f in (flag, value)]
            start(held, found[1], "--controller", f"ipc://{socket}", "--name", "local", "--state", os.path.join(base, "agent"),
                  "--runtime", os.path.join(folder, "a"), *more)  # fmt: skip
            ids = [str(process.pid) for process in reversed(started)]
            watch.append(subprocess.Popen(["/bin/sh", "-c", _WATCH, "cascade-watch", folder, *ids],
                                          stdin=subprocess.PIPE, stdout=says, stderr=subprocess.DEVNULL,
                                          start_new_session=True))  # fmt: skip
        _watchers.add(watch[0])
        for _ in range(600):
            try:
                return Cluster(f"ipc://{socket}", stop)
            except LinkError as e:
                # There is no socket yet, it is bound and not yet listened on, or a controller that was killed left it.
                if not isinstance(e.__cause__, (FileNotFoundError, ConnectionRefusedError)):
                    raise
            for process in started:
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args[0]!r} ended: see the logs in {base}")  # type: ignore[index]
            time.sleep(0.05)
        raise TimeoutError(f"the controller has not opened {socket}: see the logs in {base}")
    except BaseException:
        stop()
        raise
