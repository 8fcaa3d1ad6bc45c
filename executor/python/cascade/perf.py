"""Functions that `cascade perf` measures, and a program that calls them."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from . import context
from .calling import remote
from .context import empty


def noop() -> None:
    """Nothing."""


def start() -> int:
    """The least that has an output."""
    return 1


def step(x: int) -> int:
    """A step of a chain."""
    return x + 1


def make(size: int) -> Any:
    """An array of so many bytes that lies in the store, of which only the ends are written."""
    array = empty(size // 8)
    array[0] = array[-1] = 1
    return array


def get(x: Any) -> int:
    """When the function has its input, in nanoseconds since 1970."""
    now = time.time_ns()
    if x[0] + x[-1] != 2:
        raise ValueError("the bytes that came are not those that were published")
    return now


class Echo:
    """An actor that returns what it gets."""

    def step(self, x: int) -> int:
        """A step of a chain."""
        return x + 1


remote_step, remote_make, RemoteEcho = remote(step), remote(make), remote(Echo)
_echo: list[Any] = []  # the actor that is called

# A program that `cascade perf` starts: it reads what it is to do, and writes what that took in nanoseconds.


def _latency(n: int, _: int) -> list[float]:
    took = []
    for i in range(n):
        began = time.perf_counter_ns()
        remote_step.remote(i).result()
        took.append((time.perf_counter_ns() - began) / 1e3)
    return took


def _burst(n: int, _: int) -> Any:
    return context.get(remote_step.map(range(n)))


def _completed(n: int, _: int) -> Any:
    return sum(f.result() for f in context.as_completed(remote_step.map(range(n))))


def _wait(n: int, _: int) -> Any:
    rest = remote_step.map(range(n))
    while rest:
        rest = context.wait(rest)[1]


def _put(n: int, _: int) -> Any:
    value = bytes(1024)
    refs = [context.put(value) for _ in range(n)]
    return remote_step.remote(0).result(), refs[-1]  # the agent has what came before


def _get(size: int, n: int) -> list[float]:
    took = []
    for _ in range(n):
        ref = remote_make.remote(size)
        context.wait([ref])
        began = time.perf_counter_ns()
        array = ref.result()
        took.append(float(time.perf_counter_ns() - began))
        if array[0] + array[-1] != 2:
            raise ValueError("the bytes that came are not those that were made")
    return took


def _actor() -> Any:
    if not _echo:
        _echo.append(RemoteEcho.remote())
        context.get(_echo[0].step.remote(0))
    return _echo[0]


def _actor_call(n: int, _: int) -> list[float]:
    took, actor = [], _actor()
    for i in range(n):
        began = time.perf_counter_ns()
        actor.step.remote(i).result()
        took.append((time.perf_counter_ns() - began) / 1e3)
    return took


def _actor_burst(n: int, _: int) -> Any:
    actor = _actor()
    return context.get([actor.step.remote(i) for i in range(n)])


def _actor_create(n: int, _: int) -> Any:
    actors = [RemoteEcho.remote() for _ in range(n)]
    return context.get([a.step.remote(1) for a in actors])


_TIMED = {"burst": _burst, "completed": _completed, "wait": _wait, "put": _put, "actor_burst": _actor_burst, "actor_create": _actor_create}
_TAKES = {"latency": _latency, "get": _get, "actor_call": _actor_call}


def _serve(address: str) -> None:
    from . import session

    for line in sys.stdin:
        asked = json.loads(line)
        what, values, error = asked["What"], [], ""
        try:
            if what == "open":
                session.init(address, name="perf", pip=["numpy"])
                _burst(100, 0)
            elif what in _TAKES:
                values = _TAKES[what](asked["N"], asked["M"])
            else:
                began = time.perf_counter_ns()
                _TIMED[what](asked["N"], asked["M"])
                values = [float(time.perf_counter_ns() - began)]
        except Exception as e:
            error = f"{type(e).__name__}: {e}"
        print(json.dumps({"Error": error, "Values": values}), flush=True)


def _main(what: str) -> None:
    if what == "init":
        if remote_step.remote(1).result() != 2:
            raise ValueError("the result is another one")
    elif what != "start":
        _serve(what)


if __name__ == "__main__":
    from cascade import perf  # under the name that executors know

    perf._main(sys.argv[1])
