"""How an actor runs its calls: one after another in the main thread, in threads, or in a loop of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..context import strand
from ..wire import messages as m
from ..wire.direct import DirectLink
from .queue import Stopped

ASYNC = 1000  # coroutines beside each other, if the class says nothing else


class Exit(BaseException):
    """Raised by cascade.exit_actor: it ends the actor, and the method returns nothing."""


class Job:
    """A call at hand."""

    __slots__ = ("args", "life", "link", "making", "name", "task", "text")

    def __init__(self, link: DirectLink, name: tuple[int, int], text: str, args: list[Any], making: bool, life: Any) -> None:
        self.link, self.name, self.text, self.args, self.making, self.life = link, name, text, args, making, life
        self.task: Any = None  # of asyncio


class Serial:
    """Runs calls one after another, in the main thread."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.jobs: deque[Job] = deque()

    def take(self, job: Job) -> None:
        """Queues a call. The lock is held."""
        self.jobs.append(job)

    def cancel(self, job: Job, why: str) -> None:
        """Ends a call that has not begun. One that has goes on, and its answer is dropped. The lock is held."""
        with contextlib.suppress(ValueError):
            self.jobs.remove(job)
        self.host.end(job, [], m.TaskError(m.CANCELLED, why, task=self.host.title(job)))

    def run(self) -> None:
        """Is the main thread, until the actor ends or runs otherwise."""
        host = self.host
        while not host.over:
            host.worker.check(host.run)
            with host.worker.lock:
                job = self.jobs.popleft() if self.jobs and not host.over else None  # the helper may have taken its end just now
                host.runs = job is not None
            if job is None:
                host.wait(lambda: self.jobs or host.over)
                continue
            began = time.perf_counter_ns()
            self.do(job, host.worker.inside)
            host.perhaps_flush(time.perf_counter_ns() - began)
            if host.runner is not self:
                with host.worker.lock:
                    while self.jobs:
                        host.runner.take(self.jobs.popleft())
                return

    def do(self, job: Job, call: Callable[..., Any]) -> None:
        """Performs one call and answers it."""
        host = self.host
        outputs: list[bytes] = []
        error: m.TaskError | None = None
        due = host.saves is not None and host.saves.due(job.args)
        try:
            if job.making:
                host.make(job)
            else:
                outputs = call(host.perform, job, host.method(job.text))
        except Exit:
            outputs = host.nothing(job)
            host.over = host.over or "it has called exit_actor"
        except BaseException as e:
            host.worker.check(host.run)
            error = host.failure(job, e)
        if job.making and error is not None:
            error = host.unmade(error)
        state = self._saved(call) if due else None
        host.runs = False
        host.end(job, outputs, error, state)

    def _saved(self, call: Callable[..., Any]) -> bytes | None:
        """The state of the actor; None when it could not be saved, with which it ends."""
        host = self.host
        try:
            saved: bytes = call(host.saves.saved, host.actor)
            return saved
        except BaseException as e:
            host.worker.check(host.run)
            host.over = host.over or f"its state could not be saved: {type(e).__name__}: {e}"
            return None

    def stop(self) -> None:
        """The actor has ended."""


