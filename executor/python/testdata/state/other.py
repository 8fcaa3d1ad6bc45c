"""A task whose module is imported behind another task of its job."""

import sys


def limit(after: list):
    """The limit that it finds."""
    return sys.getrecursionlimit()
