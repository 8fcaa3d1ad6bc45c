"""Graphs of the workloads, as plain data that each runner gives to its system in the way that its documents advise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import kernels


class Node(NamedTuple):
    """One task. It depends on earlier nodes by their number."""

    function: Callable[..., Any]
    args: Any
    needs: tuple[int, ...]


class Shape(NamedTuple):
    """A graph, the nodes whose results are asked for, and what these must be; None for what only must come."""

    nodes: list[Node]
    results: list[int]
    want: list[Any] | None


def independent(n: int) -> Shape:
    """n tasks that need nothing and do nothing."""
    return Shape([Node(kernels.noop, None, ())] * n, list(range(n)), [None] * n)


def chain(n: int) -> Shape:
    """n tasks, each of which needs the one before."""
    nodes = [Node(kernels.one, None, ())]
    nodes += [Node(kernels.step, None, (i - 1,)) for i in range(1, n)]
    return Shape(nodes, [n - 1], [n])


SHAPES = {"chain": chain}
