"""A program that calls functions: of its own, of a module beside it, and of functions in functions."""

import asyncio
import contextlib
import gc
import io
import os
import re
import sys
import threading
import time

import cascade
import numpy as np
from job import beside


class Mine(Exception):
    """An exception of the program's."""


@cascade.remote
def double(x):
    return 2 * x


@cascade.remote
def fails(x):
    raise Mine(f"no {x}")


@cascade.remote
def calls_failing(x):
    return cascade.get(fails.remote(x))


@cascade.remote
def looks_up():
    return {}["a"]


@cascade.remote
def lacks():
    import no_such.part  # noqa: F401


@cascade.remote
def factorial(n):
    return 1 if n == 0 else n * cascade.get(factorial.remote(n - 1))


def large(text):
    """A function by value that calls itself, with a large closure."""

    @cascade.remote
    def down(n):
        below = cascade.get(down.remote(n - 1)) if n else []
        return [len(text), cascade.context._host.own_calls("").made, *below]  # what it has called and put

    return down


def sent(text):
    """A large function is put once for calls, maps, other options and pools, and goes with the last who has it."""
    gc.collect()
    held = cascade.context._host.own_calls("").codes.held

    def counts(x):
        return len(text) + x

    def of_pool(x):
        return len(text) - x

    before, f = held(), cascade.remote(counts)
    values = cascade.get([f.remote(0), *f.map([1, 2]), f.options(retries=1).remote(3)])
    calls = held() - before
    with cascade.Executor(2) as ex:
        values += list(ex.map(of_pool, range(2)))
    both = held() - before
    del counts, of_pool, f
    gc.collect()
    return values, calls, both, held() - before


def coded_once():
    """A function by value is as it was at its first call."""
    factor = 2

    @cascade.remote
    def scaled(x):
        return factor * x

    first = scaled.remote(1).result()
    factor = 3
    return first, scaled.remote(1).result(), cascade.remote(scaled).remote(1).result()



@cascade.remote(num_returns=2, num_cpus=0.5)
def both(x):
    return x, str(x)


@cascade.remote
def squares(n):
    for i in range(n):
        yield i * i


@cascade.remote
def many(a, /, b, *rest, c=0, **more):
    return [a, b, list(rest), c, more]


@cascade.remote
def says(x):
    print("said", x)


@cascade.remote
def total(xs, n=0):
    return sum(xs) + n


@cascade.remote
def mean(x):
    return float(x.mean())


