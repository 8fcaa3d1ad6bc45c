"""Outputs become files by the rules of the command `cascade run`: both pass the tests of internal/outfile/testdata/outputs.json."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import astext
from .values import MSGPACK

_DESCRIPTOR = re.compile(r"/dev/std(?:out|err)|(?:/dev/fd|/proc/self/fd)/([0-9]+)")
_LONGEST = 200  # bytes of the name of a file of which another is named that is written beside it
_PLAIN = str.maketrans({"[": "-", "]": None, ",": "-", "/": "_"})
_EXACT = str.maketrans({"/": "%2F", "%": "%25"})


def save(dir: str, outputs: Sequence[tuple[str, str]], missing: Iterable[str], content: Callable[[str], Any]) -> list[str]:
    """Writes outputs, given by name and path, to files, and returns those. Where there is no path, there is no file.

    missing are further outputs, which are not there. An OSError tells what could not be
    written, when all others are.
    """
    taken: dict[str, str] = {}
    failed: list[tuple[str, Exception]] = []
    for (name, _), file in zip(outputs, paths(dir, outputs, missing)):  # noqa: B905 (of one length)
        if not file:
            continue
        try:
            if file in taken:
                raise FileExistsError(errno.EEXIST, f"output {taken[file]} is copied there")
            taken[file] = name
            _write(file, content(name))
        except Exception as e:
            failed.append((f"copy output {name} to {file}: {getattr(e, 'strerror', None) or e}", e))
    if failed:
        first, text = failed[0][1], "\n".join(text for text, _ in failed)
        raise OSError(getattr(first, "errno", None) or errno.EIO, text) from first
    return list(taken)


def paths(dir: str, outputs: Sequence[tuple[str, str]], missing: Iterable[str] = ()) -> list[str]:
    """Where outputs go, "" for those without a path.

    In a folder a file has the name of its output, written plainly. Those that would have one name, also with outputs that are
    missing, have names as references write them. Values of loops may be any text: a slash in one leads into no other folder.
    """
    plain: dict[str, set[str]] = {}
    for name in (*(name for name, _ in outputs), *missing):
        plain.setdefault(_name(name, _PLAIN), set()).add(name)
    files = []
    for name, path in outputs:
        file = os.path.normpath(os.path.join(dir, path)) if path else ""
        if path.endswith("/"):
            alone = len(plain[_name(name, _PLAIN)]) == 1
            file = os.path.join(file, _name(name, _PLAIN if alone else _EXACT))
        files.append(file)
    return files


def _name(output: str, table: dict[int, Any]) -> str:
    """The name of an output's file: its task with the number of an element, whose characters a table replaces, and its ending."""
    task, dot, ending = output.rpartition(".")
    if not dot:
        task, ending = output, ""
    ending, bracket, element = ending.partition("[")
    return (task + bracket + element).translate(table) + dot + ending


def _write(file: str, content: Any) -> None:
    """Writes a file that is whole when it is there, with the mode of one that is replaced.

    A path of an open file, such as /dev/stdout, is written at that file's position. Pipes and devices are written into; links are
    followed.
    """
    if (found := _DESCRIPTOR.fullmatch(file)) is not None:
        number = {"/dev/stdout": 1, "/dev/stderr": 2}.get(file)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):  # there is none, or it is closed
                stream.flush()
        with os.fdopen(os.dup(int(found[1]) if number is None else number), "wb", buffering=0) as f:
            _all(f.fileno(), content)
        return
    os.makedirs(os.path.dirname(file), exist_ok=True)
    file = os.path.realpath(file)
    mode = None
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(file).st_mode
    if mode is not None and not stat.S_ISREG(mode):
        with open(os.open(file, os.O_WRONLY | os.O_CLOEXEC), "wb", buffering=0) as f:
            _all(f.fileno(), content)
        return
    folder, name = os.path.split(os.fsencode(file))
    short = name[:_LONGEST].decode("utf-8", "ignore").encode()
    part = os.path.join(folder, b".%s.%s" % (short, uuid.uuid4().hex.encode()))
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode & 0o666)
            _all(fd, content)
        finally:
            os.close(fd)
        os.replace(part, os.fsencode(file))
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
        return astext.line(data)
    except ValueError as e:
        warnings.warn(f"an output is written as msgpack, not as JSON: {e}", stacklevel=2)
        return data
