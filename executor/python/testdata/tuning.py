"""Searches with cascade.tune: functions, classes, how trials end, kills, resumes. Arguments: the folder of cascade, a folder."""

import ast
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]

from cascade import tune  # noqa: E402
from cascade.tune.schedulers import ASHAScheduler, PopulationBasedTraining, create_scheduler  # noqa: E402
from cascade.tune.search import FINISHED, BasicVariantGenerator, ConcurrencyLimiter, Searcher  # noqa: E402

FOLDER = sys.argv[2]


class Data:
    """What JSON cannot express."""

    offset = 1


def restartable(config, steps, marks):
    """Continues from its checkpoint, and leaves a mark for each step that it trains."""
    start = 0
    if tune.get_checkpoint():
        with tune.get_checkpoint().as_directory() as d, open(os.path.join(d, "state.json")) as f:
            start = json.load(f)["step"]
    for step in range(start + 1, steps + 1):
        with open(os.path.join(marks, f"{tune.get_context().get_trial_name()}-{step}"), "a") as f:
            f.write("x")
        if config["wait"] and step == 3:
            while not os.path.exists(os.path.join(marks, "go")):
                time.sleep(0.005)
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "state.json"), "w") as f:
                json.dump({"step": step}, f)
            tune.report({"loss": config["x"] / step}, checkpoint=tune.Checkpoint.from_directory(d))


def parameters(config):
    print("printed by", tune.get_context().get_trial_name())
    assert os.getcwd() == tune.get_context().get_trial_dir()
    tune.report({"sum": config["x"] + config["double"] + config["data"].offset, "nested": {"n": config["m"]["k"]}, "nan": float("nan")})


def kinds(config):
    tune.report({"config": str(_kinds(config)), "float": 1.0, "whole": 1, "deep": {"float": 2.0}, "none": None})


def _kinds(x):
    """The types of what is in a configuration or in metrics."""
    if isinstance(x, dict):
        return {k: _kinds(v) for k, v in x.items()}
    return [_kinds(v) for v in x] if isinstance(x, list) else type(x).__name__


def yields(config):
    for n in range(3):
        yield {"n": n * config["x"]}


def raises(config):
    tune.report({"n": 1})
    raise ValueError("no data")


def forks(config):
    child = os.fork()
    if child == 0:
        try:
            tune.report({"n": -1})
        except RuntimeError:
            os._exit(3)
        return
    tune.report({"n": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])})
    if os.fork() == 0:
        return  # and does not serve the next trial
    try:
        input()
    except EOFError:
        tune.report({"n": 4})


def leaves(config):
    os._exit(7)


def forever(config):
    n = 0
    while True:
        n += 1
        tune.report({"n": n})


class Steps(tune.Trainable):
    def setup(self, config):
        self.x, self.n = config["x"], 0

    def step(self):
        self.n += 1
        return {"n": self.n * self.x, "done": self.n >= 5}

    def save_checkpoint(self, checkpoint_dir):
        return {"n": self.n}

    def load_checkpoint(self, checkpoint):
        self.n = checkpoint["n"]


class One(Searcher):
    def suggest(self, trial_id):
        return {"x": 1} if trial_id == "0" else FINISHED


class Unsaved(Steps):
    def save_checkpoint(self, checkpoint_dir):
        raise OSError("no room")


class Countdown(Searcher):
    """Suggests three configurations, and prints what it is told."""

    def __init__(self):
        super().__init__()
        self.left = 3

    def suggest(self, trial_id):
        if self.left == 0:
            return FINISHED
        self.left -= 1
        return {"x": self.left}

    def on_trial_complete(self, trial_id, result=None, error=False):
        print("complete", trial_id, (result or {}).get("n"), error)


def search(name, trainable, space, metric=None, mode="max", samples=1, run=None, **config):
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(metric=metric, mode=mode, num_samples=samples, **config),
        run_config=tune.RunConfig(name=name, storage_path=FOLDER, verbose=0, **(run or {})),
    ).fit()


def told(what, do):
    try:
        do()
    except Exception as e:
        print(what, f"{type(e).__name__}:", str(e).replace(FOLDER, "FOLDER"))


