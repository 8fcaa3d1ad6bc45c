"""The progress of a job or of calls that are waited for, on standard error or in a notebook."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from . import screen
from .context import Future, as_completed
from .peer import RequestError
from .wire import messages as m


class Builds:
    """Tells of a job of which nothing is heard that an environment is being built, once, and when it is ready."""

    def __init__(self, rows: Callable[[], list[dict[str, Any]]], tell: Callable[[str], None]) -> None:
        self._rows = rows
        self._tell = tell
        self._told: set[tuple[str, str]] = set()  # what is being built, and where
        self.wait = 1.0  # seconds of silence before the next look

    def look(self) -> None:
        """Asks how the environments stand. The longer nothing is built, the later it is to be asked again."""
        with contextlib.suppress(RequestError):  # that this is not told does not end the wait
            self._compare(self._rows())
        self.wait = 1.0 if self._told else min(2 * self.wait, 60.0)

    def _compare(self, rows: list[dict[str, Any]]) -> None:
        """Tells what is new."""
        for row in rows:
            key = row["name"], row["agent"]
            if row["state"] == "building" and key not in self._told:
                self._told.add(key)
                waits = f", which waits: {row['error']}" if row.get("error") else ""
                self._tell(f"building environment {row['name']} ({row['kind']}) on agent {row['agent']}{waits}")
            elif row["state"] != "building" and key in self._told:
                self._told.remove(key)
                if row["state"] == "ready":
                    took = f"{row.get('seconds', 0):.0f} s"
                    self._tell(f"environment {row['name']} is ready after {took}; later jobs find it built")
        self._told &= {(row["name"], row["agent"]) for row in rows}  # the others were given up with their agents


class Bar:
    """Progress on one line: rewritten on a terminal, as an output that changes in a notebook."""

    def __init__(self, wanted: bool | None, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._display: Any = None
        notebook = "ipykernel" in sys.modules
        self._on = (notebook or self._to.isatty()) if wanted is None else wanted
        if self._on and notebook:
            from IPython.display import display

            self._display = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, p: m.Progress) -> None:
        """Shows how a job stands."""
        total, done = sum(g.total for g in p.groups), sum(g.done for g in p.groups)
        failed, running = sum(g.failed for g in p.groups), sum(g.running for g in p.groups)
        self.show(p.name, done, total, f"{running} running" + (f", {failed} failed" if failed else ""))

    def show(self, name: str, done: int, total: int, more: str = "") -> None:
        """Shows how many of some are done."""
        if not self._on:
            return
        part = done / total if total else 0.0
        bar = "#" * int(part * 30)
        line = f"{screen.line(name)} [{bar:<30}] {done}/{total} done" + (f", {more}" if more else "")
        if self._display is not None:
            self._display.update({"text/plain": line}, raw=True)
        else:
            self._to.write(f"\r{line}\x1b[K")
            self._to.flush()

    def line(self, text: str) -> None:
        """Prints a line beside the progress, also where none is shown."""
        clear = "\r\x1b[K" if self._on and self._display is None else ""
        self._to.write(f"{clear}{screen.line(text)}\n")
        self._to.flush()

    def end(self) -> None:
        """Nothing more is shown."""
        if self._on and self._display is None:
            self._to.write("\n")


_SHOWN = 0.1  # seconds between two looks of calls


def progress(futures: Iterable[Future], *, name: str = "calls", show: bool | None = None) -> list[Future]:
    """Waits until all calls have ended, well or not, shows meanwhile how many have, and returns their futures in order.

    It shows that on standard error, or in the notebook; by default on a terminal or in a notebook, with show=True elsewhere too.
    """
    futures = list(futures)
    bar, done, failed, shown = Bar(show), 0, 0, 0.0
    for future in as_completed(futures):
        done += 1
        failed += future.failed()
        if (now := time.monotonic()) - shown > _SHOWN:
            shown = now
            bar.show(name, done, len(futures), f"{failed} failed" if failed else "")
    bar.show(name, done, len(futures), f"{failed} failed" if failed else "")
    bar.end()
    return futures
