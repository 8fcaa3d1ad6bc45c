"""A program as a task: it calls functions, and waits for what they return, outside of any graph.

init() ──▶ Session ──Hello──▶ agent of this host       the program is the executor of the session's one run
f.remote, get, wait, put ──▶ Calls ◀──CallEnds── one thread reads: that of a caller that waits, or the session's own
shutdown(), the end of the program ──Report──▶ agent   the session ends, and all that it has called
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shlex
import shutil
import site
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import __version__, context
from .bars import Builds
from .checks import listed, texts
from .client import Cluster, connect, local
from .executor import reach
from .executor.calls import Calls
from .executor.code import OWN, Code
from .executor.outputs import Memory
from .executor.queue import PreparedKind, Queue, Run, Stopped
from .inputs import host
from .interrupts import Guard
from .jobtext import written
from .printer import Printer
from .wire import codec
from .wire import messages as m
from .wire.direct import Watch
from .wire.envelope import LinkError
from .wire.pipes import PipeLink, poll_of

FUNCTION = "cascade.session"
AGENT = "agent-"  # begins the name of a resource that one agent has
CLOSED = "it was closed"
MAX_HEAD = 512 << 20  # of a message from the agent
_LOOK = 0.005  # s after which the session's own thread looks whether another still reads
_SOON = 0.002  # s after which calls leave that no thread waits for
_TELLS = 0.5  # s after which the agent is told of futures that the program has let go of
_OPENS, _WAITS = 30.0, 5.0  # s for the agent of this host to be ready: of a cluster that was started, and of one that runs
_ENDS = 10.0  # s for the session to end in order


class SessionLost(RuntimeError):
    """The session of this program has ended, and all that it had called. The message says why."""


class Session:
    """This program as the root of all that it calls. Any thread of the process that opened it may use it."""

    granted = False

    def __init__(self, cluster: Cluster, agent: Mapping[str, Any], document: dict[str, Any], finds: Callable[[str], bool],
                 prints: Printer | None, owns: bool) -> None:  # fmt: skip
        """Opens the session that a job file describes, on an agent. With owns the cluster ends with it.

        finds tells whether hosts find a module by its name; prints takes what called functions write.
        """
        self.lock = Guard()
        self._news = threading.Condition(self.lock)  # type: ignore[arg-type]
        self._resting = 0  # threads that wait for it
        self._reader = 0  # the one of them that reads the link
        self._looks_soon = False  # the session's thread sends what was called within _SOON
        self._made = 0  # calls that there were when it looked
        self.queue = Queue()
        self.current: Run | None = None
        self.welcome = m.Welcome()
        self.code = Code("")
        self.memory = Memory(self)
        self.cluster, self._owns, self.finds = cluster, owns, finds
        self._prints = prints
        self.watch = Watch()
        self._process = os.getpid()
        self._items: list[m.ReportItem] = []
        self._kinds: dict[int, PreparedKind] = {}
        self.calls: Calls
        self._thread: threading.Thread
        self._closing = False  # the program ends it
        self._why: str | None = None  # it has ended
        self._job = cluster.submit(written(document))
        self.id = self._job.id
        self._name = str(document["job"])
        try:
            self._link = PipeLink(agent["sessions"].removeprefix("ipc://"), "executor", f"session-{os.getpid()}-{time.time_ns():x}",
                                  __version__, max_head=MAX_HEAD, on_break=lambda: None)  # fmt: skip
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._rouse = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # of the one that reads: another has
            self._poll, self._asleep, self._awake = (
                poll_of(self._rouse, self._link.fd, self.watch.fd),
                poll_of(self._wake),
                poll_of(self._wake, self._link.fd, self.watch.fd),
            )
            self._link.send(
                codec.encode(
                    m.Hello(os.getpid(), "", __version__, "python", session=uuid.UUID(self.id).bytes, output=prints is not None)
                )
            )
            self._open()
        except BaseException as e:
            self._unopened(str(agent["name"]), e)
            raise
        assert self.current is not None
        self.calls = Calls(self, self.memory, self.current)
        self.add(m.ReportItem(m.STARTED, self.current.id, time.time_ns()))
        self.flush()
        self.lock.install()
        self._thread = threading.Thread(target=self._serve, name="cascade-session", daemon=True)
        self._thread.start()

    # ---- the beginning

    def _open(self) -> None:
        """Waits for the run. The job may fail meanwhile, as its environment cannot be built."""
        builds = Builds(
            lambda: self.cluster._rows("environments", uuid.UUID(self.id).bytes, ""), lambda text: print(text, file=sys.stderr)
        )
        looked = time.monotonic()
        while self.current is None:
            self._poll.poll(200)
            self.pump()
            if self._why is not None:
                self._job.fails(_ENDS)  # the agent's reason may be on its way to the controller
                raise SessionLost(f"the session was refused: {self._why}")
            if self.current is None and time.monotonic() - looked > builds.wait:
                looked = time.monotonic()
                builds.look()
                if self._job.status in ("failed", "cancelled"):
                    self._job.wait(progress=False)

    def _unopened(self, agent: str, error: BaseException) -> None:
        """Ends the job of a session that did not open."""
        self._why = f"it was not opened: {error}"
        if hasattr(self, "_link"):
            self._link.close()
        with contextlib.suppress(Exception):  # it has ended, or the controller is gone
            self._job.cancel("its program could not be attached")

    # ---- the link

    def send(self, message: codec.Message) -> None:
        """Sends a message behind everything that was reported before."""
        with self.lock:
            self._report()
            try:
                self._link.send(codec.encode(message))
            except LinkError as e:
                self._lost(f"agent {self.welcome.agent} is gone: {e}")
                raise self.gone("the session") from None

    def _report(self) -> None:
        if self._items:
            items, self._items = self._items, []
            self.send(m.Report(items))

    def add(self, item: m.ReportItem) -> None:
        """Queues something that happened."""
        with self.lock:
            self._items.append(item)

    def flush(self) -> None:
        """Sends what waits."""
        with self.lock:
            self._report()

    def pump(self) -> None:
        """Takes all messages that are there."""
        with self.lock:
            some = False
            try:
                while (received := self._link.receive()) is not None:
                    some = True
                    message = codec.decode(received[0])
                    if message is not None:
                        self._handle(message)
                if self.watch and self.watch.take():
                    some = True
                if self._link.closed_by_peer is not None:
                    self._lost(f"agent {self.welcome.agent} has ended it: {self._link.closed_by_peer}")
            except (LinkError, ValueError) as e:
                self._lost(f"agent {self.welcome.agent} is gone: {e}")
            if some:
                self.tell()

    def _handle(self, message: Any) -> None:
        match message:
            case m.CallEnds() | m.CallGo():
                if self.current is not None and self.current.id == message.run:
                    self.calls.ends(message) if isinstance(message, m.CallEnds) else self.calls.go(message)
            case m.Log():
                if self._prints is not None:
                    self._prints(message)
            case m.Reached():
                reach.told(message)
            case m.Segment() | m.Lease():
                self.memory.told(message)
            case m.Kind():
                if not message.close:
                    self._kinds[message.id] = PreparedKind(message)
            case m.Dispatch():
                for run in message.runs:
                    self.current = Run(self._kinds[run.kind], run)
            case m.Cancel():
                if self.current is not None and self.current.id == message.run:
                    self._cancelled(message)
            case m.Reclaim():
                self.send(m.Reclaimed(()))
            case m.Stop():
                self._lost(message.why or "its agent has stopped it")
            case m.Welcome():
                self.welcome = message

    def _cancelled(self, message: m.Cancel) -> None:
        """The session was cancelled from outside."""
        run = self.current
        assert run is not None
        self._finish(
            m.ReportItem(
                m.FAILED, run.id, time.time_ns(), usage=m.Usage(run.start), error=self.error(run, message.why, message.text)
            )
        )
        self._lost(message.text or "it was cancelled")

    def _lost(self, why: str) -> None:
        """It has ended; all that wait are told. The lock is held."""
        if self._why is None:
            self._why = why
            self.current = None
            if hasattr(self, "calls"):
                self.calls.forsake()
        self.tell()

    def tell(self) -> None:
        """Has threads that wait look at what is new. The lock is held."""
        if self._resting:
            self._news.notify_all()
            if self._reader and self._reader != threading.get_ident():
                os.eventfd_write(self._rouse, 1)

    # ---- for calls and memory

    def mine(self, calls: Calls, what: str, do: Callable[[], Any]) -> Any:
        """Does something for the program."""
        self._usable(what)
        try:
            return do()
        except Stopped as e:
            raise SessionLost(str(e)) from None

    def _usable(self, what: str) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{what}: the session belongs to the process that opened it, and this one was forked from it: "
                "open one here with cascade.init(), or call from the parent"
            )
        if self._why is not None or self._closing:
            raise self.gone(what)

    def gone(self, what: str) -> Exception:
        """What is said when it has ended."""
        return SessionLost(f"{what}: the session has ended: {self._why or CLOSED}")

    def check(self, run: Run) -> None:
        """Raises what is said when it has ended."""
        if self._why is not None or self._closing:
            raise self.gone("wait")

    def in_main(self) -> bool:
        """No thread of the program is another than the others."""
        return False

    def until(self, there: Callable[[], bool], each: Callable[[], None]) -> None:
        """Waits for messages until something is so."""
        with self.lock:
            while not there():
                each()
                self._usable("wait")
                self.rest(None)

    def wait(self, timeout: int | None = None) -> bool:
        """Waits for messages."""
        with self.lock:
            self.rest(None if timeout is None else timeout / 1000)
        return True

    def rest(self, seconds: float | None) -> None:
        """Waits for messages. One of the threads that wait reads the link. The lock is held, once."""
        self._resting += 1
        try:
            if self._reader:
                self._news.wait(seconds)
                return
            self._reader = threading.get_ident()
            try:
                self.lock.release()
                ready = self._poll.poll(None if seconds is None else max(0, int(seconds * 1000) + 1))
            finally:
                self.lock.acquire()
                self._reader = 0
            for fd, _ in ready:
                if fd == self._rouse:
                    os.eventfd_read(fd)
            self.pump()
        finally:
            self._resting -= 1
            if self._resting and not self._reader:
                self._news.notify_all()  # another one reads from now on

    def soon(self) -> None:
        """Has the session's thread send the calls that were made, if no thread waits for them. The lock is held."""
        if not self._looks_soon:
            self._looks_soon = True
            os.eventfd_write(self._wake, 1)

    def nudge(self) -> None:
        """Has the session's thread look at what is to be sent."""
        if not self._closing and os.getpid() == self._process:
            os.eventfd_write(self._wake, 1)

    def call(self, function: Any, /, *args: Any, **named: Any) -> Any:
        """Is for tasks."""
        return function(*args, **named)

    def aside(self, do: Callable[[Run], Any]) -> Any:
        """Does something for the run."""
        return None if self.current is None else do(self.current)

    def imported(self) -> None:
        """Is for tasks."""

    def error(self, run: Run, kind: int, message: str, codes: Any = (), stack: str = "") -> m.TaskError:
        """An error of the session."""
        return m.TaskError(
            kind, message, codes, stack, run.title(), run.attempt & 0xFFFF, self.welcome.agent, self.welcome.executor
        )

    # ---- for the functions of the package

    def task(self) -> context.Task:
        """The program is no task that people could name."""
        return context.Task()

    def empty(self, size: int) -> Any:
        """Arrays of a program are ordinary memory: what is put is copied once."""
        return None

    def own_calls(self, what: str, fresh: bool = False) -> Calls:
        """The calls of the session."""
        self._usable(what)
        return self.calls

    # ---- the session's own thread

    def _serve(self) -> None:
        """Reads when no caller does, and sends calls that no caller waits for."""
        while True:
            with self.lock:
                if self._why is not None or self._closing:
                    return
                calls = self.calls
                calling, self._made = calls.made != self._made, calls.made
                with contextlib.suppress(SessionLost):
                    calls.flush()
                    if self.memory.return_wanted and self.memory.standing is not None:
                        self.memory.return_standing()
                        self.flush()
                self._looks_soon = calling
                reads = not self._reader
            poll, timeout = (self._awake, _TELLS if calls.keeps else None) if reads else (self._asleep, _LOOK)
            if calling:
                timeout = _SOON
            for fd, _ in poll.poll(None if timeout is None else timeout * 1000):
                if fd == self._wake:
                    os.eventfd_read(fd)
            self.pump()

    # ---- the end

    def _finish(self, item: m.ReportItem) -> None:
        """Reports the end of the run. The lock is held."""
        with contextlib.suppress(LinkError, SessionLost):
            self.calls.flush()
            self.memory.return_standing()
            self.add(item)
            self._report()

    def close(self) -> None:
        """Ends the session, and all that it has called and that has not ended. A cluster that init has started ends with it."""
        if os.getpid() != self._process or self._closing:
            return
        with self.lock:
            self._closing = True
            self.tell()  # those that wait give up
        run = self.current
        with self.memory.making:
            with self.lock:
                self.calls.forsake()
            self.calls.end()
            if run is not None:
                run.copied += self.memory.release(run, [])
        with self.lock:
            os.eventfd_write(self._wake, 1)
            if run is not None and self._why is None:
                self._finish(m.ReportItem(m.FINISHED, run.id, time.time_ns(), usage=m.Usage(time.time_ns())))
                self._lost(CLOSED)
            lost = self._why != CLOSED
        self._thread.join()
        self.lock.remove()
        self._link.close()
        if self._prints is not None:
            self._prints.end()
        os.close(self._wake)
        os.close(self._rouse)
        try:
            if lost and not self._owns:
                with contextlib.suppress(Exception):  # it has ended
                    self._job.cancel("its agent has ended")
            elif not self._owns:
                self._await_end()
        finally:
            self.cluster.close()
            if self._owns and self.welcome.shm_dir:  # an agent that was killed has left it
                shutil.rmtree(self.welcome.shm_dir, ignore_errors=True)

    def _await_end(self) -> None:
        """Waits until all that it called has ended."""
        with contextlib.suppress(Exception):
            for p in self._job._follow(0, None, until=time.monotonic() + _ENDS):
                if p.final:
                    return

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        shutdown()

    def __repr__(self) -> str:
        return f"<{self._name} at {self.cluster.address}>"


