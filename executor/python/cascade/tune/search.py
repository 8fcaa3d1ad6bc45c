"""Searchers: what suggests configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .hooks import misnamed

FINISHED = "FINISHED"  # what a searcher suggests that has no more


class Searcher:
    """What suggests configurations. Override suggest, on_trial_complete, and perhaps on_trial_result and adopt.

    It runs in a process of its own, and may be slow: no trial waits for it. When an experiment is resumed it is made anew, told all
    that it was told before, and adopts what it had suggested.
    """

    stopped = False  # in on_trial_complete: a scheduler or a user has stopped the trial

    def __init__(self, metric: str | None = None, mode: str | None = None) -> None:
        self.metric, self.mode = metric, mode

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any]) -> bool:
        """Is told the metric, mode and space of the experiment before it begins. False: the searcher cannot use them."""
        self.metric, self.mode = self.metric or metric, self.mode or mode
        return True

    def suggest(self, trial_id: str) -> Any:
        """The configuration of a new trial, None for not now, or FINISHED."""
        raise NotImplementedError(f"{type(self).__name__} has no suggest()")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Is told of each result."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Is told once that a trial has ended, with its last result."""

    def adopt(self, trial_id: str, config: dict[str, Any]) -> None:
        """Takes a configuration that it had suggested before the experiment was interrupted."""
        self.suggest(trial_id)


class Builtin(Searcher):
    """A searcher of the runner's own."""

    def describe(self, file: dict[str, Any]) -> None:
        """Adds what the runner needs to know to the file of an experiment."""


class BasicVariantGenerator(Builtin):
    """Grids and random draws, which is what an experiment has without a searcher."""

    def __init__(self, points_to_evaluate: Sequence[Mapping[str, Any]] | None = None, max_concurrent: int = 0,
                 constant_grid_search: bool = False, random_state: int | None = None) -> None:  # fmt: skip
        super().__init__()
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
        super().__init__()
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
    if isinstance(searcher, Searcher) and (wrong := misnamed(type(searcher), Searcher)):
        raise TypeError(wrong)
    if searcher is not None and not isinstance(searcher, Searcher):
        raise TypeError(f"search_alg is a {type(searcher).__name__}: use one of cascade.tune.search, or derive it from Searcher")
    return searcher, most
