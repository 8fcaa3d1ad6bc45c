"""Actors as the run has them that made them: their processes, their calls, and what ends both (docs/protocol/actors.md).

    Class.remote ──▶ a call of the generator actorhost.serve ──▶ agent ──▶ a process; its first element is an address
    h.f.remote   ──▶ Line.queue (an argument is not there yet) ──▶ batch ──ActorCalls──▶ the process
    result       ◀── State ◀──────────────────────────────────────────────ActorEnds───

Their calls have States as others have, in a strand of their own of which the agent knows nothing.
"""

from __future__ import annotations

import functools
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgpack

from .. import context
from ..checks import TypeMismatch
from ..context import CallFailed, Future, Options, strand
from ..wire import messages as m
from ..wire.text import ERRORS
from .actorfound import FoundLine
from .actorline import ActorState, Line, Method, Pending
from .actorlives import Life
from .described import MOST_BYTES, ByCode, described
from .futures import Called, Element, InputFuture
from .raised import DEAD
from .targets import Coded, Target

SERVE = "cascade.actors."  # what the process of an actor runs, before the name of its class
STRAND = (1 << 64) - 1  # of calls of actors
PROCESSES = STRAND - 1  # of the calls of their processes


class Making(NamedTuple):
    """A class of which an actor is made."""

    name: str
    target: Target  # of the constructor
    text: str  # what messages call it, with its options
    coded: Coded | None  # it goes by value
    life: Life | None = None  # it may be restarted


