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


def fan(n: int) -> Shape:
    """One task, n that each need it, one that needs all of these."""
    nodes = [Node(kernels.one, None, ())]
    nodes += [Node(kernels.step, None, (0,)) for _ in range(n)]
    nodes.append(Node(kernels.total, None, tuple(range(1, n + 1))))
    return Shape(nodes, [n + 1], [2 * n])


def merge(n: int) -> Shape:
    """n tasks that need nothing, one that needs all of them."""
    nodes = [Node(kernels.one, None, ())] * n
    return Shape([*nodes, Node(kernels.total, None, tuple(range(n)))], [n], [n])


def tree(leaves: int) -> Shape:
    """A binary tree that adds up its leaves, a power of two."""
    nodes = [Node(kernels.one, None, ())] * leaves
    level = list(range(leaves))
    while len(level) > 1:
        pairs = [(level[i], level[i + 1]) for i in range(0, len(level), 2)]
        level = list(range(len(nodes), len(nodes) + len(pairs)))
        nodes += [Node(kernels.total, None, pair) for pair in pairs]
    return Shape(nodes, level, [leaves])


SHAPES = {"chain": chain, "fan": fan, "merge": merge, "tree": tree}
