"""Dask distributed: a LocalCluster of one single-threaded worker process for each core, the scheduler in the client's process."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import dask
import distributed
from distributed import Client, LocalCluster

import hosts
import kernels
import shapes
from harness import CORES, FOLDER, LEAN, System, WrongResult, serve, timed


SETTINGS = {"temporary-directory": FOLDER, "distributed.comm.timeouts.connect": "60s"}
if LEAN:
    SETTINGS |= {
        "distributed.worker.profile.enabled": False,
        "distributed.scheduler.work-stealing": False,
        "distributed.scheduler.worker-saturation": "inf",
        "distributed.scheduler.active-memory-manager.start": False,
        "distributed.worker.memory.target": False, "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False, "distributed.worker.memory.terminate": False,
        "distributed.admin.tick.interval": "1s",
    }  # fmt: skip


class Dask(System):
    version = distributed.__version__
    model = (
        "scheduler, nannies and client in one process; one worker process with one thread for each core"
        + ("; no dashboard, profiler, stealing, memory monitor; no cap on queued root tasks" if LEAN else "")
    )  # fmt: skip

    def __init__(self) -> None:
        dask.config.set(SETTINGS)
        self.cluster = LocalCluster(n_workers=CORES, threads_per_worker=1, processes=True, local_directory=FOLDER,
                                    dashboard_address=None if LEAN else "127.0.0.1:0")  # fmt: skip
        self.client = Client(self.cluster)
        self.client.wait_for_workers(CORES)
        self.noop(200 * CORES)

    def stop(self) -> None:
        self.client.close()
        self.cluster.close()

    def noop(self, n: int) -> dict[str, float]:
        return {"seconds": timed(lambda: distributed.wait(self.client.map(kernels.noop, range(n), pure=False))), "tasks": n}

    def one(self) -> None:
        self.client.submit(kernels.noop, pure=False).result()

    def call(self, function: Any, *args: Any) -> Any:
        return self.client.submit(function, *args, pure=False)

    def get(self, futures: list[Any]) -> list[Any]:
        return self.client.gather(futures)

    def ends(self, futures: list[Any]) -> Any:
        for _, result in distributed.as_completed(futures, with_results=True):
            yield result

    def put(self, value: Any) -> Any:
        return self.client.scatter(value, hash=False)

    def actor(self) -> Any:
        return self.client.submit(kernels.Counter, pure=False, actor=True).result()

    def tell(self, actor: Any, x: Any) -> Any:
        return actor.echo(x)

    def told(self, futures: list[Any]) -> list[Any]:
        return [f.result() for f in futures]

    def workers(self) -> list[int]:
        return list(self.client.run(os.getpid).values())

    def graph(self, shape: shapes.Shape) -> list:
        return self.client.get(*self.custom(shape), sync=True)

    def trace(self, tasks: list) -> dict[str, float]:
        """Sleeps have no results to fetch: their ends are waited for."""
        shape = shapes.trace(tasks)
        began = time.perf_counter()
        futures = self.client.get(*self.custom(shape), sync=False)
        distributed.wait(futures)
        took = time.perf_counter() - began
        if any(f.status != "finished" for f in futures):
            raise WrongResult("tasks failed")
        return {"seconds": took, "tasks": len(tasks)}

    def custom(self, shape: shapes.Shape) -> tuple[dict, list[str]]:
        """A custom graph, which the scheduler gets whole, and the names of its results."""
        self.run_number = getattr(self, "run_number", 0) + 1  # equal names would be found done
        name = [f"task-{self.run_number}-{i}" for i in range(len(shape.nodes))]
        dsk = {name[i]: (f, args, *[name[k] for k in needs]) for i, (f, args, needs) in enumerate(shape.nodes)}
        return dsk, [name[i] for i in shape.results]


def many(n: int) -> int:
    """A task that calls others gives up its thread while it waits."""
    with distributed.worker_client() as client:
        return sum(client.gather(client.map(kernels.echo, [1] * n, pure=False)))


Dask.caller = staticmethod(many)


class OnHosts(Dask):
    """The scheduler on the first host, a worker on each that has the host's name."""

    def __init__(self) -> None:
        settings = os.path.join(FOLDER, "dask.yaml")  # JSON is YAML; keys with dots are paths, as in dask.config.set
        with dask.config.set(SETTINGS), open(settings, "w") as file:
            json.dump(dask.config.config, file)
        os.environ["DASK_CONFIG"] = settings
        dask.config.set(SETTINGS)
        control = f"tcp://{hosts.ADDRESSES[0]}:8786"
        hosts.start(0, sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", control, "--no-dashboard" if LEAN else "--dashboard")
        for i, address in enumerate(hosts.ADDRESSES):
            hosts.start(i, sys.executable, "-m", "distributed.cli.dask_worker", control, "--host", address, "--name", f"host{i}", "--nthreads", "1",
                        "--memory-limit", "0", "--local-directory", FOLDER, "--no-dashboard" if LEAN else "--dashboard")  # fmt: skip
        self.client = Client(control)
        hosts.until(lambda: len(self.client.scheduler_info(n_workers=-1)["workers"]) == len(hosts.ADDRESSES))
        self.broadcast(8, len(hosts.ADDRESSES) - 1, 1)

    def stop(self) -> None:
        self.client.close()
        hosts.stop()

    def spread(self, size: int, consumers: int) -> list[tuple[float, str]]:
        array = self.client.submit(kernels.make, size, workers="host0", pure=False)
        far = [self.client.submit(kernels.far, None, array, workers=f"host{i}", pure=False) for i in range(1, consumers + 1)]
        return [tuple(x) for x in self.client.gather(far)]


if __name__ == "__main__":
    serve(OnHosts if hosts.ADDRESSES else Dask)
