"""The process of an actor of which several have handles: what each is answered, and at which step the actor ends.

Each line is a story. M is the maker's link and F, G those of finders; the agent tells `freed`.
"""

import os
import tempfile
from contextlib import nullcontext
from types import SimpleNamespace

import msgpack
from cascade.executor import actorhost
from cascade.executor.actorcalls import packed
from cascade.executor.actorhost import ActorHost
from cascade.values import decode
from cascade.wire import codec
from cascade.wire import messages as m
from cascade.wire.direct import dial

STORIES = """
M make 5, F add 1, M shared, M bye, F add 2, F bye, freed
M make 5, M shared, freed, M add 1, M bye
F add 1, G add 2, M make 5, M shared, M bye, F bye, G bye, freed
F add 1, F bye, M make 5, M shared, M bye, freed
F add 1, F bye, F gone, M make 5, M shared, M bye, M gone, freed
F kill, M make 5, M add 1
F kill, late
F add 1, late
M make 5, F add 1, F kill, M add 1
M make 5, M shared, M bye, M gone, F add 1, F gone, freed
M make 5, F queue 1, F gone, G add 1, M bye, G bye
M make 5, F queue 1, F bye, F gone, G add 1, M bye, G bye
M make 5, M gone
M make 5, F add 1, M gone, F add 1, F bye
"""


class Counter:
    def __init__(self, start):
        self.n = start

    def add(self, by):
        self.n += by
        return self.n


class Story:
    """One process and its links."""

    def __init__(self, scratch):
        self.worker = SimpleNamespace(
            welcome=m.Welcome(scratch=scratch, agent="a"), lock=nullcontext(), woken=os.eventfd(0, os.EFD_NONBLOCK),
            beside=None, naps=False, check=lambda run: None, inside=lambda f, *args: f(*args),
        )  # fmt: skip
        self.host = ActorHost(self.worker, SimpleNamespace(id=7, stopped=None))
        self.links, self.numbers = {}, {}

    def step(self, text):
        """Does one step; it returns what came of it."""
        who, what, *of = [*text.split(), ""] if " " in text else ["", text, ""]
        if what == "freed":
            self.host._free(m.ActorFreed(7, [1]))
        elif what == "late":
            self.host._unmade()
        elif what == "gone":
            self.links.pop(who).abandon()
        else:
            self.send(who, what, of[0])
        self.takes()
        if what != "queue":
            self.works()
        return [text, *self.answers()]

    def send(self, who, what, of):
        if who not in self.links:
            self.links[who] = dial("ipc://" + self.host.path, "an actor", "caller")
        handle = ord(who)
        if what in ("make", "add", "queue"):
            n = self.numbers[who] = self.numbers.get(who, 0) + 1
            args = [msgpack.unpackb(packed(what, [int(of)]))[0]]
            class_, method = ("sharing.Counter", "") if what == "make" else ("", "add")
            self.links[who].send(codec.encode(m.ActorCalls([m.ActorCall(m.ActorName(handle, n), 1, class_, method, args)])))
            return
        drop = {"bye": m.ActorDrop(handles=[handle], why="it is left"), "shared": m.ActorDrop(shared=[1]), "kill": m.ActorDrop([1], why="enough")}
        self.links[who].send(codec.encode(drop[what]))

    def takes(self):
        """The process reads what has come."""
        while ready := self.host.watch.wait(0):
            if [fd for fd, _ in ready] == [self.worker.woken]:
                break
            self.host.watch.handle(ready)

    def works(self):
        """It runs calls, until it ends."""
        jobs = self.host.runner.jobs
        while jobs and not self.host.over:
            self.host.runs = True
            self.host.runner.do(jobs.popleft(), self.worker.inside)
        if self.host.over:
            self.host._tell_end()
        self.host.flush()

    def answers(self):
        """The answers that the links have got."""
        for who, link in sorted(self.links.items()):
            while (received := link.receive()) is not None:
                for e in codec.decode(received[0]).ends:
                    value = e.error.message if e.error else decode(*e.outputs[0][2:5], e.outputs[0].place.bytes) if e.outputs else "made"
                    yield f"{who}{e.name.number or ' is told'}: {value}"

    def end(self):
        """Ends all."""
        self.host.close()
        for link in self.links.values():
            link.abandon()
        os.close(self.worker.woken)


if __name__ == "__main__":
    actorhost.MAKER_DUE = 3600  # a step of the story says when that is over
    for line in STORIES.strip().splitlines():
        with tempfile.TemporaryDirectory() as scratch:
            story = Story(scratch)
            for text in line.split(", "):
                print("; ".join(map(str, story.step(text))))
                if story.host.over:
                    break
            print("ends:", story.host.over or "no")
            story.end()
        print()
