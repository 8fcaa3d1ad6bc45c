"""A client of a cluster: it submits jobs, watches them, and fetches what they made.

with cascade.connect() as cluster:
    job = cluster.submit(graph, result)
    print(job.result(result))
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import msgpack

from . import jobtext
from .checks import needs
from .graph import Graph, Ref, plain
from .inputs import host
from .job import UNTIL_RESULT, Job
from .jobtext import written
from .peer import NOT_FOUND, UNAVAILABLE, Peer, RequestError
from .programs import compare, find
from .reuse import noted
from .upload import ship
from .wire import messages as m
from .wire.envelope import LinkError

_PARAMS = "params"  # the feature of a controller that takes them with the text of a job
_watchers: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()  # of the clusters that this process started


@functools.cache
def _user() -> str:
    return getpass.getuser()


class Cluster:
    """A cluster, as a client sees it. Any thread of the process that connected may use it."""

    def __init__(self, address: str, stop: Callable[[], None] | None = None) -> None:
        """address is that of the controller's socket, such as ipc:///run/cascade/controller.sock."""
        self._controller = Peer(address)
        self._agents: dict[str, Peer] = {}  # by address
        self._lock = threading.Lock()  # of agents, closed and stop
        self._closed = False
        self._sent: set[bytes] = set()  # packages that the controller had when it was asked last
        self._stop = stop
        self._process = os.getpid()

    @property
    def address(self) -> str:
        """That of the controller's socket."""
        return self._controller.address

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the links; jobs go on. A cluster of cascade.local ends with it. Threads that wait get a ConnectionError."""
        if os.getpid() != self._process:  # a child that was forked closes, too, what it has of its parent
            return
        with self._lock:
            self._closed = True
            stop, self._stop = self._stop, None
            agents = list(self._agents.values())
        try:
            for peer in [*agents, self._controller]:
                peer.close()
        finally:
            if stop is not None:
                stop()

    def submit(
        self,
        graph: Graph | str | os.PathLike[str],
        *results: Ref,
        params: Mapping[str, Any] | None = None,
        dir: str | os.PathLike[str] = "",
        id: str = "",
        keep: bool = False,
        resume: bool | str | Job = False,
    ) -> Job:
        """Submits a job to the cluster. It returns when the job is durable.

        results are the outputs that are kept to be fetched; others are dropped when no task needs them. graph may be a job
        file too: its path (a pathlib.Path), or its text. Folders and files that environments and inputs name are sent ahead
        of the job, as far as the cluster lacks them. Relative paths begin at dir, which is by default the folder of a job
        file that is named by its path, and the working folder otherwise. params are values for the parameters of a job
        file, of the types that those have. A second submit with the same id is the same job. With keep the cluster never
        deletes the job by itself.
        resume takes over what has not changed from the newest ended job of this name, or from the one with that ID, as
        cascade run --resume does, and keeps all that tasks make for the next time; Job.reused says what was taken over.
        """
        needs(str, "a text", id=id)
        needs((str, os.PathLike), "a path", dir=dir)
        needs(bool, "True or False", keep=keep)
        needs((Mapping, type(None)), "a mapping of names to values", params=params)
        needs((bool, str, Job), "True, a job, or the ID of one", resume=resume)
        for ref in results if not isinstance(graph, Graph) else ():
            needs(Ref, "an output of a Graph; those of a job file are in its text (outputs:)", results=ref)
        if isinstance(graph, os.PathLike):
            dir = dir or os.path.dirname(graph)
        elif not isinstance(graph, (Graph, str)):
            raise TypeError(f"a job is a Graph, the path of a job file (a pathlib.Path), or its text, not {type(graph).__name__}")
        if params is not None and isinstance(graph, Graph):
            raise TypeError("params are those of a job file: give the functions of a Graph their arguments")
        if params and _PARAMS not in self._controller.features:
            raise RequestError(UNAVAILABLE, "the controller is older and takes no parameters: write them into the job file")
        values = b""
        if params:
            instead = "give a number, a text, a list or a mapping"
            values = written({n: plain(f"parameter {n}", v, str, instead) for n, v in params.items()}).encode()
        dir = os.path.abspath(dir)

        job = _id(id) if id else _uuid7()
        earlier = _id(resume if isinstance(resume, str) else resume.id) if not isinstance(resume, bool) else None
        made = m.Submit(job=job.bytes, dir=dir, tenant=_user(), watch=True, every=UNTIL_RESULT, keep=keep, values=True, params=values)
        had = bool(self._sent)

        def send() -> Job:
            sealed, name = made._replace(graph=self._sealed(graph, results, dir).encode()), ""
            if resume is not False:
                sealed, name = self._resuming(sealed, earlier)
            return self._submit(sealed, name, graph if isinstance(graph, Graph) else None, results)

        try:
            return send()
        except RequestError as e:
            if e.code != NOT_FOUND or not had:
                raise
        self._sent.clear()  # the controller has no longer what it had
        return send()

    def _resuming(self, made: m.Submit, earlier: uuid.UUID | None) -> tuple[m.Submit, str]:
        """A submit that takes over results of an earlier job, by default the newest that ended, and the name of its job."""
        name, contents = noted(self._controller, made.graph, made.params, made.dir)
        if earlier is None:
            ended = (row["id"] for row in self._each("jobs", bytes(16), name) if row["name"] == name and row.get("ended"))
            earlier = uuid.UUID(next(ended, "00000000-0000-0000-0000-000000000000"))
        return made._replace(contents=contents, resume=m.Resume(earlier.bytes)), name

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

    def _submit(self, made: m.Submit, name: str, graph: Graph | None, results: tuple[Ref, ...]) -> Job:
        """Sends a submit; name is the name of a job that is to resume."""
        # The submit is a watch as well, which brings small results: one round trip for each less.
        told = self._controller.start(lambda req: made._replace(req=req))
        try:
            answer = self._controller.answer(told)
        except BaseException:
            self._controller.end(told)
            raise
        assert answer is not None  # there is no time-out
        job = Job(self, uuid.UUID(bytes=answer[0].job), told, graph, (r.name for r in results), made.dir)
        if made.resume is not None:
            job._resumes = name, str(uuid.UUID(bytes=made.resume.job)) if any(made.resume.job) else ""
        return job

    def run(
        self,
        graph: Graph | str | os.PathLike[str],
        *results: Ref,
        params: Mapping[str, Any] | None = None,
        dir: str = "",
        id: str = "",
        keep: bool = False,
        resume: bool | str | Job = False,
        progress: bool | None = None,
    ) -> Any:
        """Submits a job, as submit does, waits for its end, and returns the values of the results: one, or a tuple.

        When it is interrupted (Ctrl-C), it cancels the job.
        """
        id = id or str(_uuid7())
        try:
            job = self.submit(graph, *results, params=params, dir=dir, id=id, keep=keep, resume=resume)
            job.wait(progress=progress)
        except KeyboardInterrupt:
            with contextlib.suppress(LinkError, RequestError):  # it was not submitted yet, or the controller is gone
                self.job(id).cancel("the client was interrupted")
            raise
        values = tuple(job.result(r) for r in results)
        return values[0] if len(values) == 1 else values or None

    def job(self, id: str) -> Job:
        """A job that was submitted before, by its ID. ValueError for what is none; names are in jobs()."""
        needs(str, "the ID of a job, a text", id=id)
        return Job(self, _id(id))

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, as rows of `cascade ls jobs`."""
        return self._rows("jobs", bytes(16), "")

    def _rows(self, kind: str, job: bytes, filter: str) -> list[dict[str, Any]]:
        return list(self._each(kind, job, filter))

    def _each(self, kind: str, job: bytes, filter: str) -> Iterator[dict[str, Any]]:
        """Rows, of which the controller is asked for more as they are used."""
        cursor = b""
        while True:
            page, _ = self._controller.ask(lambda req: m.Query(req, kind, job, filter, cursor))  # noqa: B023 (called at once)
            for row in page.rows:
                yield msgpack.unpackb(row, timestamp=3, unicode_errors="surrogateescape")
            cursor = page.cursor
            if not cursor:
                return

    def _here(self) -> str:
        """The resource that agents on this host have, if one is ready."""
        name = host()
        ready = any(row["state"] == "ready" and name in row.get("resources", {}) for row in self._rows("agents", bytes(16), ""))
        return name if ready else ""

    def _agent(self, name: str, addresses: Any) -> Peer:
        """The link to an agent: by its socket beside the controller's, which `cascade connect` opens, or its own."""
        folder = os.path.dirname(self._controller.address.removeprefix("ipc://"))
        beside = os.path.join(folder, f"agent-{name}.sock")
        own = [f"ipc://{beside}"] if os.path.exists(beside) else [a for a in addresses if a.startswith("ipc://")]
        if not own:
            raise LinkError(f"agent {name} has no Unix socket on this host: use the folder of `cascade connect`")
        with self._lock:
            if own[0] in self._agents:
                return self._agents[own[0]]
        made = Peer(own[0])  # without the lock, which close takes
        with self._lock:
            used = made if self._closed else self._agents.setdefault(own[0], made)
        if used is not made or self._closed:
            made.close()
        return used


