"""A stand-in for the array of a device: no machine of the tests has one. It says where it lies, as those of CuPy, JAX and torch do."""

from typing import Any

CUDA = 2  # of DLPack


class Array:
    """Numbers on a device, which come to the host when they are pickled, or asked for."""

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def nbytes(self) -> int:
        return 8 * self.n

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __reduce__(self) -> Any:
        return Array, (self.n,)


def made(n: int) -> Any:
    """Numbers that one task reads, and numbers within others."""
    return Array(n), {"weights": [Array(n), Array(2 * n)], "step": 1}


def doubled(x: Array) -> Array:
    """Of numbers that are on the device."""
    return Array(2 * x.n)


def length(x: Array) -> int:
    """Their number; nothing is on a device behind it."""
    return x.n


def steps(n: int) -> Any:
    """Yields them."""
    for i in range(3):
        yield Array(n + i)


def total(xs: list[Array], step: dict[str, Any]) -> int:
    """What came by way of the host is on the device again: that is not counted, as the runtime does not do it."""
    return sum(x.n for x in xs) + sum(x.n for x in step["weights"])
