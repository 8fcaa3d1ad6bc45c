"""METG(50%): the smallest average time of a task at which half of all cores' time is useful, in the style of Task Bench."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from typing import Any

import kernels

CORES = int(os.environ["PEERS_CORES"])


FINEST = 1e-7  # seconds of the kernel, below which its call takes longer on any system
LONG = 20_000_000  # iterations that are long against the start of their clock


def burn(iterations: int) -> float:
    """Seconds of one iteration in this process."""
    began = time.perf_counter()
    kernels.compute(iterations)
    return (time.perf_counter() - began) / iterations


def per_iteration() -> float:
    """Seconds of one iteration while every core computes, in processes that begin together."""
    burning = [subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(CORES)]
    for p in burning:
        p.stdout.readline()  # it is up
    for p in burning:
        p.stdin.write("\n")
        p.stdin.flush()
    took = [float(p.stdout.readline()) for p in burning]
    for p in burning:
        p.stdin.close()
        p.stdout.close()
        p.wait()
    return sum(took) / len(took)


def smallest(system: Any, pattern: str, width: int, tasks: int) -> dict[str, float]:
    """Halves the kernel from where it is useful until it is not, and interpolates."""
    one = system.kernel_time()
    count = max(tasks // width, 4)

    def point(kernel: float) -> tuple[float, float]:
        """Granularity in seconds, and efficiency, the better of two runs."""
        iterations = max(int(kernel / one), 1)
        took = min(system.steps(pattern, width, count, iterations)["seconds"] for _ in range(2))
        granularity = took * CORES / (width * count)
        return granularity, iterations * one / granularity

    kernel = 0.002
    coarse = point(kernel)
    while coarse[1] < 0.5:
        if kernel > 0.25:
            raise RuntimeError(f"tasks of {kernel:.2f} s are useful for {100 * coarse[1]:.0f} % of the time only")
        kernel *= 4
        coarse = point(kernel)
    fine = coarse
    while fine[1] >= 0.5 and kernel > FINEST:
        coarse = fine
        kernel /= 2
        fine = point(kernel)
    if fine[1] >= 0.5:
        return {"metg": fine[0]}
    share = (coarse[1] - 0.5) / (coarse[1] - fine[1])
    return {"metg": math.exp(math.log(coarse[0]) + share * (math.log(fine[0]) - math.log(coarse[0])))}


if __name__ == "__main__":
    burn(10_000)
    print("ready", flush=True)
    sys.stdin.readline()
    print(burn(LONG), flush=True)
