"""A program with actors: the order of their calls, what they return and raise, and what runs beside what."""

import asyncio
import os
import sys
import threading

import cascade
import numpy as np
from job import beside


class Mine(Exception):
    """An exception of the program's."""


class Locked(Exception):
    """An exception that cannot be pickled."""

    def __init__(self, a, b):
        super().__init__(a, b)
        self.lock = threading.Lock()


@cascade.remote
def double(x):
    return 2 * x


@cascade.remote
def fails():
    raise Mine("the task")


@cascade.remote
def opened(path):
    with open(path):  # waits until another has opened the pipe for writing
        return "opened"


class Base:
    def __init__(self, *seen, most=100):
        self.seen, self.most = list(seen), most

    def all(self):
        return self.seen


@cascade.remote
class Log(Base):
    def add(self, x, /, times=1, *, minus=0):
        self.seen += [x - minus] * times
        return len(self.seen)

    def wrong(self, kind):
        raise {"mine": Mine("a method"), "locked": Locked(1, 2), "key": KeyError("k")}[kind]

    def lock(self):
        return threading.Lock()

    def given(self, a: np.ndarray, b: list, **more):
        return type(a).__name__, b, more

    @cascade.method(num_returns=2)
    def halves(self, x):
        return x[: len(x) // 2], x[len(x) // 2 :]

    @cascade.method(num_returns=0)
    def clear(self):
        self.seen.clear()

    def upto(self, n):
        for i in range(n):
            yield i
        if n > 3:
            raise Mine(f"after {n}")

    def of_task(self, x):
        return double.remote(x).result(), [f.result() for f in double.map(range(3))]

    def makes(self, n):
        logs = [Log.remote(i) for i in range(n)]
        return sum(cascade.get([log.all.remote() for log in logs]), [])

    def passes(self, path):
        fd = os.open(path, os.O_WRONLY)
        os.close(fd)

    def forks(self, returns):
        child = os.fork()
        if child == 0 and not returns:
            os._exit(0)
        if child:
            os.waitpid(child, 0)
        return "parent" if child else "child"

    def leaves(self):
        cascade.exit_actor()


@cascade.remote
def makes(n):
    logs = [Log.remote(i) for i in range(n)]
    policy = 0
    for _ in range(3):
        policy = double.remote(sums.remote(policy, *[log.add.remote(policy) for log in logs]))
    return policy.result(), cascade.get(logs[0].all.remote())


@cascade.remote
def sums(*numbers):
    return sum(numbers)


@cascade.remote
class Bad:
    def __init__(self, missing):
        raise Mine(f"no {missing}")

    def method(self):
        return 1


@cascade.remote
class Gate:
    def __init__(self):
        self.open, self.n = asyncio.Event(), 0
        asyncio.get_running_loop()  # the constructor runs in the loop

    async def passes(self):
        await self.open.wait()
        self.n += 1
        return self.n

    def opens(self):
        self.open.set()

    async def of_task(self, x):
        return await double.remote(x)

    async def upto(self, n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def never(self):
        await asyncio.Event().wait()

    @cascade.method(concurrency_group="one")
    async def alone(self):
        self.n += 1
        here = self.n
        await asyncio.sleep(0.001)
        return here == self.n


@cascade.remote(concurrency_groups={"io": 2})
class Groups:
    def __init__(self):
        self.both = threading.Barrier(2)

    @cascade.method(concurrency_group="io")
    def meets(self):
        self.both.wait(60)
        return threading.current_thread().name[:8]

    def default(self):
        return double.remote(1).result(), threading.current_thread().name


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except BaseException as e:
        own = list(dict.fromkeys(c.__name__ for c in type(e).__mro__ if c.__module__ in ("__main__", "cascade")))
        return f"{type(e).__name__}{own if len(own) > 1 else ''}: {e}".replace("'", '"')


def order(folder):
    log, other = Log.remote(), Log.remote(5, most=7)
    path = os.path.join(folder, "pipe")
    os.mkfifo(path)
    slow = opened.remote(path)
    calls = [log.add.remote(double.remote(i) if i % 3 else i) for i in range(20)]
    held = [log.add.remote(100, times=[0, slow][0]), log.given.remote(slow, [slow, 1], c=slow), log.all.remote()]
    print("held", held[0].done(), other.all.remote().result())  # a slow argument holds its own handle
    other.passes.remote(path).result()
    print("order", held[2].result() == [2 * i if i % 3 else i for i in range(20)], held[1].result())
    print("counts", cascade.get(calls) == list(range(1, 21)), other.add.remote(9, 2, minus=1).result(), other.all.remote().result())
    print("failed argument", tried(log.add.remote(fails.remote()).result))
    print("wait", [len(fs) for fs in cascade.wait([log.add.remote(1), double.remote(1), log.all.remote()], num_returns=3)])
    print("as completed", sorted(f.result() for f in cascade.as_completed([double.remote(3), log.forks.remote(False) and double.remote(2)])))


def values():
    log = Log.remote()
    print("arguments", log.given.remote(np.arange(3), [1], c={"d": None}).result(), log.given.remote(a=1, b=2).result())
    x = np.arange(1 << 18, dtype=float)
    a, b = log.halves.remote(x)
    print("array", a.result().shape, (b.result() == x[1 << 17 :]).all(), a.result().flags.writeable, log.clear.remote())
    one = log.halves.options(num_returns=1).remote("abcd")
    print("options", one.result(), tried(lambda: cascade.get(log.halves.options(num_returns=3).remote("abc"))))
    print("class of a module", beside.Tally.remote(3).more.remote(4).result())
    print("here", Log(1, 2).all(), Log.__name__)
    print("tasks", log.of_task.remote(21).result(), double.remote(log.of_task.remote(1)).result())
    print("a task makes actors", makes.remote(3).result(), "an actor too", log.makes.remote(3).result())
    print("series", list(log.upto.remote(3)), [f.result() for f in log.upto.remote(2).elements()], tried(lambda: list(log.upto.remote(4))))
    print("fork", log.forks.remote(False).result(), log.forks.remote(True).result())

    class Local:
        def __init__(self):
            self.x = x[5]

        def get(self):
            return self.x, beside.triple(8)

    print("closure", cascade.remote(Local).remote().get.remote().result())


def errors():
    log = Log.remote()
    for kind in ("mine", "locked", "key"):
        print("raised", tried(log.wrong.remote(kind).result))
    print("result", tried(log.lock.remote().result)[:120])
    print("task of it", tried(double.remote(log.wrong.remote("mine")).result))
    bad = Bad.remote("disk")
    print("constructor", tried(bad.method.remote().result))
    print("constructor's argument", tried(Bad.remote(fails.remote()).method.remote().result))
    print("later", tried(bad.method.remote().result), bad)
    for do in (
        lambda: log.ad, lambda: log.add.remote(), lambda: log.add(1), lambda: Log.remote(least=1), lambda: Log.options(name="a"),
        lambda: Log.options(max_restart=1), lambda: Log.options(max_restarts=-2), lambda: Log.options(max_concurrency=0),
        lambda: cascade.get_actor("a"), lambda: log.add.remote([log]), lambda: cascade.exit_actor(), lambda: cascade.kill(3),
    ):  # fmt: skip
        print("refused", tried(do))
    states = cascade.session._session.calls._states
    before = set(states)
    print("what is refused leaves nothing", bool(tried(lambda: log.add.remote([log]))), set(states) <= before)
    ends = [log.add.remote(1), log.leaves.remote(), log.add.remote(2)]
    print("exit", [tried(f.result) for f in ends], tried(log.add.remote(3).result), log)
    log = Log.remote()
    ends = [log.add.remote(1), getattr(log, "__ray_terminate__").remote(), log.add.remote(2)]
    print("terminate", [tried(f.result) for f in ends])


def beside_each_other():
    gate = Gate.remote()
    calls = [gate.passes.remote() for _ in range(5)]
    print("async", gate.of_task.remote(4).result(), calls[4].done(), gate.opens.remote().result(), cascade.get(calls))
    print("async series", list(gate.upto.remote(3)))
    never = gate.never.remote()
    gate.of_task.remote(1).result()
    never.cancel("enough")
    print("cancelled", tried(never.result))

    async def main():
        return await asyncio.gather(*[gate.of_task.remote(i) for i in range(5)])

    print("await", asyncio.run(main()))
    grouped = Gate.options(concurrency_groups={"one": 1}).remote()
    print("async group", cascade.get([grouped.alone.remote() for _ in range(4)]), tried(gate.alone.remote().result))
    groups = Groups.remote()
    print("groups", cascade.get([groups.meets.remote(), groups.meets.remote()]), groups.default.remote().result())
    print("other group", groups.default.options(concurrency_group="io").remote().result()[0])
    many = Groups.options(max_concurrency=3).remote()
    print("threads", sorted(cascade.get([many.meets.options(concurrency_group="").remote() for _ in range(2)])))


def threads():
    log = Log.remote()
    found = {}

    def calls(k):
        found[k] = cascade.get([log.add.remote(k) for _ in range(200)])

    all = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
    for t in all:
        t.start()
    for t in all:
        t.join()
    print("threads of the program", sorted(sum(found.values(), [])) == list(range(1, 801)), all_ordered(found))


def all_ordered(found):
    return all(f == sorted(f) for f in found.values())


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    with cascade.init(cpu=2):
        order(sys.argv[2])
        values()
        errors()
        beside_each_other()
        threads()
