"""Entry of the executor's process. An agent starts it; it is of no use by hand."""

from __future__ import annotations

import faulthandler
import os
import resource
import sys


def main() -> int:
    """Runs tasks until the agent ends the link; returns the exit status."""
    # Programs that tasks start must not take themselves for executors.
    names = ("ADDR", "TOKEN", "CRASH", "PIPES", "DEBUG")
    address, token, crash, pipes, debug = (os.environ.pop(f"CASCADE_EXECUTOR_{n}", "") for n in names)
    if not address:
        print(
            "cascade.executor is started by cascade-agent, which tells it where to connect in CASCADE_EXECUTOR_ADDR.",
            file=sys.stderr,
        )
        return 2
    if crash:
        faulthandler.enable(open(crash, "w"), all_threads=False)  # noqa: SIM115 (open until the process ends)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each mapped segment takes a descriptor

    from .worker import Worker

    Worker(address, token, bool(pipes), bool(debug)).run()
    os._exit(0)  # threads that tasks have left behind do not hold it


if __name__ == "__main__":
    sys.exit(main())
