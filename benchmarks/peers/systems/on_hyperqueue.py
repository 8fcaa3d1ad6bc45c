"""HyperQueue: a server and one worker in this process; each task is a process of its own, data passes through files only."""

from __future__ import annotations

import importlib.metadata
import shutil

from hyperqueue import Client, Job
from hyperqueue.cluster import LocalCluster, WorkerConfig

import kernels
import shapes
from harness import CORES, FOLDER, System, Unsupported, serve

TRUE = [shutil.which("true")]
PROGRAMS = dict.fromkeys((kernels.noop, kernels.one, kernels.step, kernels.total), TRUE) | {kernels.sleep: [shutil.which("sleep"), "{}"]}


class HyperQueue(System):
    version = importlib.metadata.version("hyperqueue")
    model = "server, worker and client in one process; each task starts a process (/bin/true in place of an empty function)"

    def __init__(self) -> None:
        self.cluster = LocalCluster()
        self.cluster.start_worker(WorkerConfig(cores=CORES))
        self.client: Client = self.cluster.client()
        self.noop(20 * CORES)

    def stop(self) -> None:
        self.cluster.stop()

    def noop(self, n: int) -> dict[str, float]:
        return self.run(shapes.independent(n))

    def one(self) -> None:
        self.graph(shapes.independent(1))

    def workers(self) -> list[int]:
        """Tasks have ended with their processes."""
        return []

    def handover(self, size: int, consumers: int, times: int) -> dict[str, float]:
        raise Unsupported("no data passes between tasks")

    def graph(self, shape: shapes.Shape) -> list:
        """Dependencies without data: tasks of a job that wait for others. The expected results are returned unchecked."""
        job, tasks = Job(default_workdir=FOLDER), []
        for function, args, needs in shape.nodes:
            if function not in PROGRAMS:
                raise Unsupported("tasks are programs, and no data passes between them")
            words = [w.format(args) for w in PROGRAMS[function]]
            tasks.append(job.program(words, deps=[tasks[i] for i in needs], stdout=None, stderr=None))
        self.client.wait_for_jobs([self.client.submit(job)])
        return shape.want or [None] * len(shape.results)


if __name__ == "__main__":
    serve(HyperQueue)
