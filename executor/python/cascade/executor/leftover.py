"""Memory that tasks leave behind: a process that keeps more and more of it makes room for a fresh one.

Memory that is loaded once, such as a model in a variable of its module, is no leak: it comes in a few large steps.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

OUTGROWN = 1 << 30  # bytes that runs may have left behind since the first, which loaded what it needs
STEPS = 4  # in which they did so, at least; each is a 64th part of that or more


class Leftover:
    """Whether a process has kept much more private memory than it had after its first run, and more again and again."""

    def __init__(self, read: Callable[[], int]) -> None:
        """read gives the private memory of the process."""
        self._read = read
        self._first = self._high = self._steps = 0
        self.leaving = False  # too much was left behind, or what cannot be set back: it stays true

    def look(self, rest: int) -> None:
        """Takes what the process has between two runs."""
        if rest <= self._high + OUTGROWN // 64:
            return
        if self._first:
            self._steps += 1
        else:
            self._first = rest
        self._high = rest
        if rest - self._first <= OUTGROWN or self._steps < STEPS or self.leaving:
            return
        gc.collect()
        self.leaving = self._read() - self._first > OUTGROWN
