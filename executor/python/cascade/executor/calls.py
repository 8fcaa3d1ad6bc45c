"""Calls: functions that a task has run as tasks of their own, and values that it puts where they can read them.

    call, put ──▶ batch ──Calls──▶ agent ──▶ an executor of the environment
    result ◀── state ◀──CallEnds── agent     what is large comes into memory on demand (CallRead)
    wait ──CallWait──▶ agent ──CallGo──▶     between the two the run needs no core
    a Future that is gone ──CallDrop──▶ agent

Each has a number, in the order in which the run makes them: a run that is repeated and does the same meets what was begun.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .. import context
from ..context import CallFailed, Future, Options
from ..references import Found
from ..values import TypeMismatch, encode
from ..wire import messages as m
from .batch import Batch
from .codes import Codes
from .functions import CODE
from .futures import Called, Element, InputFuture, State, valued
from .outputs import ALL
from .queue import Run
from .targets import Coded, Target, target_of
from .waits import Waits

if TYPE_CHECKING:
    from .actorcalls import ActorCalls
    from .host import Host
    from .outputs import Memory


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,199}")  # as of inputs


MOST_KINDS = 4096  # of calls, which the run and its agent know: beyond they are announced anew
_NUMBERS = frozenset((int, float, bool, type(None)))
_FOUND = int.from_bytes(hashlib.blake2b(b"futures in values", digest_size=8).digest(), "big")  # a strand


class Calls(Waits):
    """The calls of one run. The worker's lock guards them: the helper and threads of the run use them too."""

    def __init__(self, worker: Host, memory: Memory, run: Run) -> None:
        super().__init__(worker, memory, run)
        self._kinds: WeakKeyDictionary[Target, dict[Any, int]] = WeakKeyDictionary()
        self._kind_number = self._forgotten = 0  # of the last, and of the last of those that the agent knows no more
        self._next: dict[int, int] = {}  # number of the next call, by strand
        self._batch = Batch(run.id)
        self.codes = Codes(run, self._batch, self._put)
        self._sealed = False  # a value of the next call lies in shared memory
        self._found: Found | None = None  # futures in the value that was encoded last
        self._borrowed = 0  # futures that were found in values
        self.actors: ActorCalls | None = None  # that the run has made
        self.made = 0  # how many calls and values there were
        self.alone = ""  # why the run may make no more

    # ---- making

    def of_actors(self) -> ActorCalls:
        """What the run has of actors."""
        if self.actors is None:
            from .actorcalls import ActorCalls  # most runs do without

            with self._worker.lock:
                self.actors = self.actors or ActorCalls(self)
        return self.actors

    def make(self, function: str | Target, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """Has a function run as a task of its own. It returns a future, or one of each of several results."""
        what = f"call {function if isinstance(function, str) else function.name}"
        if self.actors is not None:
            try:
                args, named = valued(args), dict(zip(named, valued(list(named.values())), strict=True))
            except CallFailed as e:
                return Future(error=e) if options.returns == 1 else [Future(error=e) for _ in range(options.returns)]

        def make() -> Any:
            with self._memory.making:
                self._runs(what)
                self._able(what)
                target = target_of(function) if isinstance(function, str) else function
                return self._make(target, options, args, named)

        return self._mine(what, make)

    def map(self, target: Target, options: Options, rows: Iterable[Sequence[Any]], named: dict[str, Any]) -> list[Any]:
        """Calls a function for each row of arguments, with some the same for all."""
        what = f"call {target.name}"
        if self.actors is not None:
            rows = [valued(row) for row in rows]

        def make() -> list[Any]:
            with self._memory.making:
                self._able(what)
                made = []
                for row in rows:
                    self._runs(what)
                    made.append(self._make(target, options, row, named))
                return made

        return self._mine(what, make)  # type: ignore[no-any-return]

    def _make(self, target: Target, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Any:
        ports = target.ports(len(args), tuple(named))
        inputs = [] if target.coded is None else [self.codes.input(target.coded)]
        lists, port = 0, len(inputs)
        refs: list[m.ItemRefs] = []
        kept: list[Found] = []  # until the agent is told what they are in
        self._found = None

        def given(value: Any) -> None:
            inputs.append(self._argument(port, ports, value))
            if self._found is not None:
                kept.append(self._found)
                refs.append(self._taken(len(inputs) - 1))

        for value in (*args, *named.values()) if named else args:
            if type(value) in _NUMBERS and (number := self._batch.number(port, value)) is not None:
                inputs.append(number)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, Future) for v in value):
                lists |= 1 << port
                for one in value:
                    given(one)
            else:
                given(value)
            port += 1
        kind = self._kind(target, options, ports, lists)
        state = State(self._ref(), target.name, target, None, options.returns)
        self._add(state, kind, options.name, inputs, refs)
        return Called(self, state) if options.returns == 1 else [Called(self, state, i) for i in range(options.returns)]

    def _kind(self, target: Target, o: Options, ports: Sequence[str], lists: int) -> int:
        """The number of a kind of calls, which the agent learns with the first of them."""
        known = self._kinds.get(target)
        if known is None:
            known = self._kinds[target] = {}
        key = (o[:-1], ports, lists)  # calls of one kind may have names of their own
        kind = known.get(key)
        if kind is None:
            for name in ports:
                if not _NAME.fullmatch(name):
                    raise ValueError(f"call {target.name}: argument {name!r}: want letters, digits, _ and -, and no digit first")
            names = ports if target.coded is None else (CODE + target.coded.key, *ports)
            needs = m.Resources(round(o.cpu * 1000), o.memory, round(o.gpu * 1000))
            if target.stream and o.returns > 1:
                raise ValueError(f"call {target.name}: returns={o.returns}: it yields, and so has one result, a series")
            outs = [m.KindOut("out", m.OPEN if target.stream else m.SINGLE)]
            if o.returns > 1:
                outs = [m.KindOut(f"out{i}") for i in range(o.returns)]
            if self._kind_number - self._forgotten >= MOST_KINDS:
                self._kinds.clear()
                known = self._kinds[target] = {}
                with self._worker.lock:
                    self._batch.forget = self._forgotten = self._kind_number
            self._kind_number += 1
            kind = known[key] = self._kind_number
            made = m.CallKind(kind, target.name, "", [m.KindIn(n, bool(lists >> i & 1)) for i, n in enumerate(names)], outs, needs,
                              o.retries, [e.__qualname__ for e in o.retry_on], round(o.timeout * 1e9), o.priority, o.here, target.stateful)  # fmt: skip
            with self._worker.lock:
                self._batch.kinds.append(made)
        return kind

    def code(self, coded: Coded) -> Future:
        """Keeps a large function where calls read it by reference: equal ones once."""

        def put() -> Future:
            with self._memory.making:
                self._runs("put a function")
                self._able("put a function")
                return self.codes.value(coded)

        return self._mine("put a function", put)  # type: ignore[no-any-return]

    def put(self, value: Any) -> Future:
        """Keeps a value where calls read it by reference."""

        def put() -> Future:
            with self._memory.making:
                self._runs("put a value")
                self._able("put a value")
                return value if isinstance(value, Future) else self._put(value)

        return self._mine("put a value", put)  # type: ignore[no-any-return]

    def _put(self, value: Any) -> Called:
        self._found = None
        given = self._value(value)
        found = self._found  # kept until the agent is told what they are in
        refs: Sequence[m.ItemRefs] = () if found is None else [self._taken(0)]
        state = State(self._ref(), "the value that was put", put=given)
        self._add(state, 0, "", [self._batch.value(0, given)], refs)
        return Called(self, state)

    def stand_in(self, name: str, process: m.CallRef) -> Called:
        """A value that stands for an actor: handles of it in values refer to that, and that to the process of the actor."""
        with self._memory.making:
            sealed, self._sealed = self._sealed, False  # of a value that is to leave later
            given = self._value(name)
            state = State(self._ref(), f"the handle of actor {name}", put=given)
            self._batch.once = True  # another run of the task would make other actors
            self._add(state, 0, "", [self._batch.value(0, given)], [m.ItemRefs(0, 0, [m.Reference(process)])], 1)
            self._sealed = sealed
            return Called(self, state)

    # ---- futures in values

    def borrow(self, given: m.CallInput) -> Future:
        """A future of what a value refers to that the run has: a call of its own, which ends as the other does."""
        with self._memory.making, self._worker.lock:
            state = State(m.CallRef(_FOUND, self._borrowed), "what a future stands for")
            self._borrowed += 1
            self.run.told = True
            self._states[state.ref] = state
            self.made += 1
            self._batch.add(state.ref, 0, "", [self._batch.input(given)])
            if self._batch.full():
                self.flush()
                self._worker.flush()
            elif len(self._batch.items) == 1:
                self._worker.soon()
            return Called(self, state)

    def listed(self, output: int, element: int, found: Found) -> None:
        """Tells the agent which futures are in a value that the run will publish, behind the calls that were made."""
        with self._memory.making:
            refs = self._references(found)
            with self._worker.lock:
                self.flush()
                self._worker.send(m.Listed(self.run.id, output, element, refs))

    def _taken(self, place: int) -> m.ItemRefs:
        """To what the value that was encoded last refers, as an input at a place."""
        found, self._found = self._found, None
        return m.ItemRefs(0, place, () if found is None else self._references(found))

    def _references(self, found: Found) -> Sequence[m.Reference]:
        """The futures in a value as the agent knows them."""
        refs: list[m.Reference] = []
        for i, f in enumerate(found.futures):
            if isinstance(f, InputFuture):
                raise TypeMismatch("there is a future of an input of the task in it: pass that as an argument, or put its value")
            if not isinstance(f, (Called, Element)):  # it has its value
                found.futures[i] = f = self._put(f.result())
            if f.calls is not self:
                raise TypeMismatch("there is a future of another task or session in it")
            if f.state.direct:
                raise TypeMismatch(f"there is a future of {f.state.name} in it, a method of an actor: put its value")
            if isinstance(f, Element):
                refs.append(m.Reference(f.state.ref, 0, f.number))
            elif f.state.stream:
                raise TypeMismatch(
                    f"there is the future of a series in it, of {f.state.name}: list(future.elements()) can be in it"
                )
            else:
                refs.append(m.Reference(f.state.ref, f.output))
        return refs

    @property
    def host(self) -> Host:
        """The process, or the session, whose calls they are."""
        return self._worker

    def finds(self, module: str) -> bool:
        """Whether the hosts of calls find a module by its name."""
        return self._worker.finds(module)

    def not_repeatable(self) -> None:
        """Another run meets nothing of what this one calls."""
        with self._worker.lock:
            if self.made and not self._batch.once:
                raise RuntimeError("not_repeatable: the task has called already: say it before the first call")
            self._batch.once = True

    def input(self, name: str) -> Future:
        """An input of the run, to be passed on."""
        for i, (declared, given) in enumerate(zip(self.run.kind.m.inputs, self.run.inputs, strict=False)):
            if declared.name.replace("-", "_") == name and not declared.list:
                return InputFuture(self, name, i, given.data[0])
        raise ValueError(f"the task has no input {name} that is one dataset")

    def _able(self, what: str) -> None:
        if self.alone:
            raise RuntimeError(f"{what}: {self.alone}")
        w = self._worker.welcome
        if not w.calls:
            raise RuntimeError(
                f"{what}: agent {w.agent} takes no calls: it is of an older version, or the task runs alone (cascade replay --task)"
            )

    def _ref(self) -> m.CallRef:
        bound = context._strand.get()
        strand = bound.number if bound is not None and bound.calls is self else 0
        number = self._next.get(strand, 0)
        self._next[strand] = number + 1
        return m.CallRef(strand, number)

    def _argument(self, port: int, ports: Sequence[str], value: Any) -> bytes:
        """An argument as the agent is told of it."""
        batch = self._batch
        if not isinstance(value, Future):
            return batch.value(port, self._value(value))
        if not isinstance(value, (Called, Element, InputFuture)):
            return batch.value(port, self._value(value.result()))
        name = ports[port - len(ports)]
        if value.calls is not self:
            raise ValueError(f"argument {name} is a future of another task")
        if isinstance(value, InputFuture):
            return self._passed(port, value)
        if isinstance(value, Element):
            return batch.input(m.CallInput(port, m.FROM_CALL, value.state.ref, element=value.number))
        if value.state.stream:
            raise ValueError(f"argument {name} is the future of a series: pass list(future.elements())")
        return batch.input(m.CallInput(port, m.FROM_CALL, value.state.ref, value.output))

    def _passed(self, port: int, f: InputFuture) -> bytes:
        """An input of the run as an argument of one call."""
        d = f.given
        match d.place.kind:
            case m.INLINE:
                return self._batch.value(port, d._replace(ref=m.Ref(), attempt=0))
            case m.LIVE:  # in this process only: bytes in the store belong to one call, and the next needs others
                return self._batch.value(port, self._value(self._worker.queue.live[d.place.run, d.ref.output].value))
        return self._batch.input(m.CallInput(port, m.FROM_INPUT, input=f.index, data=d))

    def _value(self, value: Any) -> m.Desc:
        found = Found()
        encoded = encode(value, found)
        if found.futures:
            self._found = found
        stored = self._memory.place(self.run, encoded, False, ALL if self._worker.granted else 0)  # hashes compare runs
        if stored[1].kind == m.SEGMENT:
            self._sealed = True
        shape = [int(n) for n in encoded.shape]
        return m.Desc(m.Ref(), 0, encoded.codec, encoded.dtype, shape, encoded.size, *stored)

    def _add(
        self, state: State, kind: int, name: str, inputs: Sequence[bytes], refs: Sequence[m.ItemRefs] = (), actor: int = 0
    ) -> None:
        """Puts a call into the batch. With a value in shared memory it is sent at once: the agent owns that from then on."""
        worker, run, batch = self._worker, self.run, self._batch
        run.told = True
        sealed, self._sealed = self._sealed, False
        if sealed and run.rooms:
            run.copied += self._memory.release_published(run)
        with worker.lock:
            self._states[state.ref] = state
            self.made += 1
            batch.add(state.ref, kind, name, inputs, refs, actor)
            if sealed or batch.full():
                self.flush()
                self._memory.return_regions(run)
                worker.flush()
            elif len(batch.items) == 1:
                worker.soon()

    def settle(self) -> None:
        """The run is about to end well."""
        if self.actors is not None:
            self.actors.settle()

    def end(self) -> None:
        """The run has ended."""
        if self.actors is not None:
            self.actors.end()
        super().end()

    def flush(self) -> None:
        """Sends the calls that were made, and then which are needed no more. The helper does it too; the lock is held."""
        worker = self._worker
        if self.actors is not None:
            self.actors.flush()
        if self._batch.items:
            worker.send(self._batch.take())
        if self.released and (refs := self._gone()):
            worker.send(m.CallDrop(self.run.id, refs))
