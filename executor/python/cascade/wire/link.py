"""A link to an agent or controller over ZeroMQ (docs/protocol/links.md).

One thread at a time may use a link. It never connects again: when the connection breaks it is over. With replay it
says what it has received, as the links of clients must; it keeps nothing to send again.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable

import zmq

from .envelope import MAX_BODY, LinkError, Session, SessionLink

_TURN = 200  # milliseconds after which a wait looks whether the peer is still there


class Link(SessionLink):
    """A DEALER with envelopes. Messages go out and come in as their heads; bodies come with them."""

    edge = True  # fd tells of what came once, and sending may take that away

    def __init__(self, address: str, role: str, name: str, build: str, *, max_head: int = MAX_BODY,
                 on_break: Callable[[], None] | None = None, timeout: float = 20.0, replay: bool = False) -> None:  # fmt: skip
        """Connects and shakes hands. on_break is called from another thread when the connection breaks."""
        self._address = address
        self._replay = replay
        self._session = Session(address, replay)
        self._gone = self._ended = False
        self._context = zmq.Context()
        self._socket = s = self._context.socket(zmq.DEALER)
        try:
            s.setsockopt(zmq.RECONNECT_IVL, -1)
            s.setsockopt(zmq.LINGER, 2000)
            s.setsockopt(zmq.MAXMSGSIZE, max(max_head, MAX_BODY) + (1 << 20))
            monitor = s.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_MONITOR_STOPPED)
            watcher = threading.Thread(target=self._watch, args=(monitor, on_break), name="cascade-link", daemon=True)
            watcher.start()
            s.connect(address)
            self._handshake(role, name, build, max_head, timeout)
            self.fd = int(s.getsockopt(zmq.FD))
        except BaseException:
            self._end(linger=0)
            raise

    def _handshake(self, role: str, name: str, build: str, max_head: int, timeout: float) -> None:
        until = time.monotonic() + timeout
        self._put(until, self._session.hello(role, name, build, max_head))
        while not self._socket.poll(_TURN):
            if self._gone and not self._socket.poll(_TURN):  # what it said last may come after the news of its end
                raise self._broke()
            if time.monotonic() > until:
                raise LinkError(f"{self._address} did not answer within {timeout:g} s")
        self._session.welcomed(self._socket.recv_multipart()[0])

    def _watch(self, monitor: zmq.Socket[bytes], on_break: Callable[[], None] | None) -> None:
        try:
            # To its end: an unread monitor would hold up disable_monitor.
            while int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder) != zmq.EVENT_MONITOR_STOPPED:
                self._gone = True  # there is no second connection
                if not self._ended and on_break is not None:
                    on_break()
        except zmq.ZMQError:  # the context has ended
            pass
        finally:
            self._gone = True
            monitor.close(0)

    def _broke(self) -> LinkError:
        return LinkError(f"the link to {self._address} broke")

    def _put(self, until: float | None, *frames: bytes) -> None:
        """Sends a message, or raises LinkError. It waits while the queue is full, not for a peer that is gone.

        To a peer that is gone there is no queue: a send that blocks would never return.
        """
        while not self._gone and not (self.closing and until is None):
            try:
                self._socket.send_multipart(frames, zmq.NOBLOCK)
                return
            except zmq.Again:
                if until is not None and time.monotonic() > until:
                    raise LinkError(f"{self._address} takes no messages") from None
            self._socket.poll(_TURN, zmq.POLLOUT)
        raise self._broke()

    def send(self, head: bytes, *body: bytes) -> None:
        """Sends a message. It waits while the queue is full, and raises LinkError when the link is broken."""
        self._put(None, self._session.data(), head, *body)

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message (head, body) if there is one; it does not wait."""
        while self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator,arg-type]
            message = self._session.take(self._socket.recv_multipart())
            if message is not None:
                if self._replay and self._session.ack_due:
                    with contextlib.suppress(LinkError):  # what a peer sent before it went is still received
                        self._put(None, self._session.ack())
                return message
            if self.closed_by_peer is not None:
                return None
        return None

    def close(self, reason: str = "") -> None:
        """Says goodbye, if the other side can receive it, and lets what was sent go out."""
        self._ended = True
        if not self._socket.closed:
            with contextlib.suppress(LinkError):
                self._put(time.monotonic() + 2, self._session.goodbye(reason))
        self._end()

    def _end(self, linger: int | None = None) -> None:
        """Frees the socket, its monitor and the context. A second call does nothing."""
        self._ended = True
        if not self._socket.closed:
            self._socket.disable_monitor()
            self._socket.close(linger)
        self._context.term()
