"""Functions that call others, wait for some of them, put values and read series."""

import os
import signal
import threading
import time

import numpy as np

import cascade


def double(x):
    return 2 * x


def total(xs: list[int], more=0):
    return sum(xs) + more


def until(path, value):
    """Ends when a file is there."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return value


def touch(path):
    open(path, "w").close()


def fails(text):
    raise ValueError(text)


def squares(n, size=1):
    for i in range(n):
        yield np.full(size, float(i * i))


def mean(x: np.ndarray):
    return float(x.mean())


def lengths(xs: list[np.ndarray]):
    return [x.size for x in xs]


def place(name):
    return os.path.join(cascade.current().scratch, f"{os.getpid()}-{name}")


def arguments(n):
    """By place, by name, futures, lists of futures."""
    calls = [cascade.call(double, i) for i in range(n)]
    both = cascade.call(total, [*calls, 100], more=calls[1])
    said = [cascade.call(total, calls).result(), both.result(), cascade.get([*calls, both])]
    for wrong in (lambda: cascade.call(double, 1, 2), lambda: cascade.call(double, 1, x=2),
                  lambda: iter(calls[0]).__next__()):  # fmt: skip
        try:
            wrong()
        except TypeError as e:
            said.append(str(e))
    return said


def leaks(n):
    """A task of a graph has results that outlive its calls."""
    return {"f": cascade.call(double, n)}


class Held:
    pass


def leaks_actor():
    """So does one that returns a handle."""
    return {"a": cascade.remote(Held).remote()}


def burst(n):
    """Many calls at once, taken as they end."""
    rest, seen = [cascade.call(double, x=i) for i in range(n)], 0
    while rest:
        done, rest = cascade.wait(rest, k=min(20, len(rest)))
        seen += sum(f.result() for f in done)
    return seen


def many(n):
    """So many that no part of it may look at all of them each time."""
    return sum(f.result() for f in cascade.as_completed([cascade.call(double, i) for i in range(n)]))


def order(n):
    """The order in which calls end, which is the other way round than that in which they are made."""
    names = [place(str(i)) for i in range(n)]
    calls = [cascade.call(until, name, i) for i, name in enumerate(names)]
    said = [[f.done() for f in calls]]
    done, rest = cascade.wait(calls, timeout=0.02)
    said.append([len(done), len(rest)])
    ends = cascade.as_completed(calls)
    for name in reversed(names):
        touch(name)
        (first,), rest = cascade.wait(rest)
        said.append([first.result(), next(ends).result()])
        os.remove(name)
    said.append([f.result() for f in cascade.as_completed(calls)])
    late = cascade.call(until, place("later"), n)
    try:
        said.append([f.result() for f in cascade.as_completed([*calls, late], timeout=0.02)])
    except TimeoutError as e:
        said.append(str(e))
    return said


def timeouts(n):
    """A result that is not there in time is there later."""
    name = place("late")
    late = cascade.call(until, name, n)
    said = []
    for wait in (lambda: late.result(timeout=0.02), lambda: cascade.get([late], timeout=0.02)):
        try:
            wait()
        except TimeoutError as e:
            said.append(str(e))
    said.append(cascade.call(double, 4).result())
    touch(name)
    return [*said, late.result(timeout=600), late.done()]


def failures(n):
    """The first error comes at once, and cancelled calls end."""
    never = cascade.call(until, place("never"), n)
    bad = cascade.call(fails, "no good")
    said = []
    try:
        cascade.get([never, bad])
    except cascade.CallFailed as e:
        said += [str(e), e.codes[0]]
    never.cancel("it takes too long")
    try:
        never.result()
    except cascade.CallCancelled as e:
        said.append(str(e))
    done, rest = cascade.wait([never, bad], k=2)
    return [*said, len(done), len(rest), never.done()]


def values(n):
    """Values that are put: small and large, as they were."""
    large = np.arange(float(n))
    small = {"a": [1, 2]}
    futures = [cascade.put(large), cascade.put(small)]
    large[:] = 0
    small["a"].append(3)
    back, again = cascade.get(futures)
    means = cascade.get([cascade.call(mean, futures[0]) for _ in range(3)])
    return [float(back[-1]), bool(back.flags.writeable), again, futures[0].done(), means]


def series(n):
    """Elements of a called generator, small and large, and the list of them."""
    small = [float(x[0]) for x in cascade.call(squares, n)]
    large = [[float(x[-1]), x.size] for x in cascade.call(squares, n, size=100000)]
    whole = cascade.call(squares, n)
    said = [small, large, len(whole.result()), [float(x[0]) for x in whole]]
    means = [cascade.call(mean, x) for x in cascade.call(squares, n, size=100000).elements()]  # while they are made
    parts = list(whole.elements())
    said.append([cascade.get(means), cascade.call(lengths, parts).result(), [x.done() for x in parts[:2]], float(parts[-1].result(0)[0])])
    try:
        cascade.call(double, whole)
    except ValueError as e:
        said.append(str(e))
    return said


def views(n):
    """Results stay as they are while they are looked at, also when their futures are gone and others follow."""
    kept, means = [], []
    for i in range(n):
        x = cascade.call(filled, i, 100000).result()
        if i % 3 == 0:
            kept.append(x[10:20])
        means.append(float(x.mean()))
        del x
    return [[float(x[0]) for x in kept], means]


def drops(n):
    """More results than the store has room for, each looked at for a while."""
    return sum(float(cascade.call(filled, i, 1000000).result().mean()) for i in range(n))


def filled(i, size):
    return np.full(size, float(i))


def fails_first(mark):
    """Is done at its second attempt."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return [cascade.current().attempt, cascade.current().cpu]
    raise LookupError("the first time")


