"""Tasks that write beside their code."""

import os
import pathlib
import shutil

HERE = pathlib.Path(__file__).parent


def spoil():
    """Tries in several ways to change the folder in which it was started, and that of its module; it returns what worked."""
    worked = []
    for folder in (pathlib.Path("."), HERE):
        for name, do in {
            "write": lambda: (folder / "left.txt").write_text("left"),
            "replace": lambda: os.replace(folder / "data.txt", folder / "other.txt"),
            "remove": lambda: (folder / "data.txt").unlink(),
            "change": lambda: (folder / "data.txt").write_text("changed"),
            "remove all": lambda: shutil.rmtree(folder),
        }.items():
            try:
                do()
                worked.append(f"{name} in {folder}")
            except OSError:
                pass
    return worked


def look(after):
    """The files that are there, and whether modules were compiled when the environment was built."""
    found = [sorted(p.name for p in folder.iterdir()) for folder in (pathlib.Path("."), HERE)]
    return [*found, pathlib.Path("data.txt").read_text(), os.path.exists(__cached__)]


def write():
    """Writes where it must not."""
    open("left.txt", "w")


def hashes():
    """The hash of a text."""
    return hash("north")