_opening = threading.RLock()
_session: Session | None = None


def init(
    to: str | os.PathLike[str] = "",
    *,
    cpu: float = 0.0,
    store: str = "",
    state: str | os.PathLike[str] = "",
    programs: str | os.PathLike[str] = "",
    name: str = "",
    pip: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    py_modules: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    working_dir: str | os.PathLike[str] = "",
    env: Mapping[str, Any] | None = None,
    log_to_driver: bool = True,
) -> Session:
    """Makes this program one that calls functions. Without an address, and without CASCADE_TO, it starts a cluster on this host.

    to is what cascade.connect takes; cpu, store, state and programs are those of cascade.local. In a local cluster functions run
    in this program's interpreter, and import what it imports. With pip, py_modules, working_dir or env, and on other clusters, they
    run in an environment of those, as those of a Graph do; functions of modules that are neither installed nor named go by value.
    With log_to_driver what functions print is printed here as well.
    """
    global _session
    with _opening:
        if _session is not None and _session._process == os.getpid() and _session._why is None:
            raise RuntimeError(f"init: this program has {_session!r} already: end it with cascade.shutdown()")
        if context._host is not None and not isinstance(context._host, Session):
            raise RuntimeError("init: a task calls in the session or job that it belongs to, and needs none of its own")
        shutdown()
        own = not (to or os.environ.get("CASCADE_TO", ""))
        cluster = local(state=state, store=store, cpu=cpu, programs=programs) if own else connect(to)
        try:
            at = _agent(cluster)
            environment: dict[str, Any] = {}
            finds: Callable[[str], bool] = _all
            if own and not (pip or py_modules or working_dir or env):
                environment["binary"] = _launcher(cluster)
            else:
                modules = listed(py_modules)
                environment["python"] = {"pip": [*listed(pip), "cloudpickle"], "version": f"=={sys.version_info[0]}.{sys.version_info[1]}.*"}
                environment |= {
                    k: v
                    for k, v in (("py_modules", modules), ("working_dir", os.fsdecode(working_dir)), ("env", texts(env or {})))
                    if v
                }
                finds = functools.partial(
                    _found, tuple(map(os.path.abspath, modules)), os.path.abspath(working_dir) if working_dir else ""
                )
            title = name or os.path.basename(getattr(sys.modules.get("__main__"), "__file__", None) or "python")
            document = {
                "job": f"session {title}",
                "environments": {"python": environment},
                "tasks": {"root": {"run": f"python:{FUNCTION}", "resources": {at[1]: 0.001}}},
            }
            made = _session = Session(cluster, at[0], document, finds, Printer() if log_to_driver else None, own)
        except BaseException:
            cluster.close()
            raise
        context._serve(made)
        return made


