"""Executors and pools over a session; each line is a case. CPython's own tests are run by cpython.py."""

import asyncio
import concurrent.futures
import gc
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import weakref

import cascade
from cascade import pickled


class Mine(Exception):
    """An exception with arguments of its own."""

    def __init__(self, a, b):
        super().__init__(a, b)
        self.both = a, b


def capture(*args, **named):
    return args, named


def fails(x):
    raise Mine(x, "why") from KeyError(x)


def until(path):
    while not os.path.exists(path):
        time.sleep(0.005)
    return os.path.basename(path)


def told(what, do):
    try:
        print(what, "->", do())
    except BaseException as e:
        print(what, "raised", type(e).__name__, str(e).partition("\n")[0])


PROGRAM = """
import sys, atexit, time
def said(x):
    time.sleep(0.2)
    return x
def late():
    try:
        made.submit(int)
    except RuntimeError as e:
        print("after the end:", e)
atexit.register(late)
import cascade
if __name__ == "__main__":
    cascade.init(store="64MiB", cpu=2, programs=sys.argv[1])
    made = cascade.Executor(2)
    made.submit(said, "apple").add_done_callback(lambda f: print(f.result()))
    {more}
"""


factor, seen = 1, [1]


def helper(x):
    return factor * x


def uses(x):
    return helper(x) + len(seen)


def counts(n=[0]):  # noqa: B006
    n[0] += 1
    return n[0]


def adds(n):
    return lambda x: x + n


def current(ex):
    """A function is as it is when it is submitted, with all that it uses."""
    global factor, helper
    first = ex.submit(uses, 2).result()
    factor = 5
    second = ex.submit(uses, 2).result()
    seen.append(1)
    third = ex.submit(uses, 2).result()
    helper = abs
    return first, second, third, ex.submit(uses, -2).result(), [ex.submit(adds(i), 1).result() for i in range(3)], [
        ex.submit(counts).result() for _ in range(2)
    ]


def sends(ex, text):
    """A large function is put once, goes by reference as it is, and is put away with the last who has it."""
    names = text

    def counts(x):
        return len(names) + x

    (call, one), (_, two) = pickled.packed(counts, (1,), {}), pickled.packed(counts, (2,), {})
    same = len(one) == 1 and one[0] is two[0]
    before = [f.result() for f in [ex.submit(counts, i) for i in range(3)]]
    names = text + text
    other = pickled.packed(counts, (1,), {})[1][0] is not one[0]
    after, gone = ex.submit(counts, 0).result(), weakref.ref(counts)
    del counts, one, two
    gc.collect()
    return len(call) < 1000, same, before, other, after, gone() is None


def within(text):
    """A task that has a pool of its own, twice in one process."""
    with cascade.Executor(1) as ex:
        return ex.submit(lambda x: len(text) + x, 1).result()


def bridged(x):
    """A task that waits for a future of concurrent.futures."""
    return cascade.remote(helper).remote(x).future().result()


def main():
    folder = os.environ["FOLDER"]
    cascade.init(store="64MiB", cpu=4, programs=sys.argv[1])
    with cascade.Executor() as ex:
        print("values keep their types:", ex.submit(capture, 1, (2, [3]), k={4: "five"}).result())
        print("a lambda, a method, a builtin:", ex.submit(lambda x: -x, 3).result(), ex.submit("a-b".split, "-").result(), ex.submit(pow, 2, 9).result())
        try:
            ex.submit(fails, 7).result()
        except Mine as e:
            print("an exception:", type(e) is Mine, e.both, type(e.__cause__).__name__, "KeyError: 7" in str(e.__cause__))
        told("what cannot be sent", lambda: ex.submit(capture, threading.Lock()).result())
        told("what cannot come back", lambda: ex.submit(threading.Lock).result())
        told("exit of a function", lambda: ex.submit(sys.exit, 3).result())
        print("map:", list(ex.map(pow, range(5), [2] * 5)), list(ex.map(pow, range(7), [2] * 7, chunksize=3)))
        print("large functions:", sends(ex, "x" * (1 << 20)))
        print("large functions within tasks:", [ex.submit(within, "x" * 100_000).result() for _ in range(2)])
        futures = [ex.submit(int, i) for i in range(20)]
        print("as_completed:", sorted(f.result() for f in concurrent.futures.as_completed(futures)))

        async def awaits():
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*(loop.run_in_executor(ex, int, i) for i in range(5)))

        print("asyncio:", asyncio.run(awaits()))
    told("after shutdown", lambda: ex.submit(int))

    gate = os.path.join(folder, "gate")
    ex = cascade.Executor(2)
    futures = [ex.submit(until, gate) for _ in range(5)]
    print("two at a time:", [f.running() for f in futures], "cancelled:", futures[4].cancel(), futures[0].cancel())
    ex.shutdown(wait=False, cancel_futures=True)
    open(gate, "w").close()
    ex.shutdown()
    print("the others:", [f.cancelled() or f.result() for f in futures])

    with cascade.Pool(4) as pool:
        print("pool:", pool.apply(capture, (1,), {"k": 2}), pool.map(abs, range(-9, 0)), pool.starmap(divmod, [(7, 2), (9, 4)]))
        print("imap:", list(pool.imap(abs, [-1, -2, -3])), sorted(pool.imap_unordered(abs, [-1, -2, -3], 2)), pool.map(abs, []))
        heard: queue.Queue = queue.Queue()
        good = pool.map_async(abs, [-1, -2], callback=heard.put)
        bad = pool.apply_async(fails, (1,), error_callback=lambda e: heard.put(e.both))
        both = sorted((heard.get(timeout=60) for _ in range(2)), key=str)  # in either order
        print("async:", good.get(), good.successful(), bad.successful(), both)
        os.remove(gate)
        slow = pool.apply_async(until, (gate,))
        try:
            slow.get(0.01)
        except multiprocessing.TimeoutError:
            print("not there yet:", slow.ready())
        told("join of an open pool", pool.join)
    told("what was terminated", slow.get)
    told("a closed pool", lambda: pool.map(abs, [1]))

    ex = cascade.Executor(1)
    print("functions as they are:", *current(ex))
    futures = [ex.submit(until, gate) for _ in range(2)]
    cascade.shutdown()
    for f in futures:
        try:
            f.result()
        except cascade.SessionLost as e:
            print("a future of a session:", str(e).partition(": ")[2])
    cascade.init(store="64MiB", cpu=2, programs=sys.argv[1])
    ex.shutdown(cancel_futures=True)
    with cascade.Executor() as ex:
        print("tasks that wait on every core:", list(ex.map(within, ["a", "bc"])), list(ex.map(bridged, [-3, 4])))
    cascade.shutdown()
    for more in ("", "made.shutdown(wait=False)"):
        path = os.path.join(folder, "program.py")
        with open(path, "w") as f:
            f.write(PROGRAM.replace("{more}", more))
        done = subprocess.run([sys.executable, path, sys.argv[1]], capture_output=True, text=True, timeout=120)
        print("a program that ends:", done.stdout.split("\n"), done.stderr)


if __name__ == "__main__":
    main()
