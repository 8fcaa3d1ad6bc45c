"""What becomes of the calls of a run: how they end, waiting for that, and their results.

CallEnds ──▶ State ──▶ Waiter, Collector, listeners       CallRead ──▶ memory ──▶ value
a thread waits ──CallWait──▶ agent ──CallGo──▶            between the two the run needs no core
"""

from __future__ import annotations

import queue
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import checks
from ..context import CallFailed, Cancelled, Future, strand
from ..wire import messages as m
from ..wire.envelope import LinkError
from ..wire.text import valid
from .futures import Called, Collector, State, Waiter, call_of
from .queue import Run
from .raised import raised

if TYPE_CHECKING:
    import mmap

    from .host import Host
    from .outputs import Memory

LOOK_AFTER = 86400.0  # s after which a wait looks at the time again: clocks take no longer ones
DIRECT_WAIT = 0.002  # s for which a run that waits for actors keeps its core
LOST = m.CallEnd(error=m.TaskError(m.STORE, "another thread could not read it"))
_Key = tuple[m.CallRef, int, int]  # a dataset: call, output and element


class Waits:
    """The ends and results of the calls of a run. The lock of its host guards them: threads of the run use them too."""

    def __init__(self, worker: Host, memory: Memory, run: Run) -> None:
        self._worker, self._memory, self.run = worker, memory, run
        self._states: dict[m.CallRef, State] = {}
        self._seen = self._ended = 0  # items of CallEnds, calls that have ended
        self._waiting = False  # the last CallWait is not answered, and a thread waits
        self._wait = 0  # its number
        self._refusals: list[m.TaskError] = []  # of waits
        self._waiters: list[Waiter | Collector] = []
        self._blocked = 0  # threads that wait
        self._outside = 0  # of them, those that wait for actors
        self._reads: dict[_Key, m.CallEnd | None] = {}
        self.released: deque[State] = deque()  # of Futures and views that are gone
        self._views: dict[int, Any] = {}  # weak references to mappings of results
        self._calling = 0  # the thread of callbacks, while it has some: what they call is sent behind the last of them
        self._later: queue.SimpleQueue[Callable[[], Any] | None] | None = None  # callbacks that a thread of theirs calls
        self._awaits = 0  # of coroutines and callbacks
        self._accompanied = False  # a thread waits for them

    def flush(self) -> None:
        """Sends the calls that were made, and then which are needed no more. The lock is held."""
        raise NotImplementedError

    def borrow(self, given: m.CallInput) -> Future:
        """A future of what a value refers to that the run has."""
        raise NotImplementedError

    def _mine(self, what: str, do: Callable[[], Any]) -> Any:
        """Does something for the program, or for the function of the run, in a thread that may do it."""
        return self._worker.mine(self, what, do)

    def _runs(self, what: str) -> None:
        """Refuses to store and load for a run that has ended. Whoever has Memory.making keeps its end from coming between."""
        if self._worker.current is not self.run:
            raise self._worker.gone(what)

    @property
    def keeps(self) -> bool:
        """Whether there are calls or values that may be let go at any time, of which the agent is to be told."""
        return bool(self._states)

    def _gone(self) -> list[m.CallRef]:
        """The calls of which neither a Future nor a view is left."""
        refs = []
        while self.released:
            state = self.released.popleft()
            state.holds -= 1
            if state.holds == 0 and self._states.pop(state.ref, None) is not None:
                if state.direct:
                    continue
                refs.append(state.ref)
                if self._reads:
                    for key in [k for k in self._reads if k[0] == state.ref]:
                        del self._reads[key]
        return refs

    # ---- what the agent tells

    def ends(self, message: m.CallEnds) -> None:
        """Takes what became of calls. The lock is held."""
        for e in message.ends:
            self._seen += 1
            if e.read:
                self._read(e)
                continue
            state = self._states.get(e.ref)
            if state is None:  # it was dropped
                continue
            if e.element:
                state.elements.extend(e.outputs)
                if state.came is not None:
                    state.came()
            elif state.end is not None:
                raise LinkError(f"a second end of call {e.ref.number} of run {message.run}")
            else:
                self.ended(state, e)

    def ended(self, state: State, end: m.CallEnd) -> None:
        """A call has ended. The lock is held."""
        self._ended += 1
        state.end, state.order = end, self._ended
        for waiter in self._waiters:
            waiter.ended(state)
        told, state.listeners = state.listeners, None
        for tell in told or ():
            tell()
        if state.came is not None:
            state.came()

    def _read(self, e: m.CallEnd) -> None:
        if len(e.outputs) != 1:
            raise LinkError(f"an answer with {len(e.outputs)} datasets, to what was read of call {e.ref.number}")
        key = (e.ref, e.outputs[0].ref.output, e.outputs[0].ref.element)
        if key in self._reads:  # else the call was dropped
            self._reads[key] = e

    def go(self, message: m.CallGo) -> None:
        """The run has its core again. The lock is held."""
        if message.wait > self._wait:
            raise LinkError(f"run {message.run} may go on from its wait {message.wait}, and waits for the {self._wait}-th time")
        if message.wait < self._wait or not self._waiting:
            return  # of a wait that was given up
        self._waiting = False
        if message.error is not None:
            self._refusals.append(message.error)

    def forsake(self) -> None:
        """Tells the listeners of calls that do not end any more. The lock is held."""
        for state in self._states.values():
            told, state.listeners = state.listeners, None
            for tell in told or ():
                tell()

    def end(self) -> None:
        """The run has ended. Results that it still views are treated as its inputs are."""
        for ref in list(self._views.values()):
            mapped = ref()
            if mapped is not None:
                self.run.maps.append(mapped)
        self._views.clear()
        if self._later is not None:
            self._later.put(None)

    # ---- waiting

    def _block(self, done: Callable[[], bool], deadline: float | None, waiter: Waiter | None = None, direct: bool = False) -> bool:
        """Waits until something is so, without a core. It is False when the time is up.

        With direct it waits for actors: most answer soon, so that the run keeps its core for a moment.
        """
        worker, main = self._worker, self._worker.in_main()
        refusals, mine = len(self._refusals), 0
        direct = direct or waiter is not None and waiter.direct
        keeps = time.monotonic() + DIRECT_WAIT if direct else 0.0
        with worker.lock:
            if self._look(done, refusals):
                return True
            self.flush()
            worker.flush()
            self._blocked += 1
            self._outside += direct
        try:
            while True:
                with worker.lock:
                    so, core = self._look(done, refusals), mine != self._wait or not self._waiting
                    if so and (core or direct or waiter is not None and waiter.at_once()):
                        return True
                    left = None if deadline is None else min(deadline - time.monotonic(), LOOK_AFTER)
                    if left is not None and left <= 0:
                        return so
                    if not so and not self._waiting and worker.granted:
                        keep = keeps - time.monotonic() if direct else 0.0
                        if keep <= 0:
                            mine = self._tell(waiter)
                            continue
                        left = keep if left is None else min(left, keep)
                    if not main:
                        worker.rest(left)
                if main:
                    worker.wait(None if left is None else int(left * 1000) + 1)
        finally:
            with worker.lock:
                self._blocked -= 1
                self._outside -= direct
                self._go_on()

    def _look(self, done: Callable[[], bool], refusals: int) -> bool:
        """Whether what a thread waits for is so. The lock is held."""
        worker, run = self._worker, self.run
        if worker.current is not run:
            raise worker.gone("wait")
        worker.check(run)
        so = done()
        if not so and len(self._refusals) > refusals:
            raise RuntimeError(f"the task may not wait: {self._refusals[-1].message}")
        return so

    def _tell(self, waiter: Waiter | None) -> int:
        """Tells the agent that the run waits, and returns the number of this wait. The lock is held."""
        wait = m.CallWait(self.run.id, self._wait + 1, (), self._seen, 1, self._outside > 0)
        if self._blocked == 1 and waiter is not None:
            wait = wait._replace(n=1 if waiter.direct else max(waiter.need, 1))
            if waiter.refs:
                wait = wait._replace(refs=waiter.refs, seen=0, n=waiter.first_need)
        self._waiting, self._wait = True, wait.wait
        self._worker.send(wait)
        self._worker.flush()
        return wait.wait

    def _go_on(self) -> None:
        """With no thread that waits, a wait is given up: the run wants its core, and goes on meanwhile. The lock is held."""
        if self._waiting and self._blocked == 0 and self._worker.current is self.run:
            self._waiting = False
            self._wait += 1
            self._worker.send(m.CallWait(self.run.id, self._wait, (), self._seen, 0, False))

    def _unlisten(self, listener: Waiter | Collector) -> None:
        """Has a listener told no more. The garbage collector, which closes iterators, may do so in the middle of ends."""
        with self._worker.lock:
            self._waiters = [w for w in self._waiters if w is not listener]

    def _until(self, states: Sequence[State | None], k: int, fast: bool, deadline: float | None) -> Waiter:
        """Waits until k calls have ended, with fast until one has failed; or until the time is up."""
        with self._worker.lock:
            waiter = Waiter(states, k, fast)
            self._waiters.append(waiter)
        try:
            self._block(waiter.done, deadline, waiter)
        finally:
            self._unlisten(waiter)
        return waiter

    def result(self, state: State, output: int, timeout: float | None) -> Any:
        """The value of a call, or its error."""
        checks.seconds("result", timeout)
        what = f"the result of {state.name}"
        return self._mine(what, lambda: self._result(what, state, output, _deadline(timeout), timeout))

    def _result(self, what: str, state: State, output: int, deadline: float | None, timeout: float | None) -> Any:
        if state.put is not None:
            return self._load(what, state, state.put, deadline, timeout)
        if state.end is None and self._until([state], 1, False, deadline).need > 0:
            raise TimeoutError(f"{what}: it has not ended within {timeout:g} s")
        self._failed(state)
        if state.stream:
            return [self._load(what, state, d, deadline, timeout) for d in state.elements]
        return self._load(what, state, self._output(state, output), deadline, timeout)

    def _output(self, state: State, output: int) -> m.Desc:
        """An output of a call that has ended well."""
        for d in () if state.end is None else state.end.outputs:
            if d.ref.output == output:
                return d
        raise LinkError(f"the result of {state.name}: the agent told no output of it")

    def _failed(self, state: State) -> None:
        e = None if state.end is None else state.end.error
        if e is not None:
            raise raised(state.name, e, None if state.target is None else state.target.function)

    def yielded(self, state: State, n: int) -> bool:
        """Waits for element n of a series. It is False at the end."""

        def look() -> bool:
            self._block(lambda: len(state.elements) > n or state.end is not None, None, direct=state.direct)
            if len(state.elements) <= n:
                self._failed(state)
            return len(state.elements) > n

        return self._mine(f"element {n} of {state.name}", look)  # type: ignore[no-any-return]

    def element(self, state: State, n: int, timeout: float | None) -> Any:
        """The value of an element that is there."""
        checks.seconds("result", timeout)
        what = f"element {n} of {state.name}"
        return self._mine(what, lambda: self._load(what, state, state.elements[n], _deadline(timeout), timeout))

    def _ask(self, state: State, d: m.Desc) -> _Key | None:
        """Has a dataset brought into memory, if it is not in the message."""
        if d.place.kind == m.INLINE:
            return None
        key = (state.ref, d.ref.output, d.ref.element)
        with self._worker.lock:
            if key not in self._reads:
                self.flush()
                self._reads[key] = None
                self._worker.send(m.CallRead(self.run.id, *key))
        return key

    def _load(self, what: str, state: State, d: m.Desc, deadline: float | None, timeout: float | None) -> Any:
        """The value of a dataset of a call."""
        key = self._ask(state, d)
        if key is not None:
            if not self._block(lambda: self._reads.get(key, LOST) is not None, deadline):
                raise TimeoutError(f"{what}: it was not in memory within {timeout:g} s")
            answer = self._reads.get(key) or LOST
            if answer.error is not None:
                with self._worker.lock:
                    self._reads.pop(key, None)  # it may be asked for again
                raise raised(what, answer.error)
            d = answer.outputs[0]
        want = None if state.target is None else state.target.wants(d.ref.output, state.several)
        with self._memory.making:
            self._runs(what)
            before = len(self.run.maps)

            def refer(place: int) -> Future:
                return self.borrow(m.CallInput(place, m.FROM_CALL_VALUE, state.ref, d.ref.output, d.ref.element))

            value = self._memory.load(self.run, d, want, {}, refer)
            while len(self.run.maps) > before:
                self._keep(state, self.run.maps.pop())
        return value

    def _keep(self, state: State, mapped: mmap.mmap) -> None:
        """A result that is viewed in shared memory stays there: the call is not dropped before."""
        views, released = self._views, self.released

        def gone(ref: Any) -> None:
            views.pop(id(ref), None)
            released.append(state)

        state.holds += 1
        ref = weakref.ref(mapped, gone)
        views[id(ref)] = ref

    # ---- callbacks and coroutines

    def listen(self, state: State, told: Callable[[], Any]) -> None:
        """Has a function called when a call ends: with the lock held, or here when it has ended."""

        def listen() -> None:
            with self._worker.lock:
                if state.put is None and state.end is None:
                    state.listeners = [*(state.listeners or ()), told]
                    if threading.get_ident() != self._calling:
                        self.flush()
                        self._worker.flush()  # may take the end, which tells the listeners
                    return
            told()

        self._mine(f"{state.name}, when it has ended", listen)

    def later(self, do: Callable[[], Any]) -> None:
        """Has a function of the program's called in the thread that is there for them."""
        with self._worker.lock:
            if self._later is None:
                self._later = queue.SimpleQueue()
                threading.Thread(target=self._callbacks, args=(self._later,), name="cascade-callbacks", daemon=True).start()
            self._later.put(do)

    def _callbacks(self, todo: queue.SimpleQueue[Callable[[], Any] | None]) -> None:
        try:
            with strand("cascade-callbacks"):
                while (do := todo.get()) is not None:
                    self._calling = threading.get_ident()
                    try:
                        do()
                    except Cancelled:
                        raise
                    except BaseException:  # SystemExit, too: others wait for this thread
                        sys.excepthook(*sys.exc_info())
                    del do  # and with it what the function keeps
                    if todo.empty():
                        self._calling = 0
                        with self._worker.lock:
                            self.flush()
                            self._worker.flush()
        except (RuntimeError, Cancelled):  # the task has ended meanwhile
            pass

    def awaiting(self, more: int) -> None:
        """So many coroutines and callbacks more wait for calls: while some do, a thread waits with them, and the run needs no core."""
        if not self._worker.granted:
            return
        with self._worker.lock:
            self._awaits += more
            if self._awaits == 0:
                self._worker.tell()
            elif not self._accompanied:
                self._accompanied = True
                threading.Thread(target=self._accompany, name="cascade-await", daemon=True).start()

    def _accompany(self) -> None:
        def over() -> bool:
            self._accompanied = self._awaits > 0
            return not self._accompanied

        try:
            with strand("cascade-await"):
                self._mine("await", lambda: self._block(over, None))
        except (RuntimeError, Cancelled):  # the task has ended, or is about to
            pass

    # ---- waiting for some

    def look(self, state: State) -> bool:
        """Whether a call has ended."""
        if state.put is None and state.end is None:

            def take() -> None:
                with self._worker.lock:
                    self.flush()
                    self._worker.flush()

            self._mine(f"whether {state.name} is done", take)
        return state.put is not None or state.end is not None

    def cancel(self, state: State, why: str) -> None:
        """Ends a call with all that it has called."""
        reason = valid(str(why)) or "its caller has cancelled it"

        def tell() -> None:
            if state.put is None and state.end is None:
                with self._worker.lock:
                    self.flush()
                    if state.direct:
                        state.line.cancel(state, reason)  # type: ignore[attr-defined]
                    else:
                        self._worker.send(m.CallDrop(self.run.id, [state.ref], True, reason))

        self._mine(f"cancel {state.name}", tell)

    def wait(self, futures: Sequence[Future], k: int, timeout: float | None) -> tuple[list[Future], list[Future]]:
        """The k futures that have ended first, and the others."""
        self._own("wait", futures)
        k = min(k, len(futures))
        states = [call_of(f) for f in futures]
        if sum(s is None or s.end is not None for s in states) < k:
            self._mine("wait", lambda: self._until(states, k, False, _deadline(timeout)))
        with self._worker.lock:
            ready = sorted((0 if s is None else s.order, i) for i, s in enumerate(states) if s is None or s.end is not None)[:k]
        chosen = {i for _, i in ready}
        return [futures[i] for _, i in ready], [f for i, f in enumerate(futures) if i not in chosen]

    def as_completed(self, futures: Sequence[Future], timeout: float | None) -> Iterator[Future]:
        """The futures as they end; the time begins now."""
        self._own("as_completed", futures)
        return self._as_completed(futures, _deadline(timeout), timeout)

    def _as_completed(self, futures: Sequence[Future], deadline: float | None, timeout: float | None) -> Iterator[Future]:
        with self._worker.lock:
            some = Collector(futures)
            self._waiters.append(some)
        try:
            for n in range(len(futures)):
                if not some.ready and not self._mine("wait", lambda: self._block(lambda: bool(some.ready), deadline)):
                    raise TimeoutError(f"{len(futures) - n} of {len(futures)} calls have not ended within {timeout:g} s")
                yield some.ready.popleft()
        finally:
            self._unlisten(some)

    def _own(self, what: str, futures: Sequence[Future]) -> None:
        """Refuses futures of other tasks."""
        for i, f in enumerate(futures):
            if getattr(f, "calls", self) is not self:
                raise ValueError(f"{what}: future {i} is of another task")

    def get(self, futures: Sequence[Future], timeout: float | None) -> list[Any]:
        """The values of all, or the first error at once."""
        self._own("get", futures)
        try:
            return self._mine("get", lambda: self._get(futures, timeout))  # type: ignore[no-any-return]
        except CallFailed as e:
            raise e.with_traceback(None)  # how it was found says nothing

    def _get(self, futures: Sequence[Future], timeout: float | None) -> list[Any]:
        deadline = _deadline(timeout)
        waiter = self._until([call_of(f) for f in futures], len(futures), True, deadline)
        if waiter.failed is not None:
            self._failed(waiter.failed)
        if waiter.need > 0:
            raise TimeoutError(f"get: {waiter.need} of {len(futures)} calls have not ended within {timeout:g} s")
        for f in futures:  # they come into memory together
            if isinstance(f, Called) and not f.state.stream:
                self._ask(f.state, f.state.put or self._output(f.state, f.output))
        return [
            f.take(lambda f=f: self._result(f"the result of {f.state.name}", f.state, f.output, deadline, timeout))  # type: ignore[misc]
            if isinstance(f, Called)
            else f.result()
            for f in futures
        ]


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
