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


def handover(size: int, consumers: int) -> Shape:
    """One task makes an array, others look at it; the results are how long each waited since it was ready."""
    nodes = [Node(kernels.make, size, ())]
    nodes += [Node(kernels.seen, None, (0,)) for _ in range(consumers)]
    return Shape(nodes, list(range(1, consumers + 1)), None)


def logged(path: str, n: int, seconds: float) -> Shape:
    """n tasks that write down when they ran, and one that counts them."""
    nodes = [Node(kernels.logged, [path, i, seconds], ()) for i in range(n)]
    return Shape([*nodes, Node(kernels.total, None, tuple(range(n)))], [n], [n])


def sdmi(n: int, m: int) -> Shape:
    """Single data, multiple instructions: one matrix, m decompositions of its multiples."""
    nodes = [Node(kernels.matrix, n, ())]
    nodes += [Node(kernels.scaled_norm, i, (0,)) for i in range(1, m + 1)]
    return Shape(nodes, list(range(1, m + 1)), None)


def bdg(n: int, m: int) -> Shape:
    """Batch data generation, for systems without generators: the series is a chain of tasks."""
    nodes = [Node(kernels.next_matrix, [n, i], (i - 1,) if i else ()) for i in range(m)]
    nodes += [Node(kernels.norm, None, (i,)) for i in range(m)]
    return Shape(nodes, list(range(m, 2 * m)), None)


def lengths(count: int, longest: int) -> list[int]:
    """How many steps each simulation has: uneven, and the same in each run."""
    return [1 + (i * 7919) % longest for i in range(1, count + 1)]


def simulations(count: int, longest: int) -> Shape:
    """Independent simulations, and one task that adds up their steps."""
    steps = lengths(count, longest)
    nodes = [Node(kernels.simulate, [i, n], ()) for i, n in enumerate(steps)]
    return Shape([*nodes, Node(kernels.total, None, tuple(range(count)))], [count], [sum(steps)])


def trace(tasks: list) -> Shape:
    """A recorded workflow: tasks are a time to sleep and the numbers of those before."""
    nodes = [Node(kernels.sleep, seconds, tuple(needs)) for seconds, needs in tasks]
    needed = {i for node in nodes for i in node.needs}
    last = [i for i in range(len(nodes)) if i not in needed]
    return Shape(nodes, last, [1] * len(last))


def before(pattern: str, width: int, step: int, i: int) -> list[int]:
    """Which tasks of the last step a task needs, in the style of Task Bench (Slaughter et al., SC 2020)."""
    if pattern == "trivial":
        return []
    if pattern == "stencil":
        return sorted({(i + d) % width for d in (-1, 0, 1)})
    if pattern == "nearest":
        return sorted({(i + d) % width for d in (-2, -1, 0, 1, 2)})
    if pattern == "spread":
        return sorted({(i + step + d * max(width // 5, 1)) % width for d in range(5)})
    if pattern == "fft":
        partner = i ^ (1 << ((step - 1) % max((width - 1).bit_length(), 1)))
        return sorted({i, partner} if partner < width else {i})
    raise ValueError(f"there is no pattern {pattern}")


def steps(pattern: str, width: int, count: int, iterations: int) -> Shape:
    """count steps of width tasks, each of which computes for so many iterations."""
    nodes = []
    for step in range(count):
        for i in range(width):
            needs = before(pattern, width, step, i) if step else []
            nodes.append(Node(kernels.compute, iterations, tuple((step - 1) * width + k for k in needs)))
    last = range((count - 1) * width, count * width) if pattern != "trivial" else range(count * width)
    return Shape(nodes, list(last), None)


SHAPES = {"chain": chain, "fan": fan, "merge": merge, "tree": tree, "trace": trace}