class Threads(Serial):
    """Runs calls beside each other, in threads of the groups of methods."""

    def __init__(self, host: Any, most: int, groups: dict[str, int]) -> None:
        super().__init__(host)
        self._most = {"": max(most, 1), **groups}
        self._queues: dict[str, queue.SimpleQueue[Job | None]] = {g: queue.SimpleQueue() for g in self._most}
        self._threads = dict.fromkeys(self._most, 0)
        self._at_work = dict.fromkeys(self._most, 0)  # calls that were taken and have not ended

    def take(self, job: Job) -> None:
        group = self.host.group(job)
        if group not in self._most:
            self.host.end(job, [], self.host.no_group(job, group, list(self._most)))
            return
        self._at_work[group] += 1
        if self._threads[group] < min(self._most[group], self._at_work[group]):
            self._threads[group] += 1
            name = f"actor{group and '-'}{group}-{self._threads[group]}"
            threading.Thread(target=self._thread, args=(name, group), name=name, daemon=True).start()
        self._queues[group].put(job)

    def _thread(self, name: str, group: str) -> None:
        host, jobs = self.host, self._queues[group]
        with contextlib.suppress(RuntimeError, Stopped), strand(name):
            while (job := jobs.get()) is not None:
                if job.name in host.open and not host.over:
                    self.do(job, _directly)
                with host.worker.lock:
                    self._at_work[group] -= 1
                    host.flush()
                if host.over:
                    host.wake()

    def run(self) -> None:
        host = self.host
        while not host.over:
            host.worker.check(host.run)
            host.wait(lambda: host.over)

    def stop(self) -> None:
        for group, jobs in self._queues.items():
            for _ in range(self._threads[group]):
                jobs.put(None)
        if any(self._at_work.values()):
            self.host.worker.leave()  # nothing ends a thread from outside


class Loop(Serial):
    """Runs calls beside each other, in a loop of asyncio."""

    def __init__(self, host: Any, most: int, groups: dict[str, int]) -> None:
        super().__init__(host)
        self.loop = asyncio.new_event_loop()
        self._groups = {name: asyncio.Semaphore(n) for name, n in {"": most or ASYNC, **groups}.items()}
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushes = False
        self._why: BaseException | None = None

    def made(self, make: Callable[[], Any]) -> Any:
        """Calls the constructor within the loop."""

        async def within() -> Any:
            return make()

        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(within())

    def take(self, job: Job) -> None:
        job.task = self.loop.create_task(self._perform(job))
        self._tasks.add(job.task)
        job.task.add_done_callback(self._tasks.discard)

    def cancel(self, job: Job, why: str) -> None:
        job.task.cancel(why)

    async def _perform(self, job: Job) -> None:
        host = self.host
        if host.over:
            return
        outputs: list[bytes] = []
        error: m.TaskError | None = None
        group = host.group(job)
        try:
            if group not in self._groups:
                error = host.no_group(job, group, list(self._groups))
            else:
                async with self._groups[group]:
                    outputs = await self._call(job)
        except Exit:
            outputs = host.nothing(job)
            host.over = host.over or "it has called exit_actor"
        except BaseException as e:
            error = host.failure(job, e)
        host.end(job, outputs, error)
        if host.over:
            self.loop.stop()
        elif not self._flushes:
            self._flushes = True
            self.loop.call_soon(self._flush)

    async def _call(self, job: Job) -> list[bytes]:
        host = self.host
        method = host.method(job.text)
        if not (method.coroutine or method.many):
            performed: list[bytes] = host.perform(job, method)
            return performed
        given, named = host.arguments(job, method.said.named, method.wants)
        if not method.many:
            outputs: list[bytes] = host.outputs(method, await method.call(*given, **named))
            return outputs
        n = 0
        async for one in method.call(*given, **named):
            n += 1
            host.element(job, method, n, one)
            with host.worker.lock:
                host.flush()
        return []

    def _flush(self) -> None:
        self._flushes = False
        with self.host.worker.lock:
            self.host.flush()

    def run(self) -> None:
        host = self.host
        with host.worker.lock:
            host.flush()
            host.idle = True  # the loop reads by itself
        self.loop.add_reader(host.watch.fd, self._readable)
        self._readable()
        if not host.over:
            self.loop.run_forever()
        host.worker.check(host.run)

    def _readable(self) -> None:
        host = self.host
        with host.worker.lock:
            host.watch.take()
            host.flush()
        if host.over or host.run.stopped is not None or host.worker.over:
            self.loop.stop()

    def stop(self) -> None:
        self.loop.remove_reader(self.host.watch.fd)
        for task in self._tasks:
            task.cancel()
        self.loop.run_until_complete(_ended(list(self._tasks)))
        asyncio.set_event_loop(None)
        self.loop.close()


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


def _directly(function: Callable[..., Any], /, *args: Any) -> Any:
    return function(*args)
