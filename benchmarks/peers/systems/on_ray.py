"""Ray: tasks in worker processes, results by reference. Default, or lean as its configuration header and documents allow."""

from __future__ import annotations

import inspect
import os
import sys
import time
from typing import Any

from harness import CORES, FOLDER, LEAN, System, WrongResult, serve

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
if LEAN:  # nothing that only watches, and workers that are not niced against the driver
    os.environ.update(
        RAY_task_events_report_interval_ms="0", RAY_enable_timeline="0", RAY_enable_metrics_collection="0",
        RAY_event_stats="0", RAY_worker_niceness="0", RAY_memory_monitor_refresh_ms="0", RAY_preallocate_plasma_memory="1",
        RAY_AUTH_MODE="disabled",
    )  # fmt: skip

if os.environ.get("PEERS_HOSTS"):  # all stores together would take the memory of the one machine; tokens are for clusters that others reach
    os.environ.update(RAY_preallocate_plasma_memory="0", RAY_AUTH_MODE="disabled")

import ray  # noqa: E402 (it reads its settings from the environment)
from ray.dag import InputNode, MultiOutputNode  # noqa: E402

import hosts  # noqa: E402
import kernels  # noqa: E402
import shapes  # noqa: E402


class Ray(System):
    compiled: Any = None
    version = ray.__version__
    model = (
        "gcs_server, raylet with the object store, agents, monitors, the driver; one worker process for each core"
        + ("; no dashboard, task events, timeline, metrics, memory monitor or niceness" if LEAN else "")
    )  # fmt: skip

    def __init__(self) -> None:
        ray.init(num_cpus=CORES, _temp_dir=os.path.join(FOLDER, "r"), include_dashboard=not LEAN and None,
                 object_store_memory=4 << 30, log_to_driver=False)  # fmt: skip
        self.remote = {f: ray.remote(f) for f in vars(kernels).values() if inspect.isfunction(f)}
        self.noop(200 * CORES)  # workers are up, functions are known to them

    def stop(self) -> None:
        ray.shutdown()

    def noop(self, n: int) -> dict[str, float]:
        return self.run(shapes.independent(n))

    def one(self) -> None:
        ray.get(self.remote[kernels.noop].remote())

    def graph(self, shape: shapes.Shape) -> list:
        remote, refs = self.remote, []
        for function, args, needs in shape.nodes:
            refs.append(remote[function].remote(args, *[refs[i] for i in needs]))
        return ray.get([refs[i] for i in shape.results])

    def call(self, function: Any, *args: Any) -> Any:
        return (self.remote.get(function) or function).remote(*args)

    def get(self, futures: list[Any]) -> list[Any]:
        return ray.get(futures)

    def ends(self, futures: list[Any]) -> Any:
        while futures:
            ready, futures = ray.wait(futures, num_returns=1)
            yield ray.get(ready[0])

    def put(self, value: Any) -> Any:
        return ray.put(value)

    def stream(self, n: int) -> Any:
        for ref in numbers.remote(n):
            yield ray.get(ref)

    def actor(self) -> Any:
        return Counter.remote()

    def restartable(self) -> Any:
        return Counter.options(max_restarts=1, max_task_retries=1).remote()

    def workers(self) -> list[int]:
        """Ray has more of them than have worked; they say what they are in their command lines."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if command(pid).startswith("ray::")]

    def clocked_bdg(self, n: int, m: int) -> tuple[list[float], float]:
        """A streaming generator: each matrix is there for its consumer when it was yielded."""
        generate = ray.remote(num_returns="streaming")(kernels.matrices)
        norm = self.remote[kernels.norm]
        began = time.perf_counter()
        got = ray.get([norm.remote(None, ref) for ref in generate.remote([n, m])])
        return got, time.perf_counter() - began

    def repeat(self, shape: str, times: int) -> dict[str, float]:
        """The actors have the cores until they end."""
        try:
            return super().repeat(shape, times)
        finally:
            if self.compiled is not None:
                self.compiled.teardown(kill_actors=True)

    def repeated(self, shape: str) -> Any:
        """A compiled graph of actors, which Ray has for graphs that do not change."""
        actors = [Adder.options(num_cpus=CORES / 4).remote() for _ in range(4)]
        with InputNode() as given:
            if shape == "chain":
                graph = given
                for actor in actors:
                    graph = actor.step.bind(graph)
                want = 5
            else:
                graph = MultiOutputNode([actor.step.bind(given) for actor in actors])
                want = [2] * 4
        self.compiled = compiled = graph.experimental_compile()

        def once() -> None:
            if (got := ray.get(compiled.execute(1))) != want:
                raise WrongResult(f"results are {got}, want {want}")

        return once


class OnHosts(Ray):
    """A node on each host, whose resource has the host's name."""

    def __init__(self) -> None:
        head, alike = f"{hosts.ADDRESSES[0]}:6379", ["--num-cpus", "1", "--object-store-memory", str(hosts.STORE), "--disable-usage-stats"]
        lean = ["--include-dashboard", "false"] if LEAN else []
        for i, address in enumerate(hosts.ADDRESSES):
            role = ["--address", head] if i else ["--head", "--port", "6379", "--temp-dir", os.path.join(FOLDER, "r"), *lean]
            hosts.start(i, sys.executable, "-m", "ray.scripts.scripts", "start", *role, "--node-ip-address", address,
                        "--resources", f'{{"host{i}": 1}}', *alike)  # fmt: skip
            hosts.done()  # the others do not wait for the head, and all at once they exceed Ray's time for a start
        ray.init(address=head, _node_ip_address=hosts.ADDRESSES[0], log_to_driver=False)
        hosts.until(lambda: sum(node["Alive"] for node in ray.nodes()) == len(hosts.ADDRESSES))
        self.remote = {f: ray.remote(f) for f in (kernels.make, kernels.far)}
        self.broadcast(8, len(hosts.ADDRESSES) - 1, 1)

    def spread(self, size: int, consumers: int) -> list[tuple[float, str]]:
        array = self.remote[kernels.make].options(resources={"host0": 1}).remote(size)
        far = self.remote[kernels.far]
        return [tuple(x) for x in ray.get([far.options(resources={f"host{i}": 1}).remote(None, array) for i in range(1, consumers + 1)])]


Counter = ray.remote(num_cpus=0)(kernels.Counter)


def command(pid: int) -> str:
    """What a process calls itself."""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:  # it has ended
        return ""


echo = ray.remote(kernels.echo)


@ray.remote
def many(n: int) -> int:
    return sum(ray.get([echo.remote(1) for _ in range(n)]))


Ray.caller = many


@ray.remote(num_returns="streaming")
def numbers(n: int) -> Any:
    for i in range(n):  # Ray sends to its generators, which those of yield from do not take
        yield i


@ray.remote
class Adder:
    def step(self, x: int) -> int:
        return kernels.step(None, x)


if __name__ == "__main__":
    serve(OnHosts if hosts.ADDRESSES else Ray)
