"""What the caller of an actor keeps of it, so that it can be restarted when its process dies (docs/protocol/actors.md, Restarts).

    it dies ──▶ Lives.again ──▶ another process: class, life with the saved state, then the calls that are due again

It all is where the calls are made: when that is lost no caller is left. The lock of the run's process guards it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import msgpack

RESTARTED = "cascade.actor-restarted"  # the code of errors of calls that were open when their actor was restarted
FOREVER = -1  # as a number of restarts, or of tries


class Life(NamedTuple):
    """How an actor lives whose process dies."""

    restarts: int  # how often it is restarted
    retries: int = 0  # how often an open call runs again
    every: int = 0  # so many calls: then its state is saved
    exact: bool = False  # the calls since run again, and each is answered once


class Again(NamedTuple):
    """What another process gets, and what does not go on."""

    items: list[bytes]  # of a message, in order
    making: int  # number of the item that makes the actor
    failed: list[int]  # numbers of open calls


class Lives:
    """It of one actor."""

    def __init__(self, life: Life, named: bytes) -> None:
        """named is how the items of its calls begin, behind the number of their fields."""
        self.life, self._named = life, named[1:]
        self._spent = 0
        self._made = b""  # class and arguments of the item that made it
        self._state: bytes | None = None  # the newest that was saved
        self._reached = 1  # number of the call behind which that was: at first the constructor
        self._items: dict[int, bytes] = {}  # calls that are open, and with exact those behind the state, by number
        self._tries: dict[int, int] = {}  # of those that have
        self._at = 1  # number of the item that makes it

    def sends(self, number: int, item: bytes, made: bytes | None) -> bytes:
        """Notes an item that leaves for the first time, and returns it as it leaves. made is of the one that makes the actor."""
        if made is not None:
            self._made = made
            return self._making(number)
        self._items[number] = item
        return item

    def _making(self, number: int) -> bytes:
        state = None if self._state is None else (self._state,)
        life = msgpack.packb((self.life.every, self.life.exact, state))
        return b"".join((b"\x96", self._named, msgpack.packb(number), b"\x01", self._made, life))

    def answered(self, number: int, state: bytes | None) -> None:
        """A call has ended, and behind it the state was saved perhaps."""
        self._tries.pop(number, None)
        if not self.life.exact:
            self._items.pop(number, None)
        if state is not None and number > self._reached:
            self._state, self._reached = state, number
            for n in list(itertools.takewhile(lambda n: n <= number, self._items)):  # they are in order
                del self._items[n]

    def may(self) -> bool:
        """Whether it may be restarted once more."""
        return self.life.restarts == FOREVER or self._spent < self.life.restarts

    def spent(self) -> str:
        """What is said of one that may not."""
        return f"; it was restarted {self._spent} times, which is all that it may be"

    def again(self, open: Iterable[int], last: int, unsent: bool) -> Again:
        """Its process has died: what is due again of the numbers that are open. With unsent the process got none of them."""
        self._spent += 1
        calls = sorted(n for n in open if n != self._at)
        failed: list[int] = []
        if self.life.exact:
            due = sorted(n for n in self._items if n > self._reached)
            self._at = self._reached
        else:
            failed = [] if unsent else [n for n in calls if not self._tries_again(n)]
            due = [n for n in calls if n not in set(failed)]
            self._at = due[0] - 1 if due else last
        return Again([self._making(self._at)] + [self._items[n] for n in due], self._at, failed)

    def _tries_again(self, number: int) -> bool:
        tries = self._tries[number] = self._tries.get(number, 0) + 1
        return self.life.retries == FOREVER or tries <= self.life.retries
