"""Pools of the standard library, with a cluster behind them: cascade.Executor and cascade.Pool.

    submit ──▶ queue ──▶ at most max_workers calls ──▶ futures of concurrent.futures
"""

from __future__ import annotations

import atexit
import concurrent.futures
import functools
import itertools
import multiprocessing
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import calling, context, pickled
from .checks import number

_AHEAD = 16  # calls for each core that are on their way, if the program does not bound them


class Executor(concurrent.futures.Executor):
    """An executor of concurrent.futures whose calls run as tasks of the program's session, which it opens if there is none."""

    def __init__(self, max_workers: int | None = None, *, options: context.Options | None = None) -> None:
        """max_workers bounds the calls that are under way; options are those of the calls: cascade.options(cpu=2)."""
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._host = context._host or calling.opened()
        self._most = max_workers or _AHEAD * (os.cpu_count() or 1)
        self._few = self._most - 1 if max_workers else self._most // 2  # under way when others are called: many at once cost less
        self._apply = calling.remote(pickled.apply).options(**(options or context.Options())._asdict())
        self._lock = threading.Condition(threading.Lock())
        self._queue: deque[tuple[concurrent.futures.Future[Any], tuple[bytes, list[context.Future]]]] = deque()
        self._under = self._made = 0  # calls that are under way, and that were made
        self._calls: dict[int, tuple[concurrent.futures.Future[Any], context.Future]] = {}  # under way
        self._shut = False
        self._shared: pickled.Shared | None = None
        _open.add(self)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Has a function run as a task; see concurrent.futures.Executor."""
        made: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            call = pickled.packed(fn, args, kwargs, self._shared)
        except Exception as e:
            made.set_exception(e)
            call = None
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if call is not None:
                self._queue.append((made, call))
        self._go_on()
        return made

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1, **more: Any) -> Iterator[Any]:
        """The results of fn for each row of arguments; chunksize rows are one task. See concurrent.futures.Executor."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **more)
        rows = zip(*iterables)  # noqa: B905 (ends with the shortest)
        results = super().map(_Each(fn), _chunks(rows, chunksize), timeout=timeout, **more)
        return _flat(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls, and waits for those that there are. The session stays open."""
        with self._lock:
            self._shut = True
            dropped = list(self._queue) if cancel_futures else []
            if cancel_futures:
                self._queue.clear()
        for made, _ in dropped:
            if made.cancel():
                made.set_running_or_notify_cancel()
        if wait:
            with self._lock:
                self._lock.wait_for(lambda: not self._queue and not self._under)

    def terminate(self) -> None:
        """Takes no more calls, and ends those that there are: their futures raise CallCancelled, or are cancelled."""
        self.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            calls = [called for _, called in self._calls.values()]
        for call in calls:
            call.cancel("its pool was terminated")

    def _go_on(self, below: int | None = None) -> None:
        """Makes calls, as many as may be under way; none when more are than below."""
        while True:
            with self._lock:
                if not self._queue or self._under >= self._most or below is not None and self._under > below:
                    return
                below = None
                made, (call, beside) = self._queue.popleft()
                self._under += 1
                self._made += 1
                place = self._made
            if not made.set_running_or_notify_cancel():
                self._forget()
                continue
            try:
                called = self._apply._at(self._host, (call, beside) if beside else (call,), {})
                with self._lock:
                    self._calls[place] = made, called
                called.add_done_callback(functools.partial(self._ended, place))
            except BaseException as e:
                self._calls.pop(place, None)
                made.set_exception(e)
                self._forget()

    def _ended(self, place: int, called: context.Future) -> None:
        made = self._calls.pop(place)[0]  # from here on the program alone keeps the result
        value, error = None, None
        try:
            value = pickled.unpacked(called.result())
        except pickled.Raised as e:
            error = e.__cause__
        except BaseException as e:  # the session has ended, or its value cannot be loaded here
            error = e
        try:
            if error is None:
                made.set_result(value)
            else:
                made.set_exception(error)
        finally:  # its callbacks may raise SystemExit
            del made, value, error
            self._forget()
            self._go_on(self._few)

    def _forget(self) -> None:
        with self._lock:
            self._under -= 1
            self._lock.notify_all()


_open: weakref.WeakSet[Executor] = weakref.WeakSet()


def _at_exit() -> None:
    """What was submitted ends before the program does, as with pools of processes."""
    for executor in list(_open):
        executor.shutdown()


getattr(threading, "_register_atexit", atexit.register)(_at_exit)  # threads can still be started then


class _Each:
    """A function that is called for each row of a chunk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        return [self._function(*row) for row in rows]


def _chunks(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, size)):
        yield chunk


def _flat(results: Iterator[list[Any]]) -> Iterator[Any]:
    for chunk in results:
        chunk.reverse()
        while chunk:
            yield chunk.pop()  # and it is kept nowhere


