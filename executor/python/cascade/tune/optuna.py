"""Optuna as a searcher."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .search import Searcher
from .space import Computed, Domain


class OptunaSearch(Searcher):
    """Suggestions of Optuna, by default of its TPE sampler.

    A trial that ran to its end is COMPLETE with its last value, one that a scheduler stopped is PRUNED, one that failed or whose
    value is no finite number is FAIL.
    """

    def __init__(self, space: Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None = None, metric: str | None = None,
                 mode: str | None = None, points_to_evaluate: Sequence[Mapping[str, Any]] | None = None, sampler: Any = None,
                 seed: int | None = None) -> None:  # fmt: skip
        """space has distributions of Optuna, or is a function of an optuna.Trial; by default it is the experiment's param_space."""
        super().__init__(metric, mode)
        self._space, self._points, self._sampler, self._seed = space, list(points_to_evaluate or ()), sampler, seed
        self._fixed: dict[str, Any] = {}
        self._study: Any = None
        self._trials: dict[str, Any] = {}

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any]) -> bool:
        """Takes the metric, and the space unless it has one."""
        super().set_search_properties(metric, mode, config)
        if self.metric is None:
            raise ValueError("OptunaSearch: neither it nor TuneConfig names a metric")
        if self._space is None:
            self._space, self._fixed = _distributions(config)
        return True

    def _begun(self) -> Any:
        if self._study is None:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)
            sampler = self._sampler or optuna.samplers.TPESampler(seed=self._seed, constant_liar=True)
            self._study = optuna.create_study(direction="maximize" if self.mode == "max" else "minimize", sampler=sampler,
                                              pruner=optuna.pruners.NopPruner())  # fmt: skip
            for point in self._points:
                self._study.enqueue_trial(dict(point))
        return self._study

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Asks the study."""
        study = self._begun()
        if callable(self._space):
            trial = study.ask()
            more = self._space(trial) or {}
            values = {**trial.params, **more}
        else:
            trial = study.ask(dict(self._space or {}))
            values = trial.params
        self._trials[trial_id] = trial
        config: dict[str, Any] = {}
        for path, value in {**self._fixed, **values}.items():
            within = config
            *parents, last = path.split("/")
            for name in parents:
                within = within.setdefault(name, {})
            within[last] = value
        return config

    def adopt(self, trial_id: str, config: dict[str, Any]) -> None:
        """Has the study hold a trial with these parameters, whatever the sampler would suggest now."""
        study = self._begun()
        if len(study.trials) >= len(self._points):  # else the next is one of the points that are tried first
            study.enqueue_trial({path: value for path, value in _flat(config) if path not in self._fixed})
        self.suggest(trial_id)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Reports a value of the trial."""
        value = result.get(self.metric or "")
        if trial_id in self._trials and _finite(value):
            self._trials[trial_id].report(float(value), int(result["training_iteration"]))  # type: ignore[arg-type]

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tells the study how the trial ended."""
        from optuna.trial import TrialState

        trial = self._trials.pop(trial_id, None)
        if trial is None:
            return
        value = (result or {}).get(self.metric or "")
        if error or not _finite(value):
            self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        elif self.stopped:
            self._study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
        else:
            self._study.tell(trial, float(value), skip_if_finished=True)  # type: ignore[arg-type]


def _flat(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}/")
        else:
            yield before + name, value


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _distributions(space: Mapping[str, Any], before: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """The domains of a space as distributions of Optuna, and its constants, by path."""
    import optuna.distributions as d

    found: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    for name, x in space.items():
        path = before + name
        if isinstance(x, Domain):
            a = x.arguments
            match x.name:
                case "uniform":
                    found[path] = d.FloatDistribution(*a)
                case "quniform":
                    found[path] = d.FloatDistribution(a[0], a[1], step=a[2])
                case "loguniform":
                    found[path] = d.FloatDistribution(*a, log=True)
                case "randint":
                    found[path] = d.IntDistribution(a[0], a[1] - 1)
                case "qrandint":
                    found[path] = d.IntDistribution(a[0], a[1], step=a[2])
                case "lograndint":
                    found[path] = d.IntDistribution(a[0], a[1] - 1, log=True)
                case "choice":
                    found[path] = d.CategoricalDistribution(a)
                case other:
                    raise ValueError(f"OptunaSearch: parameter {path}: Optuna has no {other}: use another domain")
        elif isinstance(x, Computed) or isinstance(x, Mapping) and set(x) == {"grid_search"}:
            raise ValueError(f"OptunaSearch: parameter {path}: functions and grids are not for searchers: use tune.choice for a grid")
        elif isinstance(x, Mapping):
            inner, constant = _distributions(x, path + "/")
            found |= inner
            fixed |= constant
        else:
            fixed[path] = x
    return found, fixed
