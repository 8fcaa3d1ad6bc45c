"""A link to an agent or controller over ZeroMQ (docs/protocol.md, "Part one").

One thread at a time may use a link. It never connects again: when the connection breaks it is over. With replay it
says what it has received, as the links of clients must; it keeps nothing to send again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import msgpack
import zmq

HELLO, WELCOME, DATA, ACK, CLOSE, REFUSE = range(1, 7)
PROTOCOL = 1
MAX_BODY = 64 << 20


class LinkError(ConnectionError):
    """The other side refused the link, or it broke."""


class Link:
    """A DEALER with envelopes. Messages go out and come in as their heads; bodies come with them."""

    def __init__(self, address: str, role: str, name: str, build: str, *, max_head: int = MAX_BODY,
                 on_break: Callable[[], None] | None = None, timeout: float = 20.0, replay: bool = False) -> None:  # fmt: skip
        """Connects and shakes hands. on_break is called from another thread when the connection breaks."""
        self._context = zmq.Context()
        self._socket = s = self._context.socket(zmq.DEALER)
        s.setsockopt(zmq.RECONNECT_IVL, -1)
        s.setsockopt(zmq.LINGER, 2000)
        s.setsockopt(zmq.MAXMSGSIZE, max(max_head, MAX_BODY) + (1 << 20))
        self._replay = replay
        self.closed_by_peer: str | None = None
        self._ended = False
        self._sent = self._received = 0
        monitor = s.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_MONITOR_STOPPED)
        self._watcher = threading.Thread(target=self._watch, args=(monitor, on_break), name="cascade-link", daemon=True)
        self._watcher.start()
        s.connect(address)
        self._handshake(address, role, name, build, max_head, timeout)
        self.fd = int(s.getsockopt(zmq.FD))

    def _handshake(self, address: str, role: str, name: str, build: str, max_head: int, timeout: float) -> None:
        s = self._socket
        incarnation = time.time_ns()
        s.send(msgpack.packb([HELLO, 0, 0, PROTOCOL, PROTOCOL, role, name, incarnation, os.getpid(), build, [],
                              int(self._replay), incarnation, 0, max_head, MAX_BODY]))  # fmt: skip
        if not s.poll(int(timeout * 1000)):
            raise LinkError(f"{address} did not answer within {timeout:g} s")
        answer = msgpack.unpackb(s.recv_multipart()[0], unicode_errors="surrogateescape")
        if answer[0] == REFUSE:
            raise LinkError(f"{address} refused the link: {answer[3]}")
        if answer[0] != WELCOME:
            raise LinkError(f"{address} answered the greeting with an envelope of kind {answer[0]}")

    def _watch(self, monitor: zmq.Socket[bytes], on_break: Callable[[], None] | None) -> None:
        try:
            monitor.recv_multipart()  # one event is enough: there is no second connection
        except zmq.ZMQError:  # the monitor was closed: so is the socket
            self._ended = True
        monitor.close(0)
        if not self._ended and on_break is not None:
            on_break()

    def send(self, head: bytes) -> None:
        """Sends a message. It waits while the queue is full."""
        self._sent += 1
        self._socket.send_multipart((msgpack.packb((DATA, self._sent, self._received if self._replay else 0)), head))

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message (head, body) if there is one; it does not wait."""
        while self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator,arg-type]
            frames = self._socket.recv_multipart()
            envelope = msgpack.unpackb(frames[0], unicode_errors="surrogateescape")
            kind = envelope[0]
            if kind == DATA:
                self._received += 1
                if envelope[1] != self._received or len(frames) < 2:
                    raise LinkError(f"message {envelope[1]} came where {self._received} was due")
                if self._replay:
                    self._socket.send(msgpack.packb((ACK, self._sent, self._received)))
                return frames[1], frames[2] if len(frames) > 2 else b""
            if kind in (CLOSE, REFUSE):
                self.closed_by_peer = envelope[3] if len(envelope) > 3 else ""
                return None
        return None

    def close(self, reason: str = "") -> None:
        """Says goodbye and lets what was sent go out."""
        self._ended = True
        self._socket.send(msgpack.packb([CLOSE, self._sent, self._received if self._replay else 0, reason]))
        self._socket.disable_monitor()
        self._socket.close()
        self._context.term()
