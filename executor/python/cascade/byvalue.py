"""Functions that were sent by value. Only executors import this module: they alone unpickle."""

from __future__ import annotations

import base64
import functools
import pickle
from typing import Any


@functools.lru_cache(maxsize=256)
def _function(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def call(cascade_function: str, **arguments: Any) -> Any:
    """Calls a function that came as text."""
    return _function(cascade_function)(**arguments)
