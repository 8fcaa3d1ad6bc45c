"""Handles of actors in arguments, results and values: calls of tasks that have found one, and what ends the actor."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time

import cascade
import handing
from cascade.executor import actorline
from handing import Box, Tally, adds, found, gone, only_kills, waits


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except Exception as e:
        return re.sub(r" \(\d+\)", "", f"{type(e).__name__}: {str(e).splitlines()[0]}")


def until(so):
    """Waits until something is so."""
    end = time.monotonic() + 60
    while not so():
        if time.monotonic() > end:
            raise SystemExit(f"what line {sys._getframe(1).f_lineno} waits for is never so")
        time.sleep(0.01)


def own(folder):
    """A class of the program goes by value."""

    @cascade.remote
    class Notes:
        def __init__(self):
            self.said = []

        def say(self, text):
            self.said.append(text)
            return self.said

        @cascade.method(num_returns=2)
        def two(self):
            return len(self.said), self.said

        def each(self):
            yield from self.said

    @cascade.remote
    def says(notes, depth):
        if depth:
            return cascade.get(says.remote({"notes": notes["notes"]}, depth - 1))
        notes["notes"].say.remote("in a task")
        n, said = notes["notes"].two.remote()
        return n.result(), said.result(), list(notes["notes"].each.remote()), tried(lambda: notes["notes"].sya)

    notes = Notes.remote()
    notes.say.remote("in the program").result()
    print("a class by value:", says.remote({"notes": notes}, 2).result())


def values():
    a = Tally.remote(10)
    print("an argument:", cascade.get(adds.remote(a, 3)), cascade.get(a.add.remote(0)))
    b = Tally.remote(2)
    print("an object with several:", cascade.get(handing.adds_all.remote(Box(a, {"x": [b, a], "y": (b,)}))), cascade.get([a.add.remote(0), b.add.remote(0)]))
    put = cascade.put({"a": Tally.remote(5), "f": adds.remote(a, 1)})
    gc.collect()
    print("put, and let go by its maker:", [cascade.get(found.remote(put)) for _ in range(2)])
    made = cascade.get(handing.makes.remote(5))
    print("a result, of a task that has ended:", cascade.get(made["a"].add.remote(1)), made["why"])
    print("given on:", cascade.get(adds.remote(made["a"], 2)), cascade.get(found.remote(handing.makes.remote(7))))
    back = cascade.get(handing.passes.remote(a, 3))
    print("it comes back:", cascade.get(back.add.remote(0)) - cascade.get(a.add.remote(0)))
    c = Tally.remote(0)
    print("many tasks:", len(cascade.get([adds.remote(c, 20) for _ in range(10)])), cascade.get(c.add.remote(0)))
    print("several at once:", cascade.get(handing.takes_all.remote([Tally.remote(i) for i in range(4)])))
    c = Tally.remote(0)
    for _ in range(10):
        cascade.get(handing.leaves.remote(c))
    until(lambda: cascade.get(c.add.remote(0)) == 30)
    print("tasks that do not wait for their calls:", cascade.get(c.add.remote(0)))
    kept = cascade.get(handing.keeps.remote(4))
    print("of a task that has ended before its actor was there:", cascade.get(kept.add.remote(1)))
    print("threads of a task:", cascade.get(handing.stands.remote(c)))


def ends(folder):
    a = Tally.remote(0)
    print("a task kills it:", cascade.get(handing.kills.remote(a)))
    until(lambda: a._cascade_line.dead is not None)  # the kill comes by another way
    print("the maker is told:", tried(lambda: cascade.get(a.add.remote(1))), a)
    print("and later:", tried(lambda: cascade.get(adds.remote(a, 1))))
    a = Tally.remote(0)
    cascade.get(only_kills.remote(a))
    until(lambda: a._cascade_line.dead is not None)
    print("a task that does nothing but kill it:", tried(lambda: cascade.get(a.add.remote(1))))
    a = Tally.remote(0)
    path = os.path.join(folder, "sleeps")
    sleeps, behind = a.sleeps.remote(path), a.add.remote(1)
    until(lambda: os.path.exists(path))
    cascade.get(only_kills.remote(a))
    print("in the midst of a method:", tried(sleeps.result), tried(behind.result))
    a = Tally.remote(0)
    waiting = waits.remote(a, path + "2")
    until(lambda: os.path.exists(path + "2"))
    cascade.kill(a, why="its maker wants it")
    print("its maker kills it:", tried(waiting.result))
    a = Tally.remote(0)
    put, pid = cascade.put([a]), a.pid.remote().result()
    os.kill(pid, signal.SIGSTOP)
    actorline._TELLS = 0.1
    cascade.kill(a, why="it does not answer")
    print("one that is stopped:", tried(a.add.remote(1).result))
    actorline._TELLS = 5
    until(lambda: gone(pid))
    a = Tally.remote(0)
    print("its process dies:", tried(lambda: cascade.get(handing.dies.remote(a))), tried(lambda: cascade.get(a.add.remote(1))))
    put = cascade.put([Tally.remote(0)])
    pid = cascade.get(found.options(name="pid").remote(put, "pid"))
    print("it lives as long as a value:", cascade.get(found.remote(put)), gone(pid))
    del put
    until(lambda: gone(pid))
    print("and ends with it:", gone(pid))
    a = Tally.remote(0)
    pid = a.pid.remote().result()
    held = waits.remote(a, path + "3")
    until(lambda: os.path.exists(path + "3"))
    del a
    print("as long as a task:", gone(pid))
    held.cancel("enough")
    print(tried(held.result))
    until(lambda: gone(pid))
    print("and ends with it:", gone(pid))
    a = Tally.remote(0)
    pid = a.pid.remote().result()
    print("a task whose process dies:", tried(lambda: cascade.get(handing.falls.remote(a))).partition(";")[0], a.add.remote(1).result())
    del a
    until(lambda: gone(pid))
    print("holds it no more:", gone(pid))


def refused():
    a = Tally.remote(0)
    lost = Tally.options(max_restarts=1).remote()
    for do in (
        lambda: a.takes.remote({"a": a}).result(), lambda: a.gives.remote().result(), lambda: adds.remote(lost, 1),
        lambda: cascade.remote(lambda: a.add.remote(1)).remote(), lambda: handing.makes.remote(a.dies.remote().result()),
        lambda: adds.remote(a, 1), lambda: cascade.put([a]),
    ):  # fmt: skip
        print("refused:", tried(do))
    a = Tally.remote(0)
    cascade.shutdown()
    cascade.init(cpu=1)
    print("refused:", tried(lambda: adds.remote(a, 1)))


def beside():
    gate = handing.Gate.remote()
    print("an async actor:", cascade.get(found.remote([gate])), sum(cascade.get([found.remote({"a": gate}) for _ in range(5)])))
    cascade.get(only_kills.remote(gate))
    print("is killed:", tried(gate.never.remote().result))
    threads = handing.Threads.remote()
    print("threads:", cascade.get([found.remote([threads]) for _ in range(5)]))
    cascade.get(only_kills.remote(threads))
    until(lambda: threads._cascade_line.dead is not None)
    print("are killed:", tried(lambda: threads.add.remote(1).result()))
    print("an actor gives others away:", cascade.get(handing.Giver.remote().gives.remote(3)))
    print("elements of a series:", [cascade.get(x["a"].add.remote(1)) for x in handing.series.remote(3)])
    print("found in what was found:", cascade.get(found.remote(cascade.get(handing.wrapped.remote(5))["inner"])))


def kept(state):
    """The calls and values that the agent keeps."""
    cascade.get(handing.mark.remote())
    address = f"ipc://{state}/controller/run/controller.sock"
    out = subprocess.run(["cascade", "memory", "--json", "--to", address], stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    return [r for r in rows if not r.get("function", "").endswith("mark")]


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    cascade.init(cpu=2)
    values()
    own(sys.argv[2])
    ends(sys.argv[2])
    refused()
    cascade.shutdown()
    session = cascade.init(cpu=2, state=sys.argv[2] + "/state")
    beside()
    until(lambda: not kept(sys.argv[2] + "/state"))
    print("and in the end:", kept(sys.argv[2] + "/state"))
