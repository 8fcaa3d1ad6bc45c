"""Calls: functions that a task has run as tasks of their own, and values that it puts where they can read them.

    call, put ──▶ batch ──Calls──▶ agent ──▶ an executor of the environment
    result ◀── state ◀──CallEnds── agent     what is large comes into memory on demand (CallRead)
    wait ──CallWait──▶ agent ──CallGo──▶     between the two the run needs no core
    a Future that is gone ──CallDrop──▶ agent

Each has a number, in the order in which the run makes them: a run that is repeated and does the same meets what was begun.
"""

from __future__ import annotations

import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import checks, context
from ..context import CallCancelled, CallFailed, Future, Options
from ..values import BYTES, RAW, encode
from ..wire import messages as m
from ..wire.envelope import LinkError
from ..wire.text import valid
from .functions import CODE
from .futures import Called, Collector, Element, InputFuture, State, Waiter, call_of
from .outputs import ALL
from .queue import Run
from .targets import Coded, Target, target_of

if TYPE_CHECKING:
    import mmap

    from .host import Host
    from .outputs import Memory


SMALL_CODE = 1024  # bytes of a function that goes with each of its calls
MOST_BATCH = 1000  # calls in one message
MOST_BYTES = 1 << 20  # of values in one message, about
LOOK_AFTER = 86400.0  # s after which a wait looks at the time again: clocks take no longer ones
LOST = m.CallEnd(error=m.TaskError(m.STORE, "another thread could not read it"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,199}")  # as of inputs


class Calls:
    """The calls of one run. The worker's lock guards them: the helper and threads of the run use them too."""

    def __init__(self, worker: Host, memory: Memory, run: Run) -> None:
        self._worker, self._memory, self.run = worker, memory, run
        self._states: dict[m.CallRef, State] = {}
        self._kinds: dict[Any, int] = {}
        self._codes: dict[str, Called] = {}  # of functions, by their hash
        self._next: dict[int, int] = {}  # number of the next call, by strand
        self._batch = m.Calls(run.id, False, [], [])
        self._bytes = 0  # of values in it
        self.made = 0  # how many calls and values there were
        self._seen = self._ended = 0  # items of CallEnds, calls that have ended
        self._waiting = False  # the last CallWait is not answered, and a thread waits
        self._wait = 0  # its number
        self._refusals: list[m.TaskError] = []  # of waits
        self._waiters: list[Waiter | Collector] = []
        self._blocked = 0  # threads that wait
        self._reads: dict[tuple[m.CallRef, int], m.CallEnd | None] = {}
        self.released: deque[State] = deque()  # of Futures and views that are gone
        self._views: dict[int, Any] = {}  # weak references to mappings of results

    # ---- making

    def _mine(self, what: str, do: Callable[[], Any]) -> Any:
        """Does something for the program, or for the function of the run, in a thread that may do it."""
        return self._worker.mine(self, what, do)

    def _runs(self, what: str) -> None:
        """Refuses to store and load for a run that has ended. Whoever has Memory.making keeps its end from coming between."""
        if self._worker.current is not self.run:
            raise self._worker.gone(what)

    def make(self, function: str | Target, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Future:
        """Has a function run as a task of its own."""
        what = f"call {function if isinstance(function, str) else function.name}"

        def make() -> Future:
            with self._memory.making:
                self._runs(what)
                self._able(what)
                target = target_of(function) if isinstance(function, str) else function
                return self._make(target, options, args, named)

        return self._mine(what, make)  # type: ignore[no-any-return]

    def _make(self, target: Target, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Future:
        ports = target.ports(len(args), tuple(named))
        inputs = [] if target.coded is None else [self._code(target.coded)]
        lists = 0
        for i, (name, value) in enumerate(zip(ports, (*args, *named.values()), strict=True), len(inputs)):
            if isinstance(value, (list, tuple)) and any(isinstance(v, Future) for v in value):
                lists |= 1 << i
                inputs += [self._argument(i, name, one) for one in value]
            else:
                inputs.append(self._argument(i, name, value))
        kind = self._kind(target, options, ports, lists)
        state = State(self._ref(), target.name, target.want, target.stream)
        self._add(state, m.CallItem(state.ref, kind, options.name, inputs=inputs))
        return Called(self, state)

    def _kind(self, target: Target, o: Options, ports: Sequence[str], lists: int) -> int:
        """The number of a kind of calls, which the agent learns with the first of them."""
        key = (target, o[:-1], ports, lists)  # calls of one kind may have names of their own
        kind = self._kinds.get(key)
        if kind is None:
            for name in ports:
                if not _NAME.fullmatch(name):
                    raise ValueError(f"call {target.name}: argument {name!r}: want letters, digits, _ and -, and no digit first")
            names = ports if target.coded is None else (CODE + target.coded.hash, *ports)
            needs = m.Resources(round(o.cpu * 1000), o.memory, round(o.gpu * 1000))
            out = m.KindOut("out", m.OPEN if target.stream else m.SINGLE)
            with self._worker.lock:
                kind = self._kinds[key] = len(self._kinds) + 1
                kinds: list[m.CallKind] = self._batch.kinds  # type: ignore[assignment]
                kinds.append(m.CallKind(kind, target.name, "", [m.KindIn(n, bool(lists >> i & 1)) for i, n in enumerate(names)], [out], needs,
                                        o.retries, [e.__qualname__ for e in o.retry_on], round(o.timeout * 1e9), o.priority, o.here))  # fmt: skip
        return kind

    def _code(self, coded: Coded) -> m.CallInput:
        """The code of a function as the first input of a call: a small one goes with it, a large one is put once."""
        if len(coded.data) <= SMALL_CODE:
            place = m.Place(m.INLINE, coded.data)
            return m.CallInput(0, data=m.Desc(m.Ref(), 0, RAW, BYTES, size=len(coded.data), place=place))
        put = self._codes.get(coded.hash)
        if put is None:
            put = self._codes[coded.hash] = self._put(coded.data)
        return m.CallInput(0, m.FROM_CALL, put.state.ref)

    def put(self, value: Any) -> Future:
        """Keeps a value where calls read it by reference."""

        def put() -> Future:
            with self._memory.making:
                self._runs("put a value")
                self._able("put a value")
                return value if isinstance(value, Future) else self._put(value)

        return self._mine("put a value", put)  # type: ignore[no-any-return]

    def _put(self, value: Any) -> Called:
        given = self._value(0, value)
        state = State(self._ref(), "the value that was put", put=given.data)
        self._add(state, m.CallItem(state.ref, inputs=[given]))
        return Called(self, state)

    def finds(self, module: str) -> bool:
        """Whether the hosts of calls find a module by its name."""
        return self._worker.finds(module)

    def not_repeatable(self) -> None:
        """Another run meets nothing of what this one calls."""
        with self._worker.lock:
            if self.made and not self._batch.once:
                raise RuntimeError("not_repeatable: the task has called already: say it before the first call")
            self._batch = self._batch._replace(once=True)

    def input(self, name: str) -> Future:
        """An input of the run, to be passed on."""
        for i, (declared, given) in enumerate(zip(self.run.kind.m.inputs, self.run.inputs, strict=False)):
            if declared.name.replace("-", "_") == name and not declared.list:
                return InputFuture(self, name, i, given.data[0])
        raise ValueError(f"the task has no input {name} that is one dataset")

    def _able(self, what: str) -> None:
        w = self._worker.welcome
        if not w.calls:
            raise RuntimeError(
                f"{what}: agent {w.agent} takes no calls: it is of an older version, or the task runs alone (cascade replay --task)"
            )

    def _ref(self) -> m.CallRef:
        bound = context._strand.get()
        strand = bound.number if bound is not None and bound.calls is self else 0
        number = self._next.get(strand, 0)
        self._next[strand] = number + 1
        return m.CallRef(strand, number)

    def _argument(self, port: int, name: str, value: Any) -> m.CallInput:
        """An argument as the agent is told of it."""
        if not isinstance(value, Future):
            return self._value(port, value)
        if isinstance(value, (Called, Element, InputFuture)):
            if value.calls is not self:
                raise ValueError(f"argument {name} is a future of another task")
            if isinstance(value, InputFuture):
                return self._passed(port, value)
            if isinstance(value, Element):
                return m.CallInput(port, m.FROM_CALL, value.state.ref, element=value.number)
            if value.state.stream:
                raise ValueError(f"argument {name} is the future of a series: pass list(future.elements())")
            return m.CallInput(port, m.FROM_CALL, value.state.ref)
        return self._value(port, value.result())

    def _passed(self, port: int, f: InputFuture) -> m.CallInput:
        """An input of the run as an argument of one call."""
        d = f.given
        match d.place.kind:
            case m.INLINE:
                return m.CallInput(port, data=d._replace(ref=m.Ref(), attempt=0))
            case m.LIVE:  # in this process only: bytes in the store belong to one call, and the next needs others
                return self._value(port, self._worker.queue.live[d.place.run, d.ref.output].value)
        return m.CallInput(port, m.FROM_INPUT, input=f.index, data=d)

    def _value(self, port: int, value: Any) -> m.CallInput:
        encoded = encode(value)
        stored = self._memory.place(self.run, encoded, False, ALL)
        shape = [int(n) for n in encoded.shape]
        return m.CallInput(port, data=m.Desc(m.Ref(), 0, encoded.codec, encoded.dtype, shape, encoded.size, *stored))

    def _add(self, state: State, item: m.CallItem) -> None:
        """Puts a call into the batch. With a value in shared memory it is sent at once: the agent owns that from then on."""
        worker, run = self._worker, self.run
        run.told = True
        values = [i.data for i in item.inputs if i.source == m.FROM_VALUE]
        sealed = any(d.place.kind == m.SEGMENT for d in values)
        if sealed and run.rooms:
            run.copied += self._memory.release_published(run)
        with worker.lock:
            self._states[state.ref] = state
            self.made += 1
            items: list[m.CallItem] = self._batch.items  # type: ignore[assignment]
            items.append(item)
            self._bytes += sum(len(d.place.bytes) for d in values)
            if sealed or len(items) >= MOST_BATCH or self._bytes >= MOST_BYTES:
                self.flush()
                self._memory.return_regions(run)
                worker.flush()
            elif len(items) == 1:
                worker.soon()

    def flush(self) -> None:
        """Sends the calls that were made, and then which are needed no more. The helper does it too; the lock is held."""
        worker = self._worker
        if self._batch.items:
            batch, self._batch, self._bytes = self._batch, m.Calls(self.run.id, self._batch.once, [], []), 0
            worker.send(batch)
        if self.released and (refs := self._gone()):
            worker.send(m.CallDrop(self.run.id, refs))

    def _gone(self) -> list[m.CallRef]:
        """The calls of which neither a Future nor a view is left."""
        refs = []
        while self.released:
            state = self.released.popleft()
            state.holds -= 1
            if state.holds == 0 and self._states.pop(state.ref, None) is not None:
                refs.append(state.ref)
                for n in range(max(1, len(state.elements))):
                    self._reads.pop((state.ref, n), None)
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
            elif state.end is not None:
                raise LinkError(f"a second end of call {e.ref.number} of run {message.run}")
            else:
                self._ended += 1
                state.end, state.order = e, self._ended
                for waiter in self._waiters:
                    waiter.ended(state)

    def _read(self, e: m.CallEnd) -> None:
        if len(e.outputs) != 1:
            raise LinkError(f"an answer with {len(e.outputs)} datasets, to what was read of call {e.ref.number}")
        key = (e.ref, e.outputs[0].ref.element)
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

    def end(self) -> None:
        """The run has ended. Results that it still views are treated as its inputs are."""
        for ref in list(self._views.values()):
            mapped = ref()
            if mapped is not None:
                self.run.maps.append(mapped)
        self._views.clear()

    # ---- waiting

    def _block(self, done: Callable[[], bool], deadline: float | None, waiter: Waiter | None = None) -> bool:
        """Waits until something is so, without a core. It is False when the time is up."""
        worker, main = self._worker, self._worker.in_main()
        refusals, mine = len(self._refusals), 0
        with worker.lock:
            if self._look(done, refusals):
                return True
            self.flush()
            worker.flush()
            self._blocked += 1
        try:
            while True:
                with worker.lock:
                    so, core = self._look(done, refusals), mine != self._wait or not self._waiting
                    if so and (core or waiter is not None and waiter.at_once()):
                        return True
                    left = None if deadline is None else min(deadline - time.monotonic(), LOOK_AFTER)
                    if left is not None and left <= 0:
                        return so
                    if not so and not self._waiting and worker.releases:
                        mine = self._tell(waiter)
                        continue
                    if not main:
                        worker.rest(left)
                if main:
                    worker.wait(None if left is None else int(left * 1000) + 1)
        finally:
            with worker.lock:
                self._blocked -= 1
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
        wait = m.CallWait(self.run.id, self._wait + 1, (), self._seen, 1)
        if self._blocked == 1 and waiter is not None:
            wait = wait._replace(n=max(waiter.need, 1))
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
            self._worker.send(m.CallWait(self.run.id, self._wait, (), self._seen, 0))

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

    def result(self, state: State, timeout: float | None) -> Any:
        """The value of a call, or its error."""
        checks.seconds("result", timeout)
        what = f"the result of {state.name}"
        return self._mine(what, lambda: self._result(what, state, _deadline(timeout), timeout))

    def _result(self, what: str, state: State, deadline: float | None, timeout: float | None) -> Any:
        if state.put is not None:
            return self._load(what, state, state.put, 0, deadline, timeout)
        if state.end is None and self._until([state], 1, False, deadline).need > 0:
            raise TimeoutError(f"{what}: it has not ended within {timeout:g} s")
        self._failed(state)
        if state.stream:
            return [self._load(what, state, d, n, deadline, timeout) for n, d in enumerate(state.elements)]
        if state.end is None or len(state.end.outputs) != 1:
            raise LinkError(f"{what}: the agent told no output of it")
        return self._load(what, state, state.end.outputs[0], 0, deadline, timeout)

    def _failed(self, state: State) -> None:
        e = None if state.end is None else state.end.error
        if e is not None:
            kind = CallCancelled if e.kind == m.CANCELLED else CallFailed
            raise kind(f"{state.name}: {e.message}", e.codes, e.stack)

    def yielded(self, state: State, n: int) -> bool:
        """Waits for element n of a series. It is False at the end."""

        def look() -> bool:
            self._block(lambda: len(state.elements) > n or state.end is not None, None)
            if len(state.elements) <= n:
                self._failed(state)
            return len(state.elements) > n

        return self._mine(f"element {n} of {state.name}", look)  # type: ignore[no-any-return]

    def element(self, state: State, n: int, timeout: float | None) -> Any:
        """The value of an element that is there."""
        checks.seconds("result", timeout)
        what = f"element {n} of {state.name}"
        return self._mine(what, lambda: self._load(what, state, state.elements[n], n, _deadline(timeout), timeout))

    def _ask(self, state: State, d: m.Desc, element: int) -> tuple[m.CallRef, int] | None:
        """Has a dataset brought into memory, if it is not in the message."""
        if d.place.kind == m.INLINE:
            return None
        key = (state.ref, element)
        with self._worker.lock:
            if key not in self._reads:
                self.flush()
                self._reads[key] = None
                self._worker.send(m.CallRead(self.run.id, state.ref, 0, element))
        return key

    def _load(self, what: str, state: State, d: m.Desc, element: int, deadline: float | None, timeout: float | None) -> Any:
        """The value of a dataset of a call."""
        key = self._ask(state, d, element)
        if key is not None:
            if not self._block(lambda: self._reads.get(key, LOST) is not None, deadline):
                raise TimeoutError(f"{what}: it was not in memory within {timeout:g} s")
            answer = self._reads.get(key) or LOST
            if answer.error is not None:
                with self._worker.lock:
                    self._reads.pop(key, None)  # it may be asked for again
                raise CallFailed(f"{what}: {answer.error.message}", answer.error.codes, answer.error.stack)
            d = answer.outputs[0]
        with self._memory.making:
            self._runs(what)
            before = len(self.run.maps)
            value = self._memory.load(self.run, d, state.want, {})
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
        return self._mine("get", lambda: self._get(futures, timeout))  # type: ignore[no-any-return]

    def _get(self, futures: Sequence[Future], timeout: float | None) -> list[Any]:
        deadline = _deadline(timeout)
        waiter = self._until([call_of(f) for f in futures], len(futures), True, deadline)
        if waiter.failed is not None:
            self._failed(waiter.failed)
        if waiter.need > 0:
            raise TimeoutError(f"get: {waiter.need} of {len(futures)} calls have not ended within {timeout:g} s")
        for f in futures:  # they come into memory together
            if isinstance(f, Called) and not f.state.stream:
                d = f.state.put or (f.state.end and f.state.end.outputs[0])
                if d is not None:
                    self._ask(f.state, d, 0)
        return [
            f.take(lambda f=f: self._result(f"the result of {f.state.name}", f.state, deadline, timeout))  # type: ignore[misc]
            if isinstance(f, Called)
            else f.result()
            for f in futures
        ]


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
