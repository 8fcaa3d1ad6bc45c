"""What is around a message on every link (docs/protocol/links.md, "Envelope")."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgpack

from .text import ERRORS

HELLO, WELCOME, DATA, ACK, CLOSE, REFUSE = range(1, 7)
PROTOCOL = 1
MAX_BODY = 64 << 20
_ACK_MESSAGES, _ACK_BYTES = 16, 1 << 20  # received, after which an acknowledgement does not wait for a message to ride on


class LinkError(ConnectionError):
    """The other side refused the link, or it broke."""


class Session:
    """The numbers of one link's messages. The link carries what this packs, and gives it what came."""

    def __init__(self, peer: str, replay: bool = False) -> None:
        """peer is the other side as errors name it; with replay it is told what was received."""
        self._peer = peer
        self._replay = replay
        self._sent = self._received = 0
        self.closed_by_peer: str | None = None  # why it ended the link; None while it has not
        self.features: tuple[str, ...] = ()  # of the peer
        self.build = ""  # its version
        self.pid = 0  # its process
        self._acknowledged = 0
        self._told = 0  # the number up to which the peer knows what was received
        self._untold = 0  # bytes behind it
        self._wanted = False  # the peer asks for an acknowledgement

    def hello(self, role: str, name: str, build: str, max_head: int, features: Sequence[str] = (), kind: int = HELLO) -> bytes:
        incarnation = time.time_ns()
        envelope: bytes = msgpack.packb([kind, 0, 0, PROTOCOL, PROTOCOL, role, name, incarnation, os.getpid(), build, list(features),
                              int(self._replay), incarnation, 0, max_head, MAX_BODY])  # fmt: skip
        return envelope

    def greeted(self, envelope: bytes) -> None:
        """Looks at a hello, and raises LinkError unless it is one of this protocol without replay."""
        answer = msgpack.unpackb(envelope, unicode_errors="surrogateescape")
        if answer[0] != HELLO or len(answer) < 16 or not answer[3] <= PROTOCOL <= answer[4] or bool(answer[11]) != self._replay:
            raise LinkError(f"{self._peer} greets with {answer[:5]}, which is not this protocol")
        self.features, self.build, self.pid = tuple(answer[10]), answer[9], answer[8]

    def welcomed(self, envelope: bytes) -> None:
        """Looks at the answer to hello, and raises LinkError unless it is a welcome."""
        answer = msgpack.unpackb(envelope, unicode_errors="surrogateescape")
        if answer[0] == REFUSE:
            raise LinkError(f"{self._peer} refused the link: {answer[3]}")
        if answer[0] != WELCOME:
            raise LinkError(f"{self._peer} answered the greeting with an envelope of kind {answer[0]}")
        self.features = tuple(answer[10]) if len(answer) > 10 else ()
        self.build = answer[9] if len(answer) > 9 else ""
        self.pid = answer[8] if len(answer) > 8 else 0

    @property
    def unacknowledged(self) -> int:
        """How many messages the peer has not said that it received; on a link with replay only."""
        return self._sent - self._acknowledged

    def data(self) -> bytes:
        """The envelope of the next message out."""
        self._sent += 1
        envelope: bytes = msgpack.packb((DATA, self._sent, self._tell() if self._replay else 0))
        return envelope

    @property
    def ack_due(self) -> bool:
        """Whether what was received is to be said now; else the next message out says it."""
        return self._wanted or self._received - self._told >= _ACK_MESSAGES or self._untold >= _ACK_BYTES

    def ack(self) -> bytes:
        envelope: bytes = msgpack.packb((ACK, self._sent, self._tell()))
        return envelope

    def _tell(self) -> int:
        self._told, self._untold, self._wanted = self._received, 0, False
        return self._received

    def goodbye(self, reason: str) -> bytes:
        envelope: bytes = msgpack.packb([CLOSE, self._sent, self._received if self._replay else 0, reason], unicode_errors=ERRORS)
        return envelope

    def take(self, frames: list[bytes]) -> tuple[bytes, bytes] | None:
        """Head and body of a message that came; None for what carries none."""
        envelope = msgpack.unpackb(frames[0], unicode_errors="surrogateescape")
        kind = envelope[0]
        if kind in (DATA, ACK):
            self._acknowledged = max(self._acknowledged, envelope[2])
        if kind == DATA:
            self._received += 1
            if envelope[1] != self._received or len(frames) < 2:
                raise LinkError(f"message {envelope[1]} came where {self._received} was due")
            if self._replay:
                self._untold += sum(map(len, frames))
                self._wanted = self._wanted or len(envelope) > 3 and envelope[3] == 1
            return frames[1], frames[2] if len(frames) > 2 else b""
        if kind in (CLOSE, REFUSE):
            self.closed_by_peer = envelope[3] if len(envelope) > 3 else ""
        return None


class SessionLink:
    """What every link tells of its session."""

    _session: Session
    closing = False  # set from another thread: what is being sent is given up, and the link ends

    @property
    def closed_by_peer(self) -> str | None:
        """Why the other side ended the link; None while it has not."""
        return self._session.closed_by_peer

    @property
    def features(self) -> tuple[str, ...]:
        """What the other side says that it can do."""
        return self._session.features

    @property
    def build(self) -> str:
        """The other side's version, as it says it."""
        return self._session.build

    @property
    def unacknowledged(self) -> int:
        """How many messages the other side has not said that it received; on a link with replay only."""
        return self._session.unacknowledged
