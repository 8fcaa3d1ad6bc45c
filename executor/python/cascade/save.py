"""Outputs become files, as the command `cascade run` writes them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import json
import os
import stat
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from .values import MSGPACK, unpacked

_PLAIN = str.maketrans({"[": "-", "]": None, ",": "-", "/": "_"})


def save(dir: str, outputs: Iterable[tuple[str, str]], content: Callable[[str], Any]) -> list[str]:
    """Writes outputs, given by name and path, to files, and returns those. Where there is no path, there is no file."""
    names: dict[str, str] = {}
    for name, path in outputs:
        if not path:
            continue
        file = _file(dir, name, path)
        if file in names:
            raise ValueError(
                f"outputs {names[file]} and {name} would both be copied to {file}: give a folder, with a slash at its end"
            )
        names[file] = name
    for file, name in names.items():
        data = content(name)
        try:
            _write(file, data)
        except OSError as e:
            raise type(e)(e.errno, f"copy output {name} to {file}: {e.strerror}") from e
    return list(names)


def _file(dir: str, name: str, path: str) -> str:
    """Where an output goes. Values of loops may be any text: a slash in one leads into no other folder."""
    at = os.path.join(dir, path)
    if not path.endswith("/"):
        return os.path.normpath(at)
    task, dot, output = name.rpartition(".")
    output, bracket, element = output.partition("[")
    return os.path.join(os.path.normpath(at), (task + bracket + element).translate(_PLAIN) + dot + output)


def _write(file: str, content: Any) -> None:
    """Writes a file that is whole when it is there. What is no regular file, as a pipe, is written into; a link is followed."""
    file = os.path.realpath(file)
    folder = os.path.dirname(file)
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(file).st_mode):
            with open(file, "wb", buffering=0) as f:
                _all(f.fileno(), content)
            return
    part = os.path.join(folder, f".{os.path.basename(file)}.{uuid.uuid4().hex}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _all(fd, content)
        finally:
            os.close(fd)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def _all(fd: int, content: Any) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def text(codec: str, data: Any) -> Any:
    """The bytes of a file: those of the store, but of msgpack JSON on one line, as far as that can say it."""
    if codec != MSGPACK:
        return data
    try:
        return (_json(unpacked(data)) + "\n").encode("utf-8", "replace")
    except (TypeError, ValueError) as e:
        warnings.warn(f"an output is written as msgpack, not as JSON: {e}", stacklevel=2)
        return data


def _json(value: Any) -> str:
    """JSON with the keys sorted, bytes in base64, times as in RFC 3339, and null for numbers that are not finite."""
    if isinstance(value, dict):
        keys = [(_key(k), v) for k, v in value.items()]
        return "{" + ",".join(f"{_json(k)}:{_json(v)}" for k, v in sorted(keys, key=lambda kv: kv[0])) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, datetime.datetime):
        second = value.astimezone(datetime.timezone.utc)
        part = f"{second.microsecond:06d}".rstrip("0")
        return f'"{second:%Y-%m-%dT%H:%M:%S}{"." if part else ""}{part}Z"'
    return json.dumps(value, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return str(key).lower()
    if not isinstance(key, int):
        raise ValueError(f"a key is {key!r}, and JSON has texts: str() makes it one")
    return str(key)


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        plain = f"{decimal.Decimal(repr(value)):f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return repr(value).replace("e-0", "e-")
