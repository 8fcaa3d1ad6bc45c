"""Runs that wait, in order, and the values that some of them wait for."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgpack

from ..wire import codec
from ..wire import messages as m
from .functions import Function

UNNAMED = 64  # live values are kept that no run has asked for yet
FLAT = (bool, int, float, str, bytes, type(None))


class Stopped(Exception):
    """Why a run must not go on: it was cancelled, or its time is up."""

    def __init__(self, kind: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class PreparedKind:
    """A kind, and its function once it is found."""

    def __init__(self, kind: m.Kind) -> None:
        self.m = kind
        self.function: Function | None = None
        self.quick = False  # its runs took little time up to now
        self.restless = False  # its function changes what the process shares, such as its limits
        self._shared: dict[str, Any] | None = None

    def parameters(self, given: bytes) -> dict[str, Any]:
        """The parameters of a run."""
        if given:
            return _parameters(given)
        if self._shared is None:
            shared = _parameters(self.m.with_)
            if not all(isinstance(v, FLAT) for v in shared.values()):
                return shared  # a run may change it
            self._shared = shared
        return self._shared


def _parameters(packed: bytes) -> dict[str, Any]:
    if not packed:
        return {}
    return {k.replace("-", "_"): v for k, v in msgpack.unpackb(packed, timestamp=3, strict_map_key=False).items()}


class Run:
    """One attempt at one task, from Dispatch to its answer."""

    __slots__ = (
        "attempt", "began", "bytes_in", "bytes_out", "copied", "credit", "deadline", "device", "env", "id", "inputs",
        "interrupted", "kind", "live", "maps", "name", "peak", "private", "regions", "rooms", "sampled", "skip", "start", "stopped",
        "task", "told", "used_standing", "with_",
    )  # fmt: skip

    def __init__(self, kind: PreparedKind, run: m.Run) -> None:
        self.kind, self.id, self.task, self.attempt = kind, run.id, run.task, run.attempt
        self.name, self.with_, self.inputs, self.skip = run.name, run.with_, run.inputs, run.skip
        self.live, self.private, self.env = run.live, run.private, run.env
        self.start = self.began = self.deadline = self.sampled = self.interrupted = 0  # times
        self.bytes_in = self.bytes_out = self.copied = self.peak = 0
        self.device: m.DeviceUse | None = None
        self.told = self.used_standing = False
        self.stopped: Stopped | None = None
        self.credit: dict[int, int] = {}
        self.maps: list[mmap.mmap] = []  # of inputs
        self.rooms: dict[int, Any] = {}  # address of a room of cascade.empty: its region
        self.regions: list[Any] = []  # leases of its own that hold outputs

    def note_device(self, copies: int, size: int, kept: int) -> None:
        """Counts values that lie on a device."""
        before = self.device or m.DeviceUse()
        self.device = m.DeviceUse(before.copies + copies, before.bytes + size, before.kept + kept)

    def title(self) -> str:
        """The task's name."""
        return self.kind.m.name_of(self.task, self.name)


class LiveValue:
    """A result that waits in this process for a run of it."""

    __slots__ = ("maps", "value")

    def __init__(self, value: Any, maps: list[mmap.mmap]) -> None:
        self.value, self.maps = value, maps  # maps: of the store, in which the value lies


class Path:
    """A run and those that follow it, of which some may have been taken back."""

    __slots__ = ("at", "first", "head", "kinds", "removed", "steps")

    def __init__(self, head: Run, steps: list[codec.Step], kinds: dict[int, PreparedKind]) -> None:
        self.head, self.steps, self.first, self.at = head, steps, head.id, 0
        self.kinds = [kinds[s.kind] for s in steps]
        self.removed: set[int] = set()

    def waits(self, run: int) -> bool:
        """Whether a run of this number is here and has not started."""
        return self.first + self.at <= run <= self.first + len(self.steps) and run not in self.removed

    def run(self, at: int) -> Run:
        """The run at a place; 0 is the head."""
        if at == 0:
            return self.head
        s = self.steps[at - 1]
        inputs = ()
        if s.reads:
            before = (self.head.task, self.head.attempt) if at == 1 else self.steps[at - 2][1:3]
            place = m.Place(m.LIVE, run=self.first + at - 1)
            inputs = (m.RunInput([m.Desc(m.Ref(before[0], s.reads - 1), before[1], place=place)]),)  # type: ignore[assignment]
        live, private = bits(s.keeps) if s.keeps else (), bits(s.only) if s.only else ()
        return Run(self.kinds[at - 1], m.Run(self.first + at, s.kind, s.task, s.attempt, s.name, s.with_,
                                             inputs=inputs, live=live, private=private))  # fmt: skip


