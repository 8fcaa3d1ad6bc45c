"""Handles of actors that were found in values: each has a line of calls of its own (docs/protocol/actors.md, Handles in values).

    value ──▶ borrow of the stand-in ──first call──▶ borrow of the address ──▶ link ──▶ the process
    the last handle here ──▶ its calls are answered ──▶ the stand-in is let go      the last of all ──ActorFreed──▶ the process
"""

from __future__ import annotations

import threading
import time
from typing import Any

from ..values import decode
from ..wire import codec
from ..wire import messages as m
from ..wire.direct import DirectLink, dial
from ..wire.envelope import LinkError
from . import reach
from .actorline import NUMBER, ActorState, Line, peer_of
from .actorlives import RESTARTED
from .futures import Called, State

FAR = 15.0  # s in which a way to another host is looked for: its agent may be silent for a moment
_PAUSE, _LONGEST = 0.05, 1.0  # s between two tries


class FoundLine(Line):
    """The line of a handle that was found. Its process is looked for when there is something to be sent to it."""

    def __init__(self, of: Any, name: str, agent: str, held: Called) -> None:
        """held is what the handle refers to."""
        super().__init__(of, name, None)
        self.agent, self.held = agent, held
        self._sought = False
        self._kills: str | None = None  # it is to be killed, and why; that has not left
        self._told = threading.Event()  # what the thread that looks for the process waits for
        self._cut: list[ActorState] = []  # calls that were open when the way broke, until another is found

    def give(self) -> Called:
        held = self.held
        return super().give() if held is None else held  # or says why not

    def add(self, state: ActorState | None, text: bytes, args: bytes) -> bool:
        due = super().add(state, text, args)
        self._seek()
        return due

    def kill(self, why: str, restart: bool) -> None:
        if self.dead is None:
            self._kills = why
            self._seek()
            self._end_behind()

    def goes_on(self) -> bool:
        return self.dead is None and (bool(self.open or self.queue or self._cut) or self._kills is not None)

    def has_left(self) -> bool:
        return self.dead is not None or self._kills is None and super().has_left()

    def lost(self, why: str, cause: m.TaskError | None = None) -> None:
        super().lost(why, cause)
        self._fail_cut(self.dead)
        self._told.set()

    def _fail_cut(self, error: m.TaskError | None) -> None:
        cut, self._cut = self._cut, []
        for state in cut:
            if state.end is None:
                self._of.calls.ended(state, m.CallEnd(state.ref, error=error))

    def _end_behind(self) -> None:
        if self._kills is not None and self.link is not None:
            self.flush()
            why, self._kills = self._kills, None
            self._send(codec.encode(m.ActorDrop(kill=[NUMBER], why=why)))
        super()._end_behind()

    def _let_go(self) -> None:
        if not self.dropped or self.open or self.queue or self._cut or self._kills is not None or self.dead is not None:
            return
        if self.link is not None or not self._sought:
            self.lost("no handle of it is left here")
            self._of.nudge()

    def _breaks(self) -> None:
        """Its process is gone, whose end the agent tells to the run that has made it; or the way to it, and another is looked for."""
        if self.link is None:
            return
        if self.dead is not None or self.agent == self._of.agent:
            self.lost(f"its process{peer_of(self.link)} has died")
            return
        self._unlink()
        self._cut += [state for state in self.open.values() if state is not None]
        self.open, self._sought = {}, False
        self._cancelled.clear()
        self._begin()
        if self._cut:
            self._seek()

    def linked(self, link: DirectLink) -> None:
        why = f"the way to the actor on the host of agent {self.agent} broke while the call was open, which may have run"
        self._fail_cut(self._of.error(why)._replace(codes=[RESTARTED]))
        super().linked(link)

    # ---- the way to the process

    def _seek(self) -> None:
        if not self._sought and self.dead is None:
            self._sought = True
            threading.Thread(target=self._find, args=(self.held,), name="cascade-actor", daemon=True).start()

    def _find(self, held: Called) -> None:
        """Links to the process; in a thread of its own."""
        try:
            link = self._link(held)
        except (LinkError, OSError, ValueError) as e:
            with self._of.lock:
                if self.dead is None:
                    self.lost(str(e))
            return
        with self._of.lock:
            if self.dead is not None:
                link.abandon()
                return
            self.linked(link)
            self._of.tell()

    def _link(self, held: Called) -> DirectLink:
        self._end(held.state)
        address = self._of.calls.borrow(m.CallInput(0, m.FROM_CALL_VALUE, held.state.ref))
        d = self._end(address.state)
        near, _, at = decode(d.codec, d.dtype, d.shape, d.place.bytes, str).partition(" ")
        peer = f"actor {self.name}"
        if self.agent == self._of.agent:
            return dial(near, peer, self._caller())
        return dial(self._door(near, at), peer, self._caller(), pipes=False)

    def _end(self, state: State) -> m.Desc:
        """Waits for what a reference refers to."""
        ended = self._told = threading.Event()
        with self._of.lock:
            if state.end is None and self.dead is None:
                state.listeners = [*(state.listeners or ()), ended.set]
                self._of.calls.flush()
                self._of.calls.host.soon()
            else:
                ended.set()
        ended.wait()
        end = state.end
        if end is None or end.error is not None or len(end.outputs) != 1:
            why = "" if end is None or end.error is None else f": {end.error.message}"
            raise LinkError(f"what its handle refers to is lost{why}")
        return end.outputs[0]

    def _door(self, near: str, at: str) -> str:
        """Where to connect to come to the process, which is on another host."""
        until, pause = time.monotonic() + FAR, _PAUSE
        while True:
            asked = reach.ask(self._of.calls.host, self.agent, at, near)
            self._told = asked.came
            answer = asked.answer if asked.came.wait(max(until - time.monotonic(), 0)) else None
            if self.dead is not None:
                raise LinkError("it is not called any more")
            if answer is not None and not answer.error:
                return answer.address
            if answer is None or answer.gone or time.monotonic() + pause > until:
                why = f"the agent of this host does not answer within {FAR:g} s" if answer is None else answer.error
                raise LinkError(f"no way leads to its process on the host of agent {self.agent}: {why}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
