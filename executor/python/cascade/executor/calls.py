"""Calls: functions that a task has run as tasks of their own, and values that it puts where they can read them.

    call, put ──▶ batch ──Calls──▶ agent ──▶ an executor of the environment
    result ◀── state ◀──CallEnds── agent     what is large comes into memory on demand (CallRead)
    wait ──CallWait──▶ agent ──CallGo──▶     between the two the run needs no core
    a Future that is gone ──CallDrop──▶ agent

Each has a number, in the order in which the run makes them: a run that is repeated and does the same meets what was begun.
"""

from __future__ import annotations

import functools
import inspect
import re
import time
import typing
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..context import CallCancelled, CallFailed, Future, Options, by_name, places
from ..values import encode, hints_of
from ..wire import messages as m
from ..wire.envelope import LinkError
from .functions import resolve
from .outputs import ALL
from .queue import Run

if TYPE_CHECKING:
    import mmap

    from .host import Host
    from .outputs import Memory


MOST_BATCH = 1000  # calls in one message
MOST_BYTES = 1 << 20  # of values in one message, about
MOST_REFS = 16  # calls that a wait names
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,199}")  # as of inputs


class Signature(NamedTuple):
    """What a caller has to know of a function."""

    names: Sequence[str]  # of the parameters that can be given by place
    stream: bool  # it yields
    want: Any  # annotation of what it returns or yields


@functools.lru_cache(maxsize=256)
def _signature(name: str) -> Signature:
    function = resolve(name)
    stream = inspect.isgeneratorfunction(inspect.unwrap(function))
    want = hints_of(function).get("return")
    if stream:
        want = next(iter(typing.get_args(want)), None)
    try:
        names = places(function)
    except (TypeError, ValueError):  # of a builtin
        names = []
    return Signature(names, stream, want)


class State:
    """A call, or a value that was put."""

    __slots__ = ("elements", "end", "holds", "name", "order", "put", "ref", "stream", "want")

    def __init__(self, ref: m.CallRef, name: str, want: Any = None, stream: bool = False, put: m.Desc | None = None) -> None:
        self.ref, self.name, self.want, self.stream, self.put = ref, name, want, stream, put
        self.end: m.CallEnd | None = None
        self.order = 0  # it is the order-th that ended
        self.elements: list[m.Desc] = []
        self.holds = 1  # the Future, and the views of shared memory


class Called(Future):
    """A Future of a run."""

    def __init__(self, calls: Calls, state: State) -> None:
        super().__init__()
        self.calls, self.state = calls, state
        self._known = False

    def result(self, timeout: float | None = None) -> Any:
        """The value; see Future."""
        if not self._known:
            self._value = self.calls.result(self.state, timeout)
            self._known = True
        return self._value

    def done(self) -> bool:
        """Whether the call has ended; see Future."""
        return self.calls.look(self.state)

    def cancel(self, why: str = "") -> None:
        """Ends the call; see Future."""
        self.calls.cancel(self.state, why)

    def __iter__(self) -> Iterator[Any]:
        """The elements of a series; see Future."""
        if not self.state.stream:
            raise TypeError(f"{self.state.name} does not yield: it has one result")
        n = 0
        while (one := self.calls.element(self.state, n)) is not None:
            yield one[0]
            n += 1

    def __del__(self) -> None:
        """The agent is told with the next message; this may be in any thread, at any time."""
        self.calls.released.append(self.state)


class InputFuture(Future):
    """An input of a run, to be passed on."""

    def __init__(self, calls: Calls, name: str, index: int, given: m.Desc) -> None:
        super().__init__()
        self.calls, self.name, self.index, self.given = calls, name, index, given

    def result(self, timeout: float | None = None) -> Any:
        """Is refused."""
        raise RuntimeError(f"input {self.name} is an input of the task, which has it as a value")


