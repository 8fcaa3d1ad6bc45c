"""What a link and a cluster do when the other side is gone, refuses, or does not answer; each line is a case."""

import faulthandler
import os
import shutil
import tempfile
import threading
import uuid

import msgpack
import zmq

from cascade.client import Cluster
from cascade.client import connect as to_cluster
from cascade.job import Job
from cascade.peer import NOT_FOUND, PIECE, Peer, RequestError
from cascade.wire import messages as m
from cascade.wire.envelope import CLOSE, REFUSE, WELCOME, LinkError
from cascade.wire.link import Link

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
folder = tempfile.mkdtemp()
context = zmq.Context()


def listen(answer):
    """A socket that answers the greeting, or only takes it, and its address."""
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)
    address = f"ipc://{folder}/{len(os.listdir(folder))}.sock"
    router.bind(address)

    def serve():
        if answer is not None:
            peer, _ = router.recv_multipart()
            router.send_multipart([peer, msgpack.packb(answer)])

    thread = threading.Thread(target=serve)
    thread.start()
    return router, address, thread


def refused(what, call):
    """Prints the error that a call raises."""
    try:
        call()
        print(what, "was not refused")
    except LinkError as e:
        print(what, "->", str(e).replace(folder, "FOLDER"))


def connect(answer=(WELCOME, 0, 0, 1)):
    router, address, thread = listen(answer)
    broken = threading.Event()
    link = Link(address, "client", "c", "test", timeout=600, on_break=broken.set)
    thread.join()
    return router, link, broken


for what, answer in {"refused": (REFUSE, 0, 0, "no room"), "another kind": (CLOSE, 0, 0, ""), "silent": None}.items():
    router, address, thread = listen(answer)
    timeout = 600 if answer else 0.5
    refused(what, lambda: Link(address, "client", "c", "test", timeout=timeout))  # noqa: B023 (called at once)
    thread.join()
    router.close()
refused("nobody there", lambda: Link(f"ipc://{folder}/none.sock", "client", "c", "test", timeout=0.5))
for t in threading.enumerate():
    if t.name == "cascade-link":
        t.join()
print("threads left:", [t.name for t in threading.enumerate() if t.name == "cascade-link"])

router, link, broken = connect()
router.close()
broken.wait()
refused("send to one that is gone", lambda: link.send(b"x"))
link.close()
link.close()
print("closed")

router, address, thread = listen((WELCOME, 0, 0, 1, 1, "controller", "c", 1, 1, "test", ["quiet"]))
stopped = []
cluster = Cluster(address, lambda: stopped.append(True))
thread.join()
router.close()
with cluster:
    while not cluster._controller._over:
        cluster._controller._read(600)
    refused("submit", lambda: cluster.submit("job: x\n"))
    refused("cancel", cluster.job("0" * 32).cancel)
print("stopped:", stopped)


class Short(Peer):
    """An agent that sends too little."""

    def __init__(self):
        self.sent = []

    def start(self, make):
        self.sent.append(make(len(self.sent)))
        return len(self.sent) - 1

    def answer(self, req, timeout=None):
        due = min(PIECE, PIECE + 10 - self.sent[req].offset)
        return m.Chunk(), bytes(due - (self.sent[req].offset > 0))

    def end(self, req):
        pass


class Forgetful:
    """A controller that has all packages, and has forgotten them when the second job comes."""

    features = ("packages",)

    def __init__(self):
        self.asked = self.jobs = 0

    def ask(self, make):
        self.asked += 1
        return m.Have(make(0).req), b""

    def start(self, make):
        self.jobs += 1
        return make(self.jobs).req

    def answer(self, req, timeout=None):
        if self.jobs == 2:
            raise RequestError(NOT_FOUND, "submit: 1 packages are not here")
        return m.Accepted(req, bytes(16)), b""

    def end(self, req):
        pass


controller = cluster._controller = Forgetful()
told = []
for _ in range(3):
    cluster.submit({"job": "j", "environments": {"e": {"py_modules": [__file__]}}, "tasks": {}}.__repr__().replace("'", '"'))
    told.append((controller.asked, controller.jobs))
print("asked for packages, submits:", told)
cluster._agent = lambda name, addresses: Short()
desc = m.Desc(m.Ref(0, 0, 0), 1, "raw", size=PIECE + 10, place=m.Place(m.SEGMENT))
data = m.LocatedData("t.x", desc, agent="a")


class Interrupted(Peer):
    """An agent that shares its memory or sends pieces; an interrupt comes with its second answer, or with the first."""

    def __init__(self, after, broken=False):
        self.after, self.broken, self.sent, self.waiting = after, broken, [], set()

    def start(self, make):
        if self.broken and self.sent:
            raise LinkError("it broke")
        req = len(self.sent) + 1
        self.sent.append(make(req))
        self.waiting.add(req)
        return req

    def answer(self, req, timeout=None):
        if self.after == 0:
            raise KeyboardInterrupt
        self.after -= 1
        return m.Chunk(), bytes(PIECE)

    def end(self, req):
        self.waiting.discard(req)


many = m.LocatedData("t.x", m.Desc(m.Ref(0, 0, 0), 1, "raw", size=20 * PIECE, place=m.Place(m.SEGMENT)), agent="a")
for after, broken in ((2, False), (0, False), (0, True)):
    agent = Interrupted(after, broken)
    cluster._agent = lambda name, addresses: agent  # noqa: B023 (called at once)
    try:
        Job(cluster, uuid.UUID(int=1))._fetch(many)
    except KeyboardInterrupt:
        print("interrupted; requests that wait:", len(agent.waiting), "of", len(agent.sent), "ended:", [f.ends for f in agent.sent if f.ends])
cluster._agent = lambda name, addresses: Short()
refused("short piece", lambda: Job(cluster, uuid.UUID(int=1))._fetch(data))
refused("no socket", lambda: to_cluster(f"ipc://{folder}/none.sock"))
refused("no folder", lambda: to_cluster(f"{folder}/hpc"))
try:
    to_cluster("tcp://10.0.0.1:7420")
except ValueError as e:
    print("address ->", e)
shutil.rmtree(folder)
context.destroy(0)
