"""Trainables: functions and classes, and what they call while a trial runs."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_STATE = "state.pickle"  # in a checkpoint that a class returned as a dict


class Checkpoint:
    """A folder with the state of a training."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in a folder. report copies it."""
        return cls(path)

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """The folder, which is not to be changed."""
        yield self.path

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copies the checkpoint into a folder, by default a new one, and returns that."""
        to = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="checkpoint-")
        shutil.copytree(self.path, to, dirs_exist_ok=True)
        return to

    def __repr__(self) -> str:
        return f"Checkpoint(path={self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)


class TuneContext:
    """What a trainable knows of its trial."""

    def __init__(self, experiment: str, name: str, number: int, folder: str, resources: Mapping[str, Any]) -> None:
        self._experiment, self._name, self._number, self._folder, self._resources = experiment, name, number, folder, resources

    def get_experiment_name(self) -> str:
        """The name of the experiment."""
        return self._experiment

    def get_trial_name(self) -> str:
        """The name of the trial in files and tables."""
        return self._name

    def get_trial_id(self) -> str:
        """The number of the trial, as text."""
        return str(self._number)

    def get_trial_dir(self) -> str:
        """The folder of the trial. It is the working folder while the trial runs."""
        return self._folder

    def get_trial_resources(self) -> dict[str, Any]:
        """What with_resources gave the trial."""
        return dict(self._resources)


class Running:
    """The trial that this process runs."""

    def __init__(self, context: TuneContext, checkpoint: Checkpoint | None, send: Callable[[dict[str, Any]], None]) -> None:
        self.context, self.checkpoint, self.send = context, checkpoint, send


running: Running | None = None


def _trial(what: str) -> Running:
    if running is None:
        raise RuntimeError(f"tune.{what} is for trainables: no trial runs in this process")
    return running


def report(metrics: Mapping[str, Any], *, checkpoint: Checkpoint | None = None) -> None:
    """Reports metrics, and perhaps a checkpoint, which is copied. It returns when the training goes on, and raises SystemExit when
    the trial is to end."""
    trial = _trial("report")
    if not isinstance(metrics, Mapping):
        raise TypeError(f"tune.report takes a dict of metrics, not {type(metrics).__name__}")
    message: dict[str, Any] = {"report": metrics}
    if checkpoint is not None:
        message["checkpoint"] = checkpoint.path
    trial.send(message)


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint from which the trial continues, or None."""
    return _trial("get_checkpoint").checkpoint


def get_context() -> TuneContext:
    """What is known of the trial."""
    return _trial("get_context").context


class Trainable:
    """A training as an object. Override setup, step, and, for checkpoints, save_checkpoint and load_checkpoint."""

    def __init__(self, config: dict[str, Any] | None = None, **parameters: Any) -> None:
        self.config = dict(config or {})
        self._iteration = 0
        self.setup(dict(self.config), **parameters)

    def setup(self, config: dict[str, Any]) -> None:
        """Prepares the training."""

    def step(self) -> dict[str, Any]:
        """Trains a little and returns metrics; "done" with True ends the trial."""
        raise NotImplementedError(f"{type(self).__name__} has no step(): it trains a little and returns metrics")

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Writes the state into a folder, or returns it as a dict."""
        raise NotImplementedError(f"{type(self).__name__} has no save_checkpoint()")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Takes what save_checkpoint has returned, or the folder into which it has written."""
        raise NotImplementedError(f"{type(self).__name__} has no load_checkpoint()")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begins another trial with the same object. False: a new object is needed."""
        return False

    def cleanup(self) -> None:
        """Releases what the object holds."""

    @property
    def iteration(self) -> int:
        """How many results the trial has."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """The same."""
        return self._iteration

    @property
    def logdir(self) -> str:
        """The folder of the trial."""
        return get_context().get_trial_dir()

    @property
    def trial_id(self) -> str:
        """The number of the trial, as text."""
        return get_context().get_trial_id()

    @property
    def trial_name(self) -> str:
        """The name of the trial."""
        return get_context().get_trial_name()


def save(object: Trainable, folder: str) -> None:
    """Has an object write a checkpoint into an empty folder."""
    state = object.save_checkpoint(folder)
    if isinstance(state, Mapping):
        import cloudpickle

        with open(os.path.join(folder, _STATE), "wb") as f:
            f.write(cloudpickle.dumps(dict(state)))
    elif state is not None and os.path.realpath(os.fspath(state)) != os.path.realpath(folder):
        raise ValueError(f"save_checkpoint returned {state!r}: return nothing, the folder that it was given, or a dict")


def load(object: Trainable, folder: str) -> None:
    """Has an object continue from a checkpoint."""
    path = os.path.join(folder, _STATE)
    if os.path.exists(path):
        with open(path, "rb") as f:
            object.load_checkpoint(pickle.load(f))
    else:
        object.load_checkpoint(folder)


class Wrapped:
    """A trainable with parameters and resources."""

    def __init__(self, trainable: Any, parameters: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        self.trainable, self.parameters, self.resources = trainable, dict(parameters), dict(resources)


def unwrapped(trainable: Any) -> Wrapped:
    """A trainable with what with_parameters and with_resources gave it."""
    return trainable if isinstance(trainable, Wrapped) else Wrapped(trainable, {}, {})


def with_parameters(trainable: Any, **parameters: Any) -> Any:
    """A trainable that gets more arguments: large data, or what is no parameter of the search. They are sent to a worker once."""
    of = unwrapped(trainable)
    return Wrapped(of.trainable, {**of.parameters, **parameters}, of.resources)


def with_resources(trainable: Any, resources: Mapping[str, float]) -> Any:
    """A trainable whose trials take {"cpu": n} cores each."""
    if not isinstance(resources, Mapping) or set(resources) - {"cpu"}:
        raise ValueError(f"with_resources: {resources!r}: only {{'cpu': n}} is supported; one bundle, no GPUs yet")
    cpu = resources.get("cpu", 1)
    if isinstance(cpu, (bool, str)) or not hasattr(cpu, "__float__"):
        raise TypeError(f"with_resources: cpu is {cpu!r}, a {type(cpu).__name__}: want a number above 0")
    if not 0 < cpu < math.inf:
        raise ValueError(f"with_resources: cpu is {cpu!r}: want a number above 0")
    of = unwrapped(trainable)
    return Wrapped(of.trainable, of.parameters, dict(resources))
