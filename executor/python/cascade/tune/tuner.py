"""Tuner: describes an experiment for the runner, has it run, and reads its results."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from .. import programs
from .config import ResumeConfig, RunConfig, TuneConfig, folder, seconds
from .hooks import misnamed
from .results import ResultGrid
from .schedulers import TrialScheduler
from .search import Builtin, Searcher, unlimited
from .space import numbers, restored, written
from .trainable import Trainable, Wrapped, unwrapped

_TRAINABLE = "trainable.pickle"
_registered: dict[str, Any] = {}


class TuneError(RuntimeError):
    """An experiment cannot run, or trials have failed."""


def register_trainable(name: str, trainable: Any) -> None:
    """Gives a trainable a name, by which Tuner and run know it."""
    _registered[name] = trainable


def register_env(name: str, creator: Callable[[Any], Any]) -> None:
    """Registers an environment for reinforcement learning with gymnasium, by whose make() a trainable gets it."""
    import gymnasium

    gymnasium.register(id=name, entry_point=creator)


class Tuner:
    """An experiment: trials of a trainable, with configurations of a space."""

    def __init__(self, trainable: Any, *, param_space: Mapping[str, Any] | None = None, tune_config: TuneConfig | None = None,
                 run_config: RunConfig | None = None) -> None:  # fmt: skip
        if isinstance(trainable, str):
            if trainable not in _registered:
                raise TuneError(f"no trainable has the name {trainable!r}: register it with tune.register_trainable")
            trainable = _registered[trainable]
        self._of = unwrapped(trainable)
        if inspect.isclass(self._of.trainable) and not issubclass(self._of.trainable, Trainable):
            raise TypeError(f"{self._of.trainable.__name__} is a class: derive it from tune.Trainable")
        if inspect.isclass(self._of.trainable) and (wrong := misnamed(self._of.trainable, Trainable)):
            raise TypeError(wrong)
        if not callable(self._of.trainable):
            raise TypeError(f"a trainable is a function or a class, not {type(self._of.trainable).__name__}")
        self._space = dict(param_space or {})
        self._tune, self._run = tune_config or TuneConfig(), run_config or RunConfig()
        self._resume: tuple[str, ResumeConfig] | None = None

    def fit(self) -> ResultGrid:
        """Runs the experiment to its end, and returns its results. Failed trials are no error: see ResultGrid.errors."""
        if self._resume is not None:
            where, again = self._resume
            if self._of.trainable is not None:
                self._keep(where, _read(where)["kept"])
            arguments = ["resume", where]
            arguments += ["--errored"] if again.resume_errored else ["--restart-errored"] if again.restart_errored else []
            self._command(arguments)
            return results(where, warn=self._run.verbose == 0)
        self._tune.check()  # its fields may have been set since
        self._run.check()
        name = self._run.name or f"{getattr(self._of.trainable, '__name__', 'experiment')}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        storage = folder("RunConfig", "storage_path", self._run.storage_path or "experiments")
        where = os.path.join(storage, name)
        if os.path.exists(os.path.join(where, "experiment.json")):
            raise TuneError(f"{where} has an experiment: Tuner.restore goes on with it, or choose another name")
        kept: list[Any] = []
        file = self._file(name, kept)
        os.makedirs(where, exist_ok=True)
        self._keep(where, kept)
        self._keep_searcher(where, file)
        path = os.path.join(where, "search.json")
        with open(path, "w") as f:
            json.dump(file, f, indent=1)
        self._command(["run", path, "--storage", storage, "--name", name])
        return results(where, warn=self._run.verbose == 0)

    @classmethod
    def restore(cls, path: str | os.PathLike[str], trainable: Any = None, *, resume_errored: bool = False, restart_errored: bool = False,
                verbose: int = 1) -> Tuner:  # fmt: skip
        """An experiment that was interrupted: fit goes on with it. Its folder may have been moved."""
        where = folder("Tuner.restore", "path", path)
        if not cls.can_restore(where):
            raise TuneError(f"{where} has no experiment")
        made = cls(trainable if trainable is not None else _nothing)
        if trainable is None:
            made._of = Wrapped(None, {}, {})
        made._run.verbose = verbose
        made._resume = where, ResumeConfig(resume_errored, restart_errored)
        return made

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str]) -> bool:
        """Whether a folder has an experiment."""
        return os.path.exists(os.path.join(os.path.expanduser(path), "experiment.json"))

    def get_results(self) -> ResultGrid:
        """The results so far of an experiment that was restored."""
        if self._resume is None:
            raise TuneError("get_results is for an experiment that was restored: fit returns those of this one")
        return results(self._resume[0])

    def _keep(self, folder: str, kept: list[Any]) -> None:
        """Writes what the workers need into the folder of the experiment."""
        import cloudpickle

        of = self._of
        made = {"name": os.path.basename(folder), "trainable": of.trainable, "parameters": of.parameters, "resources": of.resources, "kept": kept,
                "path": [os.path.abspath(p) for p in sys.path]}  # fmt: skip
        try:
            data = cloudpickle.dumps(made, protocol=5)
        except Exception as e:
            raise TuneError(f"the trainable cannot be sent to its workers: {type(e).__name__}: {e}") from e
        with open(os.path.join(folder, _TRAINABLE + ".new"), "wb") as f:
            f.write(data)
        os.replace(f.name, os.path.join(folder, _TRAINABLE))

    def _file(self, name: str, kept: list[Any]) -> dict[str, Any]:
        """The file of the experiment."""
        c, r = self._tune, self._run
        scheduler = c.scheduler
        metric = c.metric or (scheduler.metric if scheduler is not None else None)
        mode = c.mode or (scheduler.mode if scheduler is not None else None)
        if mode not in (None, "min", "max"):
            raise ValueError(f"TuneConfig: mode is {mode!r}: use 'min' or 'max'")
        if metric is not None and mode is None:
            raise ValueError(f"TuneConfig: the metric {metric!r} has no mode: use 'min' or 'max'")
        search, limit = unlimited(c.search_alg)
        checkpoints, failures = r.checkpoint_config, r.failure_config
        is_class = inspect.isclass(self._of.trainable)
        if not is_class and (checkpoints.checkpoint_frequency or checkpoints.checkpoint_at_end):
            raise ValueError("CheckpointConfig: checkpoint_frequency and checkpoint_at_end are for classes: a function reports its checkpoints")
        cores, each = os.cpu_count() or 1, self._of.resources.get("cpu", 1)
        if each > cores:
            raise TuneError(
                f"with_resources: each trial takes {each:g} cpus, and this host, which runs them, has {cores}: ask for at most {cores}"
            )
        file: dict[str, Any] = {
            "name": name,
            "serve": [sys.executable, "-m", "cascade.tune.worker", "{experiment}"],
            "class": is_class,
            "space": written(self._space, kept),
            "metric": metric or "",
            "mode": mode or "min",
            "samples": c.num_samples,
            "slots": max(1, int(cores / each)),
            "max_concurrent": min((n for n in (c.max_concurrent_trials, limit) if n), default=0),
            "max_failures": failures.max_failures,
            "fail_fast": bool(failures.fail_fast),
            "checkpoints": {"keep": checkpoints.num_to_keep or 0, "every": checkpoints.checkpoint_frequency,
                            "at_end": is_class and checkpoints.checkpoint_at_end is not False},
        }  # fmt: skip
        if checkpoints.checkpoint_score_attribute:
            file["checkpoints"] |= {"by": checkpoints.checkpoint_score_attribute, "mode": checkpoints.checkpoint_score_order}
        if isinstance(scheduler, TrialScheduler):
            file["scheduler"] = scheduler.rules
        elif scheduler is not None:
            raise TypeError(f"TuneConfig: scheduler is a {type(scheduler).__name__}: use one of cascade.tune.schedulers")
        if r.stop:
            if not isinstance(r.stop, Mapping):
                raise TypeError("RunConfig: stop is a dict of metrics with the values that end a trial: functions and stoppers are not supported")
            file["stop"] = {k: float(v) for k, v in r.stop.items()}
        if c.time_budget_s:
            file["budget"] = f"{seconds(c.time_budget_s)}s"
        if isinstance(search, Builtin):
            search.describe(file)
        elif search is not None:
            file["space"], file["searcher"] = {}, [sys.executable, "-m", "cascade.tune.searcher", "{experiment}"]
        return file

    def _keep_searcher(self, folder: str, file: dict[str, Any]) -> None:
        """Writes a searcher that is a process into the folder of the experiment."""
        search, _ = unlimited(self._tune.search_alg)
        if "searcher" not in file or search is None:
            return
        if not search.set_search_properties(file["metric"] or None, file["mode"], self._space):
            raise TuneError(f"{type(search).__name__} cannot use this metric and space")
        if search.metric and search.metric != file["metric"]:
            file["searcher_metric"] = search.metric
        import cloudpickle

        with open(os.path.join(folder, "searcher.pickle"), "wb") as f:
            f.write(cloudpickle.dumps({"searcher": search, "path": [os.path.abspath(p) for p in sys.path]}, protocol=5))

    def _command(self, arguments: list[str]) -> None:
        """Runs cascade tune. Ctrl-C reaches it, too: it ends the trials in order."""
        cascade = programs.find("cascade")[0]
        quiet = self._run.verbose == 0
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (_package(), os.environ.get("PYTHONPATH", ""))))}
        child = subprocess.Popen([cascade, "tune", *arguments, *(["--quiet"] if quiet else [])], env=env, stdout=subprocess.PIPE if quiet else None,
                                 stderr=subprocess.PIPE if quiet else None, text=True, preexec_fn=_ends_with_program)  # fmt: skip
        try:
            _, said = child.communicate()
        except BaseException:  # Ctrl-C, or what a handler of the program's raised: trials end in order
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
        if child.returncode == 4:
            raise KeyboardInterrupt
        if child.returncode not in (0, 1):  # 1: trials have failed
            raise TuneError(f"cascade tune {arguments[0]} ended with exit code {child.returncode}{': ' + said.strip() if said else ''}")


def _ends_with_program() -> None:
    """Has the runner be interrupted when the program dies (PR_SET_PDEATHSIG), however that ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGINT)


