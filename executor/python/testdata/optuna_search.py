"""A search with Optuna that is interrupted and goes on. Arguments: the folder of cascade, a folder."""

import os
import sys

os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]

from cascade import tune  # noqa: E402
from cascade.tune.optuna import OptunaSearch  # noqa: E402
from cascade.tune.search import ConcurrencyLimiter  # noqa: E402

FOLDER = sys.argv[2]


def bowl(config, broken):
    if tune.get_context().get_trial_id() == "5" and os.path.exists(broken):
        raise ValueError("it is broken")
    tune.report({"loss": (config["x"] - 0.3) ** 2 + (config["m"]["y"] - 2) ** 2 + config["c"]})


def main():
    broken = os.path.join(FOLDER, "broken")
    open(broken, "w").close()
    searcher = ConcurrencyLimiter(OptunaSearch(seed=1, points_to_evaluate=[{"x": 0.5, "m/y": 4}]), 1)
    grid = tune.Tuner(
        tune.with_parameters(bowl, broken=broken),
        param_space={"x": tune.uniform(0, 1), "m": {"y": tune.randint(0, 5)}, "c": 0},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=25, search_alg=searcher),
        run_config=tune.RunConfig(name="o", storage_path=FOLDER, verbose=0),
    ).fit()
    print(len(grid), grid.num_errors, grid[0].config, grid.get_best_result().metrics["loss"] < 0.05)
    os.remove(broken)
    again = tune.Tuner.restore(os.path.join(FOLDER, "o"), resume_errored=True, verbose=0).fit()
    print(len(again), again.num_errors, [a.config for a in again] == [b.config for b in grid])


if __name__ == "__main__":
    main()
