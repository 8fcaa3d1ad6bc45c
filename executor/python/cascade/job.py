"""A job of a cluster, as a client sees it: how it stands, what it made, and why it failed."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import mmap
import os
import re
import threading
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any

from . import save, screen, shared_memory
from .bars import Bar, Builds
from .checks import needs
from .graph import Graph, Ref
from .inputs import host
from .peer import NOT_FOUND, PIECE, Peer, RequestError
from .reuse import Reused
from .values import PICKLE, decode
from .wire import messages as m
from .wire.envelope import LinkError
from .wire.text import valid

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Cluster

UNTIL_RESULT = -2  # as Watch.every: told when the results are there, or at the end if they never are
_SHOWN = 200_000_000  # nanoseconds between two looks at a job whose progress is shown
_DECIDED = 50_000_000  # the same, until it is decided what the job takes over
_QUEUED = 1  # the phase of a job that waits for an agent
_VIEWS = "views"  # the feature of an agent that leaves a file to those that lock it
_TOGETHER = 256  # outputs that are asked for in one request, at most
_SERIES = re.compile(r"(.*\.[\w-]+)\[\*\]")  # the controller takes it without brackets; task[*] is a family
_KINDS = {1: "error", 2: "panic", 3: "exit", 4: "timeout", 5: "cancelled", 6: "crash", 7: "out of memory", 8: "wrote to input",
          9: "input", 10: "setup", 11: "skipped", 12: "poison", 13: "store"}  # fmt: skip


class JobCancelled(Exception):
    """The job was stopped."""

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


class Job:
    """A job of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        id: uuid.UUID,
        told: int = 0,
        graph: Graph | None = None,
        outputs: Iterable[str] = (),
        dir: str = "",
    ) -> None:
        """told is the request to which the result and the end are told, 0 if there is none; graph what was submitted, if known.

        outputs are the names of all results, when they are known, and dir is the folder at which paths of the job begin.
        """
        self._cluster, self._id, self._graph, self._dir = cluster, id, graph, dir
        self._lock = threading.Lock()  # of what follows
        self._settled: m.Progress | None = None  # how it stood when its results were there, or at its end
        self._outputs = tuple(outputs)
        self._unasked = dict.fromkeys(o for o in self._outputs if not _SERIES.fullmatch(o))  # those not asked for, in order
        self._beside: dict[str, m.LocatedData] = {}  # small ones that came with another that was
        self._resumes: tuple[str, str] | None = None  # name of a job that was submitted to resume, and ID of the earlier one
        self._shown = False  # what it took over was told
        self._told = told  # 0 while a thread waits for what is told there, too
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
        needs(Real, "a number of seconds", every=every)
        return self._follow(int(every * 1e9), None)

    def _follow(
        self, every: int, builds: Builds | None, outputs: tuple[str, ...] = (), until: float | None = None
    ) -> Iterator[m.Progress]:
        """Yields as watch does; every is in nanoseconds; while nothing changes builds tells why.

        With outputs it ends when they are there, or when the time is up.
        """
        controller = self._cluster._controller
        req = controller.start(lambda req: m.Watch(req, self._id.bytes, every, values=bool(outputs), outputs=outputs))
        try:
            while True:
                p = self._next(req, builds, until)
                if p is None:
                    return
                if p.final or p.result and not outputs:
                    self._settle(p)
                yield p
                if p.final or p.result and outputs:
                    return
        finally:
            controller.end(req)

    def _next(self, req: int, builds: Builds | None, until: float | None) -> m.Progress | None:
        """How the job stands, told to a request; None when the time is up."""
        while True:
            wait = builds.wait if builds else None
            if until is not None:
                left = max(0.0, until - time.monotonic())
                wait = left if wait is None else min(wait, left)
            answer = self._cluster._controller.answer(req, wait)
            if answer is not None and isinstance(answer[0], m.Progress):
                return answer[0]
            if answer is None and until is not None and time.monotonic() >= until:
                return None
            if answer is None and builds:
                builds.look()

    def _settle(self, progress: m.Progress) -> None:
        """Its results are there, or never will: the answers to the submit are not needed any more."""
        with self._lock:
            self._settled = progress
            told, self._told = self._told, 0
        self._cluster._controller.end(told)

    def wait(self, *, progress: bool | None = None) -> None:
        """Waits for the job's end. TaskFailed says why it failed, JobCancelled that it was cancelled.

        progress shows how it stands on standard error, or in the notebook; by default on a terminal or in a notebook.
        Unless it is False, an environment that is being built is told there too, once, and of a job that resumes what it takes over.
        """
        show = Bar(progress)
        if self._resumes is not None and progress is not False and not self._shown:
            show.line(str(self.reused()))
            self._shown = True
        last = m.Progress()
        for last in self._follow(_SHOWN, None if progress is False else self._builds(show.line)):
            show.update(last)
        show.end()
        _raise(last)

    def fails(self, seconds: float) -> None:
        """Raises why the job has failed or was cancelled, if it has or does within so many seconds."""
        last = m.Progress()
        for last in self._follow(_SHOWN, None, until=time.monotonic() + seconds):
            pass
        _raise(last)

    def reused(self) -> Reused:
        """What the job took over from an earlier one, and why its other tasks run. It waits until that is decided."""
        for p in self._follow(_DECIDED, None):
            if p.phase != _QUEUED or p.waits:
                break
        name, earlier = self._resumes or ("", "")
        if self._resumes is None or earlier:
            return Reused.of(self._cluster._each("story", self._id.bytes, ""), earlier, name)
        return Reused("", (), {}, name)

    @property
    def status(self) -> str:
        """How the job stands now: queued, held, running, done, failed or cancelled."""
        # Not by a watch, which the controller would keep until the job ends: programs ask again and again.
        for row in self._cluster._rows("jobs", self._id.bytes, ""):
            return str(row["phase"])
        raise RequestError(NOT_FOUND, f"no job {self.id}")

    def result(
        self, ref: Ref | str, *, timeout: float | None = None, unpickle: bool = False, progress: bool | None = None
    ) -> Any:
        """Waits until an output is there, whatever else the job does, and returns its value, a list for a series.

        Exceptions of wait are raised when the job ends without it, a TimeoutError when it is not there in timeout seconds.
        A pickled object is refused unless unpickle says that the job is trusted. While it waits it says on
        standard error, once, that an environment is being built; with progress how the job stands too, as wait does; with
        progress=False nothing.
        """
        needs((str, Ref), "an output, or the name of one", ref=ref)
        needs((Real, type(None)), "a number of seconds", timeout=timeout)
        self._cluster._controller.check()
        if self._graph is not None and not isinstance(ref, str):
            self._graph.own(ref)
        name = ref if isinstance(ref, str) else ref.name
        until = None if timeout is None else time.monotonic() + timeout
        last = self._await(name, until, progress)
        if last is None:
            raise TimeoutError(f"{name} of job {self.id} was not there within {timeout:g} s: {self._stands(name)}")
        for d in last.values:
            if d.name == name:
                return self._value(d, unpickle)
        if self._settled is not None:
            with self._lock:
                one = self._beside.pop(name, None)
            one = one or self._with_others(name)
            if one is not None:
                return self._value(one, unpickle)
        try:
            return self._located(name, unpickle)
        except (KeyError, RequestError):
            _raise(last)  # that it is not there follows from what the job's end says
            raise

    def _await(self, name: str, until: float | None, progress: bool | None) -> m.Progress | None:
        """Waits until an output is there, or never will be: how the job stands then. None when the time is up."""
        show = Bar(bool(progress))
        builds = None if progress is False else self._builds(show.line)
        alone = self._outputs == (name,) and not progress  # it is there when what the submit was told says so
        with self._lock:
            told = self._told
            self._told = 0
        if told:
            try:
                p: m.Progress | None = m.Progress()
                while p is not None and not (p.result or p.final):
                    p = self._next(told, builds if alone else None, until if alone else 0.0)
                if p is not None:
                    self._settle(p)
            finally:
                with self._lock:
                    if self._settled is None:
                        self._told = told
            if self._settled is not None:
                self._cluster._controller.end(told)
            elif alone:
                return None
        if self._settled is not None:
            return self._settled
        last, series = None, _SERIES.fullmatch(name)
        try:
            for p in self._follow(_SHOWN if progress else UNTIL_RESULT, builds, (series[1] if series else name,), until):
                show.update(p)
                last = p if p.result or p.final else None
        except RequestError as e:
            if e.code != NOT_FOUND:
                raise
            raise self._unkept(name) from e
        show.end()
        return last

    def _stands(self, name: str) -> str:
        """The state of the task and the job that a result waits for, in words."""
        task = name.rpartition(".")[0] or name
        rows = [r for r in self._cluster._rows("tasks", self._id.bytes, task) if r["name"] == task]
        stands = [f"task {task} is {r['state']}" + (f" on agent {r['agent']}" if r.get("agent") else "") for r in rows]
        for row in self._cluster._rows("jobs", self._id.bytes, ""):
            stands.append(f"the job is {row['phase']}, {row['done']} of its {row['tasks']} tasks are done")
            if row.get("waits"):
                stands.append(f"it waits: {row['waits']}")
        return "; ".join(stands)

    def _unkept(self, name: str) -> KeyError:
        return KeyError(f"{name} is no output of job {self.id} that was kept: name it when you submit the job")

    def _located(self, name: str, unpickle: bool) -> Any:
        """The value of an output that the controller is asked for."""
        series = _SERIES.fullmatch(name)
        asked = series[1] if series else name
        try:
            located, _ = self._cluster._controller.ask(lambda req: m.Locate(req, self._id.bytes, [asked]))
            if located.missing or not (located.data or series):
                raise self._unkept(name)
            values = [self._value(d, unpickle) for d in located.data]
        except RequestError as e:
            if e.code != NOT_FOUND:
                raise
            raise self._unkept(name) from e  # what was kept is there, and at the job's end the others go
        return values if name.endswith("[*]") or len(values) != 1 else values[0]

    def _with_others(self, name: str) -> m.LocatedData | None:
        """One of the outputs, asked for together with others that were not yet: the controller reads the job for each request.

        None when it was asked for before, is alone, or is not there.
        """
        with self._lock:
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
            return None  # one of them is not there: the error names it when it is asked for alone
        with self._lock:
            self._beside.update((d.name, d) for d in located.data if d.desc.place.kind == m.INLINE and d.name != name)
        return next((d for d in located.data if d.name == name), None)

    def _builds(self, tell: Callable[[str], None]) -> Builds:
        return Builds(lambda: self._cluster._rows("environments", self._id.bytes, ""), tell)

    def _value(self, d: m.LocatedData, unpickle: bool) -> Any:
        if d.desc.codec == PICKLE and not unpickle:
            raise TypeError(f"{d.name} is a pickled object of Python: result(..., unpickle=True) loads it, if you trust the job")
        return decode(d.desc.codec, d.desc.dtype, d.desc.shape, memoryview(self._fetch(d)).toreadonly())

    def _fetch(self, d: m.LocatedData) -> bytes | mmap.mmap:
        """The bytes of a dataset."""
        if d.desc.place.kind == m.INLINE or d.desc.size == 0:
            return d.desc.place.bytes
        agent = self._cluster._agent(d.agent, d.addresses)
        data = m.DatasetID(self._id.bytes, d.desc.ref)
        if d.desc.size > PIECE and (shared := self._shared(agent, d, data)) is not None:
            return shared
        offsets = range(0, d.desc.size, PIECE)
        asked: list[int] = []
        out = shared_memory.room(d.desc.size)
        try:
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
        finally:
            for req in asked:
                agent.end(req)
        return out

    def _shared(self, agent: Peer, d: m.LocatedData, data: m.DatasetID) -> mmap.mmap | None:
        """The bytes of a dataset in the memory of this host, or copied once; None where they can be had in pieces only.

        The agent holds them until it is told that they were read: its answer says that they were those of the dataset.
        """
        req = agent.start(lambda req: m.Fetch(req, data, max=1, host=host()))
        shared = None
        try:
            answer = agent.answer(req)
            assert answer is not None  # there is no time-out
            place = answer[0].desc.place
            if answer[1] or not place.where:
                return None
            with contextlib.suppress(OSError):  # the file belongs to another user
                shared = shared_memory.read(place.where, place.offset, d.desc.size, _VIEWS in agent.features)
        except BaseException:
            with contextlib.suppress(LinkError):  # then the agent holds nothing
                agent.end(agent.start(lambda end: m.Fetch(end, ends=req)))
            raise
        finally:
            agent.end(req)
        agent.ask(lambda end: m.Fetch(end, ends=req))
        return shared

    def save(self, dir: str | os.PathLike[str] = "") -> list[str]:
        """Waits for the job's end, and copies the outputs for which the job file has a path (to:), as `cascade run` does.

        It returns the files. Relative paths begin at dir, by default the folder of the job. Of a job that failed the outputs that
        are there are copied before its error is raised, whose cause is what could not be copied.
        """
        failed: Exception | None = None
        try:
            self.wait()
        except TaskFailed as e:
            failed = e
        try:
            files = self._save(os.path.abspath(dir or self._dir), failed is not None)
        except Exception as e:
            if failed is None:
                raise
            raise failed from e
        if failed is not None:
            raise failed
        return files

    def _save(self, dir: str, partly: bool) -> list[str]:
        """Copies the outputs that have a path; partly those that are there."""
        located, _ = self._cluster._controller.ask(lambda req: m.Locate(req, self._id.bytes, partly=partly))
        found = {d.name: d for d in located.data}
        if not partly and not any(d.path for d in located.data):
            raise ValueError(f"job {self.id} names no file to copy to: give its outputs a path (to: in a job file), or read them by result")

        def content(name: str) -> Any:
            return save.text(found[name].desc.codec, self._fetch(found[name]))

        return save.save(dir, [(d.name, d.path) for d in located.data], located.missing, content)

    def logs(self, task: str | Ref) -> str:
        """The output of a task up to now; nothing as long as it has not started. A KeyError where no task has that name.

        An output y of a graph stands for its task, y.task.
        """
        if isinstance(task, Ref):
            task = task.task
        needs(str, "the name of a task, or an output of a graph", task=task)
        rows = [r for r in self._cluster._rows("tasks", self._id.bytes, task) if r["name"] == task]
        if not rows:
            hint = ": .task of an output is the name of its task" if "." in task else ""
            raise KeyError(f"{task} is no task of job {self.id}{hint}")
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
        needs(str, "a text", reason=reason)
        self._cluster._controller.ask(lambda req: m.Control(req, self._id.bytes, 1, (), valid(reason)))


def _raise(progress: m.Progress) -> None:
    if progress.phase == 6:
        raise JobCancelled(progress.error.message if progress.error else "the job was cancelled")
    if progress.phase == 5:
        raise _task_failed(progress.error or m.TaskError(message="the job failed"))
