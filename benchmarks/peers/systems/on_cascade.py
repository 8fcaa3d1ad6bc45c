"""Cascade through its Python client, with tasks that are Python functions: controller, agent and executors are processes."""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any

import cascade
import hosts
import kernels
import shapes
import tasks
from harness import CORES, FOLDER, System, WrongResult, check_steps, serve, timed

MODULES = [os.path.abspath(m.__file__) for m in (kernels, tasks)]

PACKAGES = [os.environ["PEERS_NUMPY"], os.environ["PEERS_GYMNASIUM"]]
VARIABLES = {"PEERS_KERNEL": os.environ["PEERS_KERNEL"], "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Cascade(System):
    model = "controller, agent, client; one executor process for each core"

    def __init__(self) -> None:
        self.version = os.environ["PEERS_VERSION"]
        self.cluster = cascade.local(state=os.path.join(FOLDER, "state"), store="4GiB", cpu=CORES, programs=os.environ["PEERS_PROGRAMS"])
        self.single = self.text("one", {"t": {"run": "python:tasks.one", "out": ["out"]}}, ["t.out"])
        self.noop(200 * CORES)
        self.noop(200 * CORES)  # a profile is known, as it is of any job that runs again
        self.one()

    def stop(self) -> None:
        cascade.shutdown()
        self.cluster.close()

    def call(self, function: Any, *args: Any) -> Any:
        """Calls in a session of this program on the cluster, which opens with the first."""
        self.opened()
        return remote(function).remote(*args)

    def opened(self) -> None:
        if not cascade.is_initialized():
            cascade.init(self.cluster.address, pip=PACKAGES, py_modules=MODULES, env=VARIABLES, log_to_driver=False)

    def actor(self) -> Any:
        self.opened()
        return remote(kernels.Counter).remote()

    def restartable(self) -> Any:
        self.opened()
        return remote(kernels.Counter).options(max_restarts=1, max_task_retries=1).remote()

    def get(self, futures: list[Any]) -> list[Any]:
        return cascade.get(futures)

    def ends(self, futures: list[Any]) -> Any:
        for future in cascade.as_completed(futures):
            yield future.result()

    def put(self, value: Any) -> Any:
        if not cascade.is_initialized():
            self.get([self.call(kernels.echo, 1)])
        return cascade.put(value)

    def stream(self, n: int) -> Any:
        yield from self.call(tasks.numbers, n)

    @staticmethod
    def text(name: str, tasks: dict, outputs: list) -> str:
        """A job file: its families say in one entry what a loop would say in a million."""
        environment = {"python": {"pip": PACKAGES}, "py_modules": MODULES, "env": VARIABLES}
        return json.dumps({"job": name, "environments": {"python": environment}, "tasks": tasks, "outputs": outputs})

    def noop(self, n: int) -> dict[str, float]:
        job = self.text("noop", {"noop": {"for": {"i": f"0..{n - 1}"}, "run": "python:tasks.noop"}}, [])
        return {"seconds": timed(lambda: self.cluster.submit(job).wait()), "tasks": n}

    def one(self) -> None:
        self.cluster.submit(self.single).result("t.out")

    def fan(self, n: int) -> dict[str, float]:
        """The middle tasks are one family, which a job file names in one entry."""
        return self.result_of(self.fan_text(n), "sink.out", 2 * n, n + 2)

    def fan_text(self, n: int) -> str:
        return self.text("fan", {
            "source": {"run": "python:tasks.one", "out": ["out"]},
            "middle": {"for": {"i": f"0..{n - 1}"}, "run": "python:tasks.step", "in": {"xs": ["source.out"]}, "out": ["out"]},
            "sink": {"run": "python:tasks.total", "in": {"xs": "middle[*].out"}, "out": ["out"]},
        }, ["sink.out"])  # fmt: skip

    def merge(self, n: int) -> dict[str, float]:
        job = self.text("merge", {
            "source": {"for": {"i": f"0..{n - 1}"}, "run": "python:tasks.one", "out": ["out"]},
            "sink": {"run": "python:tasks.total", "in": {"xs": "source[*].out"}, "out": ["out"]},
        }, ["sink.out"])  # fmt: skip
        return self.result_of(job, "sink.out", n, n + 1)

    def clocked_bdg(self, n: int, m: int) -> tuple[list[float], float]:
        """A generator: each element starts its consumer when it is yielded."""
        job = self.text("bdg", {
            "series": {"run": "python:tasks.matrices", "with": {"args": [n, m]}, "generates": {"x": m}},
            "norm": {"for": {"i": f"0..{m - 1}"}, "run": "python:tasks.norm", "in": {"x": "series.x[${i}]"}, "out": ["out"]},
        }, ["norm[*].out"])  # fmt: skip
        began = time.perf_counter()
        got = self.cluster.submit(job).result("norm[*].out")
        return got, time.perf_counter() - began

    def repeated(self, shape: str) -> Any:
        """The same job file again and again."""
        if shape == "chain":
            tasks: dict = {"t0": {"run": "python:tasks.one", "out": ["out"]}}
            tasks |= {f"t{i}": {"run": "python:tasks.step", "in": {"xs": [f"t{i - 1}.out"]}, "out": ["out"]} for i in range(1, 4)}
            job, output, want = self.text("repeat", tasks, ["t3.out"]), "t3.out", 4
        else:
            job, output, want = self.fan_text(4), "sink.out", 8

        def once() -> None:
            if (got := self.cluster.submit(job).result(output)) != want:
                raise WrongResult(f"the result is {got}, want {want}")

        return once

    def steps(self, pattern: str, width: int, count: int, iterations: int) -> dict[str, float]:
        """The steps of metg.py as families: one entry each."""
        if pattern == "fft" and width & (width - 1):  # partners beyond the edge have no expression
            return super().steps(pattern, width, count, iterations)
        began = time.perf_counter()
        tasks, last, result = {}, "", ""
        sizes = [width * count] if pattern == "trivial" else [width] * count  # tasks that need nothing have no steps
        for step, size in enumerate(sizes):
            task = {"for": {"i": f"0..{size - 1}"}, "run": "python:tasks.compute", "with": {"args": iterations}, "out": ["out"]}
            if step:
                task["in"] = {"xs": [f"{last}[${{{index}}}].out" for index in indexes(pattern, width, step)]}
            last = f"s{step}"
            result = f"{last}[*].out"
            tasks[last] = task
        got = self.cluster.submit(self.text("steps", tasks, [result])).result(result)
        took = time.perf_counter() - began
        check_steps(got, pattern, width, count, iterations)
        return {"seconds": took, "tasks": width * count}

    def result_of(self, job: str, output: str, want: object, tasks: int) -> dict[str, float]:
        """Runs a job file against the clock, and compares its one result."""
        began = time.perf_counter()
        got = self.cluster.submit(job).result(output)
        took = time.perf_counter() - began
        if got != want:
            raise WrongResult(f"the result is {got}, want {want}")
        return {"seconds": took, "tasks": tasks}

    def graph(self, shape: shapes.Shape) -> list:
        g, refs = self.composed(shape)
        results = [refs[i] for i in shape.results]
        job = self.cluster.submit(g, *results)
        return [job.result(r) for r in results]

    def trace(self, tasks: list) -> dict[str, float]:
        """Sleeps have no results to fetch: the end of the job is waited for."""
        shape = shapes.trace(tasks)
        return {"seconds": timed(lambda: self.cluster.submit(self.composed(shape)[0]).wait()), "tasks": len(tasks)}

    @staticmethod
    def composed(shape: shapes.Shape) -> tuple[cascade.Graph, list]:
        """The graph of a shape, and the output of each of its nodes."""
        with cascade.Graph("shape", pip=PACKAGES, py_modules=MODULES, env=VARIABLES) as g:
            refs: list = []
            for function, args, needs in shape.nodes:
                named = {"xs": [refs[i] for i in needs]} if needs else {}
                if args is not None:
                    named["args"] = args
                refs.append(g.add(getattr(tasks, function.__name__), **named))
        return g, refs


Cascade.caller = staticmethod(tasks.many)
remote = functools.cache(cascade.remote)


class OnHosts(Cascade):
    """A controller on the first host, an agent on each, whose resource has the host's name."""

    def __init__(self) -> None:
        self.version = os.environ["PEERS_VERSION"]
        programs, state = os.environ["PEERS_PROGRAMS"], os.path.join(FOLDER, "state")
        os.makedirs(state, mode=0o700)
        control = f"tcp://{hosts.ADDRESSES[0]}:7420"
        hosts.start(0, os.path.join(programs, "cascade-controller"), "--state", os.path.join(state, "controller"), "--durability", "crash",
                    "--listen", control, "--insecure-test-network")  # fmt: skip
        for i, address in enumerate(hosts.ADDRESSES):
            hosts.start(i, os.path.join(programs, "cascade-agent"), "--name", f"host{i}", "--state", os.path.join(state, f"host{i}"),
                        "--controller", control, "--listen", f"tcp://{address}:7421", "--insecure-test-network",
                        "--cpu", "1", "--resource", f"host{i}=1", "--store", str(hosts.STORE))  # fmt: skip
        self.address = "ipc://" + os.path.join(state, "controller", "run", "controller.sock")
        hosts.until(self.connected)
        hosts.until(self.ready)

    def connected(self) -> bool:
        """Whether the controller listens: a socket is there before that."""
        try:
            self.cluster = cascade.connect(self.address)
        except ConnectionError:
            return False
        return True

    def ready(self) -> bool:
        """Whether every agent has come, and runs tasks."""
        try:
            self.broadcast(8, len(hosts.ADDRESSES) - 1, 1)
        except cascade.RequestError:  # no agent has what a task needs yet
            return False
        return True

    def stop(self) -> None:
        super().stop()
        hosts.stop()

    def spread(self, size: int, consumers: int) -> list[tuple[float, str]]:
        job = {"make": {"run": "python:tasks.make", "with": {"args": size}, "out": ["out"], "resources": {"host0": 1}}}
        for i in range(1, consumers + 1):
            job[f"far{i}"] = {"run": "python:tasks.far", "in": {"xs": ["make.out"]}, "out": ["out"], "resources": {f"host{i}": 1}}
        results = [f"far{i}.out" for i in range(1, consumers + 1)]
        done = self.cluster.submit(self.text("broadcast", job, results))
        return [tuple(done.result(r)) for r in results]


def indexes(pattern: str, width: int, step: int) -> list[str]:
    """Which tasks of the last step task i needs, as expressions of a job file; the same as shapes.before."""
    if pattern == "fft":
        bit = 1 << ((step - 1) % max((width - 1).bit_length(), 1))
        return ["i", f"int(i / {bit}) % 2 == 0 ? i + {bit} : i - {bit}"]
    distances = {
        "stencil": [-1, 0, 1],
        "nearest": [-2, -1, 0, 1, 2],
        "spread": [step + d * max(width // 5, 1) for d in range(5)],
    }
    return [f"(i + {d}) % {width}" for d in sorted({d % width for d in distances[pattern]})]


if __name__ == "__main__":
    serve(OnHosts if hosts.ADDRESSES else Cascade)
