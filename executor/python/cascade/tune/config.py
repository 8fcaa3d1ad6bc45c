"""The rules of an experiment."""

from __future__ import annotations

import datetime
import math
import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .schedulers import TrialScheduler


def _whole(of: str, name: str, value: Any, least: int, or_none: bool = False) -> Any:
    """A whole number from least on, also of numpy; with or_none also None."""
    if value is None and or_none:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{of}: {name} is {value!r}, a {type(value).__name__}: want a whole number{' or None' if or_none else ''}")
    if number < least:
        raise ValueError(f"{of}: {name} is {value!r}: want a number from {least} on")
    return number


def seconds(budget: float | datetime.timedelta) -> float:
    """The budget of an experiment in seconds."""
    if isinstance(budget, datetime.timedelta):
        return budget.total_seconds()
    if isinstance(budget, (bool, str)) or not hasattr(budget, "__float__"):
        raise TypeError(f"TuneConfig: time_budget_s is {budget!r}, a {type(budget).__name__}: want seconds, a timedelta, or None")
    if not 0 <= budget < math.inf:
        raise ValueError(f"TuneConfig: time_budget_s is {budget!r}: want seconds, or None for no bound")
    return float(budget)


def folder(of: str, name: str, path: str | os.PathLike[str]) -> str:
    """A path of a folder of this host."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise TypeError(f"{of}: {name} is {path!r}, a {type(path).__name__}: want the path of a folder")
    text = os.fspath(path)
    if found := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", text):
        raise ValueError(
            f"{of}: {name} is {text!r}: experiments are stored in folders, not by {found[1]}: give a folder, such as one of a file "
            "system that all hosts mount, and copy the experiment when it has ended"
        )
    return os.path.abspath(os.path.expanduser(text))


@dataclass(slots=True)  # a field that is not there is an error
class TuneConfig:
    """How trials are made and compared."""

    metric: str | None = None
    mode: str | None = None  # "min" or "max"
    search_alg: Any = None
    scheduler: TrialScheduler | None = None
    num_samples: int = 1  # -1: until the time or the searcher ends
    max_concurrent_trials: int | None = None
    time_budget_s: float | datetime.timedelta | None = None
    reuse_actors: bool = True  # workers are always kept; the field is there for programs that set it

    def check(self) -> None:
        """Raises what is wrong with a field."""
        self.num_samples = _whole("TuneConfig", "num_samples", self.num_samples, -1)
        if self.num_samples == 0:
            raise ValueError("TuneConfig: num_samples is 0: want a number above 0, or -1 for no bound")
        self.max_concurrent_trials = _whole("TuneConfig", "max_concurrent_trials", self.max_concurrent_trials, 0, or_none=True)
        if self.time_budget_s is not None:
            seconds(self.time_budget_s)
        for name in ("metric", "mode"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise TypeError(f"TuneConfig: {name} is {getattr(self, name)!r}, a {type(getattr(self, name)).__name__}: want a text")

    def __post_init__(self) -> None:
        self.check()


@dataclass(slots=True)  # a field that is not there is an error
class FailureConfig:
    """What happens when a trial fails: it runs again max_failures times, from its newest checkpoint; -1: always."""

    max_failures: int = 0
    fail_fast: bool = False

    def check(self) -> None:
        """Raises what is wrong with a field."""
        self.max_failures = _whole("FailureConfig", "max_failures", self.max_failures, -1)

    def __post_init__(self) -> None:
        self.check()


@dataclass(slots=True)  # a field that is not there is an error
class CheckpointConfig:
    """Which checkpoints of a trial are kept besides the newest, and when one of a class is made."""

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None

    def check(self) -> None:
        """Raises what is wrong with a field."""
        self.num_to_keep = _whole("CheckpointConfig", "num_to_keep", self.num_to_keep, 0, or_none=True)
        self.checkpoint_frequency = _whole("CheckpointConfig", "checkpoint_frequency", self.checkpoint_frequency, 0)

    def __post_init__(self) -> None:
        self.check()


@dataclass(slots=True)  # a field that is not there is an error
class RunConfig:
    """Where an experiment is stored, and when its trials end."""

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    stop: Mapping[str, float] | None = None
    verbose: int = 1  # 0: nothing is printed

    def check(self) -> None:
        """Raises what is wrong with a field."""
        if self.storage_path is not None:
            folder("RunConfig", "storage_path", self.storage_path)
        if not isinstance(self.name, (str, type(None))):
            raise TypeError(f"RunConfig: name is {self.name!r}, a {type(self.name).__name__}: want a text")
        self.checkpoint_config.check()
        self.failure_config.check()

    def __post_init__(self) -> None:
        self.check()


@dataclass(slots=True)  # a field that is not there is an error
class ResumeConfig:
    """Which trials Tuner.restore runs again besides those that had not ended."""

    resume_errored: bool = False
    restart_errored: bool = False
