"""Results of an earlier job that a new one takes over. The controller compares the two; a client says what files hold.

    text of the job ──NamedReq──▶ its name, and what may be paths ──▶ hashes of those that are files here ──▶ Submit.contents
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .peer import UNAVAILABLE, Peer, RequestError
from .wire import messages as m

_FEATURE = "resume"  # of a controller that answers NamedReq
_FILE = "file "  # before the path of a file, as the job names it
_NOTED = "noted"  # says that all others are there
_SHA256 = b"s"  # before a hash
_TAKEN = "taken from job "  # begins the cause for which a task is done that was taken over
_CHUNK = 1 << 20


class Reused(NamedTuple):
    """What a job took over from an earlier one."""

    job: str  # the ID of that; nothing where there was none
    tasks: tuple[str, ...]  # that are done from the start
    again: Mapping[str, str]  # tasks that run, or the first and the last of several, and why
    name: str  # of the job

    def __str__(self) -> str:
        if not self.job:
            return f"no job {self.name} has ended here: all of it runs"
        taken = f"{len(self.tasks)} task{'s' if len(self.tasks) != 1 else ''} taken from job {self.job}"
        if self.tasks or not self.again:
            return taken
        first, why = next(iter(self.again.items()))
        return f"{taken}: {first} {'run' if ' to ' in first else 'runs'} again: {why}"

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], job: str, name: str) -> Reused:
        """What the story of a job says."""
        tasks, again = [], {}
        for row in rows:
            if row["what"] == "finished" and row["cause"].startswith(_TAKEN):
                tasks.append(row["task"])
                job = row["cause"].removeprefix(_TAKEN)
            elif row["what"] == "runs again":
                again[row["task"]] = row["cause"]
        return cls(job, tuple(tasks), again, name)


def noted(controller: Peer, text: bytes, params: bytes, dir: str) -> tuple[str, list[m.Content]]:
    """The name of a job, and what later jobs compare of it: what is in the files that its tasks name."""
    if _FEATURE not in controller.features:
        raise RequestError(UNAVAILABLE, "the controller is older and takes over nothing for this client: cascade run --resume does")
    named, _ = controller.ask(lambda req: m.NamedReq(req, text, params))
    return named.name, sorted([m.Content(_NOTED), *_contents(named.files, dir)], key=lambda c: os.fsencode(c.name))


def _contents(paths: Iterable[str], dir: str) -> Iterator[m.Content]:
    for path in paths:
        at = os.path.join(dir, path)
        try:
            regular = stat.S_ISREG(os.stat(at).st_mode)
        except OSError:  # most texts are no path
            continue
        if regular:
            with contextlib.suppress(FileNotFoundError, PermissionError):  # gone meanwhile, or nothing that a task could read
                yield m.Content(_FILE + path, _SHA256 + _digest(at))


def _digest(path: str) -> bytes:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()
