"""Actors as the run has them that made them: their processes, their calls, and what ends both (docs/protocol/actors.md).

    Class.remote ──▶ a call of the generator actorhost.serve ──▶ agent ──▶ a process; its first element is an address
    h.f.remote   ──▶ Line.queue (an argument is not there yet) ──▶ batch ──ActorCalls──▶ the process
    result       ◀── State ◀──────────────────────────────────────────────ActorEnds───

Their calls have States as others have, in a strand of their own of which the agent knows nothing.
"""

from __future__ import annotations

import functools
import itertools
import os
import queue
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgpack

from .. import context
from ..context import CallFailed, Future, Options, strand
from ..values import decode
from ..wire import codec
from ..wire import messages as m
from ..wire.direct import DirectLink, dial
from ..wire.envelope import LinkError
from ..wire.text import ERRORS
from .actorlives import RESTARTED, Life, Lives
from .described import MOST_BYTES, ByCode, described
from .futures import Called, Element, InputFuture, State
from .raised import DEAD
from .targets import Coded, Target

SERVE = "cascade.actors."  # what the process of an actor runs, before the name of its class
STRAND = (1 << 64) - 1  # of calls of actors
PROCESSES = STRAND - 1  # of the calls of their processes
_TELLS = 5.0  # s in which the agent tells how a process ended
_FULL, _MANY = 64 << 10, 1000  # bytes and calls of a message that leaves at once
_HEAD = msgpack.packb(codec.NUMBERS[m.ActorCalls])


class Method(NamedTuple):
    """A method of a class as callers know it."""

    name: str  # CLASS.METHOD
    target: Target
    returns: int
    group: str  # of those that run beside others
    text: str  # what messages call it, without the names of arguments


class Making(NamedTuple):
    """A class of which an actor is made."""

    name: str
    target: Target  # of the constructor
    text: str  # what messages call it, with its options
    coded: Coded | None  # it goes by value
    life: Life | None = None  # it may be restarted


class ActorState(State):
    """A call of a method."""

    __slots__ = ("line", "number")
    direct = True

    def __init__(self, ref: m.CallRef, line: Line, method: Method, returns: int) -> None:
        super().__init__(ref, method.name, method.target, None, returns)
        self.line, self.number = line, 0  # the number is 0 until it has left


class Pending:
    """A call behind an argument that is not there yet."""

    __slots__ = ("args", "left", "state", "text")

    def __init__(self, state: ActorState | None, text: bytes, args: list[Any], left: int) -> None:
        self.state, self.text, self.args, self.left = state, text, args, left


