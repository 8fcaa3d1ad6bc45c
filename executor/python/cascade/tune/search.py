"""Searchers: what suggests configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Searcher:
    """What suggests configurations. describe adds it to the file of an experiment."""

    def describe(self, file: dict[str, Any]) -> None:
        """Adds what the runner needs to know."""


class BasicVariantGenerator(Searcher):
    """Grids and random draws, which is what an experiment has without a searcher."""

    def __init__(self, points_to_evaluate: Sequence[Mapping[str, Any]] | None = None, max_concurrent: int = 0,
                 constant_grid_search: bool = False, random_state: int | None = None) -> None:  # fmt: skip
        if random_state is not None and not isinstance(random_state, int):
            raise TypeError(f"random_state is a whole number, not {type(random_state).__name__}")
        self._points, self._most, self._constant, self._seed = list(points_to_evaluate or ()), max_concurrent, constant_grid_search, random_state

    def describe(self, file: dict[str, Any]) -> None:
        """Adds points that are tried first, and the seed."""
        file["points_to_evaluate"] = [dict(p) for p in self._points]
        file["constant_grid_search"] = self._constant
        if self._seed is not None:
            file["seed"] = self._seed
        if self._most:
            file["max_concurrent"] = min(self._most, file["max_concurrent"] or self._most)


class ConcurrencyLimiter(Searcher):
    """A searcher of whose trials only so many have not ended at any time."""

    def __init__(self, searcher: Searcher, max_concurrent: int, batch: bool = False) -> None:
        if batch:
            raise ValueError("ConcurrencyLimiter: batch=True is not supported")
        if max_concurrent < 1:
            raise ValueError(f"ConcurrencyLimiter: max_concurrent is {max_concurrent}: want a number above 0")
        self.searcher, self.max_concurrent = searcher, max_concurrent


def unlimited(searcher: Any) -> tuple[Searcher | None, int]:
    """A searcher without its limiters, and the least of their bounds; 0: none."""
    most = 0
    while isinstance(searcher, ConcurrencyLimiter):
        most = min(most or searcher.max_concurrent, searcher.max_concurrent)
        searcher = searcher.searcher
    if searcher is not None and not isinstance(searcher, Searcher):
        raise TypeError(f"search_alg is a {type(searcher).__name__}: use one of cascade.tune.search")
    return searcher, most
