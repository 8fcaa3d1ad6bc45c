"""What a task's function may ask about itself, and room for its outputs.

Outside an executor the functions of this module work too, so that a task's function can be called and tested by itself.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import importlib
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from . import checks, screen

if TYPE_CHECKING:
    import concurrent.futures


class Cancelled(BaseException):
    """Raised in a task's function when the task is cancelled or its time is up. Let it pass, or clean up and raise it again."""


class Task(NamedTuple):
    """The task that runs."""

    name: str = ""  # unique in the job
    group: str = ""  # entry of the job file
    job: str = ""
    attempt: int = 0
    agent: str = ""
    cpu: float = 0.0  # cores that are granted to it
    memory: int = 0  # bytes that are granted to it
    gpu: float = 0.0
    dir: str = ""  # folder of the job, to which relative paths of the job refer
    scratch: str = ""  # folder for files that are not needed afterwards


class Gang(NamedTuple):
    """The place of a task in its gang, all of whose members were started together."""

    rank: int  # from 0 on
    size: int  # how many members there are
    members: tuple[str, ...]  # host:port of each, by rank
    port: int  # that this member has on its host


class CallFailed(RuntimeError):
    """A function that was called has failed.

    It is of the class of the function's exception, too, where the caller has that: `except KeyError` catches it. codes are the
    classes of the exception and of those that caused it, and stack is its traceback. task, attempt and agent say where it arose.
    """

    task = agent = ""
    attempt = 0

    def __init__(self, message: str, codes: Sequence[str] = (), stack: str = "") -> None:
        super().__init__(message)
        self.codes, self.stack = tuple(codes), stack

    def __str__(self) -> str:
        return screen.text(RuntimeError.__str__(self))  # that of a KeyError would be its text in quotes

    def __reduce__(self) -> Any:
        base = next(c for c in (ActorDiedError, ActorUnavailableError, CallCancelled, CallFailed) if isinstance(self, c))
        return _failure, (base, str(self), self.codes, self.stack, self.task, self.attempt, self.agent)


class CallCancelled(CallFailed):
    """A function that was called was cancelled before it ended."""


class ActorDiedError(CallFailed):
    """The actor of a call has ended, or could not be made. The call has not run, or its answer is lost."""


class ActorUnavailableError(CallFailed):
    """The actor of a call was restarted while the call was open. The call may have run, and is not repeated; later ones run."""


def failed_as(raised: Any, base: type[CallFailed] = CallFailed) -> type[CallFailed]:
    """The class of an error of a function that raised an exception of some class: both, if one class can be."""
    if not (isinstance(raised, type) and issubclass(raised, Exception)) or issubclass(raised, CallFailed):
        return base
    try:
        both: type[CallFailed] = type(base.__name__, (base, raised), {"__module__": base.__module__})
        both("")
    except Exception:  # a class that wants something of its own
        return base
    return both


def _failure(base: type[CallFailed], message: str, codes: Sequence[str], stack: str, *at: Any) -> CallFailed:
    """An error of a call in another process."""
    made = base(message, codes, stack)
    made.task, made.attempt, made.agent = at
    return made


for _class in (Cancelled, CallFailed, CallCancelled, ActorDiedError, ActorUnavailableError):
    _class.__module__ = "cascade"  # under which people know them


class RemoteTraceback(Exception):
    """The traceback of a function that ran as a task, as the cause of the error that its caller gets."""

    __module__ = "cascade"

    def __str__(self) -> str:
        return screen.text(super().__str__())


class Handle:
    """The handle of an actor, as a part of values."""

    def _cascade_given(self) -> Any:
        """How it is made of what a value has in its place."""
        raise NotImplementedError


