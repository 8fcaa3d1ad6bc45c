"""What is around a message on every link (docs/protocol.md, "Envelope")."""

from __future__ import annotations

HELLO, WELCOME, DATA, ACK, CLOSE, REFUSE = range(1, 7)
PROTOCOL = 1
MAX_BODY = 64 << 20


class LinkError(ConnectionError):
    """The other side refused the link, or it broke."""
