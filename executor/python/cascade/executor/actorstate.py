"""The state of an actor that may be restarted: saved behind some of its calls, and what another process of it begins with.

It is what pickle keeps of an object: what __getstate__ returns, else its attributes. __setstate__ takes it.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from .described import MOST_BYTES

MOST_UNSAVED = 16 << 20  # bytes of the arguments of calls behind the saved state


class Saves:
    """When the state of an actor is saved."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._calls = self._bytes = 0  # since it was saved last

    def due(self, args: Sequence[Any]) -> bool:
        """Whether it is to be saved behind a call with such arguments."""
        self._calls += 1
        self._bytes += sum(d[5] for d in args)
        if self._calls < self._every and self._bytes < MOST_UNSAVED:
            return False
        self._calls = self._bytes = 0
        return True

    def saved(self, actor: Any) -> bytes:
        """The state of an actor."""
        state = actor.__getstate__() if hasattr(actor, "__getstate__") else actor.__dict__
        try:
            data = pickle.dumps(state, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError):
            import cloudpickle  # it has functions and classes by value

            data = cloudpickle.dumps(state, protocol=5)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it takes {len(data)} bytes, and may take {MOST_BYTES}")
        return data


def restored(cls: Any, data: bytes) -> Any:
    """An object of a class with a state that was saved."""
    made = cls.__new__(cls)
    state = pickle.loads(data)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return made
    slots: dict[str, Any] = {}
    if isinstance(state, tuple) and len(state) == 2:  # of a class with __slots__
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, value in slots.items():
        setattr(made, name, value)
    return made
