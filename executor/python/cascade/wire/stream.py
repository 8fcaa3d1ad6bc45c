"""The link of a client over a Unix socket, without a thread of its own.

The other side's PING has no answer while the program does something else: the client says so (the feature quiet), and
takes this link only to those that know it. Others are spoken to through wire.link.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import weakref
from collections.abc import Callable

from .envelope import MAX_BODY, LinkError, Session
from .zmtp import Framed

QUIET = "quiet"

_links: weakref.WeakSet[StreamLink] = weakref.WeakSet()  # of this process


def _forked() -> None:
    """The child of a client has its links' sockets, and leaves them alone."""
    for link in list(_links):
        link.abandon()


os.register_at_fork(after_in_child=_forked)


class StreamLink(Framed):
    """A link with acknowledgements. It never connects again."""

    def __init__(self, address: str, role: str, name: str, build: str, *, on_break: Callable[[], None],
                 timeout: float = 20.0) -> None:  # fmt: skip
        """Connects to ipc://PATH and shakes hands. on_break is called by who finds the link broken."""
        path = address.removeprefix("ipc://")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        session = Session(address, replay=True)
        fd = self._socket.fileno()
        super().__init__(session, address, fd, fd, max_head=MAX_BODY, on_break=on_break)
        try:
            try:
                self._socket.connect("\0" + path[1:] if path.startswith("@") else path)
            except OSError as e:
                raise LinkError(f"connect to {address}: {e}") from e
            self._socket.setblocking(False)
            self._handshake(session.hello(role, name, build, MAX_BODY, [QUIET]), time.monotonic() + timeout)
        except BaseException:
            self._end()
            raise
        _links.add(self)

    def receive(self) -> tuple[bytes, bytes] | None:
        message = super().receive()
        if message is not None and self._session.ack_due:
            with contextlib.suppress(LinkError):  # what a peer sent before it went is still received
                self._envelope(self._session.ack())
        return message

    def abandon(self) -> None:
        """Ends it at this end alone: the process that was forked off goes on with it."""
        self._ended = True
        self._socket.close()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
