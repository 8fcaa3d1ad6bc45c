"""The line of calls of an actor's handle, over a direct link to the actor's process (docs/protocol/actors.md).

    add ──▶ batch ──ActorCalls──▶ the process ──ActorEnds──▶ State
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from ..checks import TypeMismatch
from ..values import decode
from ..wire import codec
from ..wire import messages as m
from ..wire.direct import DirectLink, dial
from ..wire.envelope import LinkError
from .actorlives import RESTARTED, Life, Lives
from .futures import Called, State
from .raised import raised
from .targets import Target

NUMBER = 1  # of an actor in its process, which has no other
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

    def __init__(self, of: Any, name: str, life: Life | None) -> None:
        """of are the actors of its run, actorcalls.ActorCalls."""
        self._of, self.name = of, name
        self.agent: str = of.agent  # on whose host it is
        self.starts: Callable[[], Called] | None = None  # has a process started
        self.held: Called | None = None  # the value to which handles in values refer
        self.shared = False  # there are such handles, or were: the actor is others', too
        self._begin()
        self._lives = None if life is None else Lives(life, self._named)
        self._unsent = True  # no link to the process was up
        self.row: Called | None = None  # the call of its process
        self.link: DirectLink | None = None
        self.dead: m.TaskError | None = None  # it has ended, and why
        self.dropped = False  # no handle is left
        self.queue: deque[Pending] = deque()  # of which the first has an argument that is not there
        self._batch: list[bytes] = []
        self._size = 0
        self._cancelled: dict[int, str] = {}  # calls that are open, and why
        self.open: dict[int, ActorState | None] = {}  # None: the actor is made
        self._broken: str | None = None  # its process is gone; what is said when the agent does not tell how
        self._pid = ""
        self._untold: threading.Timer | None = None

    def _begin(self) -> None:
        """Numbers the calls that follow as those of a line."""
        self.handle = secrets.randbits(63) + 1
        self._named = b"\x95\x92" + msgpack.packb(self.handle)  # how the items of its calls begin
        self._last = 0  # number of a call

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
                link = dial(address.partition(" ")[0], f"actor {self.name}", self._caller())
            except (LinkError, OSError, ValueError) as e:
                self.lost(str(e))
                return
            self.linked(link)

    def _caller(self) -> str:
        """The name of this end of a link."""
        return f"caller-{os.getpid()}-{id(self):x}"

    def linked(self, link: DirectLink) -> None:
        """Its process was found. The lock is held."""
        self.link, self._unsent = link, False
        self._of.watch.add(link, self._receive)
        self.flush()
        if self.shared:
            self._share()
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
        self._pid = peer_of(link)
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
        pid = peer_of(self.link) or self._pid
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
        self._let_go()

    def drop(self) -> None:
        """No handle is left: it ends behind the calls that were made."""
        self.dropped = True
        self._end_behind()

    def _end_behind(self) -> None:
        if self.dropped and not self.queue and self.link is not None and self.dead is None:
            self.flush()
            self._send(codec.encode(m.ActorDrop(handles=[self.handle], why="no handle of it is left")))
        self._let_go()

    def _let_go(self) -> None:
        """Ends its hold on the actor when its handle is gone and its calls are answered: a line is never older than its hold."""
        if self.held is not None and self.dropped and not self.open and not self.queue:
            self.held = None
            self._of.nudge()

    def cancel(self, state: ActorState, why: str) -> None:
        """Ends one call: at once where it has not left, or runs whatever becomes of it, else when its process says so."""
        if state.number and not (self._lives is not None and self._lives.life.exact):
            self.flush()
            if self.open.get(state.number) is state:
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

    # ---- handles in values

    def give(self) -> Called:
        """The value to which a handle in a value refers. It is put when a handle is given away for the first time."""
        with self._of.making, self._of.lock:
            if self._lives is not None:
                raise TypeMismatch(
                    f"there is a handle of actor {self.name} in it, which is restarted when its process dies: only the task or "
                    "program that has made it can call it; make it without max_restarts and exactly_once to give it away"
                )
            if self.dead is not None or self.row is None:
                raise raised(f"a handle of actor {self.name}", self.dead or self._of.error("the actor has ended"))
            if self.held is None:
                self.held = self._of.calls.stand_in(self.name, self.row.state.ref)
                self.shared = True
                self._share()
            return self.held

    def _share(self) -> None:
        """Tells the process that it goes on without this line."""
        self.flush()
        self._send(codec.encode(m.ActorDrop(why="values refer to it", shared=[NUMBER])))

    def kill(self, why: str, restart: bool) -> None:
        """Ends the actor at once; with restart it goes on in another process, if it may. The lock is held."""
        if self.dead is not None:
            return
        text = f"it was killed: {why}" if why else "it was killed"
        if self.shared and self.link is not None:  # others are told by the process, if that can
            self.flush()
            self._send(codec.encode(m.ActorDrop(kill=[NUMBER], why=why)))
            self._untold = threading.Timer(2 * _TELLS, self._of.unkilled, (self, text))
            self._untold.daemon = True
            self._untold.start()
            return
        if restart:
            self.died(text)
        else:
            self.lost(text)

    def goes_on(self) -> bool:
        """Whether the actor has to learn something of the run before that ends. The lock is held."""
        return self.shared and self.dead is None

    def has_left(self) -> bool:
        """Whether the process has been sent all that there is. The lock is held."""
        return self.dead is not None or self.link is not None and not (self.link.waits or self._batch or self.queue)

    def over(self, why: str, well: bool) -> None:
        """The run has ended, and with it the process if no value refers to that. Calls go on if it ended well. The lock is held."""
        if self.shared and self.link is not None:
            self.row = None  # the agent ends it
        if not well and self.row is None and self.open:
            self.flush()
            self._send(codec.encode(m.ActorDrop(calls=[m.ActorName(self.handle, n) for n in self.open], why=why)))
        self.lost(why)

    # ---- the end

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
        self.held = None
        self._of.forget(self, why)
        self._of.tell()


def peer_of(link: DirectLink | None) -> str:
    """The number of the process at the other end, for people."""
    return f" ({link.pid})" if link is not None and link.pid else ""