class Line:
    """One actor: the line of its calls. The lock of the run's process guards it."""

    def __init__(self, of: ActorCalls, name: str, starts: Callable[[], Called], life: Life | None) -> None:
        """starts has a process started."""
        self._of, self.name, self.starts = of, name, starts
        self.handle = secrets.randbits(63) + 1
        self._named = b"\x95\x92" + msgpack.packb(self.handle)  # how the items of its calls begin
        self._lives = None if life is None else Lives(life, self._named)
        self._unsent = True  # no link to the process was up
        self.row: Called | None = None  # the call of its process
        self.link: DirectLink | None = None
        self.dead: m.TaskError | None = None  # it has ended, and why
        self.dropped = False  # no handle is left
        self.queue: deque[Pending] = deque()  # of which the first has an argument that is not there
        self._batch: list[bytes] = []
        self._size = 0
        self._last = 0  # number of a call
        self._cancelled: dict[int, str] = {}  # calls that are open, and why
        self.open: dict[int, ActorState | None] = {}  # None: the actor is made
        self._broken: str | None = None  # its process is gone; what is said when the agent does not tell how
        self._pid = ""
        self._untold: threading.Timer | None = None

    def add(self, state: ActorState | None, text: bytes, args: bytes) -> bool:
        """Puts a call behind those before; it tells whether it is to leave at once."""
        if self.dead is not None:
            if state is not None:
                self._of.calls.ended(state, m.CallEnd(state.ref, error=self.dead))
            return False
        self._last += 1
        if state is not None:
            state.number = self._last
        self.open[self._last] = state
        item = b"".join((self._named, msgpack.packb(self._last), b"\x01", text, args))
        if self._lives is not None:
            item = self._lives.sends(self._last, item, text + args if state is None else None)
        self._batch.append(item)
        self._size += len(args)
        return len(self.open) == 1 or self._size >= _FULL or len(self._batch) >= _MANY

    def flush(self) -> None:
        """Sends the calls that were made."""
        if self.link is None or not self._batch:
            return
        items, self._batch, self._size = self._batch, [], 0
        self._send(b"".join((b"\x92", _HEAD, b"\x92\xdd", len(items).to_bytes(4, "big"), *items, b"\x90")))

    def _send(self, message: bytes) -> None:
        if self.link is None:
            return
        try:
            self.link.send(message)
        except LinkError as e:
            self.died(str(e))
            return
        self._of.watch.look(self.link)

    def came(self) -> None:
        """The agent has told something of its process: where it is, or that it has ended."""
        row = self.row
        if row is None or self.dead is not None:
            return
        end, elements = row.state.end, row.state.elements
        if end is not None and end.error is not None and self.link is not None:
            self._receive()  # what it had answered before counts
            if self.dead is not None or self.row is not row:  # its link has broken meanwhile
                return
        if end is not None and self._broken is not None:
            self.died(self._broken if end.error is None else self._death(end.error), end.error)
        elif end is not None and (self.link is None or end.error is not None):
            why = "its process has ended" if end.error is None else self._death(end.error)
            died = end.error is None or not self._unsent or end.error.kind in (m.CRASH, m.MEMORY)
            (self.died if died else self.lost)(why if self.link is not None else f"its process did not start: {why}", end.error)
        elif self._broken is not None:
            return
        elif self.link is None and elements:
            d = elements[0]
            try:
                address = decode(d.codec, d.dtype, d.shape, d.place.bytes, str)
                self.link = dial(address, f"actor {self.name}", f"caller-{os.getpid()}-{id(self):x}")
            except (LinkError, OSError, ValueError) as e:
                self.lost(str(e))
                return
            self._unsent = False
            self._of.watch.add(self.link, self._receive)
            self.flush()
            for number, why in list(self._cancelled.items()):  # the process before knew of it, or none
                self._cancel(number, why)
            self._end_behind()

    def _receive(self) -> None:
        """Takes what has come from its process."""
        assert self.link is not None
        try:
            while self.link is not None and (received := self.link.receive()) is not None:
                message = codec.decode(received[0])
                if not isinstance(message, m.ActorEnds):
                    raise LinkError(f"its process sent {type(message).__name__}")
                for e in message.ends:
                    self._ended(e)
            if self.link is not None and self.link.closed_by_peer is not None:
                self.died("its process has ended")
        except (LinkError, ValueError):
            self._breaks()

    def _breaks(self) -> None:
        """Its process is gone. The agent, whose child that was, tells how it ended, before calls fail."""
        link, self.link = self.link, None
        if link is None:
            return
        if self.dead is not None:  # it was to end
            self._of.watch.remove(link)
            link.abandon()
            self.lost("its process has ended")
            return
        self._pid = _of(link)
        self._broken = f"its process{self._pid} has died"
        self._of.watch.remove(link)
        link.abandon()
        self._untold = threading.Timer(_TELLS, self._of.untold, (self,))
        self._untold.daemon = True
        self._untold.start()
        self.came()  # it may have told already

    def broken(self) -> str:
        """What is said of a process that is gone."""
        return self._broken or "its process has ended"

    def _death(self, error: m.TaskError) -> str:
        """How its process ended."""
        if error.kind != m.CRASH:
            return error.message
        pid = _of(self.link) or self._pid
        before, _, how = error.message.partition(": ")
        if before != "its executor died":
            return f"its process{pid} was ended: {how or before}"
        hint = ": by a user, or by the kernel when memory was short" if error.signal == "SIGKILL" else ""
        return f"its process{pid} {'was ' if error.signal else ''}{how}{hint}"

    def _ended(self, e: m.ActorEnd) -> None:
        n = e.name.number
        if n == 0:
            self.dead = e.error or self._of.error("the actor has ended")
            return
        state = self.open.get(n)
        if e.outputs and e.outputs[0].ref.element:
            if state is not None:  # a call that runs again yields again what is known
                known = len(state.elements)
                state.elements.extend(d._replace(ref=m.Ref(0, 0, d.ref.element - 1)) for d in e.outputs if d.ref.element > known)
            return
        self.open.pop(n, None)
        self._cancelled.pop(n, None)
        if self._lives is not None:
            self._lives.answered(n, None if e.state is None else e.state.bytes)
        if state is not None and state.end is None:
            outputs = e.outputs
            if len(outputs) > 1:
                outputs = [d._replace(ref=m.Ref(0, i)) for i, d in enumerate(outputs)]
            self._of.calls.ended(state, m.CallEnd(state.ref, outputs, e.error))

    def drop(self) -> None:
        """No handle is left: it ends behind the calls that were made."""
        self.dropped = True
        self._end_behind()

    def _end_behind(self) -> None:
        if self.dropped and not self.queue and self.link is not None and self.dead is None:
            self.flush()
            self._send(codec.encode(m.ActorDrop(handles=[self.handle], why="no handle of it is left")))

    def cancel(self, state: ActorState, why: str) -> None:
        """Ends one call: at once where it has not left, or runs whatever becomes of it, else when its process says so."""
        if state.number and not (self._lives is not None and self._lives.life.exact):
            self.flush()
            if state.number in self.open:
                self._cancelled[state.number] = why
                self._cancel(state.number, why)
        elif state.end is None:
            error = m.TaskError(m.CANCELLED, why, task=state.name)
            self._of.calls.ended(state, m.CallEnd(state.ref, error=error))
            self._of.tell()

    def _cancel(self, number: int, why: str) -> None:
        self._send(codec.encode(m.ActorDrop(calls=[m.ActorName(self.handle, number)], why=why)))

    def died(self, why: str, cause: m.TaskError | None = None) -> None:
        """Its process is gone: it is restarted, if it may be."""
        lives = self._lives
        if lives is None or self.dead is not None or self.dropped and not self.open and not self.queue:
            self.lost(why, cause)
            return
        if not lives.may():
            self.lost(why + lives.spent(), cause)
            return
        self._unlink()
        again = lives.again(self.open, self._last, self._unsent)
        error = self._of.error(f"the actor was restarted while the call was open, which may have run: {why}")
        for n in again.failed:
            state = self.open.pop(n)
            self._cancelled.pop(n, None)
            if state is not None and state.end is None:
                self._of.calls.ended(state, m.CallEnd(state.ref, error=error._replace(codes=[RESTARTED])))
        for n in [n for n, state in self.open.items() if state is None]:
            del self.open[n]
        self.open[again.making] = None
        self._batch, self._unsent = again.items, True
        self._of.restart(self, why)
        self._of.tell()

    def _unlink(self) -> None:
        if self._untold is not None:
            self._untold.cancel()
        self._untold = self._broken = None
        link, self.link = self.link, None
        if link is not None:
            self._of.watch.remove(link)
            link.abandon()
        self._batch.clear()
        self._size = 0

    def lost(self, why: str, cause: m.TaskError | None = None) -> None:
        """It has ended, or is to: all calls that have not ended fail."""
        error = self.dead if self.dead is not None and cause is None else self._of.error(why, cause)
        self.dead = error
        self._unlink()
        opened, self.open = self.open, {}
        for state in (*opened.values(), *(p.state for p in self.queue)):
            if state is not None and state.end is None:
                self._of.calls.ended(state, m.CallEnd(state.ref, error=error))
        self.queue.clear()
        self._of.forget(self, why)
        self._of.tell()


