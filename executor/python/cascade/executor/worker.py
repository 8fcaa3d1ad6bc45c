"""The executor: it takes runs from the agent, calls their functions, and reports what became of them.

    agent ──Kind, Segment, Dispatch, Cancel, Credit, Lease──▶ pump ──▶ queue ──▶ main thread: inputs ▶ function ▶ outputs
          ◀──Report, Log, Reclaimed, LeaseReq────────────────────────────────────────┘
                                                                 helper thread: runs that take their time

The main thread runs the tasks and, between them, reads the link itself: a short task costs no change of threads. The
helper looks every 2 ms whether a run takes longer. While one does, the helper reads the link, tells the agent that the
run has started, samples memory, passes on what was printed, and interrupts the run when it is cancelled or its time is
up. One lock guards all that both use; it is never held while a task's function runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from .. import __version__, context
from ..wire import codec
from ..wire import messages as m
from ..wire.direct import Watch
from ..wire.envelope import LinkError
from ..wire.pipes import connect, poll_of
from . import reach
from .calls import Calls
from .code import Code
from .leftover import Leftover
from .logs import Logs
from .memory import ControlPage
from .outcome import failure, leads_to
from .outputs import Memory
from .queue import LiveValue, PreparedKind, Queue, Run, Stopped
from .reports import Reports
from .state import State, limit_threads, setenv
from .usage import UsageMeter

MAX_HEAD = 512 << 20  # of a message from the agent
REPORT_AGE = 200_000  # ns that a finished run waits for others to join its report
STARTED_AFTER = 2_000_000  # ns after which a run is reported as started
SAMPLE_EVERY = 25_000_000  # ns between samples of a run's private memory
QUICK = 100_000  # ns: runs that take less do not delay reports
LONG = 1_000_000_000  # ns after which a run is no reason to put anything off
LINGER = 50_000_000  # ns after the last run for which the helper goes on looking
NAP = 250  # ms after which the helper looks at a run that rests
IDLE_LEASE = 1000  # ms without work after which the standing lease is returned
INTERRUPT_EVERY = 100_000_000  # ns between interrupts of a run that does not clean up
NOT_HERE = (
    "{}: only the thread in which the task's function runs can do that, or another one in a block `with cascade.strand(NAME):`"
)
_SIGNAL = signal.SIGRTMIN + 5  # interrupts the main thread


class Worker:
    """Runs tasks for one agent; run() is called by the main thread."""

    granted = True

    def __init__(self, address: str, token: str, pipes: bool, words: str = "", code: str = "", debug: bool = False) -> None:
        """Connects to the agent, which may take a link over pipes, and holds pipes of what tasks print in the folder words.

        code names the folders of the job's files, with colons between.
        With debug functions run under pdb, on a terminal.
        """
        self.lock = threading.RLock()
        self._news = threading.Condition(self.lock)  # something was taken: for threads of the task's
        self._resting = 0  # how many wait for it
        self._waits = False  # the main thread reads the link, and is in no need of the helper
        self._watches = False  # the helper does so
        self.watch = Watch()
        self.beside: Callable[[], bool | None] | None = None  # of a run: done while it is at work; whether soon again, None: it rests
        self.freed: Callable[[m.ActorFreed], object] = repr  # of an actor: no value refers to it any more
        self.naps = False  # the helper sleeps for a while, as the run rests
        self.queue = Queue()
        self.kinds: dict[int, PreparedKind] = {}
        self.current: Run | None = None
        self.over = False  # end now
        self._debug = debug
        self.code = Code(code)
        self._last = False  # end when the queue is empty
        self.welcome = m.Welcome()
        self.control: ControlPage | None = None
        self.memory = Memory(self)
        self.calls: Calls | None = None  # of the current run
        self.logs = Logs(self._log, words)
        self._usage = UsageMeter()
        self._leftover = Leftover(self._usage.private)
        self._reports = Reports()
        self._job = b""  # of the last run
        self._unseen = False  # it took little time, and not all that it may have changed was looked at
        self._bounded = False  # the threads of libraries
        self._given: dict[str, str | None] = {}  # variables of the current run, as they were before
        self._in_function = False  # the main thread may be interrupted
        self._ended = 0  # when the last run ended
        self._helper_sleeps = False
        self._looks_soon = False  # it does within 2 ms
        self._made = 0  # calls that there were when it looked
        self._wake_main, self._wake_helper = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
        self.link = connect(address, pipes, MAX_HEAD, self._broken)
        self._poll = poll_of(self._wake_main, self.link.fd, self.watch.fd)
        self._main = threading.get_ident()
        self.send(m.Hello(os.getpid(), token, __version__, "python", [("*", "")]))

    # ---- the link

    def _broken(self) -> None:
        """The agent is gone; an executor never outlives its link."""
        os._exit(1)

    def send(self, message: codec.Message) -> None:
        """Sends a message behind everything that was reported before."""
        with self.lock:
            self._flush_items()
            self.link.send(codec.encode(message))

    def _log(self, run: int, stream: int, text: bytes) -> None:
        self.send(m.Log(run, stream, text))

    def pump(self) -> bool:
        """Takes all messages that are there."""
        with self.lock:
            some = False
            while (message := self.link.receive()) is not None:
                some = True
                decoded = codec.decode(message[0])
                if decoded is not None:
                    self._handle(decoded)
            if self.watch and self.watch.take():
                some = True
            if self.link.closed_by_peer is not None:
                self.over = True
            if some and self._resting:
                self._news.notify_all()
            if some and not self.in_main():
                os.eventfd_write(self._wake_main, 1)
            return some

    def _handle(self, message: Any) -> None:
        match message:
            case m.Dispatch():
                for run in message.runs:
                    self.queue.push(run, self.kinds)
            case m.Kind():
                if message.close:
                    self.kinds.pop(message.id, None)
                else:
                    if not self._bounded:
                        self._bounded = True
                        limit_threads(message.resources.cpu)
                        self._state.adopt({})
                    self.kinds[message.id] = PreparedKind(message)
            case m.Segment() | m.Lease():
                self.memory.told(message)
            case m.Cancel():
                self._cancel(message)
            case m.CallEnds() | m.CallGo():
                calls = self.calls
                if calls is not None and calls.run.id == message.run:
                    calls.ends(message) if isinstance(message, m.CallEnds) else calls.go(message)
            case m.Reached():
                reach.told(message)
            case m.ActorFreed():
                self.freed(message)
            case m.Credit():
                to = self._find(message.run)
                if to is not None:
                    to.credit[message.output] = to.credit.get(message.output, 0) + message.n
            case m.Reclaim():
                self.send(m.Reclaimed(self.queue.reclaim(list(message.runs))))
            case m.Stop():
                self._last = True
                self.over = self.over or message.now
            case m.Welcome():
                self.welcome = message
                if message.control_page:
                    self.control = ControlPage(message.control_page)
            case _:
                raise LinkError(f"the agent sent {type(message).__name__}")

    def _find(self, number: int) -> Run | None:
        if self.current is not None and self.current.id == number:
            return self.current
        path = self.queue.find(number)
        return None if path is None else path.head

    def _cancel(self, message: m.Cancel) -> None:
        run = self.current
        if run is not None and run.id == message.run:
            run.stopped = run.stopped or Stopped(message.why, message.text)
            return
        run = self.queue.remove(message.run)
        if run is not None:
            self._reports.add(m.ReportItem(m.FAILED, run.id, time.time_ns(),
                                   error=self.error(run, message.why, message.text)))  # fmt: skip

    # ---- reports

    def add(self, item: m.ReportItem) -> None:
        """Queues something that happened. It leaves with the next flush."""
        with self.lock:
            self._reports.add(item)

    def _flush_items(self) -> None:
        for report in self._reports.take():
            self.link.send(codec.encode(report))

    def flush(self) -> None:
        """Sends what waits, and takes what came: sending may have taken its notice away."""
        with self.lock:
            self._flush_items()
            self.pump()

    def error(self, run: Run, kind: int, message: str, codes: Any = (), stack: str = "") -> m.TaskError:
        """An error with who and where. People see which try an attempt is: its lower half."""
        w, tail = self.welcome, self.logs.tail() if run is self.current else b""
        message, stack = _clip(self.code.named(message)), _clip(self.code.named(stack))
        return m.TaskError(kind, message, codes, stack, run.title(), run.attempt & 0xFFFF, w.agent, w.executor, log_tail=tail)

    # ---- the main thread

    def run(self) -> None:
        """Runs what the agent dispatches until it says Stop."""
        signal.signal(_SIGNAL, self._interrupted)
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to the whole group: it is the agent's
        context._serve(self)
        if not self._debug:
            self.logs.replace_standard_streams()
        self._state = State(_SIGNAL)
        threading.Thread(target=self._help, name="cascade-helper", daemon=True).start()
        while (run := self._next()) is not None:
            self._execute(run)
        self.memory.return_standing()
        self.flush()
        self.link.close()

    def _next(self) -> Run | None:
        """The next run, None at the end. Reports leave before it waits."""
        while True:
            back: list[int] = []
            with self.lock:
                if self.over:
                    return None
                if self._leftover.leaving:
                    back = self.queue.reclaim(self.queue.whole())
                run = self.queue.pop(back)
                if back:
                    self.send(m.Reclaimed(back))
                if run is None and self._leftover.leaving:
                    return None
                if self.memory.return_wanted:
                    self.memory.return_standing()
                if run is not None:
                    if self._reports and not run.kind.quick:
                        self.flush()
                    if self._helper_sleeps:
                        self._helper_sleeps = False
                        os.eventfd_write(self._wake_helper, 1)
                    return run
                self._flush_items()
                if self.link.edge:
                    self.pump()  # before it waits: see flush
                if self.queue or self.over:
                    continue
                if self._last:
                    return None
            self._usage.pause()
            if not self.wait(IDLE_LEASE if self.memory.standing is not None else None):
                self.memory.return_standing()

    def wait(self, timeout: int | None = None) -> bool:
        """Waits for messages, timeout ms at most, and takes them; for the main thread."""
        if not self.in_main():
            with self.lock:
                self.rest(0.05)  # what it waits for may have been taken just now
            return True
        self._waits = True
        ready = self._poll.poll(timeout)
        self._waits = False
        for fd, _ in ready:
            if fd == self._wake_main:
                os.eventfd_read(fd)
        self.pump()
        if self._resting:
            self._watch()
        return bool(ready)

    def until(self, there: Callable[[], bool], each: Callable[[], None]) -> None:
        """Waits for messages until something is so."""
        while not there():
            each()
            self.wait()

    def check(self, run: Run) -> None:
        """Raises Stopped when a run must not go on."""
        if run.stopped is not None:
            raise run.stopped
        if self.over:
            raise Stopped(m.CRASH, "its executor had to end")

    def _execute(self, run: Run) -> None:
        """Performs one run and answers for it."""
        run.began = time.perf_counter_ns()
        run.start = time.time_ns()
        self._usage.begin()
        if self.control is not None:
            self.control.begin(run.id, run.attempt)
        self.logs.run = run.id
        self.current = run
        outputs: list[m.Desc] = []
        counts: list[m.StreamEnd] = []
        error: m.TaskError | None = None
        first = run.kind.function is None  # it is imported, and the state of the process then is kept
        if self._unseen and (first or run.kind.m.job != self._job):
            self._restore()
        self._job = run.kind.m.job
        self._given = setenv(run.env) if run.env else {}
        self._context = self._state.context()
        try:
            self.memory.perform(run, outputs, counts)
            if self.calls is not None:
                self.calls.settle()
            if run.stopped is not None:
                raise run.stopped
        except BaseException as e:
            error = failure(self, run, e)
            outputs, counts = [], []
        deep = first or run.kind.restless or time.perf_counter_ns() - run.began > QUICK
        self._unseen = not deep
        if deep or not self._state.untouched():
            run.kind.restless = self._restore() or run.kind.restless
        self._settle(run, outputs, counts, error)

    def _restore(self) -> bool:
        """Has the process be as it was, or leave; it tells whether it was not."""
        differed, whole = self._state.restore()
        if not whole:
            self._leftover.leaving = True
        return differed

    def imported(self) -> None:
        """A function's module was imported: what it has set belongs to the process."""
        self._state.adopt(self._given)
        self._context = self._state.context()

    def _settle(self, run: Run, outputs: list[m.Desc], counts: list[m.StreamEnd], error: m.TaskError | None) -> None:
        """Lets go of a run's memory and reports its end."""
        logs, memory = self.logs, self.memory
        if logs.dirty:
            logs.end()
        logs.run = 0
        done: list[LiveValue] = []
        if run.inputs:
            with self.lock:
                done = self.queue.forget(run)
        with memory.making:
            if self.calls is not None:
                self.calls.end()
            if run.maps or run.rooms or done:
                run.copied += memory.release(run, done)
        with self.lock:
            self.current = None
            self.calls = None  # with it: what is told later is of no run
            if self._resting:
                self._news.notify_all()
            now = time.perf_counter_ns()
            took = now - run.began
            run.kind.quick = took < QUICK
            usage = (run.start, took, self._usage.cpu(took), self._usage.peak(run.peak, now), run.bytes_in, run.bytes_out, run.copied)
            self._ended = now
            if error is None and not outputs and not counts and run.device is None:
                self._reports.ended(run.id, usage, now)
            else:
                item = m.ReportItem(m.FINISHED if error is None else m.FAILED, run.id, run.start + took,
                                    outputs, counts, m.Usage(*usage, run.device), error)  # fmt: skip
                self._reports.add(item)
            if run.regions:
                memory.return_regions(run)
            if now - self._reports.since > REPORT_AGE:
                self.flush()
        self._leftover.look(self._usage.sample)

    def call(self, function: Any, /, *args: Any, **named: Any) -> Any:
        """Calls a function of the task's; it can be interrupted meanwhile."""
        self._in_function = True
        try:
            if self._debug:
                from . import debug  # loads what only a debugger needs

                return self._context.run(debug.call, function, *args, **named)
            return self._context.run(function, *args, **named)
        finally:
            self._in_function = False

    def _interrupted(self, *_: Any) -> None:
        run = self.current
        if self._in_function and run is not None and run.stopped is not None and not self.lock._is_owned():  # type: ignore[attr-defined]
            raise context.Cancelled(str(run.stopped))

    # ---- for the task's function

    def task(self) -> context.Task:
        """The task that runs."""
        run = self.current
        if run is None:
            return context.Task()
        kind, w = run.kind.m, self.welcome
        r = kind.resources
        title = run.title()
        return context.Task(title, kind.group or title.partition("[")[0], str(uuid.UUID(bytes=kind.job)), run.attempt & 0xFFFF, w.agent,
                            r.cpu / 1000, r.memory, r.gpu / 1000, kind.dir, w.scratch)  # fmt: skip

    def empty(self, size: int) -> Any:
        """Room for an output in the store; None when it is too small to be worth it."""
        with self.memory.making:
            return self.aside(lambda run: self.memory.room(run, size))

    def own_calls(self, what: str, fresh: bool = False) -> Calls:
        """The calls of the task that runs. Another thread has them in a strand, or (fresh) to begin one."""
        strand = context._strand.get()
        if not self.in_main() and strand is not None:
            return strand.calls  # type: ignore[no-any-return]
        if (calls := self.calls) is not None and self.in_main():
            return calls
        with self.lock:
            if self.current is None or not (fresh or self.in_main()):
                raise RuntimeError(NOT_HERE.format(what))
            if self.calls is None:
                self.calls = Calls(self, self.memory, self.current)
            return self.calls

    def mine(self, calls: Calls, what: str, do: Callable[[], Any]) -> Any:
        """Does something for the function of a run, in its thread or in one of its strands."""
        if self.current is not calls.run:
            raise self.gone(what)
        if self.in_main():
            return self.aside(lambda _: (do(),))[0]
        strand = context._strand.get()
        if strand is None or strand.calls is not calls:
            raise RuntimeError(NOT_HERE.format(what))
        try:
            return do()
        except Stopped as e:
            raise context.Cancelled(str(e)) from None

    def finds(self, module: str) -> bool:
        """Hosts of calls have the environment of this process."""
        return True

    def gone(self, what: str) -> Exception:
        """What is said of a run that has ended."""
        return RuntimeError(f"{what}: the task that called it has ended")

    def in_main(self) -> bool:
        """Whether the caller is the main thread."""
        return threading.get_ident() == self._main

    def rest(self, seconds: float | None) -> None:
        """Waits for messages in another thread, which has the lock."""
        self._resting += 1
        self._watch()
        try:
            self._news.wait(seconds)
        finally:
            self._resting -= 1

    def _watch(self) -> None:
        """Has the helper read the link: a thread waits, and the main thread does something else."""
        if not self._watches:
            os.eventfd_write(self._wake_helper, 1)

    def soon(self) -> None:
        """Has the helper send the calls that were made, if the main thread goes on with something else. The lock is held."""
        if not self._looks_soon:
            self._looks_soon = True
            os.eventfd_write(self._wake_helper, 1)

    def tell(self) -> None:
        """Has threads that wait look at what is new. The lock is held."""
        self._news.notify_all()
        if not self.in_main():
            os.eventfd_write(self._wake_main, 1)

    def nudge(self) -> None:
        """Has the helper look at what is to be sent."""
        os.eventfd_write(self._wake_helper, 1)

    def inside(self, function: Any, /, *args: Any, **named: Any) -> Any:
        """Calls a function of the task's within aside: it can be interrupted meanwhile."""
        before, self._in_function = self._in_function, True
        try:
            return function(*args, **named)
        finally:
            self._in_function = before

    def leave(self) -> None:
        """Has the process end after its run: something of it cannot be undone."""
        self._leftover.leaving = True

    @property
    def woken(self) -> int:
        """A descriptor that is readable when messages were taken in another thread than the main one."""
        return self._wake_main

    def aside(self, do: Callable[[Run], Any]) -> Any:
        """Does something for the task's function, which is not interrupted meanwhile; None in threads of its own."""
        run = self.current
        if run is None or threading.get_ident() != self._main:
            return None
        inside, self._in_function = self._in_function, False
        try:
            return do(run)
        except Stopped as e:
            raise context.Cancelled(str(e)) from None
        finally:
            self._in_function = inside

    # ---- the helper thread

    def _help(self) -> None:
        asleep = poll_of(self._wake_helper)
        awake = poll_of(self._wake_helper, self.link.fd, self.watch.fd)
        while True:
            run = self.current
            now = time.perf_counter_ns()
            if run is None:
                if now - self._ended > LINGER:
                    with self.lock:
                        self._helper_sleeps = self.current is None and not self.queue
                    self.memory.aside.clear()
                    timeout = None if self._helper_sleeps else 2
                else:
                    timeout = 2
                poll = asleep
            else:
                poll, timeout = self._look(run, now, asleep, awake)
            for fd, _ in poll.poll(timeout):
                if fd == self._wake_helper:
                    os.eventfd_read(fd)

    def _cleans_up(self) -> bool:
        """Whether the function is in a block (except, finally, with) through which the interrupt passes; not when it has kept it."""
        handled: Any = sys._current_exceptions().get(self._main)
        return leads_to(handled[1] if isinstance(handled, tuple) else handled, context.Cancelled)  # a tuple up to Python 3.11

    def _look(self, run: Run, now: int, asleep: Any, awake: Any) -> tuple[Any, int]:
        """Looks after a run that is at work; it returns for what to wait next, and how long."""
        age = now - run.began
        calling = False
        with self.lock:
            self._watches = False
            if (calls := self.calls) is not None:
                calls.flush()
                calling, self._made = calls.made != self._made, calls.made
            self._looks_soon = calling
        if age < STARTED_AFTER or run.began == 0:
            return asleep, 2
        with self.lock:
            if self.current is not run:
                return asleep, 2
            if not run.told:
                run.told = True
                self._reports.add(m.ReportItem(m.STARTED, run.id, run.start))
            self._flush_items()
            self.pump()
            if run.deadline and now > run.deadline and run.stopped is None:
                run.stopped = Stopped(m.TIMEOUT, f"it ran longer than its timeout of {run.kind.m.timeout / 1e9:g} s")
                os.eventfd_write(self._wake_main, 1)
                self._news.notify_all()
            stop = (run.stopped is not None or self.over) and now - run.interrupted > INTERRUPT_EVERY and not self._cleans_up()
            if stop:
                run.interrupted = now
        if stop:
            signal.pthread_kill(self._main, _SIGNAL)
        if now - run.sampled > SAMPLE_EVERY:
            run.sampled = now
            run.peak = max(run.peak, self._usage.private())
        rests = False
        if (beside := self.beside) is not None:
            soon = beside()
            calling, rests = calling or bool(soon), soon is None
        if self.logs.dirty:
            self.logs.flush()
        if age > LONG:
            self.memory.aside.clear()
        if calling:  # with more calls to come: this costs less than to be woken by each, and by each answer
            return asleep, 2
        left = NAP if not run.deadline or run.stopped is not None else (run.deadline - now) // 1_000_000 + 1
        self._watches = self._resting > 0 or not self._waits
        self.naps = rests and run.stopped is None
        return awake if self._watches else asleep, max(1, min(NAP if self.naps else 25, left))


def _clip(text: str) -> str:
    return text if len(text) <= 16 << 10 else text[: 16 << 10] + " [...]"
