"""Statistics over the members of an ensemble, in an environment with NumPy 2."""

import numpy as np


def mean(fields: np.ndarray, level: int, levels: list[int]) -> np.ndarray:
    """The mean of the members at a level."""
    assert np.__version__.startswith("2.")
    return fields[levels.index(level)].mean(axis=0)


def spread(fields: np.ndarray, level: int, levels: list[int]) -> np.ndarray:
    """Their standard deviation, ddof = 1."""
    return fields[levels.index(level)].std(axis=0, ddof=1)


def probability(fields: np.ndarray, level: int, levels: list[int], threshold: float) -> np.ndarray:
    """The share of members strictly above a threshold."""
    return (fields[levels.index(level)] > threshold).mean(axis=0)
