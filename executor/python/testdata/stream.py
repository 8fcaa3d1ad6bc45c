"""What the link of a client over a Unix socket does; each line is a case. What may come in frames: pipes.py."""

import faulthandler
import os
import select
import shutil
import signal
import socket
import tempfile
import threading

import msgpack

from cascade.peer import Peer
from cascade.wire import messages as m
from cascade.wire.codec import encode
from cascade.wire.envelope import ACK, CLOSE, DATA, REFUSE, WELCOME, LinkError
from cascade.wire.link import Link
from cascade.wire.stream import StreamLink

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
folder = tempfile.mkdtemp()
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06ROUTER"


def frame(flags, body):
    size = len(body)
    return (bytes((flags, size)) if size < 256 else bytes((flags | 2,)) + size.to_bytes(8, "big")) + body


def data(number, head, body=None, flags=()):
    frames = [msgpack.packb((DATA, number, 0, *flags)), head] + ([] if body is None else [body])
    return b"".join(frame(i + 1 < len(frames), f) for i, f in enumerate(frames))


def welcome(*features):
    return frame(0, msgpack.packb((WELCOME, 0, 0, 1, 1, "controller", "c", 1, 1, "test", features)))


class Controller:
    """The other side: it reads frames and says what it is told."""

    def __init__(self, *answers):
        """answers go out one for each connection, after the greeting."""
        self.path = f"{folder}/{len(os.listdir(folder))}.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()
        self.hellos = []

    def _serve(self, answers):
        for answer in answers:
            self.socket, _ = self._listener.accept()
            self.read = self.socket.makefile("rb")
            self.socket.sendall(GREETING + READY)
            assert self.read.read(64)[0] == 0xFF
            self.frame()  # READY
            self.hellos.append(msgpack.unpackb(self.frame()))
            self.socket.sendall(answer)
        self._listener.close()

    def frame(self):
        flags, size = self.read.read(2)
        if flags & 2:
            size = int.from_bytes(bytes((size,)) + self.read.read(7), "big")
        return self.read.read(size)

    def say(self, *parts):
        self.socket.sendall(b"".join(parts))

    def hang_up(self):
        self.read.close()
        self.socket.close()

    def link(self):
        self.broken = []
        link = StreamLink("ipc://" + self.path, "client", "c", "test", on_break=lambda: self.broken.append(1), timeout=600)
        self._thread.join()
        return link


def refused(what, call):
    """Prints the error that a call raises."""
    try:
        print(what, "was not refused:", call())
    except LinkError as e:
        print(what, "->", str(e).replace(folder, "FOLDER"))


refused("nobody there", lambda: Peer(f"ipc://{folder}/none"))
refused("refused", Controller(frame(0, msgpack.packb((REFUSE, 0, 0, "no room")))).link)
refused("another kind", Controller(frame(0, msgpack.packb((CLOSE, 0, 0, "")))).link)

c = Controller(welcome("many", "quiet"))
link = c.link()
print("greeting:", c.hellos[0][5:7], c.hellos[0][10:12], link.features)
writer = threading.Thread(target=c.say, args=[*(data(n, b"x") for n in range(1, 16)), data(16, b"head", b"body" * 100_000)])
writer.start()
got = []
while len(got) < 16:
    got += iter(link.receive, None)
writer.join()
print("sixteen:", len(got), got[-1] == (b"head", b"body" * 100_000), msgpack.unpackb(c.frame()) == [ACK, 0, 16])
c.say(data(17, b"x"))
while link.receive() is None:
    pass
link.send(b"question", b"body")
print("rides on a message:", msgpack.unpackb(c.frame()) == [DATA, 1, 17], c.frame(), c.frame(), "unacknowledged:", link.unacknowledged)
c.say(data(18, b"x", flags=(1,)))
while link.receive() is None:
    pass
print("asked for:", msgpack.unpackb(c.frame()) == [ACK, 1, 18])
c.say(frame(0, msgpack.packb((ACK, 18, 1))), frame(4, b"\x04PING\0\0abc"), data(19, b"last"))
while link.receive() is None:
    pass
print("ping:", c.frame(), "unacknowledged:", link.unacknowledged)
link.close("enough")
print("goodbye:", msgpack.unpackb(c.frame()), c.read.read())
c.hang_up()

# A child that was forked off has the socket, and leaves the link alone.
c = Controller(welcome("quiet"))
link = c.link()
child = os.fork()
if child == 0:
    try:
        link.send(b"from a child")
    except LinkError:
        link.close()
        os._exit(7)
    os._exit(0)
print("a child sends:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
link.send(b"from its parent")
print("its parent:", msgpack.unpackb(c.frame()) == [DATA, 1, 0], c.frame())

# Who is interrupted within a message has ended its link: what follows would be taken for the rest.
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts this in the background has it ignored


def interrupt():
    select.select([c.socket], [], [])  # it has begun
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


class Deaf:
    """A wait that the signal does not end, as one does not that begins just after it came."""

    def __init__(self, poll):
        self._poll = poll

    def poll(self, *timeout):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._poll.poll(*timeout)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


for how in ("", ", too late to end a wait"):
    if how:
        c = Controller(welcome("quiet"))
        link = c.link()
        link._writable = Deaf(link._writable)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        link.send(b"head", bytes(64 << 20))
    except KeyboardInterrupt:
        print(f"interrupted{how}")
    thread.join()
    refused("send after it", lambda: link.send(b"x"))
    refused("receive after it", link.receive)
    c.hang_up()

# Who leaves does not wait for one that takes no more.
c = Controller(welcome("quiet"))
link = c.link()
try:
    while True:
        os.write(link._out, bytes(1 << 16))
except BlockingIOError:
    link.close()
print("closed")
c.hang_up()

# What came before the break is taken, then it is told.
c = Controller(welcome("quiet"))
peer = Peer("ipc://" + c.path)
first, second = peer.start(lambda req: m.Watch(req)), peer.start(lambda req: m.Watch(req))
c.say(data(1, encode(m.Progress(first, name="a"))))
c.hang_up()
print("before the break:", peer.answer(first)[0].name)
refused("after it", lambda: peer.answer(second))
try:
    peer.start(lambda req: m.Watch(req))
except LinkError:  # it says that the link broke, or that none listens: whichever it found first
    print("one more is refused")
peer.close()

# Who does not know of quiet peers is spoken to through ZeroMQ, whose thread answers PINGs.
c = Controller(welcome(), welcome())
peer = Peer("ipc://" + c.path)
print("older:", type(peer._line.link) is Link, [hello[10] for hello in c.hellos])
c.hang_up()
peer.close()
shutil.rmtree(folder)
