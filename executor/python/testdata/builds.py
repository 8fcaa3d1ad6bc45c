"""What a client that waits says of environments that are being built."""

from typing import Any

from cascade.client import _Builds


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
]
builds = _Builds(lambda: answers.pop(0), says.append)
while answers:
    builds.look()
    print(f"{'; '.join(says) or 'nothing'}: the next look after {builds.wait:g} s")
    says.clear()
