"""MPI: ranks that know what to do without being told. A bound: no names, no results kept, no recovery, no balance."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mpi4py import MPI

import kernels
import shapes
from harness import System, Unsupported, serve

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


MEASURED = ("noop", "latency", "chain", "handover", "broadcast", "sdmi", "simulation")


class Mpi(System):
    """Each method runs on all ranks; what rank 0 returns counts."""

    version = MPI.Get_library_version().split(",")[0]
    model = "one rank for each core; tasks are dealt out by their number"

    def graph(self, shape: object) -> list:
        raise Unsupported("a bound, for workloads that a few lines of MPI express")

    def memory(self, n: int) -> dict[str, Any]:
        """Every rank works: there is no control."""
        return self.noop(n)

    def noop(self, n: int) -> dict[str, float]:
        comm.Barrier()
        began = time.perf_counter()
        done = 0
        for _ in range(rank, n, size):
            kernels.noop(None)
            done += 1
        done = comm.reduce(done, root=0)
        return {"seconds": time.perf_counter() - began, "tasks": done or 0}

    def latency(self, n: int) -> dict[str, float]:
        """A round trip between two ranks."""
        took = []
        for _ in range(n):
            began = time.perf_counter()
            self.there_and_back(2)
            took.append(time.perf_counter() - began)
        took.sort()
        return {"p50": took[n // 2], "p99": took[min(n * 99 // 100, n - 1)]}

    def chain(self, n: int) -> dict[str, float]:
        """Each step on the other rank."""
        began = time.perf_counter()
        self.there_and_back(n)
        return {"seconds": time.perf_counter() - began, "tasks": n}

    def handover(self, size: int, consumers: int, times: int) -> dict[str, float]:
        """A broadcast: each rank has a copy of its own."""
        x, waits = np.empty(size // 8), []
        for _ in range(times + 1):
            if rank == 0:
                kernels.fill(x)
            comm.Bcast(x, root=0)
            waits.append(comm.reduce(kernels.seen(None, x), op=MPI.MAX, root=0) or 0.0)
        return {"last": sorted(waits[1:])[times // 2]}

    def broadcast(self, size: int, consumers: int, times: int) -> dict[str, float]:
        """From the first host to as many others."""
        x, waits = np.empty(size // 8), []
        part = comm.Split(0 if rank <= consumers else MPI.UNDEFINED)
        for _ in range(times + 1 if rank <= consumers else 0):
            if rank == 0:
                kernels.fill(x)
            part.Bcast(x, root=0)
            waits.append(part.reduce(kernels.seen(None, x), op=MPI.MAX, root=0) or 0.0)
        return {"last": sorted(waits[1:])[times // 2]} if waits else {}

    def sdmi(self, n: int, m: int) -> dict[str, float]:
        """Each rank decomposes its share of the multiples."""
        comm.Barrier()
        began = time.perf_counter()
        x = kernels.matrix(n) if rank == 0 else np.empty((n, n))
        comm.Bcast(x, root=0)
        comm.gather([kernels.scaled_norm(i, x) for i in range(1 + rank, m + 1, size)], root=0)
        return {"seconds": time.perf_counter() - began, "tasks": m + 1}

    def simulation(self, times: int, longest: int) -> dict[str, float]:
        """Bulk-synchronous: in each of the rounds every rank has one simulation, and all wait for the longest."""
        kernels.simulate((0, 10))
        steps = shapes.lengths(times * size, longest)
        comm.Barrier()
        began = time.perf_counter()
        for i in range(times):
            kernels.simulate((i, steps[i * size + rank]))
            comm.Barrier()
        return {"rate": sum(steps) / (time.perf_counter() - began)}

    def there_and_back(self, steps: int) -> None:
        if size < 2 or rank > 1:
            return
        x = kernels.one(None)
        for i in range(steps):
            if i % 2 == rank:
                comm.send(x, 1 - rank)
            else:
                x = kernels.step(None, comm.recv(source=1 - rank))


class Root(Mpi):
    """Rank 0: it has the others do the same."""

    def __getattribute__(self, name: str):  # noqa: ANN204
        method = super().__getattribute__(name)
        if name not in MEASURED:
            return method

        def everywhere(**args: object) -> dict[str, float]:
            comm.bcast((name, args), root=0)
            return method(**args)

        return everywhere

    def stop(self) -> None:
        comm.bcast(None, root=0)


if __name__ == "__main__":
    if rank == 0:
        serve(Root)
    else:
        other = Mpi()
        while (request := comm.bcast(None, root=0)) is not None:
            getattr(other, request[0])(**request[1])
