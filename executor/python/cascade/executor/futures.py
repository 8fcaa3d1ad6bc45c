"""Futures of calls, and what is known of the calls behind them."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Protocol

from ..context import CallFailed, Future, strand
from ..wire import messages as m
from .targets import Target

MOST_REFS = 16  # calls that a wait names


class State:
    """A call, or a value that was put."""

    __slots__ = ("came", "elements", "end", "holds", "listeners", "name", "order", "put", "ref", "several", "target")
    direct = False  # a call of an actor's method: the agent does not know it

    def __init__(
        self, ref: m.CallRef, name: str, target: Target | None = None, put: m.Desc | None = None, returns: int = 1
    ) -> None:
        self.ref, self.name, self.target, self.put = ref, name, target, put
        self.several = returns > 1
        self.listeners: list[Callable[[], Any]] | None = None  # called when it ends, with the lock held
        self.came: Callable[[], Any] | None = None  # called at its first element, and when it ends, with the lock held
        self.end: m.CallEnd | None = None
        self.order = 0  # it is the order-th that ended
        self.elements: list[m.Desc] = []
        self.holds = returns  # its Futures, and the views of shared memory

    @property
    def stream(self) -> bool:
        """Whether it is a call of a function that yields."""
        return self.target is not None and self.target.stream

    @property
    def says(self) -> str:
        """How it stands, for people."""
        if self.put is not None:
            return "is here"
        if self.end is None:
            return "has not ended"
        error = self.end.error
        return "has ended" if error is None else "was cancelled" if error.kind == m.CANCELLED else "has failed"


class Owner(Protocol):
    """The calls of a run, as their futures use them."""

    released: deque[State]  # of futures that are gone

    def result(self, state: State, output: int, timeout: float | None) -> Any: ...

    def listen(self, state: State, told: Callable[[], Any]) -> None: ...

    def later(self, do: Callable[[], Any]) -> None: ...

    def awaiting(self, more: int) -> None: ...

    def yielded(self, state: State, n: int) -> bool: ...

    def element(self, state: State, n: int, timeout: float | None) -> Any: ...

    def look(self, state: State) -> bool: ...

    def cancel(self, state: State, why: str) -> None: ...


class Called(Future):
    """A Future of a run."""

    __slots__ = ("_known", "calls", "output", "state")

    def __init__(self, calls: Owner, state: State, output: int = 0) -> None:
        super().__init__()
        self.calls, self.state, self.output = calls, state, output
        self._known = False

    def result(self, timeout: float | None = None) -> Any:
        """The value; see Future."""
        try:
            return self.take(lambda: self.calls.result(self.state, self.output, timeout))
        except CallFailed as e:
            raise e.with_traceback(None)  # how it was found says nothing

    def take(self, value: Callable[[], Any]) -> Any:
        """The value, which is made once."""
        if not self._known:
            self._value = value()
            self._known = True
        return self._value

    def failed(self) -> bool:
        """Whether the call has failed; see Future."""
        return self.done() and self.state.end is not None and self.state.end.error is not None

    def add_done_callback(self, function: Callable[[Future], Any]) -> None:
        """Has a function called at the end; see Future. Until it has run, the task counts as one that waits."""
        calls = self.calls

        def call() -> None:
            try:
                function(self)
            finally:
                calls.awaiting(-1)

        calls.awaiting(1)
        try:
            calls.listen(self.state, lambda: calls.later(call))
        except BaseException:
            calls.awaiting(-1)
            raise

    def __await__(self) -> Generator[Any, None, Any]:
        """The value, for a coroutine; see Future."""
        import asyncio  # loads what most programs do without

        loop = asyncio.get_running_loop()
        ended, calls = loop.create_future(), self.calls

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        def told() -> None:
            calls.awaiting(-1)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end)

        if not self._known:
            calls.awaiting(1)
            calls.listen(self.state, told)
            yield from ended
            if not self._near():
                yield from loop.run_in_executor(None, self._fetch)
        return self.result()

    def _near(self) -> bool:
        """Whether the value, or the error, has come with the message of the end."""
        end, put = self.state.end, self.state.put
        outputs = (put,) if put is not None else self.state.elements or (() if end is None else end.outputs)
        return all(d.place.kind == m.INLINE for d in outputs)

    def _fetch(self) -> None:
        """Brings the value into memory, in a thread that is not the program's."""
        with strand("cascade-await"), contextlib.suppress(Exception):
            self.result()

    def __repr__(self) -> str:
        return f"<Future of {self.state.name}, which {self.state.says}>"

    def done(self) -> bool:
        """Whether the call has ended; see Future."""
        return self.calls.look(self.state)

    def cancel(self, why: str = "") -> None:
        """Ends the call; see Future."""
        self.calls.cancel(self.state, why)

    def __iter__(self) -> Iterator[Any]:
        """The elements of a series; see Future."""
        return (self.calls.element(self.state, f.number, None) for f in self.elements())

    def elements(self) -> Iterator[Element]:
        """Futures of the elements of a series; see Future."""
        if not self.state.stream:
            raise TypeError(f"{self.state.name} does not yield: it has one result")
        n = 0
        while self.calls.yielded(self.state, n):
            yield Element(self, n)
            n += 1

    def __del__(self) -> None:
        """The agent is told with the next message; this may be in any thread, at any time."""
        self.calls.released.append(self.state)


