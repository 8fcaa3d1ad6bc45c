"""What the link of an executor over pipes does with all that may come through them; each line is a case."""

import faulthandler
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import msgpack

from cascade.wire.envelope import CLOSE, DATA, REFUSE, WELCOME, LinkError
from cascade.wire.pipes import PipeLink

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
folder = tempfile.mkdtemp()
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06ROUTER"


def frame(flags, body):
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | 2,)) + struct.pack(">Q", len(body)) + body


def envelope(*fields):
    return frame(0, msgpack.packb(fields))


def data(number, *parts):
    """A Data message of these frames."""
    frames = [msgpack.packb((DATA, number, 0)), *parts]
    return b"".join(frame(i + 1 < len(frames), f) for i, f in enumerate(frames))


class Agent:
    """The other side: its pipes, and what it says in the handshake."""

    def __init__(self, *said):
        path = f"{folder}/{len(os.listdir(folder))}.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        self.broken = []
        self._thread = threading.Thread(target=self._serve, args=(listener, said))
        self._thread.start()
        try:
            self.link = PipeLink(path, "executor", "e", "test", max_head=1 << 20, on_break=lambda: self.broken.append(1), timeout=600)
        finally:
            self._thread.join()
            listener.close()

    def _serve(self, listener, said):
        self._socket, _ = listener.accept()
        first, (self._in, self._out), _, _ = socket.recv_fds(self._socket, 1, 2)
        assert first == b"P"
        self.say(*said)
        if not said:
            self.hang_up()

    def say(self, *parts):
        for part in parts:
            os.write(self._out, part)

    def hear(self, size):
        got = b""
        while len(got) < size:
            got += os.read(self._in, size - len(got))
        return got

    def hang_up(self):
        os.close(self._in)
        os.close(self._out)
        self._socket.close()


def welcomed():
    agent = Agent(GREETING, READY, envelope(WELCOME, 0, 0, 1))
    greeting = agent.hear(64 + 30 + 2)
    assert greeting[64:94] == READY.replace(b"ROUTER", b"DEALER") and greeting[0] == 0xFF, greeting
    agent.hear(greeting[95])
    return agent


def taken(agent):
    """All messages that are there."""
    return list(iter(agent.link.receive, None))


def refused(what, call):
    """Prints the error that a call raises."""
    try:
        print(what, "was not refused:", call())
    except LinkError as e:
        print(what, "->", str(e).replace(folder, "FOLDER"))


refused("nobody there", lambda: PipeLink(f"{folder}/none", "executor", "e", "test", max_head=1, on_break=lambda: None))
refused("hung up", Agent)
refused("refused", lambda: Agent(GREETING, READY, envelope(REFUSE, 0, 0, "no room")))
refused("no greeting", lambda: Agent(b"HTTP/1.1 200 OK\r\n" + bytes(64)))
refused("another mechanism", lambda: Agent(GREETING.replace(b"NULL", b"CURV"), READY))
refused("another kind", lambda: Agent(GREETING, READY, envelope(CLOSE, 0, 0, "")))

agent = welcomed()
print("nothing:", taken(agent))
message = data(1, b"head", b"body")
for at in range(len(message)):
    agent.say(message[at : at + 1])
    if at + 1 < len(message):
        assert agent.link.receive() is None
print("byte by byte:", taken(agent))
agent.say(frame(4, b"\x04PING\0\0abc") + data(2, b"x") + data(3, b"", b""))
print("two and a ping:", taken(agent), agent.hear(10))
large = os.urandom(1 << 20)
writer = threading.Thread(target=agent.say, args=(data(4, large),))
writer.start()
while not (received := taken(agent)):
    pass
writer.join()
print("large one:", received == [(large, b"")])
sent = threading.Thread(target=agent.link.send, args=(large,))
sent.start()
print("large one out:", agent.hear(2 + 4 + 9 + len(large))[15:] == large)
sent.join()
agent.link.send(b"small")
print("small one out:", agent.hear(2 + 4 + 2 + 5))
child = os.fork()
if child == 0:
    try:
        agent.link.send(b"from a child")
    except LinkError:
        os._exit(7)
    os._exit(0)
print("a child sends:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
agent.say(data(5, b"last"), envelope(CLOSE, 5, 0, "bye"))
print("goodbye:", taken(agent), agent.link.closed_by_peer)
agent.hang_up()
agent.link.close()
agent.link.close()
refused("send after the end", lambda: agent.link.send(b"x"))
print("broken:", agent.broken)

for what, said in {
    "a gap": data(2, b"x"),
    "no head": frame(0, msgpack.packb((DATA, 1, 0))),
    "a large envelope": frame(0, bytes(1 << 15)),
    "a head of 2 MiB": frame(1, msgpack.packb((DATA, 1, 0))) + b"\x02" + struct.pack(">Q", 2 << 20),
    "a head of 2^63": frame(1, msgpack.packb((DATA, 1, 0))) + b"\x02" + struct.pack(">Q", 1 << 63),
}.items():
    agent = welcomed()
    agent.say(said)
    refused(what, agent.link.receive)
    agent.link.close()
    agent.hang_up()

agent = welcomed()
agent.say(data(1, b"before"), data(2, b"cut off")[:-3])
agent.hang_up()
print("before the break:", taken(agent))
refused("broke", agent.link.receive)
refused("send to one that is gone", lambda: agent.link.send(b"x"))
agent.link.close()
print("broken:", agent.broken)

path = f"{folder}/executor.sock"  # the whole executor, in a process of its own
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(path)
    listener.listen()
    executor = subprocess.Popen(
        [sys.executable, "-m", "cascade.executor"],
        env={**os.environ, "CASCADE_EXECUTOR_ADDR": "ipc://" + path, "CASCADE_EXECUTOR_TOKEN": "t", "CASCADE_EXECUTOR_PIPES": "1"},
    )
    said, _ = listener.accept()
_, (heard, told), _, _ = socket.recv_fds(said, 1, 2)
os.write(told, GREETING + READY + envelope(WELCOME, 0, 0, 1))
got = b""
while b"python" not in got:  # its Hello says what it is
    got += os.read(heard, 4096)
print("an executor without its agent:", executor.poll(), end=" ")
said.close()
os.close(heard)
os.close(told)
print("then", executor.wait())
shutil.rmtree(folder)
