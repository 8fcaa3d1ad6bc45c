"""Schedulers, as the file of an experiment has them. The runner has what they do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from .space import written


class TrialScheduler:
    """What decides whether a trial goes on. metric and mode are those of the experiment, unless they are given here."""

    def __init__(self, rules: Mapping[str, Any], metric: str | None = None, mode: str | None = None) -> None:
        self.rules = {k: v for k, v in rules.items() if v is not None}
        self.metric, self.mode = metric, mode


class FIFOScheduler(TrialScheduler):
    """Each trial runs to its end."""

    def __init__(self) -> None:
        super().__init__({"type": "fifo"})


class AsyncHyperBandScheduler(TrialScheduler):
    """ASHA: at each rung the best 1/reduction_factor of the trials goes on."""

    def __init__(self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None, max_t: float = 100,
                 grace_period: float = 1, reduction_factor: float = 4, brackets: int = 1, stop_last_trials: bool = True) -> None:  # fmt: skip
        if not stop_last_trials:
            raise ValueError("stop_last_trials=False is not supported: a trial ends at max_t")
        super().__init__({"type": "asha", "time_attr": time_attr, "max_t": max_t, "grace_period": grace_period,
                          "reduction_factor": reduction_factor, "brackets": brackets}, metric, mode)  # fmt: skip


ASHAScheduler = AsyncHyperBandScheduler


class HyperBandScheduler(TrialScheduler):
    """HyperBand: trials of a bracket pause at a milestone until all are there, and the best go on."""

    def __init__(self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None, max_t: float = 81,
                 reduction_factor: float = 3, stop_last_trials: bool = True) -> None:  # fmt: skip
        if not stop_last_trials:
            raise ValueError("stop_last_trials=False is not supported: a trial ends at max_t")
        super().__init__({"type": "hyperband", "time_attr": time_attr, "max_t": max_t, "reduction_factor": reduction_factor}, metric, mode)


class MedianStoppingRule(TrialScheduler):
    """A trial ends when its best is worse than the median of the others' means."""

    def __init__(self, time_attr: str = "time_total_s", metric: str | None = None, mode: str | None = None, grace_period: float = 60.0,
                 min_samples_required: int = 3) -> None:  # fmt: skip
        super().__init__({"type": "median", "time_attr": time_attr, "grace_period": grace_period, "min_samples_required": min_samples_required},
                         metric, mode)  # fmt: skip


class PopulationBasedTraining(TrialScheduler):
    """The worst trials go on from checkpoints of the best, with changed parameters."""

    def __init__(self, time_attr: str = "time_total_s", metric: str | None = None, mode: str | None = None, perturbation_interval: float = 60.0,
                 burn_in_period: float = 0.0, hyperparam_mutations: Mapping[str, Any] | None = None, quantile_fraction: float = 0.25,
                 resample_probability: float = 0.25, perturbation_factors: tuple[float, float] = (1.2, 0.8),
                 custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:  # fmt: skip
        if custom_explore_fn is not None:
            raise ValueError("custom_explore_fn is not supported: the runner changes parameters by hyperparam_mutations")
        if not hyperparam_mutations:
            raise ValueError("hyperparam_mutations is empty: name the parameters that change, with lists or domains")
        kept: list[Any] = []
        mutations = {k: {"choice": list(v)} if isinstance(v, (list, tuple)) else v for k, v in hyperparam_mutations.items()}
        space = written(mutations, kept)
        if kept:
            raise ValueError("hyperparam_mutations: functions and objects are not supported: use lists or domains such as tune.uniform(0, 1)")
        super().__init__({"type": "pbt", "time_attr": time_attr, "perturbation_interval": perturbation_interval, "burn_in_period": burn_in_period,
                          "quantile_fraction": quantile_fraction, "resample_probability": resample_probability,
                          "perturbation_factors": list(perturbation_factors), "hyperparam_mutations": space}, metric, mode)  # fmt: skip


_NAMES = {"fifo": FIFOScheduler, "asynchyperband": AsyncHyperBandScheduler, "async_hyperband": AsyncHyperBandScheduler, "asha": AsyncHyperBandScheduler,
          "hyperband": HyperBandScheduler, "medianstopping": MedianStoppingRule, "median_stopping_rule": MedianStoppingRule,
          "pbt": PopulationBasedTraining}  # fmt: skip


def create_scheduler(scheduler: str, **rules: Any) -> TrialScheduler:
    """A scheduler by its name."""
    made = _NAMES.get(scheduler.lower())
    if made is None:
        near = difflib.get_close_matches(scheduler.lower(), _NAMES, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"there is no scheduler {scheduler!r}{hint}: there are {', '.join(sorted(_NAMES))}")
    return made(**rules)  # type: ignore[no-any-return]
