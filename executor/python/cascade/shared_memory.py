"""Bytes of datasets in the shared memory of this host, as a client sees them.

A file that is one dataset alone is mapped, and locked meanwhile (flock, shared): agents leave the pages of such a file to
those that read it, also when the dataset is moved or deleted, the agent is killed, or another takes over what it had.
The mapping holds the lock: both end with the last object that looks at it. All else is copied.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource

from .wire.envelope import LinkError


def read(path: str, offset: int, size: int, views: bool) -> mmap.mmap:
    """A part of a file, which is held meanwhile: the pages themselves, with views where that is possible, or a copy."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        view = _view(file, size) if views and offset == 0 else None
        return _copy(file, path, offset, size) if view is None else view
    finally:
        os.close(file)


def _view(file: int, size: int) -> mmap.mmap | None:
    """A file that is the dataset alone, read-only; None where it is not, or when the process has many open already."""
    info = os.fstat(file)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if info.st_size != size or info.st_mode & 0o222 or 0 <= most < 2 * file:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return mmap.mmap(file, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)  # with a descriptor of its own, of the same lock
    except OSError:
        return None


def room(size: int) -> mmap.mmap:
    """Memory for a large value, in large pages where the system has such: most of a copy's time is spent on getting pages."""
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            made.madvise(mmap.MADV_HUGEPAGE)
    return made


def _copy(file: int, path: str, offset: int, size: int) -> mmap.mmap:
    made = room(size)
    at = 0
    with memoryview(made) as view:
        while at < size:  # the system reads up to 2 GiB at once
            n = os.preadv(file, [view[at:]], offset + at)
            if n == 0:
                raise LinkError(f"{path} ends {size - at} bytes before the end of a dataset")
            at += n
    return made
