"""Functions by value that a run or session has sent: small ones go with each call, larger ones are put once.

    code ── up to SMALL ──▶ in the message of each call
         ── larger ───────▶ a value, to which each call refers; it goes when the last call, future and handle have
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..values import BYTES, RAW
from ..wire import messages as m
from .functions import CODE
from .targets import Coded

if TYPE_CHECKING:
    from .batch import Batch
    from .futures import Called
    from .queue import Run

SMALL = 1024  # bytes of a function that goes with each of its calls


class Codes:
    """The functions of one run. Memory.making guards them."""

    def __init__(self, run: Run, batch: Batch, put: Callable[[Any], Called]) -> None:
        self._run, self._batch, self._put = run, batch, put
        self._inputs: WeakKeyDictionary[Coded, bytes] = WeakKeyDictionary()  # as the first input of a call
        self._values: WeakKeyDictionary[Coded, Called] = WeakKeyDictionary()  # the large ones

    def input(self, coded: Coded) -> bytes:
        """A function as the first input of a call."""
        found = self._inputs.get(coded)
        if found is None:
            found = self._inputs[coded] = self._input(coded)
        return found

    def value(self, coded: Coded) -> Called:
        """A large function as a value, which is put once."""
        found = self._values.get(coded)
        if found is None:
            found = self._values[coded] = self._put(coded.data)
        return found

    def held(self) -> int:
        """How many large functions are kept."""
        return len(self._values)

    def _input(self, coded: Coded) -> bytes:
        if len(coded.data) <= SMALL:
            data = m.Desc(m.Ref(), 0, RAW, BYTES, size=len(coded.data), place=m.Place(m.INLINE, coded.data))
            return self._batch.value(0, data)
        return self._passed_on(coded) or self._batch.input(m.CallInput(0, m.FROM_CALL, self.value(coded).state.ref))

    def _passed_on(self, coded: Coded) -> bytes | None:
        """The code as the run itself got it, if it is of the same function."""
        kind, inputs = self._run.kind.m, self._run.inputs
        if not (kind.inputs and inputs and kind.inputs[0].name == CODE + coded.key):
            return None
        given = inputs[0].data[0]
        if given.place.kind in (m.INLINE, m.LIVE):
            return None
        return self._batch.input(m.CallInput(0, m.FROM_INPUT, input=0, data=given))
