"""earthkit-workflows: every job starts its own executor and workers, as its local entry does, and ends them.

Its clock starts when they are up and stops when the controller has all results: what it does before each job to start
processes is left out, as there is no way to keep them between jobs.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import random
import socket
import statistics
import time
from typing import Any

import orjson
from cascade.controller.impl import run
from cascade.controller.report import Reporter
from cascade.deployment.logging import LoggingConfig, init_from_cliparam
from cascade.executor import platform
from cascade.executor.bridge import Bridge
from cascade.low.core import DatasetId, JobInstance, JobInstanceRich, TaskDefinition, TaskInstance, localIdx2hostId
from cascade.main import launch_executor
from cascade.scheduler.precompute import precompute

import hosts
import kernels
import shapes
from harness import CORES, System, Unsupported, WrongResult, serve


if hosts.ADDRESSES:
    os.environ["UV_OFFLINE"] = "1"  # hosts have no way out: workers' environments are of what uv has fetched before


class Clock(Reporter):
    """Hears of the end of a job before its processes are shut down."""

    def __init__(self) -> None:
        super().__init__(None)
        self.ended = 0.0

    def success(self) -> None:
        self.ended = time.perf_counter()
        super().success()


def edge(source: str, output: str, sink: str, position: int) -> dict[str, Any]:
    """An output that becomes an argument of another task."""
    return {"source": DatasetId(source, output), "sink_task": sink, "sink_input_kw": None, "sink_input_ps": position}


def enter(space: str, address: str, *launch: Any) -> None:
    """launch_executor on a host; it listens on the name of its machine, which is made the address."""
    new_names = 0x04000000  # CLONE_NEWUTS
    libc = ctypes.CDLL(None, use_errno=True)
    with open(space) as network:
        if libc.setns(network.fileno(), 0) != 0 or libc.unshare(new_names) != 0:
            raise OSError(ctypes.get_errno(), f"enter {space}")
    socket.sethostname(address)
    launch_executor(*launch)


class Earthkit(System):
    version = importlib.metadata.version("earthkit-workflows")
    model = "for each job: controller, one executor with its shared-memory and data servers, one worker process for each core; their start is not counted"

    def __init__(self) -> None:
        self.logging = init_from_cliparam(LoggingConfig(disable=True).ser_cliparam(), "controller")

    def one(self) -> None:
        raise Unsupported("no cluster stays up between jobs: a task alone takes the start of all processes, seconds")

    def noop(self, n: int) -> dict[str, float]:
        """Each gives 1: a job with an output that is None does not end."""
        return self.run(shapes.Shape([shapes.Node(kernels.one, None, ())] * n, list(range(n)), [1] * n))

    def memory(self, n: int) -> dict[str, Any]:
        """No process of it is left after a job."""
        return self.noop(n)

    def handover(self, size: int, consumers: int, times: int) -> dict[str, float]:
        """Fewer times: each is a start of all processes."""
        return super().handover(size, consumers, min(times, 3))

    def repeated(self, shape: str) -> Any:
        raise Unsupported("no cluster stays up between jobs: a graph takes the start of all processes, seconds")

    def metg(self, pattern: str, wide: int, tasks: int) -> dict[str, float]:
        raise Unsupported("each point of the curve starts all processes anew, and there are a dozen points")

    def clocked(self, shape: shapes.Shape) -> tuple[list[Any], float]:
        tasks, edges, encoded = {}, [], {}
        for i, (function, args, needs) in enumerate(shape.nodes):
            if function not in encoded:
                encoded[function] = TaskDefinition.func_enc(function)
            definition = TaskDefinition(func=encoded[function], environment=[], input_schema={}, output_schema=[("0", "Any")])
            tasks[f"t{i}"] = TaskInstance(definition=definition, static_input_kw={}, static_input_ps={"0": args})
            edges += [edge(f"t{k}", "0", f"t{i}", at + 1) for at, k in enumerate(needs)]
        wanted = [DatasetId(f"t{i}", "0") for i in shape.results]
        took, outputs = self.job(JobInstance(tasks=tasks, edges=edges, ext_outputs=wanted))
        return [outputs[w] for w in wanted], took

    def clocked_bdg(self, n: int, m: int) -> tuple[list[float], float]:
        """A generator task with m outputs, each of which is published when it is yielded."""
        series = TaskDefinition(func=TaskDefinition.func_enc(kernels.matrices), environment=[], input_schema={}, output_schema=[(str(i), "Any") for i in range(m)])
        norm = TaskDefinition(func=TaskDefinition.func_enc(kernels.norm), environment=[], input_schema={}, output_schema=[("0", "Any")])
        tasks = {"series": TaskInstance(definition=series, static_input_kw={}, static_input_ps={"0": [n, m]})}
        tasks |= {f"t{i}": TaskInstance(definition=norm, static_input_kw={}, static_input_ps={"0": None}) for i in range(m)}
        wanted = [DatasetId(f"t{i}", "0") for i in range(m)]
        took, outputs = self.job(JobInstance(tasks=tasks, edges=[edge("series", str(i), f"t{i}", 1) for i in range(m)], ext_outputs=wanted))
        return [outputs[w] for w in wanted], took

    def job(self, instance: JobInstance) -> tuple[float, dict]:
        """What run_locally of the package does, with a clock from the moment its executor is up."""
        job = JobInstanceRich(**orjson.loads(JobInstanceRich(jobInstance=instance, checkpointSpec=None).model_dump_json().encode()))
        port = random.randrange(20_000, 30_000, 50)
        controller = f"tcp://{hosts.ADDRESSES[0] if hosts.ADDRESSES else 'localhost'}:{port}"
        executors = self.executors(job, controller, port)
        for executor in executors:
            executor.start()
        bridge = Bridge(controller, len(executors), None)
        clock = Clock()
        began = time.perf_counter()
        state = run(job, bridge, precompute(job.jobInstance), clock)
        for executor in executors:
            executor.join(30)
        return clock.ended - began, state.outputs

    def executors(self, job: JobInstanceRich, controller: str, port: int) -> list[Any]:
        """One with a worker for each core; on several hosts, one of each with one worker."""
        context = platform.get_mp_ctx("executor-loc")
        if not hosts.ADDRESSES:
            return [context.Process(target=launch_executor, args=(job, controller, CORES, port + 1, localIdx2hostId(0), None, self.logging.withContext("host_0"), "tcp://localhost"))]
        return [
            context.Process(target=enter, args=(space, address, job, controller, 1, port + 1 + 10 * i, localIdx2hostId(i), None, self.logging.withContext(f"host_{i}"), f"tcp://{address}"))
            for i, (address, space) in enumerate(zip(hosts.ADDRESSES, hosts.SPACES, strict=True))
        ]

    def broadcast(self, size: int, consumers: int, times: int) -> dict[str, float]:
        """A task cannot be told on which host it runs: there are as many consumers as workers, and the one beside the maker does not count."""
        shape = shapes.Shape([shapes.Node(kernels.make, size, ()), *[shapes.Node(kernels.far, None, (0,))] * (consumers + 1)], list(range(1, consumers + 2)), None)
        last = []
        for _ in range(min(times, 2) + 1):
            got, _ = self.clocked(shape)
            if (found := len({network for _, network in got})) != consumers + 1:
                raise WrongResult(f"consumers were on {found} hosts, want {consumers + 1}; a task cannot be told where it runs")
            last.append(max(took for took, _ in got))
        return {"last": statistics.median(last[1:])}


if __name__ == "__main__":
    serve(Earthkit)