class ActorCalls:
    """The actors of one run, and what it calls of them."""

    def __init__(self, calls: Any) -> None:
        """calls are those of the run, calls.Calls."""
        self.calls = calls
        self._worker = calls.host
        self.watch = self._worker.watch
        self.lines: set[Line] = set()
        self.unheld: deque[Line] = deque()  # whose last handle is gone
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

        line = Line(self, making.name, starts, making.life)
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
                self._send(line, state, name, [*args, *named.values()], None)
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
        for line in self.lines:
            line.flush()
        while self.unheld:
            self.unheld.popleft().drop()

    def kill(self, line: Line, why: str, restart: bool) -> None:
        """Ends an actor at once, with its process, or just that."""
        why = f"it was killed: {why}" if why else "it was killed"

        def kill() -> None:
            with self._worker.lock:
                if line.dead is None:
                    (line.died if restart else line.lost)(why)

        self.calls._mine(f"kill {line.name}", kill)

    def untold(self, line: Line) -> None:
        """The agent has not told in time how the process of an actor ended."""
        with self._worker.lock:
            if line.dead is None:
                line.died(line.broken())

    def tell(self) -> None:
        """Has threads that wait look at what has ended. The lock is held."""
        self._worker.tell()

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

    def end(self) -> None:
        """The run has ended."""
        with self._worker.lock:
            for line in list(self.lines):
                line.lost("the task or program that made it has ended")
        if self._ready is not None:
            self._ready.put(None)


def _of(link: DirectLink | None) -> str:
    """The number of the process at the other end, for people."""
    return f" ({link.pid})" if link is not None and link.pid else ""


def packed(name: str, args: Sequence[Any]) -> bytes:
    """The arguments of a call as they stand in its message."""
    out = [bytes((0x90 | len(args),)) if len(args) < 16 else b"\xdc" + len(args).to_bytes(2, "big")]
    size = 0
    for value in args:
        d = described(value)
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
