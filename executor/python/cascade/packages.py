"""Files of environments travel as packages: archives that are named by their content.

    seal(environments, dir) ──▶ environments with package:sha256:HASH/NAME for paths, and the packages to send
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from typing import Any

from .archive import PREFIX, Entry, Package, is_archive, list_tree
from .download import Download
from .elf import platform_of

_AT_REST = 3_000_000_000  # nanoseconds: a file that changed later may change again and say the same time
_MOST_KNOWN = 32  # packages

# The files of each package when it was packed last, and the package; the one that was asked for last is last. Of each
# source only that is kept: the files of a large folder that is edited again and again would fill the memory.
_known: dict[tuple[str, str, str], tuple[list[Entry], Package]] = {}


def seal(environments: Mapping[str, Any], dir: str, platforms: bool = True) -> tuple[dict[str, Any], list[Package]]:
    """The environments of a job file with packages in the places of what is on this host or at an address, and the packages.

    Each is there once. Relative paths refer to an environment's source, and that to dir. What is not here stays a path:
    hosts that run its tasks may have it. With platforms a binary becomes that of the platform for which it was built.
    """
    packages: dict[bytes, Package] = {}

    def pack(path: str, key: str, make: Callable[[str], Package], at: str, program: bool = False) -> str:
        source = os.path.normpath(os.path.join(at, path))
        made: Package | None = None
        try:
            if path.startswith(("http://", "https://")):
                made = None if program else Download.of(path)
            elif path != "" and not path.startswith(PREFIX) and os.path.exists(source):
                made = make(source)
        except ValueError as e:
            raise ValueError(f"{key}: {e}") from e
        if made is None:
            return path
        packages.setdefault(made.hash, made)
        return str(made)

    sealed: dict[str, Any] = {}
    for name, settings in environments.items():
        sealed[name] = settings
        if not isinstance(settings, Mapping):
            continue  # the controller says what is wrong with it
        own = sealed[name] = dict(settings)
        at = os.path.join(dir, str(own.get("source") or ""))
        if isinstance(own.get("working_dir"), str):
            own["working_dir"] = pack(own["working_dir"], f"environment {name!r}: working_dir", _folder, at)
        what, binary = f"environment {name!r}: binary", own.get("binary")
        if isinstance(binary, str):
            path = pack(binary, what, _program, at, True)
            platform = _built_for(binary, what, at) if platforms else ""
            own["binary"] = {platform: path} if platform else path
        elif isinstance(binary, Mapping):
            own["binary"] = {
                platform: pack(path, f"{what} {platform}", _program_for(platform), at, True) if isinstance(path, str) else path
                for platform, path in binary.items()
            }
        modules = own.get("py_modules")
        if isinstance(modules, str):
            modules = [modules]
        if isinstance(modules, (list, tuple)):
            what = f"environment {name!r}: py_modules"
            own["py_modules"] = [pack(m, what, _module, at) if isinstance(m, str) else m for m in modules]
    return sealed, list(packages.values())


def _built_for(path: str, key: str, at: str) -> str:
    """The platform of a program that is on this host, else nothing."""
    source = os.path.normpath(os.path.join(at, path))
    if path == "" or path.startswith((PREFIX, "http://", "https://")) or not os.path.isfile(source):
        return ""
    try:
        return platform_of(source)
    except ValueError as e:
        raise ValueError(f"{key}: {e}") from e


def _program_for(platform: str) -> Callable[[str], Package]:
    """Packs a program, unless it was built for another platform."""

    def make(source: str) -> Package:
        made = _program(source)
        if platform_of(source) not in ("", platform):
            raise ValueError(f"{source} was built for {platform_of(source)}")
        return made

    return make


def _folder(source: str) -> Package:
    if not os.path.isdir(source) and not is_archive(source):
        raise ValueError(f"{source}: want a folder or a .zip")
    return _packed(source)


def _module(source: str) -> Package:
    if os.path.isdir(source):
        return _packed(source, prefix=os.path.basename(source) if os.path.exists(os.path.join(source, "__init__.py")) else "")
    if not is_archive(source) and not source.endswith(".py"):
        raise ValueError(f"{source}: want a folder, a .py file, a .zip or a .whl")
    return _packed(source)


def _program(source: str) -> Package:
    mode = os.stat(source).st_mode
    if not stat.S_ISREG(mode) or not mode & 0o111:
        raise ValueError(f"{source}: want a file that can be executed")
    return _packed(source, rename="executor")


def _packed(source: str, prefix: str = "", rename: str = "") -> Package:
    """A package of a folder or file. Of what has not changed since it was packed last nothing is read again."""
    now = time.time_ns()
    if is_archive(source) and os.path.isfile(source):
        files = [Entry.of(".", os.stat(source))]
    else:
        files = list_tree(source)
    if any(max(f.times) > now - _AT_REST for f in files):
        return Package(source, prefix, rename)
    key = source, prefix, rename
    known = _known.pop(key, None)
    if known is None or known[0] != files:
        known = files, Package(source, prefix, rename)
    _known[key] = known
    if len(_known) > _MOST_KNOWN:
        _known.pop(list(_known)[0], None)
    return known[1]


def forget() -> None:
    """Everything is read again: something has changed although its files say the same times."""
    _known.clear()
