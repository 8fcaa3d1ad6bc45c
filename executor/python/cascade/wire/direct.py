"""A direct link between two processes of one host, over pipes, that neither side waits for (docs/protocol/actors.md).

    caller ──▶ Unix socket: one byte, and an end of each of two pipes ──▶ process of an actor
           ◀══ pipe, pipe ══▶ ZMTP frames, as on every link

From another host the frames go over the socket: the agents carry its bytes.

What the other side does not take at once is kept here, and leaves when the pipe has room: two that write to each other
never wait for each other. The owner of both ends of it watches fd, and out while there is a backlog.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import weakref
from collections import deque
from collections.abc import Callable

from .. import __version__
from .envelope import WELCOME, LinkError, Session
from .zmtp import GREETING, READY, Framed, frame_of

MAX_HEAD = 512 << 20  # bytes of one message
_COMMAND = 4
_ROOM, _WIDE = 64 << 10, 1 << 20  # bytes of a pipe, and of one that has carried much
_links: weakref.WeakSet[DirectLink] = weakref.WeakSet()  # of this process
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # of this process, that listen


def _forked() -> None:
    """The child of a process has its descriptors, and would keep the other side from seeing that the process has ended."""
    for link in list(_links):
        link.abandon()
    for sock in list(_sockets):
        sock.close()


os.register_at_fork(after_in_child=_forked)


class DirectLink(Framed):
    """One end of it. One thread at a time may use it. When it breaks it is over."""

    def __init__(self, peer: str, sock: socket.socket, fd: int, out: int, name: str, welcomes: bool) -> None:
        """Shakes hands over descriptors that do not block; it is up as soon as the other side has answered."""
        self._socket = sock
        self._backlog: deque[memoryview] = deque()
        self._widened = False  # the pipe that is written to
        self._deaf = False  # the other side reads no more
        self._greets = True  # the other side's greeting has not come
        self._welcomes = welcomes  # as the side that listens
        self._name = name
        self.up = False
        super().__init__(Session(peer), peer, fd, out, max_head=MAX_HEAD, on_break=lambda: None)
        self._write(GREETING + frame_of(_COMMAND, READY))
        if not welcomes:
            self._envelope(self._session.hello("executor", name, __version__, MAX_HEAD))
        _links.add(self)

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message; None when there are no more. LinkError when the other side is gone."""
        while not self.up:
            if not self._shake():
                if self._short:
                    self._short = False
                    return None
                if not self._read():
                    return None
        return super().receive()

    def _shake(self) -> bool:
        """Takes one more step of the handshake, if its bytes are there."""
        if self._greets:
            if len(self._in) < len(GREETING):
                return False
            if self._in[:1] != b"\xff" or self._in[10] < 3 or self._in[12:32] != GREETING[12:32]:
                raise LinkError(f"{self._peer}'s greeting is not that of ZMTP 3: {bytes(self._in[:32])!r}")
            self._at, self._greets = len(GREETING), False
            return True
        frames = self._message()
        if frames is None:
            return False
        if self._welcomes:
            self._session.greeted(frames[0])
            self._envelope(self._session.hello("executor", self._name, __version__, MAX_HEAD, kind=WELCOME))
        else:
            self._session.welcomed(frames[0])
        self.up = True
        return True

    @property
    def pid(self) -> int:
        """The process at the other side; 0 when it has not said."""
        return self._session.pid

    @property
    def waits(self) -> bool:
        """Whether something is left to be written: watch out."""
        return bool(self._backlog)

    @property
    def out(self) -> int:
        """The descriptor that takes more."""
        return self._out

    def _write(self, data: bytes) -> None:
        if self._ended:
            raise LinkError(f"the link to {self._peer} has ended")
        if self._deaf:
            return
        self._backlog.append(memoryview(data))
        if len(data) > _ROOM and not self._widened:
            self._widened = True
            with contextlib.suppress(OSError):  # the user has too many such pipes
                fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _WIDE)
        if len(self._backlog) == 1:
            self.push()

    def push(self) -> None:
        """Writes what is left, as far as there is room."""
        backlog = self._backlog
        while backlog:
            left = backlog[0]
            try:
                n = os.write(self._out, left)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):  # what it has sent before can still be read
                backlog.clear()
                self._deaf = True
                return
            if n == len(left):
                backlog.popleft()
            else:
                backlog[0] = left[n:]

    def close(self, reason: str = "") -> None:
        """Ends it. The other side gets what has left."""
        if self._backlog:
            self._end()
        else:
            super().close(reason)

    def abandon(self) -> None:
        """Ends it at this end alone."""
        self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._backlog.clear()
        for fd in (self.fd, self._out):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._socket.close()


