"""A task that takes less time than it takes to look what it has changed."""

import sys

calls = 0


def leak():
    """Changes the interpreter when it is called for the second time: after its first call all is looked at."""
    global calls
    calls += 1
    if calls == 2:
        sys.setrecursionlimit(4321)
    return calls
