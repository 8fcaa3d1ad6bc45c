"""Task output: sys.stdout and sys.stderr become streams that send it to the task's log in messages, through a pipe.

The descriptors 1 and 2 stay what they were, a pipe that the agent reads: what programs and C libraries write there
reaches the log of the running task too.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TAIL = 4 << 10  # bytes kept for the error of a task
PIECE = 64 << 10  # a message has at most so many
MOST = 64 << 20  # bytes that a task may log
LINE = 20_000_000  # ns that the beginning of a line waits for its end


class Logs:
    """The two streams of the task that runs. Any thread may write.

    A pipe that the agent holds too has the text that is not sent yet: the agent reads the rest when this process dies.
    """

    def __init__(self, send: Callable[[int, int, bytes], None], words: str) -> None:
        """send(run, stream, text) passes text on; words is the folder of the pipes that the agent holds, "" for none."""
        self._send = send
        self._lock = threading.Lock()
        if words:
            pipe = os.path.join(words, "stdout")  # for both, so that their order is kept
            self._out, self._in = (os.open(pipe, how | os.O_NONBLOCK | os.O_CLOEXEC) for how in (os.O_RDONLY, os.O_WRONLY))
        else:
            self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stream = 1
        self._size = 0
        self._begun = 0  # when a line began that has no end yet
        self._total = 0
        self._tail = b""
        self.run = 0  # that wrote the text; 0 none
        self.dirty = False  # the run has written something

    def replace_standard_streams(self) -> None:
        """From now on print writes here."""
        for name, stream in (("stdout", 1), ("stderr", 2)):
            raw = _Stream(self, stream)
            text = _Text(
                raw,  # type: ignore[arg-type]
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
            self._begun = 0 if text.endswith(b"\n") else time.monotonic_ns()
            rest = text[: max(0, MOST - self._total)]
            self._total += len(text)
            while rest:
                try:
                    written = os.write(self._in, rest)
                except BlockingIOError:  # it is full
                    written = 0
                rest = rest[written:]
                self._size += written
                if rest or self._size >= PIECE:
                    self._pass_on()
            return True

    def flush(self) -> None:
        """Sends what waits; the beginning of a line, which print writes in two pieces, a little later."""
        with self._lock:
            if time.monotonic_ns() - self._begun > LINE:
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
        self._size = 0
        while True:
            try:
                text = os.read(self._out, PIECE)
            except BlockingIOError:
                return
            self._send(self.run, self._stream, text)


class _Text(io.TextIOWrapper):
    """sys.stdout or sys.stderr of an executor: no task closes it for those that come later."""

    def close(self) -> None:
        """Writes what waits."""
        self.flush()

    def detach(self) -> Any:
        """Gives the stream below, which this one goes on to use."""
        self.flush()
        return self.buffer


class _Stream(io.BufferedIOBase):
    """sys.stdout.buffer or sys.stderr.buffer of an executor."""

    def __init__(self, logs: Logs, stream: int) -> None:
        self._logs, self._number = logs, stream
        self._pid = os.getpid()

    def writable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Leaves it open."""

    def fileno(self) -> int:
        """The descriptor that was there before: the agent reads it."""
        return self._number

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Takes bytes; those of a forked process, or of no task, go where they went before."""
        text = bytes(data)
        if os.getpid() != self._pid or not self._logs.write(self._number, text):
            os.write(self.fileno(), text)
        return len(text)