def shutdown() -> None:
    """Ends the session of this program, if it has one. Futures of it have no results any more but those that were read."""
    global _session
    with _opening:
        session = _session
        _session = None
        if session is None:
            return
        served: Any = context._host
        if served is session:
            context._serve(None)
        session.close()


def is_initialized() -> bool:
    """Whether this process has a session."""
    return _session is not None and _session._process == os.getpid() and _session._why is None


atexit.register(shutdown)


def _agent(cluster: Cluster) -> tuple[dict[str, Any], str]:
    """An agent of this host that takes sessions, with the resource that it alone has."""
    until = time.monotonic() + (_WAITS if cluster._stop is None else _OPENS)
    here = host()
    while True:
        rows = [
            r
            for r in cluster._rows("agents", bytes(16), "")
            if r["state"] == "ready" and r.get("sessions") and here in r.get("resources", {})
        ]
        if rows:
            row = min(rows, key=lambda r: int(r["jobs"]))
            return row, next(n for n in row["resources"] if n.startswith(AGENT))
        if time.monotonic() > until:
            raise RuntimeError(
                f"no agent of this host is ready in the cluster at {cluster.address}: a session is attached to one "
                "(start it with cascade-agent, or use cascade.init() without an address)"
            )
        time.sleep(0.005)


