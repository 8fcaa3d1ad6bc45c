"""Functions that were sent by value, as executors load and keep them."""

from __future__ import annotations

import base64
import pickle
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .executor.code import missing
from .executor.targets import Coded, coded

_MOST = 256  # functions that are kept
_known: OrderedDict[str, Any] = OrderedDict()  # by the key of their code; what was used last is at the end


class NotLoaded(Exception):
    """A function cannot be had here. stack is the traceback of what it needs, if that failed."""

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self.stack = stack


def kept(key: str, load: Callable[[], Any]) -> Any:
    """What was loaded under a key, which is loaded once while it is used."""
    found = _known.get(key)
    if found is not None:
        _known.move_to_end(key)
        return found
    made = load()
    while len(_known) >= _MOST:
        _known.popitem(last=False)
    return _known.setdefault(key, made)


def call(cascade_function: str, **arguments: Any) -> Any:
    """Calls a function that came as text."""
    return kept(cascade_function, lambda: pickle.loads(base64.b64decode(cascade_function)))(**arguments)


def function(name: str, key: str, code: Callable[[], bytes]) -> Callable[..., Any]:
    """A function or class of cascade.remote by its code, which is asked for and read once while it is used."""
    return kept(key, lambda: _loaded(name, coded(code(), key)))  # type: ignore[no-any-return]


def _loaded(name: str, own: Coded) -> Any:
    version, _, pickled = own.data.partition(b"\n")
    here = ".".join(map(str, sys.version_info[:2]))
    if version.decode() != here:
        raise NotLoaded(f"function {name} comes from Python {version.decode()}, and its executor runs Python {here}: "
                        "its code goes between equal versions only")  # fmt: skip
    try:
        remote = pickle.loads(pickled)
    except Exception as e:
        raise NotLoaded(f"function {name} cannot be loaded: {type(e).__name__}: {e}{missing(e)}", traceback.format_exc()) from None
    remote._has_come(own)
    return remote.__cascade_function__