def main():
    space = {"x": tune.grid_search([1, 2]), "double": tune.sample_from(lambda c: 2 * c["x"]), "data": Data(), "m": {"k": tune.choice(["a"])}}
    grid = search("parameters", parameters, space, "sum")
    print(len(grid), [r.metrics["sum"] for r in grid], grid[0].metrics["nested/n"], grid[0].metrics["nan"], grid[1].config["double"], type(grid[0].config["data"]).__name__)
    with open(os.path.join(grid[0].path, "output.log")) as f:
        print(f.read().strip())
    whole()
    print("yields", [r.metrics["n"] for r in search("yields", yields, {"x": tune.grid_search([1, 2])}, "n")])
    grid = search("raises", raises, {}, "n", run={"failure_config": tune.FailureConfig(max_failures=1)})
    print("raises", grid.num_errors, grid[0].status, grid[0].metrics["n"], str(grid.errors[0]).strip().splitlines()[-1])
    print("forks", [r.metrics["n"] for r in search("forks", forks, {"x": tune.grid_search([1, 2, 3])}, "n")])
    print("leaves", str(search("leaves", leaves, {}).errors[0]).partition(": ")[2].strip())
    print("stop", [r.metrics["n"] for r in search("forever", forever, {"x": tune.grid_search([1, 2])}, "n", run={"stop": {"n": 4}})])
    grid = search("classes", Steps, {"x": tune.grid_search([1, 2, 3])}, "n", run={"checkpoint_config": tune.CheckpointConfig(num_to_keep=2, checkpoint_frequency=2)})
    best = grid.get_best_result()
    print("classes", [r.metrics["n"] for r in grid], best.config, [len(r.best_checkpoints) for r in grid], grid.get_best_result(mode="min", scope="all").config)
    pbt = PopulationBasedTraining(time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": tune.uniform(0, 1)})
    print("pbt", search("pbt", Steps, {"x": tune.uniform(0, 1)}, "n", samples=4, scheduler=pbt).num_terminated)
    grid = search("searcher", yields, {}, "n", samples=-1, search_alg=ConcurrencyLimiter(Countdown(), 1))
    with open(os.path.join(FOLDER, "searcher", "searcher.log")) as f:
        print("searcher", [r.config for r in grid], f.read().split("\n"))
    alike = [search(f"seed{i}", yields, {"x": tune.uniform(0, 1)}, samples=2, search_alg=BasicVariantGenerator(random_state=5))[1].config for i in range(2)]
    print("seed", alike[0] == alike[1], alike[0])

    told("again", lambda: search("yields", yields, {"x": 1}))
    told("no metric", lambda: tune.Tuner(yields, tune_config=tune.TuneConfig(metric="n")).fit())
    told("space", lambda: search("space", yields, {"x": tune.loguniform(0, 1)}))
    told("report", lambda: tune.report({"n": 1}))
    told("function", lambda: search("freq", yields, {}, run={"checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=2)}))
    refusals()
    told("gpu", lambda: tune.with_resources(yields, {"gpu": 1}))
    told("scheduler", lambda: search("sched", yields, {}, scheduler=ASHAScheduler(max_t=0.5), metric="n"))
    killed()


def whole():
    """Whole floats are floats wherever they were, and whole numbers stay such, also of numpy, in points, and when they are resumed."""
    space = {"fixed": 1.0, "int": 1, "large": 2**70, "choice": tune.choice([2.0]), "grid": tune.grid_search([3.0, np.float64(4)]), "step": tune.quniform(7, 8, 1.0),
             "list": [5.0, 5], "in": {"x": tune.choice([{"y": 6.0}])}, "points": tune.uniform(0, 1), "n": tune.randint(0, 9), "np": np.int64(3)}  # fmt: skip
    first = BasicVariantGenerator(points_to_evaluate=[{"points": 1.0, "n": 1}])
    grid = search("kinds", kinds, space, "float", search_alg=first)
    for r in (grid.get_best_result(), tune.Tuner.restore(grid.experiment_path).get_results()[1]):
        print("kinds", r.config["points"], r.config["n"], r.metrics["config"])
        print("kinds", _kinds(r.config) == ast.literal_eval(r.metrics["config"]), [type(r.metrics[k]).__name__ for k in ("float", "whole", "deep/float", "none")])


def refusals():
    """Each wrong argument is refused where it is given, with its name."""
    for what, do in {
        "cpus": lambda: search("cpus", tune.with_resources(yields, {"cpu": 4096}), {}),
        "cpu": lambda: tune.with_resources(yields, {"cpu": "2"}),
        "s3": lambda: tune.RunConfig(storage_path="s3://bucket/search"),
        "restore s3": lambda: tune.Tuner.restore("s3://bucket/search"),
        "samples": lambda: tune.TuneConfig(num_samples="3"),
        "no samples": lambda: tune.TuneConfig(num_samples=0),
        "samples of run": lambda: tune.run(yields, num_samples=2.5),
        "concurrent": lambda: tune.TuneConfig(max_concurrent_trials="2"),
        "budget": lambda: tune.TuneConfig(time_budget_s="1h"),
        "failures": lambda: tune.FailureConfig(max_failures=None),
        "keep": lambda: tune.CheckpointConfig(num_to_keep="all"),
        "scheduler": lambda: create_scheduler("mediann"),
        "nan": lambda: search("nan", odd, {"x": tune.grid_search([math.nan, math.inf])}, "n").get_best_result(),
        "none": lambda: search("none", odd, {"x": tune.grid_search([None])}, "n").get_best_result(),
        "missing": lambda: search("missing", odd, {"x": 1}).get_best_result("m", "max"),
        "domain": lambda: search("domain", odd, {"m": {"x": {"grid_serch": [1, 2]}}}, "n"),
        "field": lambda: setattr(tune.TuneConfig(), "num_sample", 3),
        "hook": lambda: search("hook", type("Saves", (Steps,), {"step": Steps.step, "reset_confg": lambda self, c: True}), {"x": 1}),
        "searcher": lambda: search("searches", odd, {}, "n", search_alg=type("Asks", (Searcher,), {"sugest": lambda self, t: None})()),
    }.items():  # fmt: skip
        told(what, do)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search("loss", odd, {"x": 1}, "n", run={"stop": {"los": 0.1}})
        search("searched", odd, {}, "n", search_alg=One("los"))
        search("unsaved", Unsaved, {"x": 1}, "n", run={"checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=2)})
    print("warned", [str(w.message).replace(FOLDER, "FOLDER") for w in said])
    print("NaN", tune.Tuner.restore(os.path.join(FOLDER, "nan")).get_results().get_best_result(mode="min", filter_nan_and_inf=False).metrics["n"])


def odd(config):
    tune.report({"n": config["x"]})


def killed():
    """The program and its runner are killed in the middle, the folder is moved, and nothing is trained twice."""
    marks = os.path.join(FOLDER, "marks")
    os.makedirs(marks)
    if os.fork() == 0:
        os.setsid()
        tuner = tune.Tuner(
            tune.with_parameters(restartable, steps=5, marks=marks),
            param_space={"x": tune.grid_search([1, 2]), "wait": True},
            tune_config=tune.TuneConfig(metric="loss", mode="min"),
            run_config=tune.RunConfig(name="killed", storage_path=FOLDER, verbose=0),
        )
        tuner.fit()
        os._exit(0)
    journal = os.path.join(FOLDER, "killed", "journal.jsonl")
    until = time.monotonic() + 60
    while not os.path.exists(journal) or open(journal).read().count('"i":2') < 2:  # noqa: SIM115
        if time.monotonic() > until:
            raise TimeoutError(os.listdir(FOLDER))
        time.sleep(0.005)
    runner = next(int(p) for p in os.listdir("/proc") if p.isdigit() and f"{FOLDER}/killed/search.json" in _command(p))
    group = os.getpgid(runner)
    os.killpg(group, signal.SIGKILL)
    os.wait()
    while any(f"{FOLDER}/killed" in _command(p) for p in os.listdir("/proc") if p.isdigit()):
        time.sleep(0.005)
    moved = os.path.join(FOLDER, "moved")
    os.rename(os.path.join(FOLDER, "killed"), moved)
    open(os.path.join(marks, "go"), "w").close()
    told("nothing there", lambda: tune.Tuner.restore(os.path.join(FOLDER, "killed")))
    grid = tune.Tuner.restore(moved, verbose=0).fit()
    print("killed", [r.metrics["loss"] for r in grid], [r.metrics["training_iteration"] for r in grid])
    twice = sorted(m for m in os.listdir(marks) if os.path.getsize(os.path.join(marks, m)) > 1)
    print("trained twice", twice)
    print(subprocess.run(["cascade", "tune", "replay", moved], capture_output=True, text=True).stdout.partition(", ")[2].strip())


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