class Element(Future):
    """An element of a series, which is there."""

    __slots__ = ("calls", "number", "series", "state")

    def __init__(self, series: Called, number: int) -> None:
        super().__init__()
        self.series, self.number = series, number  # which is not dropped before
        self.calls, self.state = series.calls, series.state

    def result(self, timeout: float | None = None) -> Any:
        """The value; see Future."""
        return self.calls.element(self.state, self.number, timeout)


class InputFuture(Future):
    """An input of a run, to be passed on."""

    __slots__ = ("calls", "given", "index", "name")

    def __init__(self, calls: Owner, name: str, index: int, given: m.Desc) -> None:
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
        self.direct = any(state is not None and state.direct for state in states)
        once = not self.direct and len(self.left) <= MOST_REFS and all(n == 1 for n in self.left.values())
        self.refs = list(self.left) if once else []
        self.first_need = self.need

    def ended(self, state: State) -> None:
        """A call has ended."""
        places = self.left.pop(state.ref, 0)
        self.need -= places
        if places and state.end is not None and state.end.error is not None:
            self.failed = self.failed or state

    def done(self) -> bool:
        """Whether enough have ended."""
        return self.need <= 0 or self.at_once()

    def at_once(self) -> bool:
        """Whether the run goes on without waiting for its core: it will fail."""
        return self.fast and self.failed is not None


class Collector:
    """Futures as they end."""

    def __init__(self, futures: Sequence[Future]) -> None:
        """The lock is held."""
        self.left: dict[m.CallRef, list[Future]] = {}
        ended: list[tuple[int, int, Future]] = []
        for i, f in enumerate(futures):
            state = call_of(f)
            if state is not None and state.end is None:
                self.left.setdefault(state.ref, []).append(f)
            else:
                ended.append((0 if state is None else state.order, i, f))
        self.ready = deque(f for _, _, f in sorted(ended))

    def ended(self, state: State) -> None:
        """A call has ended."""
        self.ready.extend(self.left.pop(state.ref, ()))


def call_of(f: Future) -> State | None:
    """The call that is to end; None for what has its value."""
    return f.state if isinstance(f, Called) and f.state.put is None else None


def valued(args: Sequence[Any]) -> Sequence[Any]:
    """Arguments of a task, to which the agent brings no results of actors: it waits for them and has their values in their places."""
    if not any(_has_direct(a) for a in args):
        return args
    return [_value(a) if _has_direct(a) else a for a in args]


def _has_direct(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, (Called, Element)) and v.state.direct for v in value)
    return isinstance(value, (Called, Element)) and value.state.direct


def _value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [v.result() if isinstance(v, (Called, Element)) and v.state.direct else v for v in value]
    return value.result()
