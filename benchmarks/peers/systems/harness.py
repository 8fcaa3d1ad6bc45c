"""What all runners share: the talk with the driver, and the clock around a workload.

A runner subclasses System. Its methods named after workloads take the arguments of the request and return named numbers:
seconds, bytes, counts. The methods here are what any system can do that runs a graph.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import socket
import statistics
import sys
import threading
import time
import traceback
from typing import Any

import kernels
import metg
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
        """One task from submit to result, n times or for 15 s; a tenth of n before that is warming up, for 3 s at most."""
        repeatedly(self.one, max(n // 10, 1), 3.0)
        took = sorted(repeatedly(self.one, n))
        return {"p50": took[len(took) // 2], "p99": took[min(len(took) * 99 // 100, len(took) - 1)]}

    def calls_sync(self, n: int) -> dict[str, float]:
        """One call after another, each from the program to a task and back."""
        return self.called(n, lambda n: sum(self.get([self.call(kernels.echo, 1)])[0] for _ in range(n)))

    def calls_async(self, n: int) -> dict[str, float]:
        """Calls in a burst."""
        return self.called(n, lambda n: sum(self.get([self.call(kernels.echo, 1) for _ in range(n)])))

    def calls_nested(self, n: int) -> dict[str, float]:
        """Tasks that call others, 100 each."""
        return self.called(n, lambda n: sum(self.get([self.call(self.caller, min(n, 100)) for _ in range(max(n // 100, 1))])))

    def calls_wait(self, n: int) -> dict[str, float]:
        """The ends of many calls, waited for one at a time."""
        return self.called(n, lambda n: sum(self.ends([self.call(kernels.echo, 1) for _ in range(n)])))

    def calls_put(self, n: int, size: int) -> dict[str, float]:
        """Values of some size that the program puts, until a task has read the last of them."""
        value = bytes(size)

        def put(n: int) -> int:
            kept = [self.put(value) for _ in range(n)]
            if self.get([self.call(kernels.length, kept[-1])]) != [size]:
                raise WrongResult("the last value is not what was put")
            return len(kept)

        return self.called(n, put)

    def calls_stream(self, n: int) -> dict[str, float]:
        """The elements of a generator, read as they come."""
        return self.called(n, lambda n: sum(1 for _ in self.stream(n)))

    def called(self, n: int, do: Any) -> dict[str, float]:
        """Times what sees n results, after a tenth of it as warming up."""
        do(max(n // 10, 1))
        began = time.perf_counter()
        seen = do(n)
        took = time.perf_counter() - began
        if seen != n:
            raise WrongResult(f"{seen} results, want {n}")
        return {"seconds": took, "tasks": n}

    def actors_sync(self, n: int) -> dict[str, float]:
        """One call of an actor after another."""
        a = self.actor()
        return self.called(n, lambda n: sum(self.told([self.tell(a, 1)])[0] for _ in range(n)))

    def actors_async(self, n: int) -> dict[str, float]:
        """Calls of an actor in a burst."""
        a = self.actor()
        return self.called(n, lambda n: sum(self.told([self.tell(a, 1) for _ in range(n)])))

    def actors_create(self, n: int) -> dict[str, float]:
        """Actors that are made and called once."""

        def create(n: int) -> int:
            actors = [self.actor() for _ in range(n)]
            return sum(self.told([self.tell(a, 1) for a in actors]))

        return self.called(n, create)

    def actors_restart(self, times: int) -> dict[str, float]:
        """From SIGKILL for the process of an actor to the answer of the next call of it."""
        took = []
        for _ in range(times + 1):
            a = self.restartable()
            pid = self.told([a.pid.remote()])[0]
            began = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            if self.told([self.tell(a, 1)]) != [1]:
                raise WrongResult("the actor answers something else")
            took.append(time.perf_counter() - began)
        return {"last": statistics.median(took[1:])}

    def actor(self) -> Any:
        """Makes an actor of kernels.Counter, which needs no core while it waits for calls."""
        raise Unsupported("no actors")

    def restartable(self) -> Any:
        """Makes one that is restarted when its process dies; a call that is open then runs again."""
        raise Unsupported("actors are not restarted")

    def tell(self, actor: Any, x: Any) -> Any:
        """Calls its method echo; a future."""
        return actor.echo.remote(x)

    def told(self, futures: list[Any]) -> list[Any]:
        """The results of such calls."""
        return self.get(futures)

    caller: Any = None

    def call(self, function: Any, *args: Any) -> Any:
        """Calls a function as a task; a future."""
        raise Unsupported("a program calls no tasks by futures")

    def get(self, futures: list[Any]) -> list[Any]:
        """The results of calls."""
        raise NotImplementedError

    def ends(self, futures: list[Any]) -> Any:
        """The results of calls, each when it is there."""
        raise NotImplementedError

    def put(self, value: Any) -> Any:
        """Stores a value; a future."""
        raise Unsupported("a program puts no values")

    def stream(self, n: int) -> Any:
        """The numbers below n, from a generator that runs as a task."""
        raise Unsupported("no generators as tasks")

    def run(self, shape: shapes.Shape) -> dict[str, float]:
        """Runs a graph against the clock and compares its results."""
        got, took = self.clocked(shape)
        if shape.want is not None and list(got) != shape.want:
            raise WrongResult(f"results are {str(list(got))[:100]}, want {str(shape.want)[:100]}")
        return {"seconds": took, "tasks": len(shape.nodes)}

    def clocked(self, shape: shapes.Shape) -> tuple[list[Any], float]:
        """The results of a graph, and how long it took."""
        began = time.perf_counter()
        got = self.graph(shape)
        return got, time.perf_counter() - began

    def handover(self, size: int, consumers: int, times: int) -> dict[str, float]:
        """From the moment an array is ready to that when the last of its consumers has it; the first run warms up."""
        runs = [max(self.clocked(shapes.handover(size, consumers))[0]) for _ in range(times + 1)][1:]
        return {"last": statistics.median(runs)}

    def broadcast(self, size: int, consumers: int, times: int) -> dict[str, float]:
        """As handover, from the first host to consumers on others, each on its own."""
        home, last = os.readlink("/proc/self/ns/net"), []
        for _ in range(times + 1):
            got = self.spread(size, consumers)
            if len({home, *(network for _, network in got)}) != consumers + 1:
                raise WrongResult(f"consumers were on {len({network for _, network in got} - {home})} other hosts, want {consumers}")
            last.append(max(took for took, _ in got))
        return {"last": statistics.median(last[1:])}

    def spread(self, size: int, consumers: int) -> list[tuple[float, str]]:
        """An array of the first host in the hands of consumers elsewhere: what each of them saw."""
        raise Unsupported("no data passes between hosts")

    def memory(self, n: int) -> dict[str, Any]:
        """What is not a worker is the control; the driver reads its memory while this process waits for the next request."""
        return {**self.noop(n), "workers": self.workers()}

    def workers(self) -> list[int]:
        """The processes that run tasks."""
        return sorted(set(self.clocked(shapes.Shape([shapes.Node(kernels.pid, None, ())] * (20 * CORES), list(range(20 * CORES)), None))[0]))

    def kill(self, n: int, seconds: float) -> dict[str, float]:
        """Tasks of equal length; after a third of them SIGKILL for a worker that is at work."""
        path = os.path.join(FOLDER, f"kill-{time.time_ns()}")
        murder = Murder(path, n // 3)
        murder.start()
        try:
            took = self.run(shapes.logged(path, n, seconds))["seconds"]
        finally:
            murder.over.set()
            murder.join()
        return {**murder.story(n), "added": took - n * seconds / CORES}

    def sdmi(self, n: int, m: int) -> dict[str, float]:
        got, took = self.clocked(shapes.sdmi(n, m))
        if any(abs(x / got[0] / (i + 1) - 1) > 1e-6 for i, x in enumerate(got)):
            raise WrongResult(f"norms of multiples are no multiples: {got}")
        return {"seconds": took, "tasks": m + 1}

    def simulation(self, times: int, longest: int) -> dict[str, float]:
        """Simulations of uneven length, so many for each core; the first run loads what they import."""
        self.run(shapes.simulations(2 * CORES, 10))
        shape = shapes.simulations(times * CORES, longest)
        return {"rate": shape.want[0] / self.run(shape)["seconds"]}

    def bdg(self, n: int, m: int) -> dict[str, float]:
        got, took = self.clocked_bdg(n, m)
        if len(got) != m or any(b >= a for a, b in itertools.pairwise(got)):
            raise WrongResult(f"norms of ever smaller matrices do not fall: {got}")
        return {"seconds": took, "tasks": m + 1}

    def clocked_bdg(self, n: int, m: int) -> tuple[list[float], float]:
        return self.clocked(shapes.bdg(n, m))

    def repeat(self, shape: str, times: int) -> dict[str, float]:
        """The same small graph again and again, one after the other, as often as asked for or for 15 s."""
        once = self.repeated(shape)
        repeatedly(once, max(times // 10, 1), 3.0)
        took = repeatedly(once, times)
        return {"seconds": sum(took), "tasks": len(took)}

    def repeated(self, shape: str) -> Any:
        """What runs the graph once: four tasks in a row, or four beside each other between two."""
        graph = shapes.chain(4) if shape == "chain" else shapes.fan(4)

        def once() -> None:
            if (got := list(self.graph(graph))) != graph.want:
                raise WrongResult(f"results are {got}, want {graph.want}")

        return once

    def steps(self, pattern: str, width: int, count: int, iterations: int) -> dict[str, float]:
        """Steps of tasks that compute, each of which needs some of the last step."""
        got, took = self.clocked(shapes.steps(pattern, width, count, iterations))
        check_steps(got, pattern, width, count, iterations)
        return {"seconds": took, "tasks": width * count}

    def kernel_time(self) -> float:
        """Seconds of one iteration of the kernel while all cores compute."""
        return metg.per_iteration()

    def metg(self, pattern: str, wide: int, tasks: int) -> dict[str, float]:
        """The smallest granularity at which half of the cores' time is spent in the kernel."""
        return metg.smallest(self, pattern, wide * CORES, tasks)