def dial(address: str, peer: str, name: str, pipes: bool = True) -> DirectLink:
    """Connects to ipc://PATH. Without pipes the bytes go over the socket itself: agents carry them to another host."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(address.removeprefix("ipc://"))
        if not pipes:
            return _over(peer, sock, name, False)
        fd, theirs_out = os.pipe()
        theirs_in, out = os.pipe()
        socket.send_fds(sock, [b"P"], [theirs_in, theirs_out])
        os.close(theirs_in)
        os.close(theirs_out)
    except OSError as e:
        sock.close()
        raise LinkError(f"connect to {peer}: {e}") from e
    os.set_blocking(fd, False)
    os.set_blocking(out, False)
    return DirectLink(peer, sock, fd, out, name, False)


def listen(path: str) -> socket.socket:
    """A socket at a path for callers of this process."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.bind(path)
    sock.listen(64)
    _sockets.add(sock)
    return sock


def _over(peer: str, sock: socket.socket, name: str, welcomes: bool) -> DirectLink:
    """A link over a socket."""
    sock.setblocking(False)
    return DirectLink(peer, sock, os.dup(sock.fileno()), os.dup(sock.fileno()), name, welcomes)


def accept(listener: socket.socket) -> socket.socket | None:
    """Takes the next connection of a socket that listens; None when there is none. Once it is readable it is for answer."""
    try:
        return listener.accept()[0]
    except BlockingIOError:
        return None


def answer(sock: socket.socket, name: str) -> DirectLink:
    """Makes a link of a connection that has begun: with ends of two pipes, or with a greeting that comes from another host."""
    sock.settimeout(5)
    try:
        if sock.recv(1, socket.MSG_PEEK) == GREETING[:1]:
            return _over("a caller of another host", sock, name, True)
        first, fds, _, _ = socket.recv_fds(sock, 1, 2, socket.MSG_CMSG_CLOEXEC)
        if first != b"P" or len(fds) != 2:
            for fd in fds:
                os.close(fd)
            raise LinkError(f"a caller began with {first!r} and {len(fds)} descriptors, where two pipes must come")
    except OSError as e:
        sock.close()
        raise LinkError(f"accept a caller: {e}") from e
    for fd in fds:
        os.set_blocking(fd, False)
    return DirectLink("a caller", sock, fds[0], fds[1], name, True)


class Watch:
    """Direct links of a process as one descriptor, readable when something came or has room. A lock of the owner's guards it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._told: dict[int, Callable[[], None]] = {}  # by descriptor
        self._waiting: set[int] = set()  # descriptors that are to take more

    def __bool__(self) -> bool:
        return bool(self._told)

    def also(self, fd: int, told: Callable[[], None]) -> None:
        """Watches a descriptor for what can be read of it."""
        self._told[fd] = told
        self._epoll.register(fd, select.EPOLLIN)

    def add(self, link: DirectLink, came: Callable[[], None]) -> None:
        """Watches a link; came is called when something can be received."""
        self.also(link.fd, came)
        self.look(link)

    def look(self, link: DirectLink) -> None:
        """Is told after a message was sent: what did not leave does so when there is room."""
        if link.waits and link.out not in self._waiting and link.fd in self._told:
            self._waiting.add(link.out)
            self._told[link.out] = lambda: self._push(link)
            self._epoll.register(link.out, select.EPOLLOUT)

    def _push(self, link: DirectLink) -> None:
        link.push()
        if not link.waits:
            self._unwait(link)

    def _unwait(self, link: DirectLink) -> None:
        if link.out in self._waiting:
            self._waiting.discard(link.out)
            del self._told[link.out]
            self._epoll.unregister(link.out)

    def wait(self, seconds: float | None) -> list[tuple[int, int]]:
        """Waits for something; it takes no lock. The answer is for handle."""
        return self._epoll.poll(seconds)

    def handle(self, ready: list[tuple[int, int]]) -> bool:
        """Has links receive and write what they can; it says whether there was something."""
        for fd, _ in ready:
            told = self._told.get(fd)
            if told is not None:  # else it was removed just now
                told()
        return bool(ready)

    def take(self) -> bool:
        """Handles what is there."""
        return self.handle(self._epoll.poll(0))

    def forget(self, fd: int) -> None:
        """Watches a descriptor no more."""
        del self._told[fd]
        self._epoll.unregister(fd)

    def remove(self, link: DirectLink) -> None:
        """Watches a link no more; it comes before its end."""
        if self._told.pop(link.fd, None) is not None:
            self._epoll.unregister(link.fd)
            self._unwait(link)

    def close(self) -> None:
        """Ends it."""
        self._told.clear()
        self._epoll.close()
