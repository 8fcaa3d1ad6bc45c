"""What the process of an actor runs: cascade.actors.CLASS, so that whoever looks at calls sees of which class the actor is."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .executor.actorhost import serve

    return serve
