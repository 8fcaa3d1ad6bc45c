"""Tasks of the client's test that live in a module."""

import numpy as np

import cascade


@cascade.task
def ramp(n: int):
    """0, 1, 2, ..."""
    return np.arange(float(n))


@cascade.task(out=["mean", "stddev"])
def stats(x: np.ndarray):
    """Two outputs."""
    return x.mean(), x.std()


@cascade.task
def count(n: int):
    """A series."""
    for i in range(n):
        yield np.full(70000, float(i))


@cascade.task
def total(parts: list[np.ndarray]):
    """A list of inputs."""
    return float(sum(p.sum() for p in parts))


@cascade.task
def two(x, y, scale: int = 1):
    """Two inputs, and what may be a constant."""
    return (x + y) * scale


@cascade.task(out=[])
def fail(x: float):
    """An exception."""
    print("about to fail")
    raise ValueError(f"{x} is not what it should be")


@cascade.task(out=[])
def look(x: str):
    """Another exception, of a class that quotes its text."""
    return {"height": 1}[x]


@cascade.task
def read(name: str):
    """A file of the folder in which the task starts."""
    with open(name, encoding="utf-8") as f:
        return f.read().strip()


@cascade.task
def forever():
    """Ends only when it is told to."""
    import time

    time.sleep(600)


def said(x):
    """What it was given."""
    return f"{type(x).__name__} {x.sum() if isinstance(x, np.ndarray) else x}"
