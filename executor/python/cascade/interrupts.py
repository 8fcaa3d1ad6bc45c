"""A lock whose holder is not interrupted by Ctrl-C: the interrupt comes when it is released.

An interrupt is an exception at any place of the main thread. Between a message's arrival and what it changes it would lose
the message, and with it the end of a call.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Guard:
    """A reentrant lock, which threading.Condition takes too."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        self._main = threading.main_thread().ident
        self._depth = 0  # how often the main thread has it
        self._pending = False  # an interrupt came meanwhile
        self._before: Any = None  # the handler of interrupts, when ours is in its place

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Takes the lock."""
        if threading.get_ident() != self._main:
            return self._lock.acquire(blocking, timeout)  # type: ignore[no-any-return]
        self._depth += 1
        taken: bool = self._lock.acquire(blocking, timeout)
        if not taken:
            self._leave(1)
        return taken

    def release(self) -> None:
        """Releases it; then an interrupt comes that was put off."""
        self._lock.release()
        if threading.get_ident() == self._main:
            self._leave(1)

    __enter__ = acquire

    def __exit__(self, *_: Any) -> None:
        self.release()

    def _leave(self, levels: int) -> None:
        self._depth -= levels
        if self._depth == 0 and self._pending:
            self._pending = False
            raise KeyboardInterrupt

    # What a Condition needs of a reentrant lock.

    def _is_owned(self) -> bool:
        return self._lock._is_owned()  # type: ignore[no-any-return]

    def _release_save(self) -> tuple[Any, int]:
        state = self._lock._release_save()
        depth = 0
        if threading.get_ident() == self._main:
            depth = self._depth
            self._depth = 0  # what is pending comes with the wait, which the handler interrupts
            if self._pending:
                self._pending = False
                self._lock._acquire_restore(state)
                self._depth = depth
                raise KeyboardInterrupt
        return state, depth

    def _acquire_restore(self, saved: tuple[Any, int]) -> None:
        state, depth = saved
        self._depth += depth
        self._lock._acquire_restore(state)

    # The handler.

    def install(self) -> None:
        """Has interrupts wait for the lock's release, where they are exceptions at once and the caller is the main thread."""
        if threading.get_ident() == self._main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._interrupt)

    def remove(self) -> None:
        """Sets the handler back that was there before."""
        if (
            self._before is not None
            and threading.get_ident() == self._main
            and signal.getsignal(signal.SIGINT) == self._interrupt
        ):
            signal.signal(signal.SIGINT, self._before)
        self._before = None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._depth:
            self._pending = True
        else:
            signal.default_int_handler(number, frame)
