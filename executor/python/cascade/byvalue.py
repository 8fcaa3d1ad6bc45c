"""Functions that were sent by value. Only executors import this module: they alone unpickle."""

from __future__ import annotations

import base64
import functools
import pickle
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .executor.code import missing

_MOST = 256  # functions that are kept
_known: OrderedDict[str, Callable[..., Any]] = OrderedDict()  # by hash; what was used last is at the end


class NotLoaded(Exception):
    """A function cannot be had here. stack is the traceback of what it needs, if that failed."""

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self.stack = stack


@functools.lru_cache(maxsize=256)
def _function(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def call(cascade_function: str, **arguments: Any) -> Any:
    """Calls a function that came as text."""
    return _function(cascade_function)(**arguments)


def function(name: str, hash: str, code: Callable[[], bytes]) -> Callable[..., Any]:
    """A function of cascade.remote by its code, which is asked for and read once while it is used."""
    found = _known.get(hash)
    if found is not None:
        _known.move_to_end(hash)
        return found
    data = code()
    version, _, pickled = data.partition(b"\n")
    here = ".".join(map(str, sys.version_info[:2]))
    if version.decode() != here:
        raise NotLoaded(f"function {name} comes from Python {version.decode()}, and its executor runs Python {here}: "
                        "its code goes between equal versions only")  # fmt: skip
    try:
        remote = pickle.loads(pickled)
    except Exception as e:
        raise NotLoaded(f"function {name} cannot be loaded: {type(e).__name__}: {e}{missing(e)}", traceback.format_exc()) from None
    remote._has_come(hash, data)
    while len(_known) >= _MOST:
        _known.popitem(last=False)
    made: Callable[..., Any] = _known.setdefault(hash, remote.__cascade_function__)
    return made