def _launcher(cluster: Cluster) -> str:
    """A program that starts this program's interpreter as an executor: it finds the modules that this program finds."""
    path = os.path.join(os.path.dirname(cluster.address.removeprefix("ipc://")), "python")
    known = {os.path.realpath(p) for p in (*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages())}
    paths = [os.path.abspath(p) for p in sys.path if os.path.realpath(p) not in known]
    start = "import runpy, sys; del sys.path[0]; runpy.run_module('cascade.executor', run_name='__main__', alter_sys=True)"
    words = [
        "env",
        f"PYTHONPATH={os.pathsep.join(paths)}",
        f"{OWN}={sys.executable}",
        f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '0')}",
        sys.executable,
        "-c",
        start,
    ]
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w") as f:
        f.write(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    return path


def _all(module: str) -> bool:
    """A cluster that a program starts finds all that the program does."""
    return True


def _found(modules: tuple[str, ...], folder: str, module: str) -> bool:
    """Whether a module is installed, or among those that are sent with the session."""
    from .graph import _installed

    path = getattr(sys.modules.get(module), "__file__", None)
    if not path or module.partition(".")[0] == "cascade" or path.startswith(_installed()):
        return True  # built in, or a package of several folders
    path = os.path.splitext(os.path.abspath(path))[0].removesuffix(os.sep + "__init__")
    within = [os.path.dirname(p) if os.path.isfile(p) or os.path.exists(os.path.join(p, "__init__.py")) else p for p in modules]
    return any(path == os.path.join(root, *module.split(".")) for root in (*within, folder) if root)
