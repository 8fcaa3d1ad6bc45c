"""A package: what is shipped of a folder or file, as an archive that is named by its content.

Equal content has equal bytes, whoever packs it: the Go client writes the same archive, to the bit. So files are in
order and not compressed, and of their attributes only that of a program is kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .ignore import LIST_NAMES, IgnoreList

MAX_BYTES, MAX_FILES = 1 << 30, 50_000  # of one folder
CHUNK = 1 << 20
PREFIX = "package:sha256:"  # of the name of a package in a job


class Changed(Exception):
    """Files changed between the hashing of a package and its sending: pack them anew."""


class Package:
    """What is shipped of a folder or file, as an archive."""

    def __init__(self, source: str, prefix: str = "", rename: str = "") -> None:
        """prefix is a folder in the archive, rename the name there of a single file."""
        self._source, self._prefix, self._rename = source, prefix, rename
        self.name = os.path.basename(source)
        digest = hashlib.sha256()
        self.size = 0
        for chunk in self._archive():
            digest.update(chunk)
            self.size += len(chunk)
        self.hash = digest.digest()

    def __str__(self) -> str:
        """The form that stands in a job."""
        return f"{PREFIX}{self.hash.hex()}/{self.name}"

    def send(self, most: int, piece: Callable[[int, bytes], None]) -> None:
        """Gives the archive in pieces of at most so many bytes, in order: piece(offset, bytes).

        The last is given only when all of it is what it was when it got its name; else Changed is raised.
        """
        digest, room, sent = hashlib.sha256(), bytearray(), 0
        for chunk in self._archive():
            digest.update(chunk)
            room += chunk
            while len(room) > most:
                piece(sent, bytes(room[:most]))
                sent += most
                del room[:most]
        if sent + len(room) != self.size or digest.digest() != self.hash:
            raise Changed(f"{self._source} has changed meanwhile")
        piece(sent, bytes(room))

    def _archive(self) -> Iterator[bytes]:
        if not os.path.isdir(self._source) and not self._rename and is_archive(self._source):
            yield from content(self._source, os.stat(self._source).st_size)
            return
        entries = []
        for f in list_tree(self._source):
            path = self._source if f.name == "." else os.path.join(self._source, f.name)
            name = (self._rename or self.name) if f.name == "." else f.name
            name = f"{self._prefix}/{name}" if self._prefix else name
            entries.append((path, os.fsencode(name), f.mode, f.size, os.fsencode(f.target)))
        yield from _zip(entries)


class Entry(NamedTuple):
    """A file of a folder. Equal ones have the same content, unless one has just been changed."""

    name: str
    mode: int
    size: int
    target: str  # of a link
    place: tuple[int, int]  # device and inode
    times: tuple[int, int]  # of the last change of its content, and of anything, in nanoseconds since 1970

    @classmethod
    def of(cls, name: str, info: os.stat_result, target: str = "") -> Entry:
        """The entry of a file or link."""
        return cls(name, info.st_mode, info.st_size, target, (info.st_dev, info.st_ino), (info.st_mtime_ns, info.st_ctime_ns))


def is_archive(path: str) -> bool:
    """Whether a file is an archive that is unpacked, by its name."""
    return os.path.splitext(path)[1].lower() in (".zip", ".whl")


def list_tree(source: str) -> list[Entry]:
    """What is shipped of a folder, in order. A file is a tree of one: "."."""
    info = os.stat(source)
    if not stat.S_ISDIR(info.st_mode):
        _bound(source, 1, info.st_size)
        return [Entry.of(".", info)]
    ignored = IgnoreList.of(source)
    found: list[Entry] = []
    total = 0
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(source, folder)) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if ignored.ignores(name, is_folder):
                    continue
                if is_folder:
                    folders.append(name)
                    continue
                info = entry.stat(follow_symlinks=False)
                found.append(Entry.of(name, info, _target(source, name, info.st_mode)))
                total += info.st_size
                _bound(source, len(found), total)
    found.sort(key=lambda f: os.fsencode(f.name))
    return found


def _target(source: str, name: str, mode: int) -> str:
    """That of a link, which must stay in the folder; "" for a file."""
    path = os.path.join(source, name)
    if stat.S_ISREG(mode):
        return ""
    if not stat.S_ISLNK(mode):
        raise ValueError(f"{path} is neither a file nor a folder nor a link: name it in {LIST_NAMES[0]}")
    target = os.readlink(path)
    by_text = os.path.normpath(os.path.join(os.path.dirname(name), target))
    root = os.path.realpath(source)
    if os.path.isabs(target) or by_text.split("/")[0] == ".." or os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise ValueError(
            f"{path} is a link to {target}, outside of the folder: put the file in its place, or name the link in {LIST_NAMES[0]}"
        )
    return target


def _bound(source: str, files: int, total: int) -> None:
    if files > MAX_FILES or total > MAX_BYTES:
        raise ValueError(
            f"{source} has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: "
            f"data belongs beside the code, and what is not needed into {LIST_NAMES[0]}"
        )


def content(path: str, size: int) -> Iterator[bytes]:
    """size bytes of a file; one that has another size by now is being changed."""
    have = 0
    with open(path, "rb") as f:
        while chunk := f.read(CHUNK):
            have += len(chunk)
            if have > size:
                break
            yield chunk
    if have != size:
        raise Changed(f"{path} changes while it is read")


def _zip(entries: list[tuple[str, bytes, int, int, bytes]]) -> Iterator[bytes]:
    """An archive of (path, name, mode, size, link target) as Go's archive/zip writes it: stored, sizes behind the content.

    Bounds of folders are far below those from which a zip needs 64-bit sizes.
    """
    directory: list[bytes] = []
    at = 0
    for path, name, mode, size, target in entries:
        flags = 0x808 if _needs_utf8(name) else 0x8
        header = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, flags, 0, 0, 0, 0, 0, 0, len(name), 0) + name
        yield header
        crc = have = 0
        for chunk in [target] if target else content(path, size):
            crc = zlib.crc32(chunk, crc)
            have += len(chunk)
            yield chunk
        yield struct.pack("<IIII", 0x08074B50, crc, have, have)
        if target:
            attributes = (stat.S_IFLNK | 0o777) << 16
        else:
            attributes = (stat.S_IFREG | (0o500 if mode & 0o111 else 0o400)) << 16 | 1  # read-only, as DOS has it
        directory.append(
            struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 3 << 8 | 20, 20, flags, 0, 0, 0, crc, have, have,
                        len(name), 0, 0, 0, 0, attributes, at) + name
        )  # fmt: skip
        at += len(header) + have + 16
    yield from directory
    length = sum(map(len, directory))
    yield struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(entries), len(entries), length, at, 0)


def _needs_utf8(name: bytes) -> bool:
    """Whether a name says that it is UTF-8: not when it reads the same in every old encoding, or is none."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return any(c < " " or c > "}" or c == "\\" for c in text)
