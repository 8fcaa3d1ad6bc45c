"""The rules of an experiment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .schedulers import TrialScheduler


@dataclass
class TuneConfig:
    """How trials are made and compared."""

    metric: str | None = None
    mode: str | None = None  # "min" or "max"
    search_alg: Any = None
    scheduler: TrialScheduler | None = None
    num_samples: int = 1  # -1: until the time or the searcher ends
    max_concurrent_trials: int | None = None
    time_budget_s: float | None = None
    reuse_actors: bool = True  # workers are always kept; the field is there for programs that set it


@dataclass
class FailureConfig:
    """What happens when a trial fails: it runs again max_failures times, from its newest checkpoint; -1: always."""

    max_failures: int = 0
    fail_fast: bool = False


@dataclass
class CheckpointConfig:
    """Which checkpoints of a trial are kept besides the newest, and when one of a class is made."""

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None


@dataclass
class RunConfig:
    """Where an experiment is stored, and when its trials end."""

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    stop: Mapping[str, float] | None = None
    verbose: int = 1  # 0: nothing is printed


@dataclass
class ResumeConfig:
    """Which trials Tuner.restore runs again besides those that had not ended."""

    resume_errored: bool = False
    restart_errored: bool = False
