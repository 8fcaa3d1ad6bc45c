"""Results of an experiment, read from its folder."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from .space import numbers
from .trainable import Checkpoint


class TrialError(RuntimeError):
    """The error that ended a trial, with its traceback."""


class Result:
    """What became of one trial."""

    def __init__(self, outcome: dict[str, Any], folder: str, config: dict[str, Any], history: Callable[[], list[dict[str, Any]]]) -> None:
        self._outcome, self._folder, self._history = outcome, folder, history
        self.config = config
        last = outcome.get("last")
        self.metrics: dict[str, Any] | None = None if last is None else _metrics(last)
        self.error = TrialError(outcome["error"]) if outcome.get("error") and outcome["status"] == "ERRORED" else None

    @property
    def path(self) -> str:
        """The folder of the trial."""
        return os.path.join(self._folder, self._outcome["name"])

    @property
    def status(self) -> str:
        """PENDING, RUNNING, PAUSED, TERMINATED, ERRORED, or INTERRUPTED: it ran, and no process runs the experiment any more."""
        return str(self._outcome["status"])

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint."""
        kept = self._outcome.get("checkpoints")
        return Checkpoint(os.path.join(self._folder, kept[-1]["name"])) if kept else None

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The checkpoints that are kept, the oldest first, with the metrics that were reported with them."""
        at = {m["training_iteration"]: m for m in self._history()}
        return [(Checkpoint(os.path.join(self._folder, c["name"])), at.get(c["i"], {})) for c in self._outcome.get("checkpoints") or ()]

    @property
    def metrics_dataframe(self) -> Any:
        """All results, as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self._history())

    def __repr__(self) -> str:
        return f"Result({self._outcome['name']}, {self.status}, config={self.config!r}, metrics={self.metrics!r})"


class ResultGrid:
    """The results of all trials, by their number."""

    def __init__(self, folder: str, outcomes: list[dict[str, Any]], configs: Callable[[dict[str, Any]], dict[str, Any]],
                 histories: Callable[[], None], metric: str | None, mode: str | None) -> None:  # fmt: skip
        self.experiment_path = folder
        self._metric, self._mode, self._histories = metric, mode, histories
        self._read = False
        self._results = [Result(o, folder, configs(o), lambda name=o["name"]: self._history(name)) for o in outcomes]  # type: ignore[misc]

    def _history(self, trial: str) -> list[dict[str, Any]]:
        if not self._read:
            self._histories()
            self._read = True
        path = os.path.join(self.experiment_path, trial, "result.json")
        if not os.path.exists(path):
            return []
        with open(path) as f:
            return [numbers(json.loads(line)) for line in f]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, i: int) -> Result:
        return self._results[i]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @property
    def errors(self) -> list[Exception]:
        """The errors that ended trials."""
        return [r.error for r in self._results if r.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials ended with an error."""
        return sum(r.status == "ERRORED" for r in self._results)

    @property
    def num_terminated(self) -> int:
        """How many trials ended well."""
        return sum(r.status == "TERMINATED" for r in self._results)

    def get_best_result(self, metric: str | None = None, mode: str | None = None, scope: str = "last",
                        filter_nan_and_inf: bool = True) -> Result:  # fmt: skip
        """The best trial by a metric, by default that of the experiment: of its last result, of all (the best one), or of the mean of
        all, the last 5 or the last 10 ("avg", "last-5-avg", "last-10-avg"). Of equal ones it is the first."""
        metric, mode = metric or self._metric, mode or self._mode
        if metric is None and len(self._results) == 1:
            return self._results[0]
        if metric is None:
            raise ValueError("get_best_result: neither it nor TuneConfig names a metric")
        if mode not in ("min", "max"):
            raise ValueError(f"get_best_result: mode is {mode!r}: use 'min' or 'max'")
        best: tuple[float, Result] | None = None
        odd = 0
        for r in self._results:
            value = self._score(r, metric, mode, scope)
            if value is None:
                continue
            if filter_nan_and_inf and not math.isfinite(value):
                odd += 1
                continue
            if best is None or math.isnan(best[0]) or (value > best[0] if mode == "max" else value < best[0]):
                best = value, r
        if best is None:
            why = []
            if odd:
                why.append(f"of {odd} it is NaN or infinite, which filter_nan_and_inf=False lets count")
            if self.num_errors:
                why.append(f"{self.num_errors} ended with errors, such as {str(self.errors[0]).strip().splitlines()[-1]}")
            if len(why) == 0:
                known = sorted({k for r in self._results for k in r.metrics or ()})
                why.append(f"they have {', '.join(known)}" if known else "they have reported nothing")
            raise RuntimeError(f"no trial of {len(self._results)} has a finite value of the metric {metric!r}: {'; '.join(why)}")
        return best[1]

    def _score(self, r: Result, metric: str, mode: str, scope: str) -> float | None:
        if scope == "last":
            value = (r.metrics or {}).get(metric)
            return float(value) if isinstance(value, (int, float)) else None
        values = [float(m[metric]) for m in self._history(r._outcome["name"]) if isinstance(m.get(metric), (int, float))]
        if not values:
            return None
        if scope == "all":
            return max(values) if mode == "max" else min(values)
        counts = {"avg": len(values), "last-5-avg": 5, "last-10-avg": 10}
        if scope not in counts:
            raise ValueError(f"there is no scope {scope!r}: use last, all, avg, last-5-avg or last-10-avg")
        values = values[-counts[scope] :]
        return sum(values) / len(values)

    def get_dataframe(self) -> Any:
        """The last result of each trial with its configuration, as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(
            [{**(r.metrics or {}), **{f"config/{k}": v for k, v in _flat(r.config)}, "trial": r._outcome["name"]} for r in self._results]
        )

    def __repr__(self) -> str:
        return f"ResultGrid({self.experiment_path!r}, {len(self)} trials, {self.num_errors} with errors)"


def _metrics(last: dict[str, Any]) -> dict[str, Any]:
    return {**numbers(last.get("m") or {}), "training_iteration": last["i"], "time_total_s": last["t"]}


def _flat(config: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for k, v in config.items():
        if isinstance(v, dict):
            yield from _flat(v, f"{before}{k}/")
        else:
            yield before + k, v
