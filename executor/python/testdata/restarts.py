"""Actors whose processes die, and that are restarted."""

import os
import random
import re
import signal
import sys
import threading

import cascade


@cascade.remote
class Purse:
    made = 0

    def __init__(self, start):
        self.n = start
        self.lock = None  # with one it cannot be saved

    def add(self, by):
        self.n += by
        return self.n

    def dies(self, path):
        """Dies the first time."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return "survived"
        os.kill(os.getpid(), signal.SIGKILL)

    def always(self, path):
        os.kill(os.getpid(), signal.SIGKILL)

    def calls(self, path):
        return double.remote(3).result()

    def locks(self, path):
        self.lock = threading.Lock()

    def upto(self, n, path):
        for i in range(n):
            if i == n // 2:
                self.dies(path)
            yield i


class Kept(Purse.__cascade_function__):
    """Says what its state is."""

    def __getstate__(self):
        return {"kept": self.n}

    def __setstate__(self, state):
        self.n = state["kept"] + 1000


@cascade.remote(max_restarts=1)
class Waits:
    async def waits(self):
        return 1


@cascade.remote
def double(x):
    return 2 * x


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


def said(value):
    """Without numbers of processes."""
    return re.sub(r"process \(\d+\)", "process (PID)", str(value))


def table(folder):
    for name, cls, options, dies in (
        ("no restart", Purse, {}, "dies"),
        ("at most once", Purse, {"max_restarts": 2}, "dies"),
        ("at most once, saved", Purse, {"max_restarts": 2, "save_every": 4}, "dies"),
        ("at least once", Purse, {"max_restarts": -1, "max_task_retries": -1}, "dies"),
        ("at least once, saved", Purse, {"max_restarts": 2, "max_task_retries": 2, "save_every": 4}, "dies"),
        ("exactly once", Purse, {"exactly_once": True}, "dies"),
        ("exactly once, saved", Purse, {"exactly_once": True, "save_every": 4}, "dies"),
        ("saved by each call", Purse, {"exactly_once": True, "save_every": 1}, "dies"),
        ("its own state", cascade.remote(Kept), {"exactly_once": True, "save_every": 10}, "dies"),
        ("a poison", Purse, {"exactly_once": True}, "always"),
        ("a poison, twice", Purse, {"max_restarts": -1, "max_task_retries": 1}, "always"),
        ("a call", Purse, {"exactly_once": True}, "calls"),
        ("not to be saved", Purse, {"exactly_once": True, "save_every": 11}, "locks"),
    ):
        purse = cls.options(**options).remote(100)
        cascade.get([purse.add.remote(1) for _ in range(10)])
        print(name)
        for i in range(2):
            first = tried(getattr(purse, dies).remote(os.path.join(folder, f"{name}-{i}")).result)
            print("   ", said(first), "|", said(tried(purse.add.remote(0).result)))


def others(folder):
    purse = Purse.options(max_restarts=1).remote(1)
    purse.add.remote(1).result()
    cascade.kill(purse, no_restart=False)
    print("killed to be restarted", purse.add.remote(0).result())
    cascade.kill(purse)
    print("killed", tried(purse.add.remote(0).result))
    purse = Purse.options(exactly_once=True).remote(1)
    series = purse.upto.remote(10, os.path.join(folder, "series"))
    print("a series", list(series), purse.add.remote(1).result())
    purse = Purse.options(exactly_once=True).remote(1)
    died, added = purse.dies.remote(os.path.join(folder, "handle")), purse.add.remote(1)
    del purse
    print("its handle is gone", died.result(), added.result())
    for do in (
        lambda: Purse.options(save_every=2), lambda: Purse.options(max_task_retries=1), lambda: Purse.options(max_restarts=-2),
        lambda: Purse.options(exactly_once=True, max_task_retries=1), lambda: Purse.options(exactly_once=1),
        lambda: Purse.options(exactly_once=True, max_concurrency=2).remote(1), lambda: Waits.options(save_every=2).remote(),
    ):  # fmt: skip
        print("refused", tried(do))


def many(folder):
    """Thousands of open calls, and five deaths."""
    random.seed(3)
    purse = Purse.options(exactly_once=True, max_restarts=10, save_every=37).remote(0)
    die, ends, n = set(random.sample(range(3000), 5)), [], 0
    for k in range(3000):
        if k in die:
            purse.dies.remote(os.path.join(folder, f"many-{k}"))
        n += k
        ends.append((purse.add.remote(k), n))
    print("many", all(f.result() == n for f, n in ends), len([f for f in os.listdir(folder) if f.startswith("many-")]))


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    with cascade.init(cpu=2):
        table(sys.argv[2])
        others(sys.argv[2])
        many(sys.argv[2])
