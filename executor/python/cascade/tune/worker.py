"""Runs trials, one after another: python -m cascade.tune.worker EXPERIMENT. The runner speaks with it by lines of JSON.

The protocol is that of tune.ServeSpec in Go. Standard output belongs to it: what a trial prints goes to its output.log.
"""

from __future__ import annotations

import inspect
import json
import os
import pickle
import sys
import traceback
from collections.abc import Mapping
from typing import Any, BinaryIO

from . import trainable as api
from .space import json_of, numbers, restored
from .trainable import Checkpoint, Trainable, TuneContext


class Stopped(SystemExit):
    """The trial is to end."""


class Worker:
    """A process that runs trials of one experiment."""

    def __init__(self, experiment: str, requests: BinaryIO, answers: BinaryIO) -> None:
        with open(os.path.join(experiment, "trainable.pickle"), "rb") as f:
            made = pickle.load(f)
        self._name: str = made["name"]
        self._trainable: Any = made["trainable"]
        self._parameters: dict[str, Any] = made["parameters"]
        self._resources: dict[str, float] = made["resources"]
        self._kept: list[Any] = made["kept"]
        sys.path[:0] = [p for p in made["path"] if p not in sys.path]
        self._requests, self._answers = requests, answers
        self._object: Trainable | None = None
        self._process = os.getpid()
        self._request = 0  # its number, which the answer repeats

    def serve(self) -> None:
        """Serves until there are no more requests."""
        while request := self._next():
            try:
                answer = self._do(request)
            except Exception:
                answer = {"error": traceback.format_exc()}
            if os.getpid() != self._process:  # the trainable has forked, and this is its child
                os._exit(0)
            self._send(answer)

    def _next(self) -> dict[str, Any]:
        """The next request; empty at the end."""
        line = self._requests.readline()
        request: dict[str, Any] = json.loads(line) if line else {}
        self._request = request.get("n", 0)
        return request

    def _send(self, answer: Mapping[str, Any]) -> None:
        sys.stdout.flush()
        self._answers.write((json_of({"n": self._request, **answer}) + "\n").encode())
        self._answers.flush()

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "start":
                return self._start(request)
            case "step":
                return self._step()
            case "save":
                api.save(self._the(), request["path"])
            case "load":
                self._the()._iteration = request.get("iteration", 0)
                api.load(self._the(), request["path"])
            case "close":
                if self._object is not None:
                    self._object.cleanup()
                    self._object = None
            case other:
                raise ValueError(f"there is no request {other!r}: the runner is of another version")
        return {"ok": True}

    def _the(self) -> Trainable:
        if self._object is None:
            raise RuntimeError("no trial runs")
        return self._object

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = request["folder"]
        log = os.open(os.path.join(folder, "output.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        sys.stdout.flush()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.chdir(folder)
        config = restored(numbers(request.get("config", {})), self._kept, request["id"])
        checkpoint = Checkpoint(request["checkpoint"]) if request.get("checkpoint") else None
        context = TuneContext(self._name, request["trial"], request["id"], folder, self._resources)
        api.running = api.Running(context, checkpoint, self._report)
        if inspect.isclass(self._trainable):
            self._begin(config)
            self._the()._iteration = request.get("iteration", 0)
            return {"ok": True}
        try:
            self._run(config)
        except Stopped:
            pass
        except SystemExit as e:
            if e.code not in (None, 0):
                return {"error": f"the function called sys.exit({e.code!r})"}
        finally:
            api.running = None
        return {"done": True}

    def _begin(self, config: dict[str, Any]) -> None:
        """Begins a trial with the object of the one before, if that can."""
        old = self._object
        if old is not None and not self._parameters and old.reset_config(dict(config)):
            old.config = dict(config)
            return
        self._object = None
        if old is not None:
            old.cleanup()
        self._object = self._trainable(config, **self._parameters)

    def _run(self, config: dict[str, Any]) -> None:
        value = self._trainable(config, **self._parameters)
        if inspect.isgenerator(value):
            for metrics in value:
                self._report({"report": _metrics(metrics)})
        elif value is not None:
            self._report({"report": _metrics(value)})

    def _step(self) -> dict[str, Any]:
        object = self._the()
        metrics = object.step()
        object._iteration += 1
        return {"report": _metrics(metrics)}

    def _report(self, message: dict[str, Any]) -> None:
        """Sends a report, and waits until the training may go on."""
        if os.getpid() != self._process:
            raise RuntimeError("tune.report: this process was forked from that of the trial, which alone reports")
        self._send(message)
        request = self._next()
        if not request or "stop" in request:
            raise Stopped(0)


def _metrics(value: Any) -> Any:
    """What a trainable returned or yielded, as metrics."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (int, float)) or hasattr(value, "item"):
        return {"_metric": value}
    raise TypeError(f"a trainable returned {type(value).__name__}: return a dict of metrics, a number, or nothing")


def main() -> None:
    """Serves on standard input and output."""
    answers, requests = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # input() in a trainable is at the end of the file
    os.close(nothing)
    Worker(sys.argv[1], requests, answers).serve()


if __name__ == "__main__":
    # As a module of its own this one would have its own idea of which trial runs.
    from cascade.tune import worker

    worker.main()
