"""Where the programs of Cascade are: a wheel that brings them puts them beside the interpreter's own scripts."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

from . import __version__


def find(*names: str, folder: str = "") -> list[str]:
    """The paths of programs: in a folder, or else beside this interpreter's scripts, beside the interpreter, and in PATH."""
    paths = [shutil.which(name, path=folder or _path()) for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if path is None]
    if missing:
        places = f"not in {folder}" if folder else "neither beside this interpreter nor in PATH"
        raise FileNotFoundError(
            f"{' and '.join(missing)}: {places}: install the wheel that brings them (just wheel; pip install dist/FILE), "
            "or say where they are, programs=FOLDER"
        )
    return [path for path in paths if path is not None]


def _path() -> str:
    mine = sysconfig.get_path("scripts")
    user = sysconfig.get_path("scripts", f"{os.name}_user")
    return os.pathsep.join([mine, user, os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


def compare(program: str, build: str) -> None:
    """Raises RuntimeError for a program of another version than this package; build is what it says of itself."""
    number = build.partition(" ")[0]
    if number != __version__:
        raise RuntimeError(
            f"{program} is of version {number or 'unknown'}, this package (cascade-run) of {__version__}: "
            "install both from one wheel, or programs of this version and programs=FOLDER"
        )
