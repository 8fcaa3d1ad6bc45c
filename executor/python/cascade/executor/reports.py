"""What an executor reports, until it leaves: runs that ended one after another without outputs are one item."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..wire import columns
from ..wire import messages as m

MAX_ROW = 512  # runs in one report, at most
_Usage = tuple[int, int, int, int, int, int, int]


class Reports:
    """The items of the next reports. The worker's lock guards them."""

    def __init__(self) -> None:
        self._items: list[m.ReportItem] = []
        self._row: list[_Usage] = []  # usages of runs that ended without outputs, one after another
        self._row_first = 0
        self.since = 0  # when the oldest item came

    def __bool__(self) -> bool:
        return bool(self._items or self._row)

    def add(self, item: m.ReportItem) -> None:
        """Adds something that happened."""
        self._end_row()
        if not self._items:
            self.since = time.perf_counter_ns()
        self._items.append(item)

    def ended(self, run: int, usage: _Usage, now: int) -> None:
        """Adds a run that has ended well and has no outputs."""
        if self._row and (self._row_first + len(self._row) != run or len(self._row) == columns.MAX_ENTRIES):
            self._end_row()
        if not self._row:
            self._row_first = run
            if not self._items:
                self.since = now
        self._row.append(usage)

    def _end_row(self) -> None:
        row = self._row
        if not row:
            return
        self._row = []
        at = row[-1][0] + row[-1][1]
        if len(row) == 1:
            self._items.append(m.ReportItem(m.FINISHED, self._row_first, at, usage=m.Usage(*row[0])))
        else:
            self._items.append(m.ReportItem(m.STEPS, self._row_first, at, steps=columns.usages(row)))

    def take(self) -> Iterator[m.Report]:
        """The reports that are to leave; then there are no items."""
        self._end_row()
        while self._items:
            items, self._items = self._items[:MAX_ROW], self._items[MAX_ROW:]
            yield m.Report(items)