def check_steps(got: list[float], pattern: str, width: int, count: int, iterations: int) -> None:
    """Compares the results of computing tasks. All tasks of a step compute the same: each begins with the mean of equal numbers."""
    steps = count if pattern == "trivial" else 1
    want = 1 - 0.999 ** (iterations * (1 if pattern == "trivial" else count))
    if len(got) != width * steps or not all(math.isclose(x, want, rel_tol=1e-9) for x in got):
        raise WrongResult(f"{len(got)} results are {str(got)[:100]}, want {width * steps} times {want}")


def repeatedly(f: Any, n: int, limit: float = 15.0) -> list[float]:
    """What each of n calls takes, or of those that fit into the time."""
    until, took = time.perf_counter() + limit, []
    while len(took) < n and (not took or time.perf_counter() < until):
        took.append(timed(f))
    return took


def timed(f: Any) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


class Murder(threading.Thread):
    """Waits until some tasks have ended, and kills the process of one that runs."""

    def __init__(self, path: str, after: int) -> None:
        super().__init__()
        self.path, self.after, self.over = path, after, threading.Event()
        self.victim = self.lost = 0
        self.when = 0.0

    def lines(self) -> list[tuple[str, int, int, float]]:
        """What was written: start or end, which task, which process, when."""
        if not os.path.exists(self.path):
            return []
        with open(self.path) as log:
            rows = [line.split() for line in log if line.endswith("\n")]
        return [(what, int(number), int(pid), float(when)) for what, number, pid, when in rows]

    def run(self) -> None:
        while not self.over.wait(0.005):
            lines = self.lines()
            ended = {number for what, number, _, _ in lines if what == "end"}
            running = [(number, pid) for what, number, pid, _ in lines if what == "start" and number not in ended]
            if len(ended) >= self.after and running:
                self.lost, self.victim = running[-1]
                self.when = time.time()
                os.kill(self.victim, signal.SIGKILL)
                return

    def story(self, n: int) -> dict[str, float]:
        """How the system went on: when the lost task ran again, when a new process began, how many ran more than once."""
        if not self.victim:
            raise WrongResult("all tasks ended before a worker could be killed")
        starts = [line for line in self.lines() if line[0] == "start"]
        before = {pid for _, _, pid, when in starts if when <= self.when}
        again = [when for _, number, _, when in starts if number == self.lost and when > self.when]
        fresh = [when for _, _, pid, when in starts if pid not in before and when > self.when]
        values = {"again": float(len(starts) - n)}
        if again:
            values["rerun"] = min(again) - self.when
        if fresh:
            values["full"] = min(fresh) - self.when
        return values


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
        values = method(**args) if method is not None else system.run(shapes.SHAPES[name](**args))
        workers = values.pop("workers", None)
        return {"values": values} if workers is None else {"values": values, "workers": workers}
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