def _package() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _nothing(config: Any) -> None:
    """Stands for the trainable of an experiment that is restored with its own."""


def _read(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, _TRAINABLE), "rb") as f:
        made: dict[str, Any] = pickle.load(f)
    return made


def results(where: str, warn: bool = True) -> ResultGrid:
    """The results of an experiment, also while it runs. With warn what the command notes is a warning."""
    cascade = programs.find("cascade")[0]
    told = subprocess.run([cascade, "tune", "trials", where, "--json"], capture_output=True, text=True)
    if told.returncode != 0:
        raise TuneError(told.stderr.strip())
    if warn:
        for note in told.stderr.splitlines():
            warnings.warn(f"{where}: {json.loads(note)['note']}", stacklevel=3)
    with open(os.path.join(where, "experiment.json")) as f:
        options = json.load(f)["options"]
    metric = options.get("metric") or None
    kept = _read(where)["kept"]

    def histories() -> None:
        done = subprocess.run([cascade, "tune", "export", where, "--format", "json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise TuneError(done.stderr.strip())

    outcomes = [json.loads(line) for line in told.stdout.splitlines()]
    return ResultGrid(where, outcomes, lambda o: restored(numbers(o["config"]), kept, o["id"]), histories, metric,
                      None if metric is None else "max" if options.get("max") else "min")  # fmt: skip


def run(trainable: Any, *, config: Mapping[str, Any] | None = None, metric: str | None = None, mode: str | None = None, num_samples: int = 1,
        name: str | None = None, storage_path: str | None = None, stop: Mapping[str, float] | None = None, scheduler: TrialScheduler | None = None,
        search_alg: Searcher | None = None, resources_per_trial: Mapping[str, float] | None = None, time_budget_s: float | None = None,
        max_concurrent_trials: int | None = None, max_failures: int = 0, verbose: int = 1, raise_on_failed_trial: bool = True) -> ResultGrid:  # fmt: skip
    """Runs an experiment, as Tuner(...).fit() does. A trial that failed is an error, unless raise_on_failed_trial is False."""
    from .config import FailureConfig
    from .trainable import with_resources

    if resources_per_trial:
        trainable = with_resources(trainable, resources_per_trial)
    tuner = Tuner(
        trainable,
        param_space=config,
        tune_config=TuneConfig(metric, mode, search_alg, scheduler, num_samples, max_concurrent_trials, time_budget_s),
        run_config=RunConfig(name, storage_path, FailureConfig(max_failures), stop=stop, verbose=verbose),
    )
    made = tuner.fit()
    if raise_on_failed_trial and made.num_errors:
        raise TuneError(f"{made.num_errors} of {len(made)} trials failed, such as:\n{made.errors[0]}")
    return made
