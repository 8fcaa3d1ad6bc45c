"""Inputs of a job: the client hashes files, and sends them ahead by their content.

    seal(inputs, dir, here) ──▶ inputs with what their files hold by now, and the packages to send
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .archive import Package, content

CARRIED = 64 << 20  # bytes up to which a file goes to the controller; larger ones stay where an agent can read them
MOST_KEPT = 4 << 30  # of one file that a controller keeps
passing: set[str] = set()  # files that end with this process, and so go to the controller whatever their size


class File(Package):
    """A file as it is, and no archive of it."""

    def _archive(self) -> Iterator[bytes]:
        with open(os.open(self._source, os.O_RDONLY | os.O_NONBLOCK), "rb") as f:  # a pipe would block
            info = os.fstat(f.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{self._source} is no regular file")
        yield from content(self._source, info.st_size)


def seal(inputs: Mapping[str, Any], dir: str, here: Callable[[], str]) -> tuple[dict[str, Any], list[Package]]:
    """The inputs of a job file with SHA-256 and size of their files, and the packages to send. Relative paths refer to dir.

    here names the resource that agents on this host have, if one is ready.
    """
    packages: dict[bytes, Package] = {}
    place: list[str] = []

    def one(name: str, entry: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        if "file" not in entry:
            return entry
        path = os.path.join(dir, str(entry["file"]).replace("$${", "${"))
        try:
            file = File(path)
        except (OSError, ValueError) as e:
            raise ValueError(f"input {name!r}: {e}") from e
        hash = file.hash.hex()
        if entry.get("sha256", hash) != hash:
            raise ValueError(f"input {name!r}: {path} has the SHA-256 {hash}, and the job wants {entry['sha256']}")
        sealed = {**entry, "file": path.replace("${", "$${"), "sha256": hash, "size": file.size}
        large = file.size > CARRIED and path not in passing
        if large and not place:
            place.append(here())
        if large and place[0]:
            settings.setdefault("resources", {})[place[0]] = 0.001
        elif file.size > MOST_KEPT:
            raise ValueError(
                f"input {name!r}: {path} has {file.size} bytes, no agent of the cluster reads it on this host, "
                f"and a controller keeps files up to {MOST_KEPT} bytes"
            )
        else:
            sealed["kept"] = True
            packages.setdefault(file.hash, file)
        return sealed

    out: dict[str, Any] = {}
    for name, entry in inputs.items():
        settings = out[name] = dict(entry)
        if "files" in entry:
            settings["files"] = [one(name, dict(e), settings) for e in entry["files"]]
        else:
            settings.update(one(name, dict(entry), settings))
    return out, list(packages.values())


def host() -> str:
    """The resource that agents have that run on this host, in this root folder and network."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as f:
            text = f.read()
        for path in ("/", "/proc/self/ns/net"):
            info = os.stat(path)
            text += f" {info.st_dev} {info.st_ino}".encode()
    except OSError:
        return ""
    return "host-" + hashlib.sha256(text).hexdigest()[:12]
