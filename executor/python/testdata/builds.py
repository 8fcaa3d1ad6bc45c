"""What a client that waits says of environments that are being built."""

import contextlib
import io
import uuid
from typing import Any

from cascade import values
from cascade.job import Job
from cascade.bars import Builds
from cascade.wire import messages as m


def row(name: str, state: str, agent: str = "h1", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "python", "state": state, "agent": agent, **more}


says: list[str] = []
answers = [
    [row("sci", "unused", "")],
    [row("sci", "building")],
    [row("sci", "building"), row("sci", "building", "h2", error="the index does not answer")],
    [row("sci", "ready", seconds=48.2), row("sci", "building", "h2")],
    [row("sci", "ready", seconds=48.2), row("sci", "failed", "h2", error="no such package")],  # the task's error says it
    [row("sci", "ready", seconds=48.2), row("sci", "ready", "h3", seconds=1)],  # nobody was told that this one is built
    [row("sci", "building", "h4")],
    [],  # h4 is lost, and its build with it
]
builds = Builds(lambda: answers.pop(0), says.append)
while answers:
    builds.look()
    print(f"{'; '.join(says) or 'nothing'}: the next look after {builds.wait:g} s")
    says.clear()


class Controller:
    """What a client hears of a job: nothing for a while, then its result."""

    def __init__(self) -> None:
        sent = values.encode(7).tobytes()
        result = m.LocatedData("t.o", m.Desc(codec=values.MSGPACK, size=len(sent), place=m.Place(m.INLINE, sent)))
        self.end_of_job = m.Progress(name="job", phase=4, result=True, final=True, values=[result])
        self.silent = True

    def check(self) -> None:
        pass

    def start(self, request: Any) -> int:
        return 1

    def answer(self, req: int, wait: float | None = None) -> Any:
        if wait == 0:
            return None
        if wait is not None and self.silent:
            self.silent = False
            return None
        return self.end_of_job, b""

    def end(self, req: int) -> None:
        pass


class Cluster:
    def __init__(self) -> None:
        self._controller = Controller()

    def _rows(self, kind: str, job: bytes, filter: str) -> list[dict[str, Any]]:
        return [row("sci", "building")]


for told in (1, 0):  # a job of this client's, and one that was submitted before
    for progress in (None, True, False):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            job = Job(Cluster(), uuid.UUID(int=1), told, outputs=["t.o"] if told else [])  # type: ignore[arg-type]
            got = job.result("t.o", progress=progress)
        print(f"told {told}, progress {progress}: {got}, and says {said.getvalue()!r}")
