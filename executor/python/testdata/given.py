"""Arguments of all kinds reach their tasks as they are; large ones are inputs of the job, sent once."""

import datetime
import os
import pathlib
import sys

import numpy
import steps

import cascade
from cascade import given, inputs
from cascade.values import encode

VALUES = {
    "array": numpy.arange(6.0).reshape(2, 3), "bool array": numpy.array([True, False]), "times": numpy.array(["2024-02-29", "NaT"], "M8[D]"),
    "date": datetime.datetime(2024, 2, 29), "zoned": datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc), "Path": pathlib.PurePosixPath("/a ${b}"),
    "bytes": b"\x00\xff", "set": {1, 2}, "tuple keys": {(1, 2): "a"}, "big": 2**70, "inf": float("inf"), "text": "${params.x}", "half": "\ud800",
    "large array": numpy.arange(100_000), "large list": list(range(20_000)), "large text": "ä" * 20_000, "large dict": {i: str(i) for i in range(5_000)},
}  # fmt: skip
weights = numpy.arange(700_000)  # 5.6 MB in a closure


def look(x, name=""):
    return f"{type(x).__name__} {getattr(x, 'dtype', '')} {getattr(x, 'shape', '')} {sum(x) if name == 'large array' else ascii(x)[:40]}"


def closed(i):
    return int(weights[i])


def annotated(x: bytes, y: numpy.ndarray) -> str:
    return f"{x!r} {y.sum()} {y.flags.writeable}"




class Shy:
    """What a key of a dict may be; it says nothing of itself."""

    def __repr__(self):
        raise ValueError("no repr")


def shy(x):
    """An object of which pickle's text is sent with a description, where one can be had."""
    return {Shy(): x}


files = given.Files()
path, _ = files.add("x", encode(list(range(20_000))))
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
print("files when a child that was forked has ended:", os.path.exists(path), path in inputs.passing, end="; ")
del files
print("when the graph has ended:", os.path.exists(path), path in inputs.passing)
itself: list = [{1}]
itself.append(itself)
for value in (shy(1), [[[{1}]]], {"a": [(1, {Shy(): 2})]}, [1, 2**70], [list(range(5_000)), {1}], itself):
    print("described:", encode(value).dtype)

with cascade.local(store="256MiB", programs=sys.argv[1]) as cluster:
    with cascade.Graph("given", pip=["numpy"]) as g:
        seen = [g.add(look, x=value, name=name) for name, value in VALUES.items()]
        again = g.add(look, VALUES["large array"], "large array")
        inside = [g.add(closed, i) for i in (0, 699_999)]
        mean, _ = g.add(steps.stats, x=numpy.array([1.0, 3.0]))  # of a module: found by its name
        mixed = g.add(annotated, b"abc", numpy.ones(5_000))
    print("inputs:", sum(len(i.get("files", "1")) for i in g.document()["inputs"].values()), "job file above 1 MiB:", len(g.job()) > 1 << 20)
    results = cluster.run(g, *seen, again, *inside, mean, mixed, progress=False)
    for name, text in zip([*VALUES, "large array again", "closure", "closure's end", "mean", "annotated"], results, strict=True):
        print(f"{name}: {text!r}")
