"""The link of an executor to its agent, without a thread of its own (docs/protocol/links.md, "Transports and addresses").

    executor ──▶ Unix socket: one byte, and an end of each of two pipes ──▶ agent
             ◀══ pipe, pipe ══▶ ZMTP frames, as ZeroMQ would write them

A reader of a Unix socket wakes its writer, a reader of a pipe does not. So an agent that takes pipes
(CASCADE_EXECUTOR_PIPES) is spoken to like this; others through wire.link.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from .. import __version__
from .envelope import LinkError, Session
from .zmtp import Framed


class PipeLink(Framed):
    """A link over pipes."""

    def __init__(self, path: str, role: str, name: str, build: str, *, max_head: int,
                 on_break: Callable[[], None], timeout: float = 20.0) -> None:  # fmt: skip
        """Connects to the Unix socket at path and shakes hands. on_break is called by who finds the link broken."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path)
        except OSError as e:
            raise LinkError(f"connect to the agent at {path}: {e}") from e
        fd, theirs_out = os.pipe()
        theirs_in, out = os.pipe()
        socket.send_fds(self._socket, [b"P"], [theirs_in, theirs_out])
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(fd, False)
        os.set_blocking(out, False)
        session = Session("the agent")
        super().__init__(session, "the agent", fd, out, max_head=max_head, on_break=on_break)
        os.register_at_fork(after_in_child=self._end)  # the child of a task is no executor
        self._handshake(session.hello(role, name, build, max_head), time.monotonic() + timeout)

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        os.close(self.fd)
        os.close(self._out)
        self._socket.close()


def connect(address: str, pipes: bool, max_head: int, on_break: Callable[[], None]) -> Any:
    """The link of an executor to its agent, over pipes where that takes them."""
    name = f"pid-{os.getpid()}"
    if pipes and address.startswith("ipc://"):
        return PipeLink(address[len("ipc://") :], "executor", name, __version__, max_head=max_head, on_break=on_break)
    from .link import Link  # ZeroMQ is loaded where it is needed

    return Link(address, "executor", name, __version__, max_head=max_head, on_break=on_break)


def poll_of(*fds: int) -> select.poll:
    """A wait for what comes over any of some descriptors."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll
