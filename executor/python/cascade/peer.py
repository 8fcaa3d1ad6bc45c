"""A link of the client to a controller or agent, with requests and answers."""

from __future__ import annotations

import os
import select
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import screen
from .wire import codec
from .wire import messages as m
from .wire.envelope import LinkError
from .wire.stream import QUIET, StreamLink

if TYPE_CHECKING:
    from .wire.link import Link

PIECE = 1 << 20  # bytes of a dataset or package in one message
NOT_FOUND, UNAVAILABLE = 2, 4  # of the codes of replies
_AHEAD = 16  # messages without an answer that are sent before the first is received
_TURN = 0.2  # seconds after which a wait takes note of a signal, or a break, that came as it began and did not end it


class RequestError(Exception):
    """The cluster refused a request. code is its number in docs/protocol.md."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return screen.text(super().__str__())


class _Line:
    """A connection, and whether it was lost."""

    link: StreamLink | Link

    def __init__(self) -> None:
        self.lost = False

    def broke(self) -> None:
        """Notes that it was lost; any thread calls it."""
        self.lost = True

    @property
    def over(self) -> bool:
        return self.lost or self.link.closed_by_peer is not None


class _Asked(NamedTuple):
    """A request that waits for answers, which come over the line that it was sent over and over no other."""

    line: _Line
    heard: deque[tuple[Any, bytes]]


class Peer:
    """A link with requests and answers. Any thread of the process that connected may use it.

    It has no thread of its own: one of the threads that wait reads for all of them, and leaves that to another when it
    has what it waited for. A link that broke, or was lost to an interrupt, ends its requests; the next request connects again.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._process = os.getpid()
        self._closed = False
        self._req = 0
        self._heard: dict[int, _Asked] = {}
        self._using = threading.Lock()  # held while the link is used, and while another takes its place
        self._connecting = threading.Lock()  # held while that other one is made, which close does not wait for
        self._changed = threading.Condition(threading.Lock())  # notified when something came or ended, or no thread reads
        self._reading = False  # one of those that wait reads
        self._line = self._connect()
        self._poll = _poll(self._line.link)  # for the one that reads

    def _connect(self) -> _Line:
        name = f"python-{uuid.uuid4().hex[:12]}"
        line = _Line()
        if self.address.startswith("ipc://"):
            line.link = StreamLink(self.address, "client", name, "cascade-run", on_break=line.broke)
            if QUIET in line.link.features:
                return line
            line.link.close()
        from .wire.link import Link  # ZeroMQ is loaded where it is needed

        line.link = Link(self.address, "client", name, "cascade-run", replay=True, on_break=line.broke)
        return line

    def _current(self) -> _Line:
        """The line, or a new one in the place of one that is over."""
        if self._closed or not self._line.over:
            return self._line
        with self._connecting:
            if self._closed or not self._line.over:
                return self._line
            self._take()
            made = self._connect()
            with self._using:
                unused = made
                if not self._closed:
                    unused, self._line, self._poll = self._line, made, _poll(made.link)
                unused.link.closing = True
                unused.link.close()
            with self._changed:
                self._changed.notify_all()  # those that wait for answers over the old one have none
            return self._line

    def check(self) -> None:
        """Raises RuntimeError in a process that was forked from the one that connected: it shares no link with that."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"the link to {self.address} belongs to the process that connected, and this one was forked from it: "
                f"connect here, cascade.connect({self.address!r})"
            )

    def start(self, make: Callable[[int], Any]) -> int:
        """Sends a request and returns its number."""
        self.check()
        with self._changed:
            self._req += 1
            req = self._req
        line = self._current()
        self._heard[req] = _Asked(line, deque())
        try:
            self._send(line, codec.encode(make(req)))
        except BaseException:
            self.end(req)
            raise
        return req

    def _send(self, line: _Line, head: bytes, body: bytes = b"") -> None:
        with self._using:
            if self._ended(line):
                raise self._broke()
            try:
                line.link.send(head, body)
            except BaseException:  # it broke, or was interrupted, perhaps between two parts of a message
                line.lost = True
                raise

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the other side announced."""
        self.check()
        return self._current().link.features

    @property
    def build(self) -> str:
        """The version of the other side."""
        self.check()
        return self._current().link.build

    def tell(self, message: Any, body: bytes) -> None:
        """Sends a message that has no answer, a few ahead of what the other side has received."""
        self.check()
        line = self._current()
        self._wait(line, lambda: line.link.unacknowledged < _AHEAD, None)
        self._send(line, codec.encode(message), body)

    @property
    def _over(self) -> bool:
        return self._closed or self._line.over

    def _ended(self, line: _Line) -> bool:
        return self._over or line is not self._line

    def _broke(self) -> LinkError:
        return LinkError(f"the link to {self.address} " + ("was closed" if self._closed else "broke"))

    def answer(self, req: int, timeout: float | None = None) -> tuple[Any, bytes] | None:
        """The next answer to a request, for which one thread waits; None when the time is up. A refusal is raised."""
        self.check()
        line, heard = self._heard[req]
        if not self._wait(line, lambda: bool(heard), None if timeout is None else time.monotonic() + timeout):
            return None
        message, body = heard.popleft()
        if isinstance(message, m.Reply) and message.code:
            raise RequestError(message.code, message.message)
        return message, body

    def _wait(self, line: _Line, there: Callable[[], bool], until: float | None) -> bool:
        """Waits until something of a line is there, and reads what comes when no other thread does; False when the time is up.

        Answers that came before the link broke, or the time was up, are still taken.
        """
        looked = over = mine = False
        while True:
            try:
                with self._changed:
                    while True:
                        ended = over or self._closed or line is not self._line
                        if there():
                            return True
                        if ended:
                            raise self._broke()
                        left = _TURN if until is None else min(_TURN, until - time.monotonic())
                        if left <= 0 and (looked or self._reading):
                            return False
                        if not self._reading:
                            mine = self._reading = True
                            break
                        self._changed.wait(left)
                over = self._ended(line)
                self._read(0 if over else left)
                looked = True
            finally:
                if mine:
                    with self._changed:
                        mine = self._reading = False
                        self._changed.notify_all()

    def _read(self, wait: float) -> None:
        """Takes what has come, or what comes first within a time."""
        if not self._take() and wait > 0:
            self._poll.poll(max(1, int(wait * 1000)))
            self._take()

    def _take(self) -> bool:
        """Takes what has come, and says whether that was something."""
        came = False
        with self._using:
            if self._closed:
                return True
            line = self._line
            try:
                while (received := line.link.receive()) is not None:
                    came = True
                    message = codec.decode(received[0])
                    if message is not None and (asked := self._heard.get(message.req)) is not None:
                        asked.heard.append((message, received[1]))
            except LinkError:
                line.lost = True  # what came before is still taken; then _broke says it
            except BaseException:  # interrupted, perhaps between two parts of a message
                line.lost = True
                raise
        return came

    def end(self, req: int) -> None:
        """Drops a request, whose answers are no longer awaited. It takes no lock: finalizers call it wherever a thread is."""
        self._heard.pop(req, None)

    def ask(self, make: Callable[[int], Any]) -> tuple[Any, bytes]:
        """A request with one answer."""
        req = self.start(make)
        try:
            answer = self.answer(req)
            assert answer is not None  # there is no time-out
            return answer
        finally:
            self.end(req)

    def close(self) -> None:
        """Ends the link: threads that wait get a LinkError. In a process that was forked it does nothing."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._line.link.closing = True  # a thread that sends to one that takes nothing gives that up
        with self._using:
            self._line.link.close()


def _poll(link: StreamLink | Link) -> select.poll:
    """A wait for what comes over a link."""
    poll = select.poll()
    poll.register(link.fd, select.POLLIN)
    return poll
