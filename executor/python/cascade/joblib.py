"""A backend of joblib: its tasks run in the program's session.

    cascade.joblib.register()
    with joblib.parallel_config(backend="cascade"):
        joblib.Parallel()(joblib.delayed(f)(x) for x in xs)
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable
from typing import Any

import joblib
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

from . import context, pickled
from .pool import Executor


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """What joblib asks of a backend. Batches are as large as joblib finds good for its own processes."""

    supports_retrieve_callback = True
    supports_sharedmem = False
    supports_inner_max_num_threads = False
    default_n_jobs = -1

    def __init__(self, *args: Any, options: context.Options | None = None, **more: Any) -> None:
        """options are those of the calls: cascade.options(cpu=2)."""
        super().__init__(*args, **more)
        self._options = options
        self._pool: Executor | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many tasks run at a time: a negative number counts down from the cores, as everywhere in joblib."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        cores = os.cpu_count() or 1
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(cores + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Before the tasks of a Parallel."""
        self.parallel = parallel
        self._pool = Executor(options=self._options)
        self._pool._shared = pickled.Shared()  # joblib shares large arrays among the tasks of a Parallel, read-only
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Any:
        """Has a batch run."""
        assert self._pool is not None
        made = self._pool.submit(func)
        if callback is not None:
            made.add_done_callback(callback)
        return made

    def retrieve_result_callback(self, out: concurrent.futures.Future[Any]) -> Any:
        """The results of a batch that has ended."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A task has failed, or the program was interrupted."""
        self.terminate()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def terminate(self) -> None:
        """Behind the tasks of a Parallel."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None
        self.reset_batch_stats()


def register() -> None:
    """Makes "cascade" a name of a backend of joblib."""
    joblib.register_parallel_backend("cascade", Backend)