class AsyncResult:
    """What Pool.apply_async, map_async and starmap_async return; see multiprocessing.pool.AsyncResult."""

    def __init__(self, made: list[concurrent.futures.Future[Any]], join: Callable[[list[Any]], Any],
                 callback: Callable[[Any], Any] | None, error_callback: Callable[[BaseException], Any] | None) -> None:  # fmt: skip
        self._made, self._join = made, join
        self._callback, self._error_callback = callback, error_callback
        self._left, self._lock = len(made), threading.Lock()
        self._all = threading.Event()
        for f in made:
            f.add_done_callback(self._one)
        if not made:
            self._end()

    def _one(self, _: Any) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self._end()

    def _end(self) -> None:
        try:
            if self._callback or self._error_callback:
                value = self._join([f.result() for f in self._made])
                if self._callback:
                    self._callback(value)
        except (Exception, concurrent.futures.CancelledError) as e:
            if self._error_callback:
                self._error_callback(e)
        finally:
            self._all.set()

    def get(self, timeout: float | None = None) -> Any:
        """Waits for the value, or raises what the function raised; multiprocessing.TimeoutError when the time is up."""
        if not self._all.wait(timeout):
            raise multiprocessing.TimeoutError
        return self._join([f.result() for f in self._made])

    def wait(self, timeout: float | None = None) -> None:
        """Waits until it is there."""
        self._all.wait(timeout)

    def ready(self) -> bool:
        """Whether it is there."""
        return self._all.is_set()

    def successful(self) -> bool:
        """Whether the function raised nothing; ValueError while it is not there."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return all(not f.cancelled() and f.exception() is None for f in self._made)


class Pool:
    """A pool as multiprocessing has it, whose functions run as tasks of the program's session."""

    def __init__(self, processes: int | None = None, *, options: context.Options | None = None) -> None:
        """processes bounds the calls that are under way, by default the number of cores."""
        if processes is not None:
            number("Pool: processes", processes, 1, 1 << 20, whole=True)
        self._processes = processes or os.cpu_count() or 1
        self._executor = Executor(self._processes, options=options)

    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: dict[str, Any] | None = None) -> Any:
        """The result of func(*args, **kwds)."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: dict[str, Any] | None = None,
                    callback: Callable[[Any], Any] | None = None,
                    error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:  # fmt: skip
        """As apply, without waiting."""
        self._takes()
        return AsyncResult([self._executor.submit(func, *args, **(kwds or {}))], lambda values: values[0], callback, error_callback)

    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """The results of func for each element, in order."""
        return self.map_async(func, iterable, chunksize).get()  # type: ignore[no-any-return]

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None) -> list[Any]:
        """As map; an element is the arguments."""
        return self.starmap_async(func, iterable, chunksize).get()  # type: ignore[no-any-return]

    def map_async(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None,
                  callback: Callable[[Any], Any] | None = None,
                  error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:  # fmt: skip
        """As map, without waiting."""
        return self._rows(func, [(x,) for x in iterable], chunksize, callback, error_callback)

    def starmap_async(self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None,
                      callback: Callable[[Any], Any] | None = None,
                      error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:  # fmt: skip
        """As starmap, without waiting."""
        return self._rows(func, [tuple(row) for row in iterable], chunksize, callback, error_callback)

    def _rows(self, func: Callable[..., Any], rows: list[Any], chunksize: int | None, callback: Any, error_callback: Any) -> AsyncResult:
        self._takes()
        size = _size(chunksize) if chunksize is not None else -(-len(rows) // (self._processes * 4)) or 1
        made = [self._executor.submit(_Each(func), chunk) for chunk in _chunks(rows, size)]
        return AsyncResult(made, lambda values: list(itertools.chain.from_iterable(values)), callback, error_callback)

    def imap(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """An iterator over the results of func for each element, in order."""
        made = self._each(func, iterable, chunksize)
        return _flat(f.result() for f in made)

    def imap_unordered(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """An iterator over the results of func, as they are there."""
        made = self._each(func, iterable, chunksize)
        return _flat(f.result() for f in concurrent.futures.as_completed(made))

    def _each(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int) -> list[concurrent.futures.Future[Any]]:
        self._takes()
        rows = ((x,) for x in iterable)
        return [self._executor.submit(_Each(func), chunk) for chunk in _chunks(rows, _size(chunksize))]

    def _takes(self) -> None:
        if self._executor._shut:
            raise ValueError("Pool not running")

    def close(self) -> None:
        """Takes no more calls."""
        self._executor.shutdown(wait=False)

    def terminate(self) -> None:
        """Takes no more calls, and ends those that there are."""
        self._executor.terminate()

    def join(self) -> None:
        """Waits for the calls, after close or terminate."""
        if not self._executor._shut:
            raise ValueError("Pool is still running")
        self._executor.shutdown()

    def __enter__(self) -> Pool:
        self._takes()
        return self

    def __exit__(self, *_: Any) -> None:
        self.terminate()


def _size(chunksize: int) -> int:
    if chunksize < 1:
        raise ValueError(f"Chunksize must be 1+, not {chunksize}")
    return chunksize
