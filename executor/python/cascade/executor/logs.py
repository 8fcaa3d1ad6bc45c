"""What a task prints goes to its log: sys.stdout and sys.stderr become streams that send messages.

The descriptors 1 and 2 stay what they were, a pipe that the agent reads: what programs and C libraries write there
reaches the log of the running task too.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable

TAIL = 4 << 10  # bytes kept for the error of a task
PIECE = 64 << 10  # a message has at most so many
MOST = 64 << 20  # bytes that a task may log


class Logs:
    """The two streams of the task that runs. Any thread may write."""

    def __init__(self, send: Callable[[int, int, bytes], None]) -> None:
        """send(run, stream, text) passes text on."""
        self._send = send
        self._lock = threading.Lock()
        self._parts: list[bytes] = []
        self._stream = 1
        self._size = 0
        self._total = 0
        self._tail = b""
        self.run = 0  # whose text it is; 0 nobody's
        self.dirty = False  # the run has written something

    def replace_standard_streams(self) -> None:
        """From now on print writes here."""
        for name, stream in (("stdout", 1), ("stderr", 2)):
            raw = _Stream(self, stream, getattr(sys, name))
            text = io.TextIOWrapper(
                raw,  # type: ignore[type-var]
                encoding="utf-8",
                errors="backslashreplace",
                write_through=True,
            )
            setattr(sys, name, text)

    def write(self, stream: int, text: bytes) -> bool:
        """Takes text; False when no task runs."""
        with self._lock:
            if not self.run:
                return False
            self.dirty = True
            self._tail = (self._tail + text)[-TAIL:] if len(text) < TAIL else text[-TAIL:]
            if stream != self._stream:
                self._pass_on()
                self._stream = stream
            kept = text[: max(0, MOST - self._total)]
            self._total += len(text)
            if kept:
                self._parts.append(kept)
                self._size += len(kept)
                if self._size >= PIECE:
                    self._pass_on()
            return True

    def flush(self) -> None:
        """Sends what waits."""
        with self._lock:
            self._pass_on()

    def tail(self) -> bytes:
        """The last bytes that the run has written."""
        return self._tail

    def end(self) -> None:
        """Sends the rest of a run's text: what comes later is not its own."""
        with self._lock:
            self._pass_on()
            if self._total > MOST:
                note = f"\n[{self._total - MOST} more bytes were not kept: a task may log {MOST >> 20} MiB]\n"
                self._send(self.run, 2, note.encode())
            self.run, self._total, self._tail, self.dirty = 0, 0, b"", False

    def _pass_on(self) -> None:
        if not self._parts:
            return
        text = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        for at in range(0, len(text), PIECE):
            self._send(self.run, self._stream, text[at : at + PIECE])


class _Stream(io.BufferedIOBase):
    """sys.stdout.buffer or sys.stderr.buffer of an executor."""

    def __init__(self, logs: Logs, stream: int, before: io.TextIOBase) -> None:
        self._logs, self._number, self._before = logs, stream, before
        self._pid = os.getpid()

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """The descriptor that was there before: the agent reads it."""
        return self._before.fileno()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Takes bytes; those of a forked process, or of no task, go where they went before."""
        text = bytes(data)
        if os.getpid() != self._pid or not self._logs.write(self._number, text):
            os.write(self.fileno(), text)
        return len(text)
