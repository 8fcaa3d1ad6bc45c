"""The progress of a job that a client waits for, on standard error or in a notebook."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, TextIO

from . import screen
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
        if not self._on:
            return
        total, done = sum(g.total for g in p.groups), sum(g.done for g in p.groups)
        failed, running = sum(g.failed for g in p.groups), sum(g.running for g in p.groups)
        part = done / total if total else 0.0
        bar = "#" * int(part * 30)
        name, bad = screen.line(p.name), f", {failed} failed" if failed else ""
        line = f"{name} [{bar:<30}] {done}/{total} done, {running} running{bad}"
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
