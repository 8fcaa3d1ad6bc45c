"""What called functions print, in the program that called them."""

from __future__ import annotations

import contextlib
import sys

from . import screen
from .wire import messages as m


class Printer:
    """Shows what called functions write, line by line, with the name of the function and the agent that ran it."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str, int], bytes] = {}  # lines without their ends, by where they come from

    def __call__(self, message: m.Log) -> None:
        """Takes text."""
        key = message.function, message.agent, message.stream
        lines = (self._begun.pop(key, b"") + message.text).split(b"\n")
        if lines[-1]:
            self._begun[key] = lines[-1]
        self._show(key, lines[:-1])

    def end(self) -> None:
        """Shows lines that have no end."""
        for key, line in self._begun.items():
            self._show(key, [line])
        self._begun.clear()

    def _show(self, key: tuple[str, str, int], lines: list[bytes]) -> None:
        function, agent, stream = key
        to = sys.stdout if stream == 1 else sys.stderr
        function = function.removeprefix("__main__.").removeprefix("cascade.actors.")
        place = f"({function}, {agent}) " if function else ""
        with contextlib.suppress(ValueError, OSError):  # it is closed
            to.write("".join(f"{place}{screen.text(line.decode('utf-8', 'replace').rstrip(chr(13)))}\n" for line in lines))
            to.flush()
