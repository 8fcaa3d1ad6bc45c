"""MPI: ranks that know what to do without being told. A bound: no names, no results kept, no recovery, no balance."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mpi4py import MPI

import kernels
import metg
import shapes
from harness import System, Unsupported, check_steps, serve

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


# What all ranks do together. None of these calls another: rank 0 would ask for both.
MEASURED = ("noop", "latency", "chain", "handover", "broadcast", "sdmi", "simulation", "kernel_time", "steps")


class Mpi(System):
    """Methods of MEASURED run on all ranks, the others on rank 0; what rank 0 returns counts."""

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

    def kernel_time(self) -> float:
        """Seconds of one iteration of the kernel while all ranks compute; the first rank knows it."""
        metg.burn(10_000)
        comm.Barrier()
        return (comm.reduce(metg.burn(metg.LONG), root=0) or 0.0) / size

    def steps(self, pattern: str, width: int, count: int, iterations: int) -> dict[str, float]:
        """Each rank has neighbouring tasks of every step. Results for another rank go in one message to it."""
        plan = [self.exchange(pattern, width, step) for step in range(1, count)]
        mine = share(width)
        comm.Barrier()
        began = time.perf_counter()
        now = [kernels.compute(iterations) if i in mine else 0.0 for i in range(width)]
        results = [now[i] for i in mine]
        for gives, takes, needs in plan:
            sent = [comm.Isend(np.array([now[i] for i in which]), other) for other, which in gives]
            for other, which in takes:
                comm.Recv(came := np.empty(len(which)), other)
                for i, x in zip(which, came.tolist(), strict=True):
                    now[i] = x
            MPI.Request.Waitall(sent)
            step = [kernels.compute(iterations, *[now[k] for k in before]) for before in needs]
            now[mine.start : mine.stop] = step
            results = [*results, *step] if pattern == "trivial" else step
        everything = comm.gather(results, root=0) or []
        took = time.perf_counter() - began
        if rank == 0:
            check_steps([x for part in everything for x in part], pattern, width, count, iterations)
        return {"seconds": took, "tasks": width * count}

    def exchange(self, pattern: str, width: int, step: int) -> tuple[list, list, list]:
        """Of the last step, what this rank gives to each other rank and takes from it, and what each of its tasks needs."""
        needs = [shapes.before(pattern, width, step, i) for i in range(width)]
        mine = share(width)
        gives, takes = [], []
        for other in range(size):
            theirs = share(width, other)
            give = sorted({k for i in theirs for k in needs[i] if k in mine})
            take = sorted({k for i in mine for k in needs[i] if k in theirs})
            if other != rank and give:
                gives.append((other, give))
            if other != rank and take:
                takes.append((other, take))
        return gives, takes, [needs[i] for i in mine]

    def there_and_back(self, steps: int) -> None:
        if size < 2 or rank > 1:
            return
        x = kernels.one(None)
        for i in range(steps):
            if i % 2 == rank:
                comm.send(x, 1 - rank)
            else:
                x = kernels.step(None, comm.recv(source=1 - rank))


def share(width: int, of: int = rank) -> range:
    """The tasks of a step that a rank has."""
    return range(of * width // size, (of + 1) * width // size)


class Root(Mpi):
    """Rank 0: it has the others do the same."""

    def __getattribute__(self, name: str):  # noqa: ANN204
        method = super().__getattribute__(name)
        if name not in MEASURED:
            return method

        def everywhere(*args: object, **named: object) -> Any:
            comm.bcast((name, args, named), root=0)
            return method(*args, **named)

        return everywhere

    def stop(self) -> None:
        comm.bcast(None, root=0)


if __name__ == "__main__":
    if rank == 0:
        serve(Root)
    else:
        other = Mpi()
        while (request := comm.bcast(None, root=0)) is not None:
            name, args, named = request
            getattr(other, name)(*args, **named)
