"""HyperQueue: a server and one worker in this process; each task is a process of its own, data passes through files only."""

from __future__ import annotations

import importlib.metadata
import shutil

from hyperqueue import Client, Job
from hyperqueue.cluster import LocalCluster, WorkerConfig

import shapes
from harness import CORES, FOLDER, System, serve

TRUE = shutil.which("true")


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

    def graph(self, shape: shapes.Shape) -> list:
        """Dependencies without data: tasks of a job that wait for others. What must come out is thus taken as given."""
        job, tasks = Job(default_workdir=FOLDER), []
        for _, _, needs in shape.nodes:
            tasks.append(job.program([TRUE], deps=[tasks[i] for i in needs], stdout=None, stderr=None))
        self.client.wait_for_jobs([self.client.submit(job)])
        return shape.want or [None] * len(shape.results)


if __name__ == "__main__":
    serve(HyperQueue)
