"""Functions that call others as tasks of their own."""

import os
import signal

import numpy as np

import cascade


def fib(n):
    if n < 2:
        return n
    a, b = cascade.call(fib, n=n - 1), cascade.call("calling.fib", n=n - 2)
    return a.result() + b.result()


def scaled(x: np.ndarray, by):
    out = cascade.empty(x.shape)
    np.multiply(x, by, out=out)
    return out


def ramp(n):
    return np.arange(float(n))


def by_reference(x):
    """An input, a value in shared memory and results, each passed on without being looked at."""
    twice = cascade.call(scaled, x=cascade.input_future("x"), by=2)
    six = cascade.call(scaled, x=twice, by=3)
    mine = cascade.empty(x.shape)
    mine[:] = 1
    ones = cascade.call(scaled, x=mine, by=1)
    result = six.result()
    return [float(result[-1] / x[-1]), float(ones.result().sum()), bool(result.flags.writeable)]


def passed_on_twice(x):
    x = cascade.input_future("x")
    calls = [cascade.call(scaled, x=x, by=by) for by in (2, 3)]
    return [*(float(c.result()[1]) for c in calls), cascade.current().attempt]


def refuses(n):
    raise LookupError(f"nothing for {n}")


def errors(n):
    said = []
    try:
        cascade.call(refuses, n=n).result()
    except cascade.CallFailed as e:
        said += [str(e), e.codes[0]]
    for name, arguments in [("calling.nothing", {}), ("__main__.f", {}), ("calling.fib", {"m": 1})]:
        try:
            cascade.call(name, **arguments).result()
        except Exception as e:
            said.append(f"{type(e).__name__}: {e}")
    return said


def dies_once(n, mark):
    """Its process is killed when it has its calls' results: they are not made again."""
    counted = [cascade.call(count, mark=mark + str(i)).result() for i in range(n)]
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return counted
    os.kill(os.getpid(), signal.SIGKILL)


def count(mark):
    """How often it was called."""
    with open(mark, "a+") as f:
        f.write("x")
        return f.tell()