def bits(numbers: int) -> list[int]:
    """The bits that are set."""
    return [i for i in range(numbers.bit_length()) if numbers >> i & 1]


def live_inputs(run: Run | m.Run) -> Iterator[tuple[int, int]]:
    """The live values that a run needs: run and output."""
    for given in run.inputs:
        for d in given.data:
            if d.place.kind == m.LIVE:
                yield d.place.run, d.ref.output


class Queue:
    """What has not started."""

    def __init__(self) -> None:
        self._paths: deque[Path] = deque()
        self.live: dict[tuple[int, int], LiveValue] = {}
        self._wanted: dict[tuple[int, int], int] = {}  # by queued runs

    def push(self, run: m.Run, kinds: dict[int, PreparedKind]) -> None:
        """Takes a dispatched run. KeyError for a kind that was not announced."""
        path = Path(Run(kinds[run.kind], run), codec.read_steps(run.steps), kinds)
        self._paths.append(path)
        for key in live_inputs(run):
            self._wanted[key] = self._wanted.get(key, 0) + 1

    def pop(self, back: list[int]) -> Run | None:
        """The next run; back gets the numbers of those whose live inputs are not there."""
        while self._paths:
            path = self._paths[0]
            if path.at > len(path.steps):
                self._paths.popleft()
                continue
            number = path.first + path.at
            path.at += 1
            if number in path.removed:
                continue
            run = path.run(path.at - 1)
            if run.inputs and not all(key in self.live for key in live_inputs(run)):
                back.append(number)
                self.forget(run)
                continue
            return run
        return None

    def put(self, run: int, output: int, value: LiveValue) -> list[LiveValue]:
        """Keeps a value for later runs; it returns values that are kept no more."""
        key = (run, output)
        if key not in self._wanted and self._paths:
            path = self._paths[0]
            if path.first <= run < path.first + len(path.steps) and not path.waits(run + 1):
                return [value]  # the step that would read it was taken back
        self.live[key] = value
        unnamed = [k for k in self.live if k not in self._wanted] if len(self.live) > UNNAMED else []
        return [self.live.pop(k) for k in unnamed[:-UNNAMED]]

    def find(self, run: int) -> Path | None:
        """Where a run waits."""
        for path in self._paths:
            if path.waits(run):
                return path
        return None

    def remove(self, run: int) -> Run | None:
        """Takes a run out; None when it has started or is not here."""
        path = self.find(run)
        if path is None:
            return None
        path.removed.add(run)
        gone = path.run(run - path.first)
        self.forget(gone)
        return gone

    def reclaim(self, runs: list[int]) -> list[int]:
        """Takes runs out. Those stay that have started, and what lives on one of them: its value would be lost."""
        back: list[int] = []
        stay: set[int] = set()
        for number in runs:
            path = self.find(number)
            if path is None or any(run in stay for run, _ in live_inputs(path.run(number - path.first))):
                stay.add(number)
            else:
                self.remove(number)
                back.append(number)
        return back

    def whole(self) -> list[int]:
        """The runs of paths that have not started, and need no live value that is here."""
        paths = [p for p in self._paths if p.at == 0 and not any(True for _ in live_inputs(p.head))]
        return [p.first + i for p in paths for i in range(len(p.steps) + 1) if p.first + i not in p.removed]

    def forget(self, run: Run) -> list[LiveValue]:
        """A run has its live inputs, or never will. It returns the values that no other run waits for."""
        done = []
        for key in live_inputs(run):
            left = self._wanted.get(key, 1) - 1
            if left > 0:
                self._wanted[key] = left
                continue
            self._wanted.pop(key, None)
            value = self.live.pop(key, None)
            if value is not None:
                done.append(value)
        return done

    def __bool__(self) -> bool:
        return any(path.at <= len(path.steps) for path in self._paths)