class Waiter:
    """Counts calls until enough have ended."""

    def __init__(self, states: Sequence[State | None], k: int, fast: bool) -> None:
        """k are to end, None has; with fast the first that fails is enough. The lock is held."""
        self.left: dict[m.CallRef, int] = {}
        self.need, self.fast = k, fast
        self.failed: State | None = None
        for state in states:
            if state is not None and state.end is None:
                self.left[state.ref] = self.left.get(state.ref, 0) + 1
            else:
                self.need -= 1
                if state is not None and state.end is not None and state.end.error is not None:
                    self.failed = self.failed or state
        once = len(self.left) <= MOST_REFS and all(n == 1 for n in self.left.values())
        self.refs = list(self.left) if once else []
        self.first_need = self.need

    def ended(self, state: State) -> None:
        """A call has ended."""
        self.need -= self.left.pop(state.ref, 0)
        if state.end is not None and state.end.error is not None:
            self.failed = self.failed or state

    def done(self) -> bool:
        """Whether enough have ended."""
        return self.need <= 0 or self.at_once()

    def at_once(self) -> bool:
        """Whether the run goes on without waiting for its core: it will fail."""
        return self.fast and self.failed is not None


class Calls:
    """The calls of one run; used by the main thread. The worker's lock guards what the helper looks at too."""

    def __init__(self, worker: Host, memory: Memory, run: Run) -> None:
        self._worker, self._memory, self.run = worker, memory, run
        self._states: dict[m.CallRef, State] = {}
        self._kinds: dict[Any, int] = {}
        self._next = 0  # number of the next call
        self._batch = m.Calls(run.id, False, [], [])
        self._bytes = 0  # of values in it
        self._seen = self._ended = 0  # items of CallEnds, calls that have ended
        self._waiting = False  # a CallWait is not answered
        self._wait = 0  # its number
        self._refused: m.TaskError | None = None
        self._waiter: Waiter | None = None
        self._reads: dict[tuple[m.CallRef, int], m.CallEnd | None] = {}
        self.released: deque[State] = deque()  # of Futures and views that are gone
        self._views: dict[int, Any] = {}  # weak references to mappings of results

    # ---- making

    def _mine(self, what: str, do: Callable[[], Any]) -> Any:
        """Does something for the function of the run, in its thread."""
        worker = self._worker
        if worker.current is not self.run:
            raise RuntimeError(f"{what}: the task that called it has ended")
        got = worker.aside(lambda _: (do(),))
        if got is None:
            raise RuntimeError(f"{what}: only the thread in which the task's function runs can do that")
        return got[0]

    def make(self, name: str, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Future:
        """Has a function run as a task of its own."""
        return self._mine(f"call {name}", lambda: self._make(name, options, args, named))  # type: ignore[no-any-return]

    def _make(self, name: str, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Future:
        self._able(f"call {name}")
        signature = _signature(name)
        arguments = by_name(name, signature.names, args, named)
        inputs: list[m.CallInput] = []
        ports: list[m.KindIn] = []
        for key, value in arguments.items():
            if not _NAME.fullmatch(key):
                raise ValueError(f"call {name}: argument {key!r}: want letters, digits, _ and -, and no digit first")
            many = isinstance(value, (list, tuple)) and any(isinstance(v, Future) for v in value)
            for one in value if many else (value,):
                inputs.append(self._argument(len(ports), key, one))
            ports.append(m.KindIn(key, many))
        with self._worker.lock:
            kind = self._kind(name, options, ports, signature.stream)
        state = State(self._ref(), name, signature.want, signature.stream)
        self._add(state, m.CallItem(state.ref, kind, options.name, inputs=inputs))
        return Called(self, state)

    def _kind(self, name: str, o: Options, ports: Sequence[m.KindIn], stream: bool) -> int:
        """The number of a kind of calls, which the agent learns with the first of them. The lock is held."""
        key = (name, o._replace(name=""), *ports)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kinds) + 1
            needs = m.Resources(round(o.cpu * 1000), o.memory, round(o.gpu * 1000))
            out = m.KindOut("out", m.OPEN if stream else m.SINGLE)
            kinds: list[m.CallKind] = self._batch.kinds  # type: ignore[assignment]
            kinds.append(m.CallKind(kind, name, "", ports, [out], needs, o.retries, [e.__qualname__ for e in o.retry_on],
                                    round(o.timeout * 1e9), o.priority, o.here))  # fmt: skip
        return kind

    def put(self, value: Any) -> Future:
        """Keeps a value where calls read it by reference."""
        return self._mine("put a value", lambda: self._put(value))  # type: ignore[no-any-return]

    def _put(self, value: Any) -> Future:
        self._able("put a value")
        if isinstance(value, Future):
            return value
        given = self._value(0, value)
        state = State(self._ref(), "the value that was put", put=given.data)
        self._add(state, m.CallItem(state.ref, inputs=[given]))
        return Called(self, state)

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
        number = self._next
        self._next += 1
        return m.CallRef(0, number)

    def _argument(self, port: int, name: str, value: Any) -> m.CallInput:
        """An argument as the agent is told of it."""
        if isinstance(value, (Called, InputFuture)):
            if value.calls is not self:
                raise ValueError(f"argument {name} is a future of another task")
            if isinstance(value, InputFuture):
                return self._passed(port, value)
            if value.state.stream:
                raise ValueError(f"argument {name} is the future of a series: pass list(future), its elements")
            return m.CallInput(port, m.FROM_CALL, value.state.ref)
        if isinstance(value, Future):
            value = value.result()
        return self._value(port, value)

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
            batch, self._batch, self._bytes = self._batch, m.Calls(self.run.id, False, [], []), 0
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
                if self._waiter is not None:
                    self._waiter.ended(state)

    def _read(self, e: m.CallEnd) -> None:
        if e.outputs:
            self._reads[e.ref, e.outputs[0].ref.element] = e
            return
        for key, known in self._reads.items():  # an error does not say of which element
            if key[0] == e.ref and known is None:
                self._reads[key] = e

    def go(self, message: m.CallGo) -> None:
        """The run has its core again. The lock is held."""
        if not self._waiting or message.wait != self._wait:
            raise LinkError(f"run {message.run} may go on from its wait {message.wait}, and waits for the {self._wait}-th time")
        self._waiting, self._refused = False, message.error

    def end(self) -> None:
        """The run has ended. Results that it still views are treated as its inputs are."""
        for ref in list(self._views.values()):
            mapped = ref()
            if mapped is not None:
                self.run.maps.append(mapped)
        self._views.clear()

    # ---- waiting

    def _block(self, done: Callable[[], bool], deadline: float | None, waiter: Waiter | None = None) -> bool:
        """Waits until something is so, without a core. It is False when the time is up: the agent's answer comes later."""
        worker, run, mine = self._worker, self.run, False
        with worker.lock:
            self._refused = None
            self.flush()
            worker.flush()
        while True:
            worker.check(run)
            with worker.lock:
                finished = done()
                if finished and (not mine or not self._waiting or waiter is not None and waiter.at_once()):
                    return True
                if self._refused is not None:
                    raise RuntimeError(f"the task may not wait: {self._refused.message}")
                if not finished and not self._waiting:
                    self._waiting = mine = True
                    self._wait += 1
                    if waiter is not None and waiter.refs:
                        worker.send(m.CallWait(run.id, self._wait, waiter.refs, 0, waiter.first_need))
                    else:
                        least = 1 if waiter is None else max(waiter.need, 1)
                        worker.send(m.CallWait(run.id, self._wait, (), self._seen, least))
                    worker.flush()
                    continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            worker.wait(None if left is None else int(left * 1000) + 1)

    def _until(self, states: Sequence[State | None], k: int, fast: bool, deadline: float | None) -> Waiter:
        """Waits until k calls have ended, with fast until one has failed; or until the time is up."""
        with self._worker.lock:
            waiter = self._waiter = Waiter(states, k, fast)
        try:
            self._block(waiter.done, deadline, waiter)
        finally:
            self._waiter = None
        return waiter

    def result(self, state: State, timeout: float | None) -> Any:
        """The value of a call, or its error."""
        what = f"the result of {state.name}"
        return self._mine(what, lambda: self._result(what, state, _deadline(timeout), timeout))

    def _result(self, what: str, state: State, deadline: float | None, timeout: float | None) -> Any:
        if state.put is not None:
            return self._load(what, state, state.put, 0, deadline, timeout)
        if self._until([state], 1, False, deadline).need > 0:
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

    def element(self, state: State, n: int) -> tuple[Any] | None:
        """Element n of a series, when it is there; None at its end."""
        what = f"element {n} of {state.name}"

        def take() -> tuple[Any] | None:
            self._block(lambda: len(state.elements) > n or state.end is not None, None)
            if len(state.elements) > n:
                return (self._load(what, state, state.elements[n], n, None, None),)
            self._failed(state)
            return None

        return self._mine(what, take)  # type: ignore[no-any-return]

    def _ask(self, state: State, d: m.Desc, element: int) -> tuple[m.CallRef, int] | None:
        """Has a dataset brought into memory, if it is not in the message."""
        inside = d.place.kind == m.INLINE
        key = (state.ref, element)
        if not inside and key not in self._reads:
            with self._worker.lock:
                self.flush()
                self._reads[key] = None
                self._worker.send(m.CallRead(self.run.id, state.ref, 0, element))
        return None if inside else key

    def _load(self, what: str, state: State, d: m.Desc, element: int, deadline: float | None, timeout: float | None) -> Any:
        """The value of a dataset of a call."""
        key = self._ask(state, d, element)
        if key is not None:
            if not self._block(lambda: self._reads[key] is not None, deadline):
                raise TimeoutError(f"{what}: it was not in memory within {timeout:g} s")
            answer = typing.cast("m.CallEnd", self._reads[key])
            if answer.error is not None:
                del self._reads[key]  # it may be asked for again
                raise CallFailed(f"{what}: {answer.error.message}", answer.error.codes, answer.error.stack)
            d = answer.outputs[0]
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

        def tell() -> None:
            if state.put is None and state.end is None:
                with self._worker.lock:
                    self.flush()
                    self._worker.send(m.CallDrop(self.run.id, [state.ref], True, why or "its caller has cancelled it"))

        self._mine(f"cancel {state.name}", tell)

    def wait(self, futures: Sequence[Future], k: int, timeout: float | None) -> tuple[list[Future], list[Future]]:
        """The k futures that have ended first, and the others."""
        for f in futures:
            if isinstance(f, Called) and f.calls is not self:
                raise ValueError("wait: a future is of another task")
        k = min(k, len(futures))
        states = [_call_of(f) for f in futures]
        self._mine("wait", lambda: self._until(states, k, False, _deadline(timeout)))
        with self._worker.lock:
            ready = sorted((0 if s is None else s.order, i) for i, s in enumerate(states) if s is None or s.end is not None)[:k]
        chosen = {i for _, i in ready}
        return [futures[i] for _, i in ready], [f for i, f in enumerate(futures) if i not in chosen]

    def get(self, futures: Sequence[Future], timeout: float | None) -> list[Any]:
        """The values of all, or the first error at once."""
        return self._mine("get", lambda: self._get(futures, timeout))  # type: ignore[no-any-return]

    def _get(self, futures: Sequence[Future], timeout: float | None) -> list[Any]:
        deadline = _deadline(timeout)
        waiter = self._until([_call_of(f) for f in futures], len(futures), True, deadline)
        if waiter.failed is not None:
            self._failed(waiter.failed)
        if waiter.need > 0:
            raise TimeoutError(f"get: {waiter.need} of {len(futures)} calls have not ended within {timeout:g} s")
        for f in futures:  # they come into memory together
            if isinstance(f, Called) and not f.state.stream:
                d = f.state.put or (f.state.end and f.state.end.outputs[0])
                if d is not None:
                    self._ask(f.state, d, 0)
        return [f.result(None if deadline is None else max(0.0, deadline - time.monotonic())) for f in futures]


def _call_of(f: Future) -> State | None:
    """The call that is to end; None for what has its value."""
    return f.state if isinstance(f, Called) and f.state.put is None else None


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
