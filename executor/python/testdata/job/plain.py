"""Tasks of an environment that has no NumPy."""

from typing import Any


def total(x: Any) -> str:
    """An array without NumPy."""
    return f"{type(x).__name__} {x.format} {x.shape} readonly {x.readonly}: {sum(x)}"


def numbers(x: memoryview) -> memoryview:
    """An array of its own, and back."""
    return memoryview(bytearray(x)).cast("d")
