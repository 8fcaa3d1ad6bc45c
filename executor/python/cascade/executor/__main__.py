"""Entry of the executor's process. An agent starts it; it is of no use by hand."""

import os
import sys


def main() -> int:
    """Runs tasks until the agent ends the link; returns the exit status."""
    address = os.environ.pop("CASCADE_EXECUTOR_ADDR", "")
    if not address:
        print(
            "cascade.executor is started by cascade-agent, which tells it where to connect in CASCADE_EXECUTOR_ADDR.",
            file=sys.stderr,
        )
        return 2
    raise SystemExit("cascade.executor: tasks cannot run yet")


if __name__ == "__main__":
    sys.exit(main())
