"""Calls: functions that a task has run as tasks of their own.

    call() ──Call──▶ agent ──▶ an executor of the environment
    result() ──Await──▶ agent ──Returned──▶ the value, or CallFailed

The arguments are datasets of the calling run; what a call returned stays in memory until that run has ended.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..context import CallFailed, Future
from ..values import encode, hints_of
from ..wire import messages as m
from .functions import resolve
from .outputs import ALL
from .queue import Run

if TYPE_CHECKING:
    from .host import Host
    from .outputs import Memory


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,199}")  # as of inputs


class Called(Future):
    """A Future of a run: arg makes what the agent is told of it, for each call that gets it."""

    def __init__(self, run: Run, arg: Callable[[], m.CallIn], get: Callable[[], Any]) -> None:
        super().__init__(get)
        self.run, self.arg = run, arg


class Calls:
    """The calls of a worker's run; used by the main thread."""

    def __init__(self, worker: Host, memory: Memory) -> None:
        self._worker = worker
        self._memory = memory
        self._answers: dict[int, m.Returned] = {}  # of the current run, by number
        self._made = 0  # calls of the current run

    def make(self, run: Run, name: str, arguments: dict[str, Any]) -> Future:
        """Tells the agent of a call."""
        worker = self._worker
        if not worker.welcome.calls:
            raise RuntimeError(
                f"call {name}: agent {worker.welcome.agent} takes no calls: "
                "it is of an older version, or the task runs alone (cascade replay --task)"
            )
        for key in arguments:
            if not _NAME.fullmatch(key):
                raise ValueError(f"call {name}: argument {key!r}: want letters, digits, _ and -, and no digit first")
        want = hints_of(resolve(name)).get("return")
        inputs = [self._argument(run, key, value) for key, value in arguments.items()]
        number = self._made
        self._made += 1
        run.told = True
        if run.rooms:
            run.copied += self._memory.release_published(run)
        with worker.lock:
            worker.send(m.Call(run.id, number, name, inputs=inputs, output="out"))
            self._memory.return_regions(run)
            worker.flush()
        return Called(run, lambda: m.CallIn(call=number + 1), functools.partial(self._result, run, number, name, want))

    def input(self, run: Run, name: str) -> Future:
        """An input of a run, to be passed on."""
        for i, (declared, given) in enumerate(zip(run.kind.m.inputs, run.inputs, strict=False)):
            if declared.name.replace("-", "_") == name and not declared.list:
                return Called(run, functools.partial(self._passed, run, i, given.data[0]), functools.partial(_has_it, name))
        raise ValueError(f"the task has no input {name} that is one dataset")

    def _passed(self, run: Run, i: int, d: m.Desc) -> m.CallIn:
        """Input i of a run, as an argument of one call."""
        match d.place.kind:
            case m.INLINE:
                return m.CallIn(data=d._replace(ref=m.Ref(), attempt=0))
            case m.LIVE:  # in this process only: bytes in the store belong to one call, and the next needs others
                return self._argument(run, "", self._worker.queue.live[d.place.run, d.ref.output].value)
        return m.CallIn(input=i + 1)

    def returned(self, message: m.Returned) -> None:
        """Takes the agent's answer to Await."""
        self._answers[message.number] = message

    def forget(self) -> None:
        """The run has ended, and its calls with it."""
        if self._made:
            self._made = 0
            self._answers.clear()

    def _argument(self, run: Run, name: str, value: Any) -> m.CallIn:
        """An argument as the agent is told of it."""
        if isinstance(value, Called):
            if value.run is not run:
                raise ValueError(f"argument {name} is a future of another task")
            return value.arg()._replace(name=name)
        if isinstance(value, Future):
            value = value.result()
        encoded = encode(value)
        stored = self._memory.place(run, encoded, False, ALL)
        shape = [int(n) for n in encoded.shape]
        return m.CallIn(name, data=m.Desc(m.Ref(), 0, encoded.codec, encoded.dtype, shape, encoded.size, *stored))

    def _result(self, run: Run, number: int, name: str, want: Any) -> Any:
        """Waits for what a call returns. Meanwhile the run needs no core."""
        worker = self._worker
        if worker.current is not run:
            raise RuntimeError(f"the result of {name}: the task that called it has ended")
        value = worker.aside(lambda _: self._wait(run, number))
        if value is None:
            raise RuntimeError(f"the result of {name}: only the thread in which the task's function runs may wait for it")
        if value.error is not None:
            e = value.error
            raise CallFailed(f"{name}: {e.message}", e.codes, e.stack)
        return self._memory.load(run, value.data, want, {})

    def _wait(self, run: Run, number: int) -> m.Returned:
        worker = self._worker
        worker.send(m.Await(run.id, number))
        worker.flush()
        while number not in self._answers:
            worker.check(run)
            worker.wait()
        return self._answers.pop(number)


def _has_it(name: str) -> Any:
    raise RuntimeError(f"input {name} is an input of the task, which has it as a value")
