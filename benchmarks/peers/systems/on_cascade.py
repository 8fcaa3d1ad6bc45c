"""Cascade through its Python client, with tasks that are Python functions: controller, agent and executors are processes."""

from __future__ import annotations

import json
import os
import time

import cascade
import kernels
import shapes
import tasks
from harness import CORES, FOLDER, System, WrongResult, serve, timed

MODULES = [os.path.abspath(m.__file__) for m in (kernels, tasks)]


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
        self.cluster.close()

    @staticmethod
    def text(name: str, tasks: dict, outputs: list) -> str:
        """A job file: its families say in one entry what a loop would say in a million."""
        environment = {"python": {"pip": [os.environ["PEERS_NUMPY"]]}, "py_modules": MODULES}
        return json.dumps({"job": name, "environments": {"python": environment}, "tasks": tasks, "outputs": outputs})

    def noop(self, n: int) -> dict[str, float]:
        job = self.text("noop", {"noop": {"for": {"i": f"0..{n - 1}"}, "run": "python:tasks.noop"}}, [])
        return {"seconds": timed(lambda: self.cluster.submit(job).wait()), "tasks": n}

    def one(self) -> None:
        self.cluster.submit(self.single).result("t.out")

    def fan(self, n: int) -> dict[str, float]:
        """The middle tasks are one family, which a job file names in one entry."""
        job = self.text("fan", {
            "source": {"run": "python:tasks.one", "out": ["out"]},
            "middle": {"for": {"i": f"0..{n - 1}"}, "run": "python:tasks.step", "in": {"xs": ["source.out"]}, "out": ["out"]},
            "sink": {"run": "python:tasks.total", "in": {"xs": "middle[*].out"}, "out": ["out"]},
        }, ["sink.out"])  # fmt: skip
        return self.result_of(job, "sink.out", 2 * n, n + 2)

    def merge(self, n: int) -> dict[str, float]:
        job = self.text("merge", {
            "source": {"for": {"i": f"0..{n - 1}"}, "run": "python:tasks.one", "out": ["out"]},
            "sink": {"run": "python:tasks.total", "in": {"xs": "source[*].out"}, "out": ["out"]},
        }, ["sink.out"])  # fmt: skip
        return self.result_of(job, "sink.out", n, n + 1)

    def result_of(self, job: str, output: str, want: object, tasks: int) -> dict[str, float]:
        """Runs a job file against the clock, and compares its one result."""
        began = time.perf_counter()
        got = self.cluster.submit(job).result(output)
        took = time.perf_counter() - began
        if got != want:
            raise WrongResult(f"the result is {got}, want {want}")
        return {"seconds": took, "tasks": tasks}

    def graph(self, shape: shapes.Shape) -> list:
        with cascade.Graph("shape", pip=[os.environ["PEERS_NUMPY"]], py_modules=MODULES) as g:
            refs: list = []
            for function, args, needs in shape.nodes:
                named = {"xs": [refs[i] for i in needs]} if needs else {}
                if args is not None:
                    named["args"] = args
                refs.append(g.add(getattr(tasks, function.__name__), **named))
        results = [refs[i] for i in shape.results]
        job = self.cluster.submit(g, *results)
        return [job.result(r) for r in results]


if __name__ == "__main__":
    serve(Cascade)
