"""What a client says of arguments that a task's function does not take."""

from collections.abc import Callable
from typing import Any

import cascade


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

with cascade.Graph("other") as other:
    scaled = scale([1.0], 2.0)
refused(lambda: g.document(scaled))
refused(lambda: g.document(scale))
refused(lambda: g.add(scale, scaled, 2.0))
refused(lambda: other.document(scaled))
