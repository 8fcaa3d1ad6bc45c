"""A scheduler of Dask: dask.config.set(scheduler=cascade.dask.get). Each task of a graph is a call of the program's session.

    a graph ──▶ calls, in an order of Dask's, that read each other's results by reference ──▶ the values of the keys
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from . import calling, context


class Box:
    """A value as it is: it travels as a pickle with its arrays beside it, and is read where it lies."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def get(dsk: Mapping[Any, Any], keys: Any, **_: Any) -> Any:
    """The values of keys of a graph; what Dask asks of a scheduler."""
    from dask._task_spec import Alias, DataNode, convert_legacy_graph
    from dask.core import flatten
    from dask.optimization import cull
    from dask.order import order
    from dask.utils import ensure_dict

    if hasattr(dsk, "__dask_graph__"):  # an expression
        dsk = dsk.__dask_graph__()
    wanted = set(flatten(keys)) if isinstance(keys, list) else {keys}
    graph: dict[Hashable, Any] = cull(convert_legacy_graph(ensure_dict(dsk)), list(wanted))[0]
    readers = Counter(name for node in graph.values() for name in node.dependencies)
    ranks = order(graph)
    step = calling.remote(run)
    made: dict[Hashable, context.Future] = {}
    for key in sorted(graph, key=ranks.__getitem__):
        node = graph[key]
        names = list(node.dependencies)
        if isinstance(node, Alias):
            made[key] = made[names[0]]
        elif isinstance(node, DataNode):
            made[key] = context.put(Box(node()))
        else:
            made[key] = step.options(name=_text(key)).remote(_packed(node, names), [made[n] for n in names])
        for name in names:  # what no further task reads is kept no longer than those that do
            readers[name] -= 1
            if readers[name] == 0 and name not in wanted:
                del made[name]
    kept = list(wanted)
    values = dict(zip(kept, context.get([made[k] for k in kept]), strict=True))
    return _nested(keys, {k: _own(v.value) for k, v in values.items()})


def _packed(node: Any, names: list[Hashable]) -> bytes:
    import cloudpickle

    data: bytes = cloudpickle.dumps((node, names), protocol=5)
    return data


def run(task: memoryview, values: Sequence[Box]) -> Box:
    """Computes a task of a graph, in an executor."""
    node, names = pickle.loads(task)
    return Box(node({name: value.value for name, value in zip(names, values, strict=True)}))


def _own(value: Any) -> Any:
    """A value that the program may change: what lies in shared memory is copied."""
    return pickle.loads(pickle.dumps(value, protocol=4))  # of protocol 5 an array stays as it is, read-only


def _nested(keys: Any, values: Mapping[Hashable, Any]) -> Any:
    return tuple(_nested(k, values) for k in keys) if isinstance(keys, list) else values[keys]


def _text(key: Hashable) -> str:
    """The name of a call, for people."""
    first, *rest = key if isinstance(key, tuple) else (key,)
    return "-".join(map(str, (first, *rest)))[:100]
