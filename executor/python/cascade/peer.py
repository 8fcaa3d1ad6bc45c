"""A link of the client to a controller or agent, with requests and answers."""

from __future__ import annotations

import select
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


class RequestError(Exception):
    """The cluster refused a request. code is its number in docs/protocol.md."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return screen.text(super().__str__())


class Peer:
    """A link with requests and answers. It belongs to one thread."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._lost = False
        self._link = self._connect()
        self._req = 0
        self._heard: dict[int, list[tuple[Any, bytes]]] = {}
        self._poll = select.poll()
        self._poll.register(self._link.fd, select.POLLIN)

    def _connect(self) -> StreamLink | Link:
        name = f"python-{uuid.uuid4().hex[:12]}"
        if self.address.startswith("ipc://"):
            link = StreamLink(self.address, "client", name, "cascade-run", on_break=self._broken)
            if QUIET in link.features:
                return link
            link.close()
        from .wire.link import Link  # ZeroMQ is loaded where it is needed

        return Link(self.address, "client", name, "cascade-run", replay=True, on_break=self._broken)

    def _broken(self) -> None:
        self._lost = True

    def start(self, make: Callable[[int], Any]) -> int:
        """Sends a request and returns its number."""
        if self._over:
            raise self._broke()
        self._req += 1
        self._link.send(codec.encode(make(self._req)))
        self._heard[self._req] = []
        return self._req

    @property
    def features(self) -> tuple[str, ...]:
        """What the other side says that it can do."""
        return self._link.features

    def tell(self, message: Any, body: bytes) -> None:
        """Sends a message that has no answer, a few ahead of what the other side has received."""
        self._receive()
        while self._link.unacknowledged >= _AHEAD and not self._over:
            self._poll.poll(200)
            self._receive()
        if self._over:
            raise self._broke()
        self._link.send(codec.encode(message), body)

    @property
    def _over(self) -> bool:
        return self._lost or self._link.closed_by_peer is not None

    def _broke(self) -> LinkError:
        return LinkError(f"the link to {self.address} broke")

    def answer(self, req: int, timeout: float | None = None) -> tuple[Any, bytes] | None:
        """The next answer to a request; None when the time is up. A refusal is raised."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._heard[req]:
            self._receive()
            if self._heard[req]:
                break
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            if left <= 0:
                return None
            if self._over:
                raise self._broke()
            self._poll.poll(max(1, int(left * 1000)))
        message, body = self._heard[req].pop(0)
        if isinstance(message, m.Reply) and message.code:
            raise RequestError(message.code, message.message)
        return message, body

    def _receive(self) -> None:
        try:
            while (received := self._link.receive()) is not None:
                message = codec.decode(received[0])
                if message is not None and message.req in self._heard:
                    self._heard[message.req].append((message, received[1]))
        except LinkError:
            self._lost = True  # what came before is still taken; then _broke says it

    def end(self, req: int) -> None:
        """Nobody waits for a request any more."""
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
        """Ends the link."""
        self._link.close()
