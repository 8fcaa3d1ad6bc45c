"""Entry of the executor's process. An agent starts it; it is of no use by hand."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .worker import Worker


def _ours_first(path: list[str]) -> list[str]:
    """The path with what PYTHONPATH names last: there a task may have modules of the names of those that we import."""
    theirs = {os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    return sorted(path, key=lambda p: os.path.abspath(p) in theirs)


def _worker(address: str, token: str, crash: str, pipes: bool, words: str, code: str, debug: bool) -> Worker:
    import faulthandler
    import resource

    from .worker import Worker

    if crash:
        faulthandler.enable(open(crash, "w"), all_threads=False)  # noqa: SIM115 (open until the process ends)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each mapped segment takes a descriptor
    return Worker(address, token, pipes, words, code, debug)


def main() -> int:
    """Runs tasks until the agent ends the link; returns the exit status."""
    # Programs that tasks start must not take themselves for executors.
    names = ("ADDR", "TOKEN", "CRASH", "PIPES", "WORDS", "CODE", "DEBUG")
    address, token, crash, pipes, words, code, debug = (os.environ.pop(f"CASCADE_EXECUTOR_{n}", "") for n in names)
    if not address:
        print(
            "cascade.executor is started by cascade-agent, which tells it where to connect in CASCADE_EXECUTOR_ADDR.",
            file=sys.stderr,
        )
        return 2
    path, sys.path[:] = sys.path[:], _ours_first(sys.path)
    worker = _worker(address, token, crash, bool(pipes), words, code, bool(debug))
    sys.path[:] = path
    worker.run()
    for stream in (sys.stdout, sys.stderr):  # under a debugger they are the terminal's or pipes, and nothing else writes what waits
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)  # threads that tasks have left behind do not hold it


if __name__ == "__main__":
    sys.exit(main())
