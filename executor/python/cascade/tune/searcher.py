"""Runs a searcher of an experiment: python -m cascade.tune.searcher EXPERIMENT. The protocol is that of tune.SearcherSpec in Go."""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from typing import Any

from .search import FINISHED, Searcher
from .space import json_of, numbers


def answer(searcher: Searcher, request: dict[str, Any]) -> dict[str, Any]:
    """What a searcher answers."""
    trial = str(request["id"])
    result = None
    if "iteration" in request:
        result = {**numbers(request.get("metrics", {})), "training_iteration": request["iteration"]}
    match request["do"]:
        case "suggest":
            config = searcher.suggest(trial)
            if config is None:
                return {"not_now": True}
            return {"finished": True} if config == FINISHED else {"config": config}
        case "adopt":
            searcher.adopt(trial, numbers(request.get("config", {})))
        case "result":
            searcher.on_trial_result(trial, result or {})
        case "complete":
            searcher.stopped = request["how"] in ("scheduler", "order")
            searcher.on_trial_complete(trial, result, error=request["how"] == "error")
        case other:
            raise ValueError(f"there is no request {other!r}: the runner is of another version")
    return {"ok": True}


def main() -> None:
    """Serves on standard input and output. The searcher's prints go to searcher.log in the experiment's folder."""
    experiment = sys.argv[1]
    with open(os.path.join(experiment, "searcher.pickle"), "rb") as f:
        made = pickle.load(f)
    sys.path[:0] = [p for p in made["path"] if p not in sys.path]
    searcher: Searcher = made["searcher"]
    answers = os.fdopen(os.dup(1), "wb")
    log = os.open(os.path.join(experiment, "searcher.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        try:
            said = answer(searcher, request)
        except Exception:
            said = {"error": traceback.format_exc()}
        sys.stdout.flush()
        answers.write((json_of({"n": request["n"], **said}) + "\n").encode())
        answers.flush()


if __name__ == "__main__":
    main()
