"""The process of an actor: a run of the generator serve, which lasts as long as the actor.

    caller ──ActorCalls──▶ take ──▶ jobs ──▶ constructor, then methods ──▶ answers ──ActorEnds──▶ caller
                                              one after another in the main thread,
                                              or in threads of its groups, or in a loop of asyncio

The main thread reads the links between methods. While a method runs the worker's helper does it from time to time, so that
a call can be cancelled. The run needs no core meanwhile, as any run that waits for calls, unless its actor asked for cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgpack

from .. import context
from ..checks import is_async
from ..values import decode, hints_of
from ..wire import codec
from ..wire import messages as m
from ..wire.direct import DirectLink, Watch, accept, answer, listen
from ..wire.envelope import LinkError
from ..wire.text import ERRORS
from . import reach
from .actorruns import Exit, Job, Loop, Serial, Threads
from .actorstate import Saves, restored
from .described import MOST_BYTES, described
from .functions import SetupError, refuse_lazy, resolve, split
from .outcome import KindError, failure
from .queue import Run, Stopped
from .raised import DEAD

if TYPE_CHECKING:
    from .worker import Worker

QUICK = 100_000  # ns: the answer of a method that takes less may wait for that of the next
MANY = 100  # answers in one message, about
_HEAD = msgpack.packb(codec.NUMBERS[m.ActorEnds])
CALLS, DROP = codec.NUMBERS[m.ActorCalls], codec.NUMBERS[m.ActorDrop]
LAST_WORDS = 5.0  # s for a caller to take the last answers, and for a method to end when its actor is killed
MAKER_DUE = 5.0  # s for the maker of an actor that another task has called before


class Said:
    """What messages call a class or a method: a name, and what is unusual about the call."""

    def __init__(self, text: str) -> None:
        self.name, _, rest = text.partition("?")
        said = dict(urllib.parse.parse_qsl(rest, keep_blank_values=True))
        self.named = [n for n in said.get("named", "").split(",") if n]  # the last arguments
        self.returns = int(said.get("returns", 1))
        self.group = said.get("group", "")
        self.code = said.get("code", "")  # the hash of the class's code, which is the first argument
        self.concurrency = int(said.get("concurrency", 0))
        self.groups = {name: int(n) for name, n in (g.split(":") for g in said.get("groups", "").split(",") if g)}


class Method:
    """A method that was found, with what one call says of it."""

    def __init__(self, owner: type, actor: Any, said: Said) -> None:
        self.said, self.name = said, f"{owner.__name__}.{said.name}"
        if said.name == TERMINATE:
            self.call: Callable[..., Any] = _terminate
        else:
            self.call = getattr(actor, said.name, None)  # type: ignore[assignment]
            if not callable(self.call):
                raise SetupError(f"actor {owner.__name__} has no method {said.name} in the process that runs it")
        inner = inspect.unwrap(getattr(self.call, "__func__", self.call))
        self.coroutine = inspect.iscoroutinefunction(inner)
        self.many = inspect.isasyncgenfunction(inner)
        self.stream = self.many or inspect.isgeneratorfunction(inner)
        self.wants = _wants(self.call)
        self.group = said.group


TERMINATE = "__ray_terminate__"
ALONE = "a method of an actor with exactly_once makes no calls: they would run twice when it is restarted"


def _terminate() -> None:
    raise Exit


class ActorHost:
    """The actor of this process. The worker's lock guards it."""

    def __init__(self, worker: Worker, run: Run) -> None:
        self.worker, self.run = worker, run
        self.path = os.path.join(worker.welcome.scratch, "actors.sock")
        self.open: dict[tuple[int, int], Job] = {}  # calls that are not answered, by their names
        self.over = ""  # the actor ends, and why
        self.failed: m.TaskError | None = None  # of its constructor
        self.idle = False  # the main thread reads the links
        self.actor: Any = None
        self.saves: Saves | None = None  # its state is saved
        self.runner: Serial | Threads | Loop = Serial(self)
        self._lines: dict[int, DirectLink] = {}  # by their handles
        self._class: Any = None
        self._methods: dict[str, Method] = {}
        self._answers: dict[DirectLink, list[bytes]] = {}
        self._count = 0  # of them
        self._process = os.getpid()
        self._links: set[DirectLink] = set()
        self._coming: set[socket.socket] = set()  # of callers that have not begun
        self._made = False  # its maker has told of it
        self._early: list[Job] = []  # calls that have come before that
        self._awaits: threading.Timer | None = None  # how long they wait for it
        self._doomed: str | None = None  # it is to be killed when it is made
        self.runs = False  # a method, in the main thread
        self._shared = self._freed = False  # values refer to it, or did
        self._ends: threading.Timer | None = None  # of a method that goes on when it was killed
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)  # of an actor that was in this process before
        self._listener = listen(self.path)
        self.watch = Watch()
        self.watch.also(self._listener.fileno(), self._accept)
        self.watch.also(worker.woken, self._woken)

    def live(self) -> None:
        """Runs the actor until it ends."""
        self.worker.beside, self.worker.freed = self.beside, self._free
        try:
            before = None
            while before is not self.runner:  # the constructor may have chosen another
                before = self.runner
                before.run()
            self._finish()
        finally:
            self.runner.stop()

    def close(self) -> None:
        """Ends the links."""
        with self.worker.lock:
            self.worker.beside, self.worker.freed = None, repr
            for timer in (self._awaits, self._ends):
                if timer is not None:
                    timer.cancel()
            for sock in self._coming:
                sock.close()
            for link in list(self._links):
                self._gone(link)
            self._listener.close()
            self.watch.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    # ---- links

    def wait(self, unless: Callable[[], Any], seconds: float | None = None) -> None:
        """Waits for calls, and takes them; for the main thread.

        It does not wait when something is so: the helper may have taken it since the main thread looked.
        """
        with self.worker.lock:
            if unless():
                return
            self.flush()
            self.idle = True
        ready = self.watch.wait(seconds)
        with self.worker.lock:
            self.idle = False
            self.watch.handle(ready)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.worker.woken)

    def _accept(self) -> None:
        sock = accept(self._listener)
        if sock is not None:  # one of another host may take its time
            self._coming.add(sock)
            self.watch.also(sock.fileno(), lambda: self._greet(sock))

    def _greet(self, sock: socket.socket) -> None:
        self._coming.discard(sock)
        self.watch.forget(sock.fileno())
        try:
            link = answer(sock, f"actor-{os.getpid()}")
        except LinkError:  # one that is no caller
            return
        self._links.add(link)
        self.watch.add(link, lambda: self._take(link))

    def _take(self, link: DirectLink) -> None:
        """Takes what came over a link."""
        try:
            while (received := link.receive()) is not None:
                number, fields = msgpack.unpackb(received[0], unicode_errors="surrogateescape", strict_map_key=False)[:2]
                if number == CALLS:
                    for name, _, class_, method, args, *life in fields[0]:
                        self._lines[name[0]] = link
                        job = Job(link, tuple(name), class_ or method, args, bool(class_), life[0] if life else None)
                        self.open[job.name] = job
                        self._queue(job)
                elif number == DROP:
                    self._drop(fields)
                else:
                    raise LinkError(f"a caller sent message {number}")
            self.watch.look(link)  # the handshake has an answer
            if link.closed_by_peer is not None:
                raise LinkError("the caller has ended the link")
        except (LinkError, ValueError, TypeError) as e:
            self._gone(link)
            self._perhaps_over(f"its caller is gone: {e}")

    def _queue(self, job: Job) -> None:
        """Has a call run; before the actor is made it waits: a finder may be here before the maker."""
        if self._made:
            self.runner.take(job)
        elif not job.making:
            self._early.append(job)
            self._await_maker()
        else:
            self._made = True
            if self._awaits is not None:
                self._awaits.cancel()
                self._awaits = None
            early, self._early = self._early, []
            for one in (job, *early):
                if one.name in self.open:
                    self.runner.take(one)
            if self._doomed is not None:
                self._kill(self._doomed)

    def _await_maker(self) -> None:
        if self._awaits is None:
            self._awaits = threading.Timer(MAKER_DUE, self._unmade)
            self._awaits.daemon = True
            self._awaits.start()

    def _unmade(self) -> None:
        with self.worker.lock:
            if not self._made:
                self.over = self.over or "the task that was to make it has ended"
        self.wake()

    def _gone(self, link: DirectLink) -> None:
        self._links.discard(link)
        self._answers.pop(link, None)
        lost = {handle for handle, of in self._lines.items() if of is link}
        self._lines = {handle: of for handle, of in self._lines.items() if of is not link}
        for job in [job for job in self.open.values() if job.name[0] in lost]:  # those of lines that were left run
            self.runner.cancel(job, "its caller is gone")
        self.watch.remove(link)
        link.abandon()

    def _drop(self, fields: Sequence[Any]) -> None:
        killed, handles, calls, why, *more = fields
        self._shared = self._shared or bool(more and more[0])
        for name in calls:
            if (job := self.open.get(tuple(name))) is not None:
                self.runner.cancel(job, why)
        for handle in handles:
            self._lines.pop(handle, None)
        if killed:
            self._kill(f"it was killed: {why}" if why else "it was killed")
        self._perhaps_over(why)

    def _kill(self, why: str) -> None:
        """Ends the actor at once, also in the midst of a method."""
        if not self._made:
            self._doomed = why
            self._await_maker()
        elif not self.over:
            self.over = why
            self._interrupt()

    def _interrupt(self) -> None:
        """Ends the method that runs: its answer is for no caller."""
        if not self.runs or self._ends is not None:
            return
        self._ends = threading.Timer(LAST_WORDS, os._exit, (1,))
        self._ends.daemon = True
        self._ends.start()
        self._tell_end()
        self.run.stopped = self.run.stopped or Stopped(m.CANCELLED, self.over)

    def _free(self, message: m.ActorFreed) -> None:
        """No value refers to it any more, and no task that has found a handle in one."""
        if message.run != self.run.id:  # of an actor that was in this process before
            return
        self._freed = True
        if self._made:
            self._perhaps_over("no handle of it is left")

    def _perhaps_over(self, why: str) -> None:
        """The actor ends behind the calls of its last line, if no value refers to it."""
        if not self._lines and not self.open and self._awaits is None and (self._freed or not self._shared):
            self.over = self.over or why
            self._interrupt()

    # ---- calls

    def method(self, text: str) -> Method:
        """A method by what a message calls it."""
        found = self._methods.get(text)
        if found is None:
            found = self._methods[text] = Method(self._class, self.actor, Said(text))
        return found

    def title(self, job: Job | None) -> str:
        """What errors call a call."""
        name = "actor" if self._class is None else self._class.__name__
        return name if job is None or job.making else f"{name}.{job.text.partition('?')[0]}"

    def arguments(self, job: Job, named: list[str], wants: tuple[list[Any], dict[str, Any]]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, by place and by name."""
        first = len(job.args) - len(named)
        by_place, by_name = wants
        values = []
        for i, d in enumerate(job.args):
            want = by_name.get(named[i - first]) if i >= first else by_place[i] if i < len(by_place) else None
            try:
                values.append(decode(d[2], d[3], d[4], d[7][1], want))
            except Exception as e:
                what = named[i - first] if i >= first else str(i + 1)
                raise KindError(m.INPUT, f"argument {what}: {type(e).__name__}: {e}") from None
        job.args = []
        return values[:first], dict(zip(named, values[first:], strict=True))

    def make(self, job: Job) -> None:
        """Makes the actor."""
        said = Said(job.text)
        if said.code:
            from .. import byvalue

            data = job.args.pop(0)
            try:
                self._class = byvalue.function(said.name, said.code, lambda: data[7][1])
            except byvalue.NotLoaded as e:
                raise SetupError(str(e), e.stack) from None
        else:
            self._class = resolve(said.name)
        given, named = self.arguments(job, said.named, _wants(self._class))
        make = functools.partial(self._class, *given, **named)
        if job.life is not None:
            every, exact, state = job.life
            if exact:
                self.worker.own_calls("run an actor").alone = ALONE
            if every:
                self.saves = Saves(every)
            if state is not None:
                make = functools.partial(restored, self._class, state[0])
        if any(is_async(f) for _, f in inspect.getmembers(self._class, callable)):
            loop = Loop(self, said.concurrency, said.groups)
            self.actor = loop.made(make)
            self.runner = loop
            return
        self.actor = self.worker.inside(make)
        if said.concurrency > 1 or said.groups:
            self.runner = Threads(self, said.concurrency, said.groups)

    def unmade(self, error: m.TaskError) -> m.TaskError:
        """The constructor has failed: the error of all calls."""
        self.failed = error._replace(message=f"the constructor failed: {error.message}", codes=[*error.codes, DEAD])
        self.over = "its constructor failed"
        return self.failed

    def group(self, job: Job) -> str:
        """The group of methods of a call: of the call, else of the method; "" for those of none."""
        said = Said(job.text)
        return said.group

    def no_group(self, job: Job, group: str, groups: list[str]) -> m.TaskError:
        """Refuses a call of a group that there is not."""
        known = ", ".join(g for g in groups if g) or "none"
        return m.TaskError(m.SETUP, f"there is no concurrency group {group}: the actor has {known}", task=self.title(job))

    def nothing(self, job: Job) -> list[bytes]:
        """What a method has returned that has ended its actor."""
        if job.making:
            return []
        return [_packed("", None, 0)] * self.method(job.text).said.returns

    def perform(self, job: Job, method: Method) -> list[bytes]:
        """Calls a method and returns what is to be told of it."""
        given, named = self.arguments(job, method.said.named, method.wants)
        value = method.call(*given, **named)
        del given, named
        if method.stream:
            n = 0
            for one in value:
                n += 1
                self.element(job, method, n, one)
            return []
        return self.outputs(method, value)

    def element(self, job: Job, method: Method, n: int, value: Any) -> None:
        """Sends an element of a series."""
        item = [_packed(method.name, value, n)]
        with self.worker.lock:
            self.tell(job, item, None)
            self.flush()

    def outputs(self, method: Method, value: Any) -> list[bytes]:
        """What a method has returned, as it stands in a message."""
        refuse_lazy(method.name, value)
        if method.said.returns == 1:
            return [_packed(method.name, value, 0)]
        names = [f"value {i + 1}" for i in range(method.said.returns)]
        return [_packed(method.name, v, 0) for v in split(value, names, "return")] if names else []

    def failure(self, job: Job, error: BaseException) -> m.TaskError:
        """What its caller gets of an exception."""
        if isinstance(error, asyncio.CancelledError) and self.run.stopped is None:
            return m.TaskError(m.CANCELLED, str(error) or "it was cancelled", task=self.title(job))
        return failure(self.worker, self.run, error)._replace(task=self.title(job), attempt=0, log_tail=b"")

    # ---- answers

    def tell(self, job: Job, outputs: list[bytes], error: m.TaskError | None, state: bytes | None = None) -> None:
        """Queues an answer. The lock is held."""
        if job.link in self._links:
            self._answers.setdefault(job.link, []).append(_answer(job.name, outputs, error, state=state))
            self._count += 1

    def end(self, job: Job, outputs: list[bytes], error: m.TaskError | None, state: bytes | None = None) -> None:
        """Answers a call, once, with the state of the actor behind it perhaps."""
        if os.getpid() != self._process:
            os._exit(1)  # a method has forked, and its child has returned here
        with self.worker.lock:
            if self.open.pop(job.name, None) is not None:
                self.tell(job, outputs, error, state)
            self._perhaps_over("no handle of it is left")

    def perhaps_flush(self, took: int) -> None:
        """Sends the answers, unless the next will be there soon."""
        if took > QUICK or self._count >= MANY:
            with self.worker.lock:
                self.flush()
        elif self._count and self.worker.naps:
            self.worker.naps = False
            self.worker.nudge()  # the next method may take its time

    def flush(self) -> None:
        """Sends the answers. The lock is held."""
        if not self._count:
            return
        self._count = 0
        answers, self._answers = self._answers, {}
        for link, items in answers.items():
            with contextlib.suppress(LinkError):  # it is found broken when it is read
                link.send(b"".join((b"\x92", _HEAD, b"\x91\xdd", len(items).to_bytes(4, "big"), *items)))
                self.watch.look(link)

    def wake(self) -> None:
        """Has the main thread look at what has changed."""
        os.eventfd_write(self.worker.woken, 1)

    def beside(self) -> bool | None:
        """Reads and writes while a method runs in the main thread: the helper does it.

        It tells whether it is to be done again soon; None when no method runs.
        """
        with self.worker.lock:
            if self.idle or self.worker.beside is None:  # or it has ended just now
                return None
            waits = self._count > 0
            self.flush()
            woken = self.worker.woken  # which is for the main thread
            self.watch.handle([r for r in self.watch.wait(0) if r[0] != woken])
            return waits

    def _finish(self) -> None:
        """Tells that the actor has ended, and waits until its callers have been sent that."""
        with self.worker.lock:
            self._tell_end()
        until = time.monotonic() + LAST_WORDS
        while not self._all_left() and (left := until - time.monotonic()) > 0:
            self.worker.check(self.run)
            self.wait(self._all_left, left)

    def _tell_end(self) -> None:
        """Answers what is open, and tells that the actor has ended. The lock is held."""
        dead = self.failed or m.TaskError(m.TASK, f"the actor has ended: {self.over}", [DEAD], task=self.title(None))
        for job in list(self.open.values()):
            self.end(job, [], dead)
        for link in self._links:
            self._answers.setdefault(link, []).append(_answer((0, 0), [], dead, 1))
            self._count += 1
        self.flush()

    def _all_left(self) -> bool:
        return not any(link.waits for link in self._links)


def _answer(
    name: tuple[int, int], outputs: list[bytes], error: m.TaskError | None, actor: int = 0, state: bytes | None = None
) -> bytes:
    failed = b"\xc0" if error is None else msgpack.packb(error, unicode_errors=ERRORS)
    head = bytes((0x90 | len(outputs),)) if len(outputs) < 16 else b"\xdc" + len(outputs).to_bytes(2, "big")
    fields, saved = (b"\x94", b"") if state is None else (b"\x95", msgpack.packb((state,)))
    return b"".join((fields, msgpack.packb(name), msgpack.packb(actor), head, *outputs, failed, saved))


def _packed(name: str, value: Any, element: int) -> bytes:
    """What a method returns or yields, as it stands in a message."""
    d = described(value, element)
    if d[5] > MOST_BYTES:
        raise ValueError(f"{name} gives {d[5]} bytes, and a method may give {MOST_BYTES}")
    return msgpack.packb(d, unicode_errors=ERRORS)  # type: ignore[no-any-return]


def _wants(f: Any) -> tuple[list[Any], dict[str, Any]]:
    """The annotations of parameters, by place and by name."""
    hints = hints_of(f if not inspect.isclass(f) else f.__init__)
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [], hints
    return [hints.get(p.name) for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)], hints


def leave() -> None:
    """Ends the actor whose method calls it."""
    if not getattr(getattr(context._host, "beside", None), "__self__", None):
        raise RuntimeError("exit_actor: only a method of an actor can end it so: another ends it with cascade.kill")
    raise Exit


def _asked_at(worker: Any, run: Run) -> str:
    """Where others ask for a way to this host, behind a space; "": its agent leads none here."""
    asked = reach.ask(worker, "", "", "")
    worker.aside(lambda _: worker.until(asked.came.is_set, lambda: worker.check(run)))
    return "" if asked.answer is None or asked.answer.error else " " + asked.answer.address


def serve(keeps: bool) -> Iterator[str]:
    """Yields the address of an actor, and goes on until it has ended. With keeps it does not release its cores."""
    worker: Any = context._host
    run = getattr(worker, "current", None)
    if run is None or not getattr(worker, "granted", False):
        raise RuntimeError("an actor needs an agent: it is made by cascade.remote of a class")
    if run.attempt & 0xFFFF > 1:  # of an agent that is older than stateful calls
        raise context.ActorDiedError("its process has died, and its state with it", [DEAD])
    host = ActorHost(worker, run)
    calls = worker.own_calls("run an actor")
    calls.not_repeatable()
    try:
        yield "ipc://" + host.path + _asked_at(worker, run)
        if not keeps:
            calls.awaiting(1)
        worker.aside(lambda _: host.live())
    finally:
        host.close()
