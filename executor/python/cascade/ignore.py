"""What of a folder stays behind when it is shipped: patterns as git has them, for the file at the folder's top."""

from __future__ import annotations

import functools
import os
import re
from typing import NamedTuple

LIST_NAMES = (".cascadeignore", ".gitignore")  # the first that is there counts
_ALWAYS = (".git", "__pycache__", ".venv")  # never shipped


class _Pattern(NamedTuple):
    parts: tuple[str, ...]  # of the path; "**" stands for any number of them
    keep: bool = False  # it began with !
    folders_only: bool = False  # it ended with /


class IgnoreList:
    """Patterns; the last that fits a path decides."""

    def __init__(self, text: str = "") -> None:
        self._patterns = [_Pattern(("**", name)) for name in _ALWAYS]
        for line in text.split("\n"):
            line = line.rstrip(" \t\r")
            if line == "" or line[0] == "#":
                continue
            if keep := line[0] == "!":
                line = line[1:]
            line = line.removeprefix("\\")
            if folders_only := line.endswith("/"):
                line = line.rstrip("/")
            parts = line.removeprefix("/").split("/")
            if "/" not in line:
                parts = ["**", *parts]
            self._patterns.append(_Pattern(tuple(parts), keep, folders_only))

    @classmethod
    def of(cls, folder: str) -> IgnoreList:
        """The list that lies in a folder."""
        for name in LIST_NAMES:
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    return cls(os.fsdecode(f.read()))
            except FileNotFoundError:
                pass
        return cls()

    def ignores(self, name: str, folder: bool) -> bool:
        """Whether a path, with / between its parts, stays behind. Paths in an ignored folder are not asked for."""
        parts = tuple(name.split("/"))
        for p in reversed(self._patterns):
            if (folder or not p.folders_only) and _matches(p.parts, parts):
                return not p.keep
        return False


def _matches(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Compares a pattern with a path, part by part. Patterns have few **."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(parts)
        return any(_matches(pattern[1:], parts[i:]) for i in range(len(parts)))
    if not parts:
        return False
    expression = _expression(pattern[0])
    return expression is not None and expression.fullmatch(parts[0]) is not None and _matches(pattern[1:], parts[1:])


@functools.lru_cache(maxsize=1024)
def _expression(glob: str) -> re.Pattern[str] | None:
    """One part of a pattern, with *, ?, [a-z], [^a-z] and \\; None for one that is malformed, which fits nothing."""
    out, at = [], 0

    def one() -> str:
        """A character of a class, which does not end with it."""
        nonlocal at
        if glob[at] in "-]":
            raise ValueError("malformed")
        at += glob[at] == "\\"
        at += 1
        if at >= len(glob):
            raise ValueError("malformed")
        return glob[at - 1]

    def character_class() -> str:
        nonlocal at
        negated = glob[at : at + 1] == "^"
        at += negated
        ranges: list[str] = []
        while not ranges or glob[at : at + 1] != "]":
            low = high = one()
            if glob[at : at + 1] == "-":
                at += 1
                high = one()
            ranges.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")  # an empty range fits nothing
        at += 1
        inside = "".join(ranges)
        if not inside:
            return "." if negated else "(?!)"
        return f"[{'^' * negated}{inside}]"

    try:
        while at < len(glob):
            c = glob[at]
            at += 1
            if c == "*":
                out.append(".*")
            elif c == "?":
                out.append(".")
            elif c == "[":
                out.append(character_class())
            elif c == "\\":
                out.append(re.escape(glob[at]))
                at += 1
            else:
                out.append(re.escape(c))
    except (ValueError, IndexError):
        return None
    return re.compile("".join(out), re.DOTALL)
