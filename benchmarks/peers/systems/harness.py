"""What all runners share: the talk with the driver, and the clock around a workload.

A runner subclasses System. Its methods named after workloads take the arguments of the request and return named numbers:
seconds, bytes, counts. The methods here are what any system can do that runs a graph.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from typing import Any

import shapes

CORES = int(os.environ["PEERS_CORES"])
FOLDER = os.environ["PEERS_DIR"]
LEAN = os.environ.get("PEERS_TUNING") == "lean"


class Unsupported(Exception):
    """The system has no way to do a workload; the words say why."""


class WrongResult(Exception):
    """A result is not what the tasks compute."""


class System:
    """One system that is up."""

    version = ""
    model = ""

    def graph(self, shape: shapes.Shape) -> list[Any]:
        """Runs a graph and returns the results that it names."""
        raise Unsupported("no graphs")

    def stop(self) -> None:
        """Ends the system."""

    def noop(self, n: int) -> dict[str, float]:
        """n independent tasks that do nothing."""
        raise NotImplementedError

    def one(self) -> None:
        """Submits one task and waits for its result."""
        raise NotImplementedError

    def latency(self, n: int) -> dict[str, float]:
        """One task from submit to result, again and again; a tenth of them is warming up."""
        for _ in range(max(n // 10, 1)):
            self.one()
        took = sorted(timed(self.one) for _ in range(n))
        return {"p50": took[n // 2], "p99": took[min(n * 99 // 100, n - 1)]}

    def run(self, shape: shapes.Shape) -> dict[str, float]:
        """Runs a graph against the clock and compares its results."""
        began = time.perf_counter()
        got = self.graph(shape)
        took = time.perf_counter() - began
        if shape.want is not None and list(got) != shape.want:
            raise WrongResult(f"results are {str(list(got))[:100]}, want {str(shape.want)[:100]}")
        return {"seconds": took, "tasks": len(shape.nodes)}


def timed(f: Any) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


class Driver:
    """The other end: requests come from it, answers go there, one JSON object a line."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ["PEERS_SOCKET"])
        self._lines = self._socket.makefile("r")

    def say(self, what: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(what).encode() + b"\n")

    def requests(self) -> Any:
        for line in self._lines:
            yield json.loads(line)


def answer(system: System, request: dict[str, Any]) -> dict[str, Any]:
    """Measures what a request asks for."""
    try:
        name, args = request["workload"], request["args"]
        method = getattr(system, name, None)
        if method is not None:
            return {"values": method(**args)}
        return {"values": system.run(shapes.SHAPES[name](**args))}
    except Unsupported as e:
        return {"error": f"not supported: {e}"}
    except Exception as e:
        traceback.print_exc()
        return {"error": f"{type(e).__name__}: {e}"}


def serve(start: Any) -> None:
    """Starts a system, answers requests until the driver goes, and ends the system."""
    driver = Driver()
    system = start()
    driver.say({"version": system.version, "model": system.model})
    try:
        for request in driver.requests():
            driver.say(answer(system, request))
    finally:
        system.stop()
        sys.stderr.flush()
