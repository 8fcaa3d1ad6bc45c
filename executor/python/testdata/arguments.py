"""What a client says of arguments that a task's function does not take."""

import re
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


class Scalar:
    """As NumPy has its numbers."""

    shape = ()

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


with cascade.Graph("parameters") as g:
    refused(lambda: scale([1.0, float("inf")], 2.0))
    refused(lambda: scale([1.0], float("nan")))
    refused(lambda: scale([1.0], Scalar(float("-inf"))))
    refused(lambda: scale([1.0], {"deep": [{1: 2}]}))
    refused(lambda: scale([1.0], {1, 2}))
    refused(lambda: scale([1.0], Scalar))
    scale([Scalar(1), True, None], Scalar(2.5), shift="a\x85b\u2028\ufeffc\x7f\U0001f300ä")
print(re.sub('"cascade_function": "[^"]*"', '"cascade_function": "..."', g.job()))
with cascade.Graph("half") as g:
    scale([1.0], "\ud800")
refused(g.job)

with cascade.Graph("other") as other:
    scaled = scale([1.0], 2.0)
refused(lambda: g.document(scaled))
refused(lambda: g.document(scale))
refused(lambda: g.add(scale, scaled, 2.0))
refused(lambda: other.document(scaled))
