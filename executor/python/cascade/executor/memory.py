"""Shared memory in this process: what is mapped, who still looks at it, and the control page.

    dataset ──view()──▶ mmap, read-only ──buffer──▶ NumPy array, memoryview, ...   the task's views
                        or copy on write           for types that cannot be read-only: tensors
    lease   ──Region──▶ mmap, writable  ──buffer──▶ array of cascade.empty, or a copy of an output

Views keep their mmap alive; that is how this module knows of them. When the agent may give the memory to others
(an input when its run has ended, an output when it was published) and a view is still held, the pages are
replaced by a private copy at the same address: the view stays right, and no task can read memory of another.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref

PAGE = mmap.PAGESIZE
ALIGN = 64  # of every dataset

_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_MAYMOVE_FIXED = 1 | 2  # MREMAP_MAYMOVE | MREMAP_FIXED
_DONTUNMAP = 4
_NORESERVE = 0x4000
_LARGE = 1 << 20  # mappings whose pages are worth setting aside
_KEPT = 8  # mappings that are aside, at most
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = _libc.mremap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value


class _Buffer(ctypes.Structure):
    """Py_buffer of CPython's C API."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]  # fmt: skip


def address(buffer: object) -> int:
    """Where a contiguous buffer begins in memory; 0 for an empty one."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(view), 0)
    at = view.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return at


def detach(mapped: mmap.mmap) -> int:
    """Replaces a mapping by a private copy at the same address, and returns the bytes that were copied."""
    at, size = address(mapped), len(mapped)
    whole = -(-size // PAGE) * PAGE
    copy = _libc.mmap(None, whole, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if copy == _FAILED:
        raise MemoryError(f"{size} bytes for a view that outlives its task: {os.strerror(ctypes.get_errno())}")
    ctypes.memmove(copy, at, size)
    with memoryview(mapped) as view:
        if view.readonly:
            _libc.mprotect(copy, whole, mmap.PROT_READ)
    if _libc.mremap(copy, whole, whole, _MAYMOVE_FIXED, at) == _FAILED:
        raise MemoryError(f"replace {size} bytes by a copy: {os.strerror(ctypes.get_errno())}")
    return size


class Aside:
    """Pages of large mappings that are no longer used, at addresses of their own.

    To unmap or to protect a gibibyte takes 30 ms, page by page, for which consumers would have to wait. To move it takes
    microseconds, as whole page tables move; the mapping stays where it was without pages, and costs nothing then.
    """

    def __init__(self) -> None:
        self._pages: list[tuple[int, int]] = []
        self._works = True  # as far as is known

    def put(self, mapped: mmap.mmap) -> None:
        """Takes the pages of a mapping. Where the kernel cannot do that (before 5.13) nothing changes."""
        if not self._works:
            return
        if len(self._pages) >= _KEPT:
            self.clear()
        at, size = address(mapped), -(-len(mapped) // PAGE) * PAGE
        huge = 1 << 30 if size >= 1 << 30 else 2 << 20  # within which both have the same place
        reserved = _libc.mmap(None, size + huge, 0, _PRIVATE_ANONYMOUS | _NORESERVE, -1, 0)
        if reserved == _FAILED:
            return
        before = (at - reserved) % huge
        to = reserved + before
        if before:
            _libc.munmap(reserved, before)
        _libc.munmap(to + size, huge - before)
        if _libc.mremap(at, size, size, _MAYMOVE_FIXED | _DONTUNMAP, to) == _FAILED:
            self._works = False  # the addresses may be another's by now: they are not unmapped
            return
        self._pages.append((to, size))

    def clear(self) -> None:
        """Unmaps them; other threads of Python run meanwhile."""
        pages, self._pages = self._pages, []  # the helper and the main thread come here
        for at, size in pages:
            _libc.munmap(at, size)

    def __bool__(self) -> bool:
        return bool(self._pages)


def protect(mapped: mmap.mmap, aside: Aside) -> None:
    """Makes a mapping read-only: what was published is never written again."""
    if len(mapped) >= _LARGE:
        aside.put(mapped)
    _libc.mprotect(address(mapped), len(mapped), mmap.PROT_READ)


def let_go(maps: list[mmap.mmap], aside: Aside) -> int:
    """Ends the use of mappings. Those that a view still uses become private copies, whose bytes are returned."""
    for i in range(len(maps)):
        if len(maps[i]) >= _LARGE and sys.getrefcount(maps[i]) == 2:  # the list and the call: no view is left
            aside.put(maps[i])
    refs = [weakref.ref(m) for m in maps]
    maps.clear()
    copied = 0
    for ref in refs:
        mapped = ref()
        if mapped is not None:
            copied += detach(mapped)
    return copied


def map_range(path: str, offset: int, size: int, writable: bool = False, own: bool = False) -> tuple[mmap.mmap, int]:
    """Maps a part of a file, writable for all, or so that what is written is this process's own.

    It returns the mapping and where in it the part begins.
    """
    before = offset % PAGE
    prot = mmap.PROT_READ | mmap.PROT_WRITE if writable or own else mmap.PROT_READ
    fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return mmap.mmap(fd, before + size, mmap.MAP_PRIVATE if own else mmap.MAP_SHARED, prot, offset=offset - before), before
    except ValueError as e:
        raise OSError(f"map {size} bytes at {offset} of {path}: {e}") from None
    finally:
        os.close(fd)


class Region:
    """A lease: shared memory to write to, until all that lies in it is reported and the rest returned."""

    def __init__(self, segment: int, path: str, offset: int, size: int) -> None:
        self.segment, self.path, self.offset, self.size = segment, path, offset, size
        self.map: mmap.mmap | None = map_range(path, offset, size, writable=True)[0]
        self.used = 0

    def room(self, size: int) -> tuple[memoryview, int] | None:
        """Bytes to write to and their offset in the segment; None when they do not fit."""
        at = -(-self.used // ALIGN) * ALIGN
        if self.map is None or at + size > self.size:
            return None
        self.used = at + size
        return memoryview(self.map)[at : at + size], self.offset + at

    @property
    def is_file(self) -> bool:
        """Whether it is a file of its own, which takes one dataset."""
        return os.path.basename(self.path).startswith("f")


class ControlPage:
    """The page in which the agent reads, after this process died, which run it was at."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(fd, 64 << 10)
        finally:
            os.close(fd)
        if self._map[:8] != b"cascade1":
            raise OSError(f"control page {path} is of another version")
        self._words = memoryview(self._map).cast("Q")  # each is stored at once

    def begin(self, run: int, attempt: int) -> None:
        """Notes the run that begins now."""
        words = self._words
        n = words[1] + 1
        slot = 2 + 2 * (n & 1)
        words[slot] = run
        words[slot + 1] = attempt << 32
        words[1] = n


class PrivateMemory:
    """Reads how much private memory (RssAnon) this process has."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> int:
        """Bytes now."""
        _, resident, shared, *_ = os.pread(self._fd, 128, 0).split()
        return max(0, int(resident) - int(shared)) * PAGE