@cascade.remote
def until(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.path.basename(path)


@cascade.remote
def awaits(n):
    async def together():
        return await asyncio.gather(*[double.remote(i) for i in range(n)])

    return asyncio.run(together())


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


def values():
    print("before", cascade.is_initialized(), double(4))
    print("first", cascade.get(double.remote(1)), cascade.is_initialized())
    print("many", sum(cascade.get([double.remote(i) for i in range(1000)])))
    print("refs", total.remote([double.remote(i) for i in range(4)], double.remote(1)).result())
    print("put", double.remote(cascade.put(3)).result(), cascade.get(cascade.put({"a": [1]})))
    print("recursion", cascade.get(factorial.remote(5)))
    print("recursion, code passed on", cascade.get(large("x" * 100_000).remote(2)))
    print("several", cascade.get(both.remote(5)), total.remote([both.remote(1)[0]]).result())
    print("series", list(squares.remote(5)), squares.remote(3).result())
    print("places", cascade.get(many.remote(1, 2, 3, 4, c=5, d=6)), cascade.get(many.remote(1, b=3)))
    y = 10
    print("closure", cascade.get([cascade.remote(lambda x: x * y).remote(i) for i in range(3)]))
    print("large functions", sent("x" * (1 << 20)))
    print("coded once", coded_once())
    print("module", beside.triple.remote(3).result(), double.remote(beside.triple.remote(1)).result(), beside.of_both.remote(1).result())
    print("call", cascade.call(double, 3).result(), cascade.options(retries=1).call(beside.triple, 2).result(), cascade.call("job.beside.triple", 4).result())
    array = cascade.put(np.arange(1 << 17))
    got = array.result()
    print("array", mean.remote(array).result(), got[-1], got.flags.writeable, double.remote(array).result()[-1])


def errors():
    for f in (fails, calls_failing):
        try:
            f.remote(3).result()
        except Mine as e:
            print("error", isinstance(e, cascade.CallFailed), e, e.codes, e.attempt, e.agent)
            shown = str(e.__cause__).replace(os.path.dirname(os.path.abspath(__file__)), "")
            print("\n".join(line for line in shown.splitlines() if line.strip("^~ ") or not line))
    with contextlib.suppress(KeyError):
        print(looks_up.remote().result())
    print("lacks", tried(lacks.remote().result).replace(sys.executable, "PYTHON"))
    never = until.remote("/none")
    print("first error", tried(lambda: cascade.get([never, fails.remote(1)])))
    never.cancel()
    print("arguments", tried(lambda: double.remote(1, 2)), "|", tried(lambda: double.remote(y=1)))
    print("options", tried(lambda: double.options(colour="red")), "|", tried(lambda: cascade.remote(3)))
    print("no futures", tried(lambda: cascade.get(3)), "|", tried(lambda: cascade.wait(3)), "|", tried(lambda: cascade.get([3])))

    async def waits():
        return 1

    print("async", tried(lambda: cascade.remote(waits).remote()))
    lock = threading.Lock()
    print("locks", tried(lambda: cascade.remote(lambda: lock).remote()))


def told_once(path):
    """A call ends while a callback is added to it."""
    late, told, said, session = until.remote(path), [], threading.Event(), cascade.session._session
    sends = session.flush

    def flush():
        sends()
        open(path, "w").close()
        while late.state.end is None:
            session._poll.poll(100)
            session.pump()

    session.flush = flush
    late.add_done_callback(told.append)
    session.flush = sends
    double.remote(1).add_done_callback(lambda _: said.set())
    said.wait()
    return len(told)


def there(path):
    """Waits for a file."""
    while not os.path.exists(path):
        time.sleep(0.01)


def leaving(path):
    """A callback that raises SystemExit keeps no other from being called, and no pool from its end."""
    hook, sys.excepthook, left, said = sys.excepthook, (lambda *_: None), threading.Event(), threading.Event()

    def leaves(_):
        left.set()
        raise SystemExit(3)

    double.remote(1).add_done_callback(leaves)
    left.wait()
    double.remote(2).add_done_callback(lambda _: said.set())
    called = said.wait(60)
    with cascade.Executor() as made:
        for future in [made.submit(there, path) for _ in range(4)]:
            future.add_done_callback(leaves)  # of one that has ended it would be called here
        open(path, "w").close()
    sys.excepthook = hook
    return called


def kinds():
    """Kinds of calls beyond a number are forgotten, and announced anew."""
    from cascade.executor import calls

    most, calls.MOST_KINDS = calls.MOST_KINDS, 2
    found = [double.options(retries=i % 5).remote(i).result() for i in range(12)]
    calls.MOST_KINDS = most
    made = cascade.session._session.calls
    return found, sum(map(len, made._kinds.values())) <= 3, made._forgotten > 5


def idles():
    """The agent is told of a value that is let go while nothing else is said."""
    session, value = cascade.session._session, cascade.put([1])
    while session._looks_soon:
        time.sleep(0.01)
    del value
    while session.calls.released:
        time.sleep(0.01)
    return True


def waits(folder):
    path = os.path.join(folder, "go")
    refs = [until.remote(path), double.remote(1), double.remote(2)]
    ready, rest = cascade.wait(refs, num_returns=2)
    print("wait", sorted(cascade.get(ready)), rest == refs[:1], rest[0].done(), rest[0])
    print("timeout", tried(lambda: rest[0].result(0.01)), "|", cascade.wait(rest, timeout=0.01) == ([], rest))
    cancelled = until.remote("/none")
    cancelled.cancel("not needed")
    print("cancel", tried(cancelled.result), cancelled, type(cancelled.exception()).__name__, double.remote(1).exception())
    open(path, "w").close()
    print("completed", [f.result() for f in cascade.as_completed(rest)], len({*refs}))
    said = threading.Event()
    double.remote(4).add_done_callback(lambda f: (print("callback", f.result(), double.remote(f).result()), said.set()))
    said.wait()
    print("told once", told_once(path + ".late"))
    print("kinds", kinds())
    print("let go by a program that idles", idles())
    print("callbacks that leave", leaving(path + ".left"))
    print("concurrent", double.remote(8).future().result(), tried(fails.remote(2).future().result))

    async def together():
        print("gather", await asyncio.gather(*[double.remote(i) for i in range(5)]))
        with contextlib.suppress(Mine):
            await fails.remote(4)
        print("arrays", [len(x) for x in await asyncio.gather(*[double.remote(np.ones(100_000)) for _ in range(3)])])
        print("series", await squares.remote(3))

    asyncio.run(together())
    print("awaits", awaits.remote(3).result())


def maps():
    print("map", cascade.get(double.map(range(5))), cascade.get(total.map([[1], [2, 3]], n=1)), len(double.map(range(3000))))
    print("pairs", cascade.get(many.map([1, 2], (3, 4), [5, 6])))
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown):
        refs = cascade.progress(double.map(range(20)), name="doubles", show=True)
        cascade.progress([fails.remote(1), *refs], show=True)
    print("progress", [line.strip() for line in re.split("\r|\x1b", shown.getvalue()) if re.search("20/20|21/21", line)])
    print(sum(cascade.get(refs)), cascade.progress([]))


def prints():
    cascade.get(says.remote("a word"))
    cascade.get(cascade.remote(lambda: print("two\nlines\x1b[31m, without an end", end="")).remote())
    cascade.get(cascade.remote(lambda: print("on stderr", file=sys.stderr)).remote())
    sys.stdout.flush()


def threads():
    sums = []

    def work(k):
        sums.append(sum(cascade.get([double.remote(i) for i in range(100 * k)])))

    all = [threading.Thread(target=work, args=(k,)) for k in range(1, 6)]
    for t in all:
        t.start()
    for t in all:
        t.join()
    print("threads", sorted(sums))


def ends():
    future, read = double.remote(1), double.remote(2)
    read.result()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        print("forked", tried(lambda: double.remote(1)), "|", tried(future.result), cascade.is_initialized())
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print("twice", tried(cascade.init).partition(" at ")[0])
    cascade.shutdown()
    print("after", tried(future.result), "|", read.result(), cascade.is_initialized())
    with cascade.init(programs=sys.argv[1], cpu=1):
        print("another", double.remote(3).result(), factorial.remote(3).result())
    print("over", cascade.is_initialized())


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    values()
    errors()
    waits(sys.argv[2])
    maps()
    prints()
    threads()
    ends()
