"""Ways to processes of other hosts, for which the agent is asked (docs/protocol/actors.md, From host to host).

ask ──Reach──▶ agent ──Reached──▶ told: where to connect, once and soon
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from ..wire import messages as m

_numbers = itertools.count(1)
_open: dict[int, Asked] = {}  # of this process, by number. The lock of the worker guards it


class Asked:
    """A question to the agent."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.answer: m.Reached | None = None


def ask(host: Any, agent: str, at: str, address: str) -> Asked:
    """Asks for a way to a process that listens at an address on the host of an agent, which is asked at at.

    Without an agent it asks where that of this host is asked.
    """
    asked = Asked()
    with host.lock:
        number = next(_numbers)
        _open[number] = asked
        host.send(m.Reach(number, agent, at, address))
        host.flush()
    return asked


def told(message: m.Reached) -> None:
    """Takes an answer."""
    asked = _open.pop(message.req, None)
    if asked is not None:
        asked.answer = message
        asked.came.set()
