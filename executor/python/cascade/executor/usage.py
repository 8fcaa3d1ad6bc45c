"""What runs use of this process: cpu time, and private memory."""

from __future__ import annotations

import time

from .memory import PrivateMemory

SAMPLE_AGE = 5_000_000  # ns for which a sample of memory at a run's end is good
_SHORT = 50_000  # ns of runs for which cpu time is not asked anew


class UsageMeter:
    """Measures one run after another."""

    def __init__(self) -> None:
        self.private = PrivateMemory().read  # bytes now
        self.sample = self._sampled = 0  # of it, and when
        self._mark = self._wall = 0  # cpu time and durations since it was read
        self._rate = 0.0

    def begin(self) -> None:
        """A run begins."""
        if self._mark == 0:
            self._mark, self._wall = time.process_time_ns(), 0

    def pause(self) -> None:
        """No run follows for a while."""
        self._mark = 0

    def cpu(self, took: int) -> int:
        """The cpu time of a run that took so long: the process's, shared by short runs according to their durations."""
        self._wall += took
        if self._wall < _SHORT:
            return int(took * self._rate)
        now = time.process_time_ns()
        spent = now - self._mark
        own = spent if took >= self._wall // 2 else spent * took // self._wall
        self._rate = spent / self._wall
        self._mark, self._wall = now, 0
        return own

    def peak(self, seen: int, now: int) -> int:
        """The most memory of a run that ends now, of which so much was seen before."""
        if now - self._sampled > SAMPLE_AGE:
            self.sample, self._sampled = self.private(), now
        return max(seen, self.sample)
