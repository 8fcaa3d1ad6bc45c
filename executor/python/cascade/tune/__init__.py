"""Searches for good parameters: what Ray Tune has, under its names, run by Cascade's runner.

    Tuner.fit ──search.yaml, trainable.pickle──▶ cascade tune run ──trials──▶ python -m cascade.tune.worker, one for each slot
                                                       │
    ResultGrid ◀──────────── the experiment's folder ◀─┘

The runner decides and keeps the journal; this package describes the experiment, runs the trials, and reads the results.
"""

from .config import CheckpointConfig, FailureConfig, ResumeConfig, RunConfig, TuneConfig
from .results import Result, ResultGrid
from .space import (
    choice,
    grid_search,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from .trainable import Checkpoint, Trainable, TuneContext, get_checkpoint, get_context, report, with_parameters, with_resources
from .tuner import TuneError, Tuner, register_env, register_trainable, run

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "ResultGrid",
    "ResumeConfig",
    "RunConfig",
    "Trainable",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "choice",
    "get_checkpoint",
    "get_context",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_env",
    "register_trainable",
    "report",
    "run",
    "sample_from",
    "uniform",
    "with_parameters",
    "with_resources",
]
