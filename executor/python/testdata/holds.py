"""What is called in the test of futures in values."""

import os
import signal

import cascade
import numpy as np


class Pair:
    """An object that has futures as attributes."""

    def __init__(self, left, right):
        self.left, self.right = left, right


@cascade.remote
def double(x):
    return 2 * x


@cascade.remote
def fails(x):
    raise KeyError(x)


@cascade.remote
def ramp(n):
    return np.arange(n, dtype="f8")


@cascade.remote
def family(n):
    """Ends before what it has begun."""
    return {"all": [double.remote(i) for i in range(n)], "big": ramp.remote(100_000), "n": n}


@cascade.remote
def total(given):
    return sum(cascade.get(given["all"]))


@cascade.remote
def added(pair):
    return pair.left.result() + pair.right.result()


@cascade.remote
def paired(pair):
    return Pair(pair.right, {pair.left: "a key", "more": (pair.left, pair.left)})


@cascade.remote
def wrapped(n):
    return {"inner": family.remote(n)}


@cascade.remote
def down(box, depth):
    return cascade.get(box["f"]) if depth == 0 else cascade.get(down.remote(box, depth - 1))


@cascade.remote
def up(n, depth):
    return {"f": double.remote(n)} if depth == 0 else cascade.get(up.remote(n, depth - 1))


@cascade.remote
def series(n):
    for i in range(n):
        yield {"f": double.remote(i)}


@cascade.remote
def of_series(n):
    return list(series.remote(n).elements())


@cascade.remote(retries=2)
def again(mark):
    made = {"f": double.remote(21)}
    if not os.path.exists(mark):
        open(mark, "w").close()
        raise OSError("the first time")
    return made


@cascade.remote(retries=2)
def dies(box, mark):
    found = box["all"][1]
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"f": found}


@cascade.remote
def mean(box):
    return float(box["big"].result().mean()), box["big"].result().flags.writeable


@cascade.remote
class Actor:
    def one(self):
        return 1

    def takes(self, box):
        return box


@cascade.remote
def mark():
    return None
