"""Arguments of tasks for which a job file has no words, or too many: they are given as datasets.

    g.add(f, x=value) ──encoded()──▶ a small one goes within the job file, under `with:`, a large one as an input of the job
    f(x=value)        ◀──taken()───  an executor
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

from . import inputs
from .jobtext import written
from .values import BYTES, VALUES, Encoded, TypeMismatch, decode, encode

SMALL = 16 << 10  # bytes of a value that stays within the job file


def encoded(name: str, value: Any, plain: Callable[[str, Any], Any]) -> Encoded | None:
    """A value as a dataset; None for a small one that a job file can have. plain makes that, and raises for what it cannot have."""
    try:
        text = plain(name, value)
        if not isinstance(text, (str, list, dict)) or len(written(text)) <= SMALL:
            return None
    except (TypeError, ValueError):
        pass
    try:
        made = encode(value)
    except TypeMismatch as e:
        raise TypeError(f"{name}: {e}") from e
    if isinstance(value, (bytes, bytearray)):
        made.dtype = BYTES
    return made


def row(value: Encoded, inside: bool) -> list[Any]:
    """The entry of a value in VALUES, with its bytes when they are inside."""
    data = base64.b64encode(value.tobytes()).decode() if inside else None
    return [value.codec, value.dtype, [int(n) for n in value.shape], data]


def taken(parameters: dict[str, Any], hints: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of a run with the values that are inside; and codec, dtype and shape of those that are inputs, by name."""
    named = dict(parameters)
    outside = {}
    for key, (codec, dtype, shape, data) in named.pop(VALUES).items():
        name = key.replace("-", "_")
        if data is None:
            outside[name] = {"codec": codec, "dtype": dtype, "shape": shape}
        else:
            try:
                named[name] = decode(codec, dtype, shape, base64.b64decode(data), hints().get(name))
            except ImportError as e:
                raise TypeMismatch(f"parameter {name}: {e}: add its package to pip of the environment") from e
            except (TypeMismatch, ValueError) as e:
                raise TypeMismatch(f"parameter {name}: {e}") from e
    return named, outside


class Files:
    """The large values of a graph, each once, in files that end with it: the client sends what they hold with the job."""

    def __init__(self) -> None:
        self._folder = ""
        self._of: dict[bytes, str] = {}

    def add(self, name: str, value: Encoded) -> tuple[str, bool]:
        """The file of a value, and whether it is new."""
        data = value.tobytes()
        digest = hashlib.sha256(data).digest()
        if digest in self._of:
            return self._of[digest], False
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="cascade-values-")
            weakref.finalize(self, _remove, self._folder, self._of, os.getpid())
        path = os.path.join(self._folder, str(len(self._of)), name)
        os.mkdir(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(data)
        inputs.passing.add(path)
        self._of[digest] = path
        return path, True


def _remove(folder: str, files: dict[bytes, str], process: int) -> None:
    """Removes the files of a graph, unless the process is one that was forked from that which has it."""
    if os.getpid() == process:
        inputs.passing.difference_update(files.values())
        shutil.rmtree(folder, ignore_errors=True)