def options(n):
    """Retries after some errors, resources, a time-out and a name."""
    said = [cascade.options(retries=n, retry_on=LookupError, cpu=2).call(fails_first, place("first")).result()]
    for o in (cascade.options(retries=n, retry_on=[OSError]), cascade.options(name="short")):
        try:
            o.call(fails_first, place(f"other{len(said)}")).result()
        except cascade.CallFailed as e:
            said.append(str(e))
    try:
        cascade.options(timeout=0.05).call(until, place("never"), 1).result()
    except cascade.CallFailed as e:
        said.append(str(e))
    return said


def threads(n):
    """Other threads cannot make calls, nor wait for them."""
    said, f = [], cascade.call(double, n)

    def attempt():
        for do in (lambda: cascade.call(double, n), f.result, lambda: cascade.wait([f])):
            try:
                do()
            except RuntimeError as e:
                said.append(str(e))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return [*said, f.result()]


def strands(n):
    """Threads make calls and wait for them, each in a strand, beside the task's own."""
    shared = cascade.put(np.arange(50000.0))
    got = [None] * n

    def work(i):
        with cascade.strand(f"worker {i}"):
            large = [cascade.call(filled, 10 * i + k, 50000) for k in range(3)]
            mine = cascade.put(np.full(20000, float(i)))
            done, rest = cascade.wait(large, k=2, timeout=600)
            late = cascade.call(until, place(f"never{i}"), 1)
            try:
                late.result(timeout=0.01)
            except TimeoutError:
                late.cancel()
            got[i] = [
                [float(x[-1]) for x in cascade.get(large)], len(done), len(rest), cascade.call(mean, mine).result(),
                cascade.call(mean, shared).result(), sum(float(x[0]) for x in cascade.call(squares, 4)),
            ]  # fmt: skip

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    own = cascade.get([cascade.call(double, i) for i in range(20)])
    for t in threads:
        t.join()
    return [got, sum(own)]


def counted(mark, x):
    """How often it was called, and what it got."""
    with open(mark, "a+") as f:
        f.write("x")
        return [f.tell(), float(x[-1])]


def grown(mark, x):
    with open(mark, "a") as f:
        f.write("x")
    return x + 1


def dies_anew(mark):
    """Its process is killed when it has read a result. Its second run calls anew."""
    cascade.not_repeatable()
    said = cascade.call(counted, mark + "n", np.zeros(1)).result()
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return said
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once(n, mark):
    """Its process is killed when it has read some results, dropped others and put values. Its second run meets them."""
    x = cascade.put(np.arange(float(n)))
    more = cascade.call(grown, mark + "grown", x)
    said = [cascade.call(counted, mark + str(i), f).result() for i, f in enumerate([x, more])]
    said.append([float(more.result()[-1]), float(x.result()[-1]), sum(float(e[0]) for e in cascade.call(squares, 4))])
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return [*said, os.path.getsize(mark + "grown")]
    os.kill(os.getpid(), signal.SIGKILL)
