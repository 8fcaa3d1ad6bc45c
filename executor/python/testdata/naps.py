"""An actor is about to wait when the helper of its process takes a call or the end: whatever the order, nothing is left behind."""

import contextlib
import itertools
import os
import tempfile
import threading
from collections import deque
from types import SimpleNamespace

import msgpack

from cascade.executor.actorcalls import packed
from cascade.executor.actorhost import ActorHost
from cascade.executor.queue import Stopped
from cascade.wire import codec
from cascade.wire import messages as m
from cascade.wire.direct import Watch, dial


class Counter:
    def __init__(self, n):
        self.n = n

    def add(self, k):
        self.n += k
        return self.n


class Lock:
    """A lock whose every release is a moment at which the caller may send, and the helper looks."""

    def __init__(self, moment):
        self.lock, self.moment, self.depth = threading.RLock(), moment, 0

    def __enter__(self):
        if self.depth == 0:
            self.moment()
        self.lock.acquire()
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        self.lock.release()
        if self.depth == 0:
            self.moment()


class Waits(Watch):
    """A watch whose waits are moments, too. One for which nothing will come is a hang."""

    moment = None

    def wait(self, seconds):
        if seconds != 0:
            self.moment(True)
            seconds = 0
        return super().wait(seconds)


def calls(*items):
    """A message of calls: number, class that is made, method and argument of each."""
    given = [(number, class_, method, [msgpack.unpackb(packed(method, [arg]))[0]]) for number, class_, method, arg in items]
    return codec.encode(m.ActorCalls([m.ActorCall(m.ActorName(1, n), 1, c, f, args) for n, c, f, args in given]))


ENDS = [
    calls((1, "naps.Counter", "", 5)),
    calls((2, "", "add", 1), (3, "", "add", 2)),
    calls((4, "", "add", 3)),
    codec.encode(m.ActorDrop(handles=[1], why="no handle of it is left")),
]
KILLED = [calls((1, "naps.Counter", "", 5), (2, "", "add", 1)), codec.encode(m.ActorDrop([1], why="enough")), calls((3, "", "add", 100))]


def check(run):
    """Is called between methods."""
    if run.stopped is not None:
        raise run.stopped


def lives(when, messages):
    """The life of an actor whose caller sends its messages at these moments."""
    messages = deque(messages)
    at, busy, performed = itertools.count(1), False, []

    def moment(waits=False):
        nonlocal busy
        if busy:
            return
        busy = True
        now = next(at)
        due = sum(n <= now for n in when[len(when) - len(messages) :]) or (1 if messages and waits else 0)
        for _ in range(due):
            caller.send(messages.popleft())
        if not due and waits and not host.watch.wait(0):
            raise SystemExit(f"hangs: sent at {when}, performed {performed}")
        if not waits:
            host.beside()
        busy = False

    with tempfile.TemporaryDirectory() as scratch:
        worker = SimpleNamespace(
            welcome=m.Welcome(scratch=scratch, agent="a"), lock=Lock(moment), woken=os.eventfd(0, os.EFD_NONBLOCK),
            beside=None, naps=False, check=check, inside=lambda f, *args: performed.append(1) or f(*args),
        )  # fmt: skip
        busy = True
        host = ActorHost(worker, SimpleNamespace(stopped=None))
        host.watch.__class__, host.watch.moment = Waits, moment
        caller = dial("ipc://" + host.path, "an actor", "caller")
        busy = False
        with contextlib.suppress(Stopped):
            host.live()
        host.close()
        caller.abandon()
        os.close(worker.woken)
    return host.actor.n if host.actor else 0


if __name__ == "__main__":
    for messages, most in (ENDS, 16), (KILLED, 24):
        results = [lives(when, messages) for when in itertools.combinations_with_replacement(range(1, most), len(messages))]
        print(len(results), "orders end with", *sorted(set(results)))