class ActorCalls:
    """The actors of one run, and what it calls of them."""

    def __init__(self, calls: Any) -> None:
        """calls are those of the run, calls.Calls."""
        self.calls = calls
        self._worker = calls.host
        self.watch, self.lock, self.making = self._worker.watch, self._worker.lock, calls._memory.making
        self.agent: str = self._worker.welcome.agent
        self.lines: set[Line] = set()
        self.unheld: deque[Line] = deque()  # whose last handle is gone
        self._settled = False  # the run has ended well
        self._numbers = itertools.count()
        self._ready: queue.SimpleQueue[Callable[[], Any] | None] | None = None  # for a thread of its own

    # ---- making

    def make(self, making: Making, options: Options, keeps: bool, args: Sequence[Any], named: dict[str, Any]) -> Line:
        """Makes an actor: a process is asked for, and the constructor is the first of its calls."""
        return self.calls._mine(f"make an actor {making.name}", lambda: self._make(making, options, keeps, args, named))  # type: ignore[no-any-return]

    def _make(self, making: Making, options: Options, keeps: bool, args: Sequence[Any], named: dict[str, Any]) -> Line:
        making.target.ports(len(args), tuple(named))  # compares them
        calls = self.calls
        run = calls.run
        options = options._replace(here=True, name=f"{making.name.rpartition('.')[2]}-try-{run.attempt & 0xFFFF}")
        serve = _serve_target(making.target.function.__name__)

        def starts() -> Called:
            token = context._strand.set(context._Strand(calls, PROCESSES))
            try:
                return calls.make(serve, options, (keeps,), {})  # type: ignore[no-any-return]
            finally:
                context._strand.reset(token)

        line = Line(self, making.name, making.life)
        line.starts = starts
        row = starts()
        text = _text(making.text, named)
        body = [*args, *named.values()]
        with self._worker.lock:
            line.row = row
            row.state.came = line.came
            self.lines.add(line)
            self._send(line, None, b"".join((msgpack.packb(text), b"\xa0")), body, making.coded)
            line.came()
        return line

    def found(self, name: str, agent: str, held: Called) -> Line:
        """The line of a handle that was found in a value, of an actor on the host of an agent."""
        with self._worker.lock:
            line = FoundLine(self, name, agent, held)
            self.lines.add(line)
        return line

    def call(self, line: Line, method: Method, returns: int, text: str, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """Calls a method: a future, a list of several, or None for a method that returns nothing."""
        what = f"call {method.name}"

        def call() -> Any:
            calls = self.calls
            method.target.ports(len(args), tuple(named))
            name = b"".join((b"\xa0", msgpack.packb(_text(text, named), unicode_errors=ERRORS)))
            with self._worker.lock:
                calls._runs(what)
                state = ActorState(m.CallRef(STRAND, next(self._numbers)), line, method, max(returns, 1))
                state.several = returns > 1
                calls._states[state.ref] = state
                calls.made += 1
                try:
                    self._send(line, state, name, [*args, *named.values()], None)
                except BaseException:  # an argument that cannot be sent: no future stands for the call
                    del calls._states[state.ref]
                    raise
            if returns == 1:
                return Called(calls, state)
            made = [Called(calls, state, i) for i in range(max(returns, 1))]
            return made if returns else None

        return self.calls._mine(what, call)

    def _send(self, line: Line, state: ActorState | None, text: bytes, args: list[Any], coded: Coded | None) -> None:
        """Sends a call, or has it wait for its arguments. The lock is held."""
        if any(isinstance(a, Future) or isinstance(a, (list, tuple)) and any(isinstance(v, Future) for v in a) for a in args):
            if coded is not None:
                args = [ByCode(coded), *args]
            pending = Pending(state, text, args, 0)
            for f in _futures(args):
                self._await(f, line, pending)
            if pending.left or line.queue or not all(_near(f) for f in _futures(args)):
                line.queue.append(pending)
                if line.queue[0] is pending and not pending.left:
                    self._settle(line)
                return
            args = [_here(a) for a in args]
        elif line.queue:
            line.queue.append(Pending(state, text, [ByCode(coded), *args] if coded is not None else args, 0))
            return
        elif coded is not None:
            args = [ByCode(coded), *args]
        self._add(line, state, text, packed(line.name, args))

    def _add(self, line: Line, state: ActorState | None, text: bytes, args: bytes) -> None:
        if line.add(state, text, args):
            line.flush()
        elif len(line.open) == 2:
            self._worker.soon()

    def _await(self, f: Future, line: Line, pending: Pending) -> None:
        """Has a call wait until a future has ended."""
        calls = self.calls
        if getattr(f, "calls", calls) is not calls:
            raise ValueError(f"call of {line.name}: an argument is a future of another task")
        if isinstance(f, InputFuture):
            raise ValueError(f"call of {line.name}: input {f.name} as a future: pass its value")
        if not isinstance(f, Called) or f.state.put is not None or f.state.end is not None:
            return
        if f.state.stream:
            raise ValueError(f"call of {line.name}: an argument is the future of a series: pass list(future.elements())")
        pending.left += 1

        def told() -> None:
            pending.left -= 1
            if pending.left == 0 and line.queue and line.queue[0] is pending:
                self._settle(line)

        f.state.listeners = [*(f.state.listeners or ()), told]
        calls.flush()
        self._worker.soon()

    def _settle(self, line: Line) -> None:
        """Has a thread send the calls of a line whose arguments are there: to bring them into memory may take its time."""

        def settles() -> None:
            while self._first(line):
                pass

        self._beside(settles)

    def _beside(self, do: Callable[[], Any]) -> None:
        """Has a thread of its own do something for the run. The lock is held."""
        if self._ready is None:
            self._ready = queue.SimpleQueue()
            threading.Thread(target=self._does, args=(self._ready,), name="cascade-actors", daemon=True).start()
        self._ready.put(do)

    def _does(self, ready: queue.SimpleQueue[Callable[[], Any] | None]) -> None:
        try:
            with strand("cascade-actors"):
                while (do := ready.get()) is not None:
                    do()
        except (RuntimeError, context.Cancelled):  # the run has ended meanwhile
            pass

    def restart(self, line: Line, why: str) -> None:
        """Has another process started for an actor whose process has died. The lock is held."""
        self._end_row(line, why)

        def starts() -> None:
            assert line.starts is not None
            row = line.starts()
            with self._worker.lock:
                line.row = row
                if line.dead is not None:  # it was killed meanwhile
                    self._end_row(line, why)
                    return
                row.state.came = line.came
                line.came()
                self._worker.soon()

        self._beside(starts)

    def _first(self, line: Line) -> bool:
        """Sends the first call that waits, if its arguments are there."""
        with self._worker.lock:
            if not line.queue or line.queue[0].left:
                return False
            pending = line.queue[0]
        args, failed = b"", None
        try:
            args = packed(line.name, [_here(a) for a in pending.args])
        except CallFailed as e:
            failed = m.TaskError(m.TASK, f"an argument is of a call that has failed: {e}", e.codes, e.stack, task=line.name)
        except (TypeError, ValueError) as e:
            failed = m.TaskError(m.INPUT, f"an argument: {e}", [type(e).__name__], task=line.name)
        with self._worker.lock:
            if not line.queue or line.queue[0] is not pending:
                return False
            line.queue.popleft()
            if failed is None:
                self._add(line, pending.state, pending.text, args)
            elif pending.state is not None:
                self.calls.ended(pending.state, m.CallEnd(pending.state.ref, error=failed))
                self.tell()
            else:
                line.lost(failed.message, failed)
            line._end_behind()
        return True

    # ---- the end

    def flush(self) -> None:
        """Sends what was called, and ends actors of which no handle is left. The lock is held."""
        for line in tuple(self.lines):
            line.flush()
        while self.unheld:
            self.unheld.popleft().drop()

    def kill(self, line: Line, why: str, restart: bool) -> None:
        """Ends an actor at once, with its process, or just that."""

        def kill() -> None:
            with self._worker.lock:
                line.kill(why, restart)

        self.calls._mine(f"kill {line.name}", kill)

    def untold(self, line: Line) -> None:
        """The agent has not told in time how the process of an actor ended."""
        with self._worker.lock:
            if line.dead is None:
                line.died(line.broken())

    def unkilled(self, line: Line, why: str) -> None:
        """The process of an actor that was killed has not ended in time."""
        with self._worker.lock:
            if line.dead is None:
                line.lost(why)

    def tell(self) -> None:
        """Has threads that wait look at what has ended. The lock is held."""
        self._worker.tell()

    def nudge(self) -> None:
        """Has what was let go told to the agent."""
        self._worker.nudge()

    def forget(self, line: Line, why: str) -> None:
        """An actor has ended: its process does. The lock is held."""
        self.lines.discard(line)
        self._end_row(line, why)

    def _end_row(self, line: Line, why: str) -> None:
        """Ends the call of a process."""
        row, line.row = line.row, None
        if row is not None and row.state.end is None and self._worker.current is self.calls.run:
            row.state.came = None
            try:
                self.calls.flush()
                self._worker.send(m.CallDrop(self.calls.run.id, [row.state.ref], True, why))
                self._worker.flush()
            except RuntimeError:  # the session is over, and so is what it has called
                pass

    def error(self, why: str, cause: m.TaskError | None = None) -> m.TaskError:
        """What calls of an actor that has ended fail with."""
        kind = m.CRASH if cause is None else cause.kind
        codes = [*(() if cause is None else cause.codes), DEAD]
        return m.TaskError(kind, why, codes, "" if cause is None else cause.stack, agent=self._worker.welcome.agent)

    def settle(self) -> None:
        """Waits, before a run ends well, for those processes whose actors may go on without it: they learn of what was called."""
        with self._worker.lock:
            lines = [line for line in self.lines if line.goes_on()]
            for line in lines:
                line.drop()
            self._settled = True
        if lines:
            self.calls._block(lambda: all(line.has_left() for line in lines), None, direct=True)

    def end(self) -> None:
        """The run has ended."""
        with self._worker.lock:
            for line in list(self.lines):
                line.over("the task or program that has called it has ended", self._settled)
        if self._ready is not None:
            self._ready.put(None)


def packed(name: str, args: Sequence[Any]) -> bytes:
    """The arguments of a call as they stand in its message."""
    out = [bytes((0x90 | len(args),)) if len(args) < 16 else b"\xdc" + len(args).to_bytes(2, "big")]
    size = 0
    for i, value in enumerate(args, 1):
        try:
            d = described(value)
        except TypeMismatch as e:
            raise TypeMismatch(f"argument {i} of a call of {name}: {e}") from None
        size += d[5]
        out.append(msgpack.packb(d, unicode_errors=ERRORS))
    if size > MOST_BYTES:
        raise ValueError(f"its arguments take {size} bytes, and may take {MOST_BYTES}: pass what {name} can read by itself")
    return b"".join(out)


def _futures(args: Sequence[Any]) -> list[Future]:
    found = []
    for a in args:
        if isinstance(a, Future):
            found.append(a)
        elif isinstance(a, (list, tuple)) and type(a) is not ByCode:
            found += [v for v in a if isinstance(v, Future)]
    return found


def _near(f: Future) -> bool:
    """Whether a future that has ended well has its value in this process."""
    if isinstance(f, Called):
        return f._near() and (f.state.end is None or f.state.end.error is None)
    return not isinstance(f, Element)


def _here(value: Any) -> Any:
    """The value of an argument whose futures have ended."""
    if isinstance(value, Future):
        return value.result()
    if isinstance(value, (list, tuple)) and any(isinstance(v, Future) for v in value):
        return [_here(v) for v in value]
    return value


def _text(text: str, named: dict[str, Any]) -> str:
    """What a message calls a class or a method: with the names of the arguments that are given by name, the last ones."""
    if not named:
        return text
    return f"{text}{'&' if '?' in text else '?'}named={','.join(named)}"


@functools.lru_cache(maxsize=256)
def _serve_target(name: str) -> Target:
    target = Target(SERVE + name, _serve, ("keeps",))
    target.stateful = True
    return target


def _serve(keeps: bool) -> Iterator[str]:
    """Stands for actorhost.serve, which the process of an actor runs."""
    yield ""
