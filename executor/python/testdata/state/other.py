"""A task whose module is imported behind another task of its job."""

import sys


def limit(after: list):
    """What it finds, which is what the process began with."""
    return sys.getrecursionlimit()