def _id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise ValueError(f"{text!r} is no ID of a job: Job.id has it, as have the rows of jobs()") from None


def _uuid7() -> uuid.UUID:
    """A UUID of version 7: sorted by time (RFC 9562)."""
    ms = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (ms & (1 << 48) - 1) << 80 | 7 << 76 | (random >> 64 & 0xFFF) << 64 | 2 << 62 | random & (1 << 62) - 1
    return uuid.UUID(int=value)


def connect(to: str | os.PathLike[str] = "") -> Cluster:
    """A running cluster: the address of its controller's Unix socket, or the folder of `cascade connect`.

    By default it is what CASCADE_TO says. A ConnectionError says that there is no such socket.
    """
    to = os.fsdecode(to or "") or os.environ.get("CASCADE_TO", "")
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


def local(
    *, state: str | os.PathLike[str] = "", store: str = "", cpu: float = 0.0, programs: str | os.PathLike[str] = ""
) -> Cluster:
    """Starts a cluster on this host that ends with the returned object, or with the program: cascade-controller and cascade-agent.

    state is the folder of its state, by default one that is removed at the end: name one to resume jobs in a later
    program; store and cpu bound what it uses ("4GiB", cores); programs is the folder of the two programs, by default
    that of this interpreter's scripts, where a wheel puts them, or else they are in PATH.
    """
    found = find("cascade-controller", "cascade-agent", folder=os.fsdecode(programs))
    folder = tempfile.mkdtemp(prefix="cascade-py-")  # sockets have short paths
    base = os.path.abspath(state) if state else os.path.join(folder, "state")
    os.makedirs(base, mode=0o700, exist_ok=True)
    started: list[subprocess.Popen[bytes]] = []
    watch: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        for process in reversed(started):  # when this is interrupted the watcher ends them with the program
            process.terminate()
            process.wait()
        for process in watch:
            process.kill()
            process.communicate()
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
        for _ in range(3000):
            try:
                cluster = Cluster(f"ipc://{socket}", stop)
                try:
                    compare(found[0], cluster._controller.build)
                except BaseException:
                    cluster._controller.close()
                    raise
                return cluster
            except LinkError as e:
                # There is no socket yet, it is bound and not yet listened on, or a controller that was killed left it.
                if not isinstance(e.__cause__, (FileNotFoundError, ConnectionRefusedError)):
                    raise
            for process in started:
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args[0]!r} ended: see the logs in {base}")  # type: ignore[index]
            time.sleep(0.01)
        raise TimeoutError(f"the controller has not opened {socket}: see the logs in {base}")
    except BaseException:
        stop()
        raise