class Future:
    """What a called function returns, a value that was put, or an input of the task.

    As an argument of a call, or an element of a list that is one, it is passed by reference. It is valid until the task that
    has it ends. When no reference to it is left, the cluster frees what it stands for.
    """

    __slots__ = ("__weakref__", "_error", "_value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        """Made by call, put and input_future."""
        self._value, self._error = value, error

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the function and returns its value, or raises CallFailed. Meanwhile others use the task's core.

        After timeout seconds it raises TimeoutError; the call goes on, and result() may be called again. The result of a function
        that yields is the list of what it yields.
        """
        checks.seconds("result", timeout)
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the function as result does, and returns its error; None when it has ended well."""
        try:
            self.result(timeout)
        except CallFailed as e:
            return e
        return None

    def done(self) -> bool:
        """Whether the function has ended, well or not."""
        return True

    def failed(self) -> bool:
        """Whether the function has ended with an error, or was cancelled."""
        return self._error is not None

    def add_done_callback(self, function: Callable[[Future], Any]) -> None:
        """Has function(future) called once the call has ended, in a thread of its own; at once when it has ended already.

        Until it has run the task counts as one that waits: others use its core.
        """
        function(self)

    def future(self) -> concurrent.futures.Future[Any]:
        """A future of concurrent.futures that ends as this one does, for what takes only such. To cancel it cancels nothing here."""
        import concurrent.futures  # loads what most programs do without

        made: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def end(_: Future) -> None:
            if made.set_running_or_notify_cancel():
                try:
                    made.set_result(self.result())
                except BaseException as e:
                    made.set_exception(e)

        self.add_done_callback(end)
        return made

    def __await__(self) -> Generator[Any, None, Any]:
        """The value, for a coroutine that waits: others run meanwhile."""
        return self.result()
        yield

    def cancel(self, why: str = "") -> None:
        """Ends the call, with all that it has called: result() raises CallCancelled then. One that has ended is left as it is."""

    def __iter__(self) -> Iterator[Any]:
        """The elements that a called generator yields, while it yields them."""
        if not isinstance(self.result(), list):
            raise TypeError("the function does not yield: it has one result")
        return iter(self._value)

    def elements(self) -> Iterator[Future]:
        """Futures of the elements that a called generator yields, while it yields them: calls get them by reference.

        An element keeps its whole series.
        """
        return map(Future, self)

    def __reduce__(self) -> Any:
        """Refuses to travel within another value."""
        raise TypeError(
            "a future can be in an argument of a call of a task, in what such a task returns and in a value that is put, "
            "but not in code, in what goes to an actor, or in a graph"
        )


class Options(NamedTuple):
    """How calls are to be run: cascade.options(retries=2).call(function, x)."""

    retries: int = 0  # further attempts after an error of the function
    retry_on: tuple[type[BaseException], ...] = ()  # after which it is tried again; none: all
    timeout: float = 0.0  # seconds of one attempt; 0 none
    cpu: float = 0.0  # cores; 0 is one
    memory: int = 0  # bytes
    gpu: float = 0.0
    priority: int = 0  # higher first, among the calls of one job
    here: bool = False  # it stays on the host of its caller
    returns: int = 1  # how many results it returns as a tuple, each with a future of its own
    name: str = ""  # for people; "" is the function's

    def call(self, function: str | Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """As cascade.call, with these options."""
        return _call(self, function, args, named)


class Calls(Protocol):
    """The calls of a task."""

    def make(self, function: Any, options: Options, args: Sequence[Any], named: dict[str, Any]) -> Any: ...

    def map(self, target: Any, options: Options, rows: Iterable[Sequence[Any]], named: dict[str, Any]) -> list[Any]: ...

    def finds(self, module: str) -> bool: ...

    def put(self, value: Any) -> Future: ...

    def code(self, coded: Any) -> Future: ...

    def input(self, name: str) -> Future: ...

    def not_repeatable(self) -> None: ...

    def wait(self, futures: Sequence[Future], k: int, timeout: float | None) -> tuple[list[Future], list[Future]]: ...

    def as_completed(self, futures: Sequence[Future], timeout: float | None) -> Iterator[Future]: ...

    def get(self, futures: Sequence[Future], timeout: float | None) -> list[Any]: ...


class _Strand(NamedTuple):
    """A line of execution that numbers its calls."""

    calls: Any  # of the task
    number: int


_strand: contextvars.ContextVar[_Strand | None] = contextvars.ContextVar("cascade_strand", default=None)


@contextlib.contextmanager
def strand(name: str) -> Iterator[None]:
    """Numbers the calls of a block on their own: another thread of the task makes calls, and waits for them, in such a block.

    Each thread has a name of its own, the same when the task is tried again: by strand and number it meets the calls that it
    made before. The task's function must not return before its threads have ended.
    """
    if _host is None:
        yield
        return
    calls, outer = _host.own_calls(f"strand {name}", True), _strand.get()
    parent = outer.number if outer is not None and outer.calls is calls else 0
    digest = hashlib.blake2b(parent.to_bytes(8, "big") + name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    token = _strand.set(_Strand(calls, int.from_bytes(digest, "big") or 1))
    try:
        yield
    finally:
        _strand.reset(token)


class Host(Protocol):
    """What an executor gives to this module."""

    def task(self) -> Task: ...

    def empty(self, size: int) -> Any: ...

    def own_calls(self, what: str, fresh: bool = False) -> Calls: ...


_host: Host | None = None


def _serve(host: Host | None) -> None:
    """Called by the executor."""
    global _host
    _host = host


def current() -> Task:
    """The task that the caller runs as; outside an executor one without a name."""
    return Task() if _host is None else _host.task()


def call(function: str | Callable[..., Any], /, *args: Any, **named: Any) -> Future:
    """Has a function of a module run as a task of its own, in the environment of this task, and returns at once.

    function is "module.function", or the function itself. Arguments are values, futures, or lists with futures in them.
    A task that is tried again must make the same calls in the same order; completed calls are not repeated.
    Calls whose results the task has not read are stopped when it ends. Outside an executor the function runs at once.
    """
    made: Future = _call(Options(), function, args, named)
    return made


def options(*, retries: int = 0, retry_on: type[BaseException] | Iterable[type[BaseException]] = (), timeout: float = 0.0, cpu: float = 0.0,
            memory: int | str = 0, gpu: float = 0.0, priority: int = 0, here: bool = False, returns: int = 1, name: str = "") -> Options:  # fmt: skip
    """Options of calls: cascade.options(retries=2, timeout=60).call(function, x). See Options for what they mean.

    memory is a number of bytes, or a text such as "64MiB".
    """
    of = "options of a call: "
    on = (retry_on,) if isinstance(retry_on, type) or not isinstance(retry_on, Iterable) else tuple(retry_on)
    if not all(isinstance(e, type) and issubclass(e, BaseException) for e in on):
        raise ValueError(f"{of}retry_on={retry_on!r}: want a class of exceptions, or several")
    if not isinstance(here, bool):
        raise ValueError(f"{of}here={here!r}: want True or False")
    if not isinstance(name, str):
        raise ValueError(f"{of}name={name!r}: want a text")
    return Options(
        checks.number(f"{of}retries", retries, 0, (1 << 32) - 1, whole=True), on,
        checks.number(f"{of}timeout", timeout, 0, 10**9), checks.number(f"{of}cpu", cpu, 0, 10**6),
        checks.size(f"{of}memory", memory), checks.number(f"{of}gpu", gpu, 0, 10**6),
        checks.number(f"{of}priority", priority, -(1 << 63), (1 << 63) - 1, whole=True), here,
        checks.number(f"{of}returns", returns, 1, 1000, whole=True), name,
    )  # fmt: skip


def _call(options: Options, function: str | Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> Any:
    of = getattr(function, "_core", None)  # of cascade.remote
    if of is not None and _host is not None:
        calls = _host.own_calls(f"call {function.__name__}")  # type: ignore[union-attr]
        return calls.make(of.target(calls), options, args, named)
    name = function if isinstance(function, str) else f"{function.__module__}.{function.__qualname__}"
    if name.startswith("__main__.") or "<" in name:
        raise ValueError(f"call {name}: an executor finds functions of modules only: move it into one, or make it @cascade.remote")
    if _host is not None:
        return _host.own_calls(f"call {name}").make(name, options, args, named)
    found: Any = function
    if isinstance(function, str):
        module, _, last = function.rpartition(".")
        found = getattr(importlib.import_module(module), last)
    made = _at_once(name, getattr(found, "__cascade_function__", found), args, named)
    return made if options.returns == 1 else _each(made, options.returns)


def not_repeatable() -> None:
    """Says that the task does other things each time: when it is tried again, all of its calls are made anew.

    It stands before the first call.
    """
    if _host is not None:
        _host.own_calls("not_repeatable").not_repeatable()


def put(value: Any) -> Future:
    """Keeps a value where calls read it by reference: it is sent once, however many calls get the future as an argument.

    The value is copied as it is now.
    """
    if _host is not None:
        return _host.own_calls("put a value").put(value)
    return value if isinstance(value, Future) else Future(value)


def _futures(what: str, futures: Iterable[Future], timeout: float | None) -> list[Future]:
    """What is to be waited for, as a list."""
    checks.seconds(what, timeout)
    if isinstance(futures, Future):
        raise TypeError(f"{what}: it takes a list of futures, not one")
    if not isinstance(futures, Iterable):
        raise TypeError(f"{what}: it takes futures, not {futures!r}")
    listed = list(futures)
    for f in listed:
        if not isinstance(f, Future):
            raise TypeError(f"{what}: it takes futures, not {f!r}")
    return listed


def wait(
    futures: Iterable[Future], k: int = 1, timeout: float | None = None, *, num_returns: int | None = None
) -> tuple[list[Future], list[Future]]:
    """Waits until k futures have ended, well or not, and returns these, in the order in which they ended, and the others.

    After timeout seconds it returns those that have. num_returns is another name of k. A future that is there twice is refused.
    """
    futures = _futures("wait", futures, timeout)
    k = k if num_returns is None else num_returns
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"wait: k={k!r}: want a whole number, 1 or more")
    if len(set(futures)) < len(futures):
        first: dict[Future, int] = {}
        i, f = next((i, f) for i, f in enumerate(futures) if first.setdefault(f, i) != i)
        raise ValueError(f"wait: future {i} is future {first[f]} once more: give each once, as list(dict.fromkeys(futures)) does")
    if _host is not None:
        return _host.own_calls("wait").wait(futures, k, timeout)
    return futures[:k], futures[k:]


def as_completed(futures: Iterable[Future], timeout: float | None = None) -> Iterator[Future]:
    """The futures as they end, well or not: of many this takes less than to wait for one after the other.

    When timeout seconds are over before all have ended it raises TimeoutError.
    """
    futures = _futures("as_completed", futures, timeout)
    if _host is not None:
        return _host.own_calls("as_completed").as_completed(futures, timeout)
    return iter(futures)


def get(futures: Future | Iterable[Future], timeout: float | None = None) -> Any:
    """The value of a future, or the values of all in their order.

    When one fails it raises that error at once, after timeout seconds TimeoutError.
    """
    if isinstance(futures, Future):
        return futures.result(timeout)
    futures = _futures("get", futures, timeout)
    if _host is not None:
        return _host.own_calls("get").get(futures, timeout)
    return [f.result() for f in futures]


def places(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that can be given by place."""
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def by_name(name: str, names: Sequence[str], args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name. names are those of the function's parameters."""
    if len(args) > len(names):
        raise TypeError(f"call {name}: it takes {len(names)} arguments by place, and got {len(args)}: give others by name")
    if twice := [n for n in names[: len(args)] if n in named]:
        raise TypeError(f"call {name}: argument {twice[0]} is given twice")
    return {**dict(zip(names, args, strict=False)), **named}


def _at_once(name: str, function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> Future:
    """A call where there is no executor."""
    given = by_name(name, places(function), args, named) if args else named
    try:
        value = function(**{k: _here(v) for k, v in given.items()})
        return Future(list(value) if inspect.isgeneratorfunction(inspect.unwrap(function)) else value)
    except Exception as e:
        failed = failed_as(type(e))(f"{name}: {type(e).__name__}: {e}", [type(e).__qualname__])
        failed.__cause__ = e
        return Future(error=failed)


def _each(made: Future, n: int) -> list[Future]:
    """A future of each of several results."""
    if made._error is None and (not isinstance(made._value, (tuple, list)) or len(made._value) != n):
        made = Future(error=CallFailed(f"the function must return {n} values as a tuple", ["TypeError"]))
    return [Future(error=made._error) if made._error is not None else Future(v) for v in made._value or range(n)]


def _here(value: Any) -> Any:
    """The value of an argument."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, Future) for v in value):
        return [_here(v) for v in value]
    return value.result() if isinstance(value, Future) else value


def input_future(name: str) -> Future:
    """An input of the task, by the name of its parameter, to pass it on to calls without a copy."""
    if _host is None:
        raise RuntimeError(f"input {name} as a future: outside of an executor pass the value itself")
    return _host.own_calls(f"input {name} as a future").input(name)


def gang() -> Gang:
    """The place in its gang of the task that the caller runs as; RuntimeError when it is in none.

    While the task runs the environment has it too: CASCADE_GANG_RANK, _SIZE, _MEMBERS and _PORT, and what
    torch.distributed reads (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE; the master is member 0).
    """
    env = os.environ
    if "CASCADE_GANG_SIZE" not in env:
        raise RuntimeError("the task is in no gang: CASCADE_GANG_SIZE is not set")
    return Gang(int(env["CASCADE_GANG_RANK"]), int(env["CASCADE_GANG_SIZE"]),
                tuple(env["CASCADE_GANG_MEMBERS"].split(",")), int(env["CASCADE_GANG_PORT"]))  # fmt: skip


def empty(shape: int | Sequence[int], dtype: Any = float) -> Any:
    """A NumPy array of any content, to be filled and returned (or yielded) by a task.

    Large ones (over 512 KiB) lie in the store: returned as they are they become a dataset without a copy. What keeps
    looking at one after it was returned sees a copy of its own.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    size = dtype.itemsize
    for n in shape:
        if n < 0:
            raise ValueError(f"shape {shape} has a negative extent")
        size *= n
    room = None if _host is None or dtype.hasobject else _host.empty(size)
    if room is None:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(room, dtype, count=size // dtype.itemsize).reshape(shape)
