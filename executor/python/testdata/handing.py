"""Classes and functions of the tests of handles of actors."""

import asyncio
import os
import signal
import threading
import time

import cascade


@cascade.remote
class Tally:
    def __init__(self, start=0):
        self.n = start

    def add(self, by):
        self.n += by
        return self.n

    def pid(self):
        return os.getpid()

    def dies(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def sleeps(self, path):
        """Goes on until it is ended."""
        open(path, "w").close()
        while True:
            time.sleep(0.01)

    def held(self, path):
        """Goes on until its file is gone."""
        open(path, "w").close()
        while os.path.exists(path):
            time.sleep(0.01)

    def echo(self, data):
        return data

    def upto(self, n):
        yield from range(n)

    def takes(self, box):
        return box

    def gives(self):
        return {"a": Tally.remote()}


class Box:
    """An object that has handles as attributes."""

    def __init__(self, main, more):
        self.main, self.more = main, more


@cascade.remote
def adds(actor, n):
    """Calls it n times, each call behind the one before."""
    for _ in range(n):
        last = cascade.get(actor.add.remote(1))
    return last


@cascade.remote
def adds_all(box):
    return sum(cascade.get([a.add.remote(1) for a in (box.main, *box.more["x"], *box.more["y"])]))


@cascade.remote
def makes(start):
    """Returns an actor at once."""
    made = Tally.remote(start)
    made.add.remote(1)
    return {"a": made, "why": "of a task that has ended"}


@cascade.remote
def keeps(start):
    return Tally.options(cpu=1).remote(start)


@cascade.remote
def passes(actor, depth):
    if depth == 0:
        cascade.get(actor.add.remote(1))
        return actor
    return cascade.get(passes.remote(actor, depth - 1))


@cascade.remote
def leaves(actor):
    """Waits for nothing."""
    for _ in range(3):
        actor.add.remote(1)


@cascade.remote
def kills(actor):
    n = cascade.get(actor.add.remote(1))
    cascade.kill(actor, why="a task wants it")
    return n


@cascade.remote
def only_kills(actor):
    cascade.kill(actor, why="nothing but a kill")


@cascade.remote
def dies(actor):
    return cascade.get(actor.dies.remote())


@cascade.remote
def falls(actor):
    cascade.get(actor.add.remote(1))
    os.kill(os.getpid(), signal.SIGKILL)


@cascade.remote
def found(box, what="add"):
    """Calls what it finds in a list or dict."""
    actor = box[0] if isinstance(box, list) else box["a"]
    return cascade.get(actor.pid.remote() if what == "pid" else actor.add.remote(1))


@cascade.remote
def takes_all(actors):
    return cascade.get([a.add.remote(10) for a in actors])


@cascade.remote
def waits(actor, path):
    """Goes on until it is ended, with a call or without."""
    actor.add.remote(1).result()
    return actor.sleeps.remote(path).result()


@cascade.remote
def stands(actor):
    """Calls it in threads of its own, and lets go of it."""
    counts = []

    def calls():
        with cascade.strand("another"):
            counts.append(cascade.get([actor.add.remote(0) for _ in range(100)]))

    thread = threading.Thread(target=calls)
    thread.start()
    counts.append(cascade.get([actor.add.remote(0) for _ in range(100)]))
    thread.join()
    return [len(c) for c in counts]


def gone(pid):
    """Whether the socket of an actor is with a process no more."""
    sockets = {f"socket:[{line.split()[6]}]" for line in open("/proc/net/unix") if line.endswith("actors.sock\n")}
    try:
        return not any(os.readlink(f"/proc/{pid}/fd/{fd}") in sockets for fd in os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:  # a descriptor, or the process, has gone meanwhile
        return not os.path.exists(f"/proc/{pid}") or gone(pid)


@cascade.remote
class Gate:
    """Its methods run beside each other."""

    n = 0

    async def add(self, by):
        self.n += by
        return self.n

    async def never(self):
        await asyncio.sleep(3600)


@cascade.remote(max_concurrency=3)
class Threads:
    def add(self, by):
        return by


@cascade.remote
class Giver:
    def gives(self, n):
        """Its own actors go to tasks."""
        made = [Tally.remote(i) for i in range(n)]
        return cascade.get([adds.remote(a, 1) for a in made])


@cascade.remote
def series(n):
    for i in range(n):
        yield {"a": Tally.remote(i)}


@cascade.remote
def wrapped(start):
    return {"inner": makes.remote(start)}


@cascade.remote
def mark():
    return None


@cascade.remote
def here():
    """The agent of the task, and its folder of shared memory."""
    return cascade.current().agent, cascade.context._host.welcome.shm_dir
