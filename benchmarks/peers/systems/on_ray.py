"""Ray: tasks in worker processes, results by reference. Default, or lean as its configuration header and documents allow."""

from __future__ import annotations

import os

from harness import CORES, FOLDER, LEAN, System, serve

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
if LEAN:  # nothing that only watches, and workers that are not niced against the driver
    os.environ.update(
        RAY_task_events_report_interval_ms="0", RAY_enable_timeline="0", RAY_enable_metrics_collection="0",
        RAY_event_stats="0", RAY_worker_niceness="0", RAY_memory_monitor_refresh_ms="0", RAY_preallocate_plasma_memory="1",
        RAY_AUTH_MODE="disabled",
    )  # fmt: skip

import ray  # noqa: E402 (it reads its settings from the environment)

import kernels  # noqa: E402
import shapes  # noqa: E402


class Ray(System):
    version = ray.__version__
    model = (
        "gcs_server, raylet with the object store, agents, monitors, the driver; one worker process for each core"
        + ("; no dashboard, task events, timeline, metrics, memory monitor or niceness" if LEAN else "")
    )  # fmt: skip

    def __init__(self) -> None:
        ray.init(num_cpus=CORES, _temp_dir=os.path.join(FOLDER, "r"), include_dashboard=not LEAN and None,
                 object_store_memory=4 << 30, log_to_driver=False)  # fmt: skip
        self.remote = {f: ray.remote(f) for f in vars(kernels).values() if callable(f) and getattr(f, "__module__", "") == "kernels"}
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


if __name__ == "__main__":
    serve(Ray)
