"""What a client says of arguments that a task's function does not take."""

import base64
import datetime
import functools
import math
import pathlib
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy

import cascade
from cascade.values import decode


@cascade.task
def scale(x: list[float], factor: float, *, shift: float = 0.0) -> list[float]:
    return [factor * v + shift for v in x]


def first(x, /):
    return x[0]


def refused(call: Callable[[], Any]) -> None:
    try:
        call()
    except (TypeError, ValueError) as e:
        print(e)
    else:
        print("taken")


with cascade.Graph("arguments") as g:
    refused(lambda: scale())
    refused(lambda: scale([1.0]))
    refused(lambda: scale([1.0], 2.0, 3.0))
    refused(lambda: scale([1.0], faktor=2.0))
    refused(lambda: scale([1.0], 2.0, x=[2.0]))
    refused(lambda: scale([1.0], factor=2.0, colour="red"))
    refused(lambda: g.add(first, x=[1.0]))
    refused(lambda: g.add(lambda n: n))
    refused(lambda: g.add(lambda n, **more: n, m=1))
    refused(lambda: scale([1.0], factor=2.0))


async def later(x):
    return x


async def stream(x):
    yield x


with cascade.Graph("functions") as g:
    y = scale([1.0], 2.0)
    refused(lambda: g.add(functools.partial(first, [1.0])))
    refused(lambda: g.add(cascade.task(functools.partial(first, [1.0]))))
    refused(lambda: g.add(len, [1.0]))
    refused(lambda: g.map(math.sqrt, [1.0]))
    refused(lambda: g.add(later, 1))
    refused(lambda: g.add(cascade.task(stream), 1))
    refused(lambda: g.add(5))
    refused(lambda: scale([1.0], 2.0, retries=3))
    refused(lambda: scale([1.0], 2.0, task_retrys=3))
    refused(lambda: scale({"a": y}, 2.0))
    refused(lambda: scale([[y]], 2.0))
    refused(lambda: scale([1.0], {"deep": [1, (2, y)]}))


with cascade.Graph("parameters") as g:
    refused(lambda: scale([1.0], threading.Lock()))
    refused(lambda: g.add("go:Scale", x=[1.0, float("inf")]))
    refused(lambda: g.add("go:Scale", x=numpy.float64("nan")))
    refused(lambda: g.add("go:Scale", x={"deep": [{1: 2}]}))
    refused(lambda: g.add("go:Scale", x={1, 2}))
    refused(lambda: g.add("go:Scale", x=2**63))
    refused(lambda: g.add("go:Scale", x=numpy.timedelta64(5, "ns")))
    scale([numpy.int8(1), True, None], numpy.float64(2.5), shift="a\x85b\u2028\ufeffc\x7f\U0001f300ä")
print(re.sub('"cascade_function": "[^"]*"', '"cascade_function": "..."', g.job()))
with cascade.Graph("half") as g:
    g.add("go:Scale", x="\ud800")
refused(g.job)
for given in (float("inf"), {1: 2}, {1, 2}, 2**63, "\ud800", numpy.arange(3), numpy.timedelta64(5, "ns"), pathlib.PurePosixPath("/a"), datetime.date(2024, 2, 29), b"abc"):
    with cascade.Graph("small") as g:
        scale([1.0], given)
    codec, dtype, shape, data = g.document()["tasks"]["scale"]["with"]["cascade_values"]["factor"]
    print("given within the job file:", codec, dtype, shape, repr(decode(codec, dtype, shape, base64.b64decode(data))))
with cascade.Graph("large") as g:
    for given in (numpy.zeros(5000), numpy.zeros(5000), list(range(9000)), "x" * 20000):
        g.add(scale, [1.0], given, task_name=f"of-{type(given).__name__}")
    for name, task in g.document()["tasks"].items():
        print("given as an input:", name, *task["in"], task["with"]["cascade_values"])
    print(sum(len(input.get("files", "1")) for input in g.document()["inputs"].values()), "inputs")

with cascade.Graph("other") as other:
    scaled = scale([1.0], 2.0)
refused(lambda: g.document(scaled))
refused(lambda: g.document(scale))
refused(lambda: g.add(scale, scaled, 2.0))
refused(lambda: other.document(scaled))
