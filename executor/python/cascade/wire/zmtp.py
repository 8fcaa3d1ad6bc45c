"""ZMTP frames over two descriptors, without a thread of its own (docs/protocol/links.md, "Framing").

libzmq has a thread that reads and writes sockets, so that each message is handed to another thread: two wakes more
for a task that takes microseconds. What remains when there are one peer, one connection and no reconnection is two bytes
and a length.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable

from .envelope import LinkError, Session, SessionLink

_MORE, _LONG, _COMMAND = 1, 2, 4  # flags of a frame
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
_PIECE = 64 << 10  # bytes of one read: what a pipe holds
_LARGEST = 1 << 20  # of one read, while there is more
_SMALL = 4 << 10  # heads up to this are copied beside their frame's header
_MAX_COMMAND = 4 << 10
_MAX_ENVELOPE = 16 << 10
_TURN = 200  # ms after which a wait takes note of a signal that came as it began, which did not end it


class Framed(SessionLink):
    """A link over descriptors that do not block. One thread at a time may use it. When it breaks it is over."""

    edge = False  # fd stays readable until all is read

    def __init__(self, session: Session, peer: str, fd: int, out: int, *, max_head: int, on_break: Callable[[], None]) -> None:
        """Reads fd and writes out, which end with it. peer is the other side as errors name it; on_break is called by who finds
        the link broken."""
        self._session, self._peer = session, peer
        self.fd, self._out = fd, out
        self._max_head, self._on_break = max_head, on_break
        self._ended = False
        self._piece = _PIECE  # bytes of the next read
        self._short = False  # the last read took all that was there
        self._in = bytearray()  # what came and is not handled
        self._at = 0  # where that begins
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(fd, select.POLLIN)
        self._writable.register(out, select.POLLOUT)

    def _handshake(self, hello: bytes, until: float) -> None:
        self._write(GREETING + frame_of(_COMMAND, READY))
        while len(self._in) < len(GREETING):
            self._fill(until)
        if self._in[:1] != b"\xff" or self._in[10] < 3 or self._in[12:32] != GREETING[12:32]:
            raise LinkError(f"{self._peer}'s greeting is not that of ZMTP 3: {bytes(self._in[:32])!r}")
        self._at = len(GREETING)
        self._envelope(hello)
        while (frames := self._message()) is None:
            self._fill(until)
        self._session.welcomed(frames[0])
        self._short = False

    def _fill(self, until: float) -> None:
        """Waits for bytes of the handshake."""
        if not self._readable.poll(max(0.0, until - time.monotonic()) * 1000):
            raise LinkError(f"{self._peer} did not answer in time")
        self._read()

    # ---- in

    def _read(self) -> bool:
        """Takes what is there, up to one piece; it says whether there was something."""
        if self._ended:
            raise LinkError(f"the link to {self._peer} has ended")
        try:
            data = os.read(self.fd, self._piece)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            self._break()
        if self._at == len(self._in):
            self._in, self._at = bytearray(data), 0
        else:
            self._in += data
        self._short = len(data) < self._piece
        if self._short:
            self._piece = _PIECE
        elif self._piece < _LARGEST:
            self._piece *= 2
        return True

    def _message(self) -> list[bytes] | None:
        """The frames of the next message, when all of it is there. Commands before it are answered."""
        frames: list[bytes] = []
        data, at, end = self._in, self._at, len(self._in)
        while end - at >= 2:
            flags, size = data[at], data[at + 1]
            body = at + 2
            if flags & _LONG:
                body = at + 9
                if end < body:
                    return None
                size = int.from_bytes(data[at + 1 : body], "big")
            if size > (_MAX_COMMAND if flags & _COMMAND else self._max_head if frames else _MAX_ENVELOPE):
                raise LinkError(f"{self._peer} sent a frame of {size} bytes")
            if end < body + size:
                return None
            at = body + size
            if flags & _COMMAND:
                self._command(bytes(data[body:at]))
                if not frames:
                    self._at = at
                continue
            frames.append(bytes(data[body:at]))
            if not flags & _MORE:
                if at > _PIECE:
                    del data[:at]
                    at = 0
                self._at = at
                return frames
        return None

    def _command(self, body: bytes) -> None:
        if body[:5] == b"\x04PING":  # behind the name two bytes of how long to wait, and what the answer brings back
            self._write(frame_of(_COMMAND, b"\x04PONG" + body[7:]))

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message (head, body); None when there are no more. It does not wait."""
        while True:
            frames = self._message() if self._at < len(self._in) else None
            if frames is None:
                if self._short:
                    self._short = False  # what comes later makes fd readable
                    return None
                if not self._read():
                    return None
                continue
            message = self._session.take(frames)
            if message is not None or self.closed_by_peer is not None:
                return message

    # ---- out

    def send(self, head: bytes, body: bytes = b"") -> None:
        """Sends a message. It waits while the other side takes no more, and raises LinkError when the link is broken."""
        front = frame_of(_MORE, self._session.data())
        more = _MORE if body else 0
        try:
            if len(head) <= _SMALL:
                self._write(front + frame_of(more, head))
            else:
                self._write(front + _header(more, len(head)))
                self._write(head)
            if body:
                self._write(_header(0, len(body)))
                self._write(body)
        except LinkError:
            raise
        except BaseException:  # interrupted, perhaps within a frame: what follows would be taken for its rest
            self._end()
            raise

    def _envelope(self, envelope: bytes) -> None:
        """Sends an envelope that carries nothing."""
        self._write(frame_of(0, envelope))

    def _write(self, data: bytes) -> None:
        if self._ended:
            raise LinkError(f"the link to {self._peer} has ended")
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._out, left) :]
            except BlockingIOError:
                if self.closing:
                    self._end()  # no goodbye follows half a frame
                    raise LinkError(f"the link to {self._peer} was closed") from None
                self._writable.poll(_TURN)
            except (BrokenPipeError, ConnectionResetError):
                self._break()

    # ---- the end

    def _break(self) -> None:
        if not self._ended and self.closed_by_peer is None:
            self._on_break()
        raise LinkError(f"the link to {self._peer} broke")

    def close(self, reason: str = "") -> None:
        """Says goodbye, if the other side can receive it. Sent bytes stay with the kernel for the other side."""
        if self._ended:
            return
        with contextlib.suppress(OSError):  # it is gone, or takes no more: who leaves does not wait for that
            os.write(self._out, frame_of(0, self._session.goodbye(reason)))
        self._end()

    def _end(self) -> None:
        """Closes the descriptors; a second call does nothing."""
        raise NotImplementedError


def _header(flags: int, size: int) -> bytes:
    return bytes((flags, size)) if size < 256 else bytes((flags | _LONG,)) + size.to_bytes(8, "big")


def frame_of(flags: int, body: bytes) -> bytes:
    return _header(flags, len(body)) + body
