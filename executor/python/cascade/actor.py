"""Actors: objects of a class in processes of their own, whose methods are called with .remote.

@cascade.remote
class Counter: ...      counter = Counter.remote(3) ──▶ a process that has the object
                        counter.add.remote(2)       ──▶ a future; calls of one handle run in the order in which they are made
"""

from __future__ import annotations

import difflib
import functools
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import checks, context
from .calling import RAY, called_by_name, code, finds_by_name, importable, opened, place
from .checks import TypeMismatch
from .context import Handle, Options
from .executor.actorcalls import Making
from .executor.actorline import Line, Method
from .executor.actorlives import FOREVER, Life
from .executor.targets import Coded, Target, coded

if TYPE_CHECKING:
    from .executor.calls import Calls

TERMINATE = "__ray_terminate__"  # a method of every actor: it ends behind the calls before
_NAMES = "names of actors are not built yet: an actor belongs to the task or program that makes it"
_LATER = {"name": _NAMES, "namespace": _NAMES, "get_if_exists": _NAMES, "lifetime": _NAMES}
RESTARTS, SAVE_EVERY = 3, 100  # of an actor with exactly_once that says no more
_OF_CALLS = ("cpu", "gpu", "memory")  # options that actors have in common with functions


class ActorOptions(NamedTuple):
    """How an actor is made."""

    max_concurrency: int = 0  # calls that run beside each other; 0 is one, and 1000 of a class with async methods
    concurrency_groups: tuple[tuple[str, int], ...] = ()  # the same for groups of methods
    isolated: bool = True  # every actor has a process of its own
    max_restarts: int = 0  # how often it is restarted when its process has died; -1 always
    max_task_retries: int = 0  # how often a call that was open then runs again; -1 always
    save_every: int = 0  # its state is saved behind so many calls
    exactly_once: bool = False  # the calls since run again, and each is answered once

    def life(self) -> Life | None:
        """How an actor lives that may be restarted."""
        if not (self.max_restarts or self.exactly_once):
            return None
        if self.exactly_once:
            return Life(self.max_restarts or RESTARTS, 0, self.save_every or SAVE_EVERY, True)
        return Life(self.max_restarts, self.max_task_retries, self.save_every)


class ActorClass:
    """A class of which .remote(...) makes actors. Called as it is, it makes an object here."""

    def __init__(self, cls: type, options: Options, more: ActorOptions) -> None:
        functools.update_wrapper(self, cls, updated=())
        self.__name__, self.__qualname__ = cls.__name__, cls.__qualname__
        self.__cascade_function__ = cls
        self._options, self._more = options, more
        self._core = _Core(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """An object of the class, here and now."""
        return self.__cascade_function__(*args, **named)

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        """A class that inherits from this one inherits from the class behind it."""
        return (self.__cascade_function__,)

    def remote(self, *args: Any, **named: Any) -> ActorHandle:
        """Makes an actor, and returns a handle of it at once. Its calls raise what its constructor raises."""
        host = context._host or opened()
        calls: Any = host.own_calls("make an actor " + self.__name__)
        o = self._options
        line = calls.of_actors().make(self._core.making(calls, self._more), o, o.cpu > 0, args, named)
        return ActorHandle(calls, line, self._core)

    def options(self, **changed: Any) -> ActorClass:
        """The same class with other options: Counter.options(max_concurrency=4).remote()."""
        other = ActorClass(self.__cascade_function__, *_options(self._options, self._more, changed))
        other._core = self._core
        return other

    def _has_come(self, coded: Coded) -> None:
        """It was loaded from its code, by which it goes on to others."""
        self._core.coded = coded

    def __reduce__(self) -> Any:
        name = importable(self)
        if name is not None and finds_by_name(name[0]):
            return _named, (*name, self._options, self._more)
        file = next((f.__code__.co_filename for f in _functions(self.__cascade_function__)), "")
        state = {"function": self.__cascade_function__, "options": self._options, "more": self._more, "file": file}
        return _bare, (), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for f in _functions(state["function"]):
            place(f, state["file"])
        self.__init__(state["function"], state["options"], state["more"])  # type: ignore[misc]


def _functions(cls: type) -> list[types.FunctionType]:
    return [f for f in vars(cls).values() if isinstance(f, types.FunctionType)]


def _bare() -> ActorClass:
    return ActorClass.__new__(ActorClass)


def _named(module: str, path: str, options: Options, more: ActorOptions) -> ActorClass:
    """The class of a module."""
    value = called_by_name(module, path)
    cls = getattr(value, "__cascade_function__", value)
    made = ActorClass(cls, options, more)
    if isinstance(value, ActorClass):
        made._core = value._core
    return made


class _Core:
    """What a class has in common with itself under other options."""

    def __init__(self, of: ActorClass) -> None:
        self._of = of
        self.name = of.__name__
        self.coded: Coded | None = None  # as it came here
        self._made: tuple[Any, Target] = None, Target("", of.__cascade_function__, ())  # and the host for which it was made
        self._methods: dict[str, Method] = {}

    def making(self, calls: Calls, more: ActorOptions) -> Making:
        """The class as the calls of a run name it."""
        of = self._of
        if self._made[0] is not calls.host:
            coded = self.coded
            if coded is None and not (calls.finds(of.__module__) and importable(of)):
                coded = code(of, calls.finds)
            self._made = calls.host, Target(f"{of.__module__}.{of.__qualname__}", of.__cascade_function__, (), coded, True)
        target = self._made[1]
        said = [f"code={target.coded.key}"] if target.coded is not None else []
        if more.max_concurrency:
            said.append(f"concurrency={more.max_concurrency}")
        if more.concurrency_groups:
            said.append("groups=" + ",".join(f"{name}:{n}" for name, n in more.concurrency_groups))
        life = more.life()
        if life is not None and life.every and (why := _not_serial(of.__cascade_function__, more)):
            raise ValueError(f"actor {self.name}: its state is saved between its calls, one after another: {why}")
        return Making(target.name, target, target.name + ("?" + "&".join(said) if said else ""), target.coded, life)

    def given(self) -> tuple[str, str, str, bytes]:
        """The class as handles in values have it: its module, its name there, and of one that goes by value the code."""
        of, coded = self._of, self._made[1].coded or self.coded
        return of.__module__, of.__qualname__, coded.key if coded else "", coded.data if coded else b""

    def method(self, name: str) -> Method:
        """A method by its name."""
        found = self._methods.get(name)
        if found is None:
            found = self._methods[name] = self._find(name)
        return found

    def _find(self, name: str) -> Method:
        cls = self._of.__cascade_function__
        function = _terminate if name == TERMINATE else getattr(cls, name, None)
        if not callable(function):
            known = [n for n, v in inspect.getmembers(cls, callable) if not n.startswith("_")]
            near = difflib.get_close_matches(name, known, 1, 0.6)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            raise AttributeError(f"actor {self.name} has no method {name}: {hint}", name=name)
        if isinstance(inspect.getattr_static(cls, name, None), types.FunctionType):
            function = types.MethodType(function, cls)  # for its signature, without self
        said: dict[str, Any] = getattr(function, "__cascade_method__", {})
        target = Target(f"{self.name}.{name}", function, (), strict=True)
        target.stream = target.stream or inspect.isasyncgenfunction(inspect.unwrap(function))
        return Method(target.name, target, said.get("num_returns", 1), said.get("concurrency_group", ""), name)


def _not_serial(cls: type, more: ActorOptions) -> str:
    """Why calls of an actor do not run one after another; "": they do."""
    if more.max_concurrency > 1 or more.concurrency_groups:
        return "it has max_concurrency or concurrency_groups"
    for name, f in inspect.getmembers(cls, callable):
        if checks.is_async(f):
            return f"{name} is async"
    return ""


def _terminate() -> None:
    """Ends an actor behind the calls before."""


class ActorMethod:
    """A method of an actor."""

    __slots__ = ("_group", "_handle", "_method", "_returns")

    def __init__(self, handle: ActorHandle, method: Method, returns: int, group: str) -> None:
        self._handle, self._method, self._returns, self._group = handle, method, returns, group

    def remote(self, *args: Any, **named: Any) -> Any:
        """Calls the method, and returns a Future at once; with num_returns=N a list of N."""
        handle, method = self._handle, self._method
        host: Any = context._host
        calls = handle._cascade_calls
        if host is None or host.own_calls("call " + method.name) is not calls:
            raise ValueError(f"call {method.name}: the handle is of another task, or of a session that has ended: make an actor here")
        said = []
        if self._returns != 1:
            said.append(f"returns={self._returns}")
        if self._group:
            said.append(f"group={self._group}")
        text = method.text + ("?" + "&".join(said) if said else "")
        return calls.of_actors().call(handle._cascade_line, method, self._returns, text, args, named)

    def options(self, *, num_returns: int | None = None, concurrency_group: str | None = None) -> ActorMethod:
        """The same method with other options."""
        said = _method_options(num_returns, concurrency_group)
        return ActorMethod(
            self._handle, self._method, said.get("num_returns", self._returns), said.get("concurrency_group", self._group)
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Is refused."""
        raise TypeError(f"{self._method.name} is a method of an actor: call it with .remote(...)")

    def __repr__(self) -> str:
        return f"<method {self._method.name} of an actor>"


def _of_code(module: str, path: str, key: str, data: bytes) -> ActorClass:
    """The class of a handle that was found in a value."""
    if not key:
        return _named(module, path, Options(), ActorOptions())
    from . import byvalue

    made = ActorClass(byvalue.function(f"{module}.{path}", key, lambda: data), Options(), ActorOptions())  # type: ignore[arg-type]
    made._core.coded = coded(data, key)
    return made


def _found(module: str, path: str, key: str, data: bytes, agent: str, held: Any) -> ActorHandle:
    """The handle that was found in a value, which refers to what is held."""
    core, calls = _of_code(module, path, key, data)._core, held.calls
    return ActorHandle(calls, calls.of_actors().found(f"{module}.{path}", agent, held), core)


class ActorHandle(Handle):
    """An actor. When no handle of it is left, with any task or in a value, it ends behind the calls that were made."""

    def __init__(self, calls: Any, line: Line, core: _Core) -> None:
        self._cascade_calls, self._cascade_line, self._cascade_core = calls, line, core

    def __getattr__(self, name: str) -> ActorMethod:
        if name.startswith(("_cascade_", "__")) and name != TERMINATE:
            raise AttributeError(name)
        method = self._cascade_core.method(name)
        return ActorMethod(self, method, method.returns, method.group)

    def __dir__(self) -> list[str]:
        return [n for n, _ in inspect.getmembers(self._cascade_core._of.__cascade_function__, callable) if not n.startswith("_")]

    def __reduce__(self) -> Any:
        raise TypeMismatch(
            f"there is a handle of actor {self._cascade_core.name} in it, which methods of actors neither take nor return, and "
            "which neither code nor graphs can have: pass it as an argument to a task, return it from one, or put it"
        )

    def _cascade_given(self) -> Any:
        host: Any = context._host
        calls, core = self._cascade_calls, self._cascade_core
        if host is None or host.own_calls(f"give away a handle of actor {core.name}") is not calls:
            raise TypeMismatch(
                f"there is a handle of actor {core.name} in it, of another task or of a session that has ended: "
                "return it from there, or pass it as an argument"
            )
        line = self._cascade_line
        return _found, (*core.given(), line.agent, line.give())

    def __repr__(self) -> str:
        dead = self._cascade_line.dead
        return f"<actor {self._cascade_core.name}{'' if dead is None else ', which has ended'}>"

    def __del__(self) -> None:
        """This may be in any thread, at any time."""
        calls = self.__dict__.get("_cascade_calls")
        if calls is not None and calls.actors is not None:
            calls.actors.unheld.append(self._cascade_line)
            calls.host.nudge()


def method(
    function: Callable[..., Any] | None = None, /, *, num_returns: int | None = None, concurrency_group: str | None = None
) -> Any:
    """Options of a method of an actor: @cascade.method(num_returns=2), or (concurrency_group="io"); "" is that of all others."""
    said = _method_options(num_returns, concurrency_group)

    def mark(f: Callable[..., Any]) -> Callable[..., Any]:
        f.__cascade_method__ = said  # type: ignore[attr-defined]
        return f

    return mark if function is None else mark(function)


def _method_options(num_returns: int | None, group: str | None) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if num_returns is not None:
        said["num_returns"] = checks.number("method: num_returns", num_returns, 0, 1000, whole=True)
    if group is not None:
        said["concurrency_group"] = _group("method: concurrency_group", group)
    return said


def _group(what: str, name: Any) -> str:
    if not isinstance(name, str) or name and not name.replace("_", "a").isalnum():
        raise ValueError(f"{what}={name!r}: want a name of letters, digits and _")
    return name


def kill(actor: ActorHandle, *, no_restart: bool = True, why: str = "") -> None:
    """Ends an actor at once: calls that have not ended raise ActorDiedError.

    With no_restart=False its process is ended: an actor that may be restarted is.
    """
    if not isinstance(actor, ActorHandle):
        raise TypeError(f"kill: it takes the handle of an actor, not {actor!r}")
    actor._cascade_calls.of_actors().kill(actor._cascade_line, why, not no_restart)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The actor of a name. There are none yet."""
    raise NotImplementedError(f"get_actor {name}: {_NAMES}")


def exit_actor() -> None:
    """Ends the actor whose method calls it: the method returns None, and the calls behind it raise ActorDiedError."""
    from .executor.actorhost import leave

    leave()


def actor_class(cls: type, changed: dict[str, Any]) -> ActorClass:
    """What cascade.remote makes of a class."""
    return ActorClass(cls, *_options(Options(), ActorOptions(), changed))


def _options(base: Options, more: ActorOptions, changed: dict[str, Any]) -> tuple[Options, ActorOptions]:
    """Options with others in their place. Those of Ray are taken where they mean the same."""
    given = {RAY.get(name, name): value for name, value in changed.items()}
    for name, why in _LATER.items():
        if given.pop(name, None):
            raise NotImplementedError(f"option {name} of an actor: {why}")
    known = (*_OF_CALLS, *ActorOptions._fields)
    if unknown := [name for name in given if name not in known]:
        near = difflib.get_close_matches(unknown[0], known, 1, 0.7)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
        raise TypeError(f"{unknown[0]} is no option of an actor: {hint}")
    options = context.options(**{**base._asdict(), **{n: v for n, v in given.items() if n in _OF_CALLS}})
    of = "options of an actor: "
    if "max_concurrency" in given:
        n = checks.number(of + "max_concurrency", given["max_concurrency"], 1, 10_000, whole=True)
        more = more._replace(max_concurrency=n)
    if "concurrency_groups" in given:
        groups = given["concurrency_groups"]
        if not isinstance(groups, dict):
            raise ValueError(f"{of}concurrency_groups={groups!r}: want a dict of names and numbers")
        if "" in groups:
            raise ValueError(f"{of}concurrency_groups: the group of all other methods has max_concurrency")
        each = [(_group(of + "concurrency_groups", g), n) for g, n in groups.items()]
        each = [(g, checks.number(f"{of}concurrency_groups: {g}", n, 1, 10_000, whole=True)) for g, n in each]
        more = more._replace(concurrency_groups=tuple(each))
    more = _lives(of, more, given)
    if given.get("isolated", True) is not True:
        raise ValueError(f"{of}isolated={given['isolated']!r}: every actor of a Python class has a process of its own")
    return options, more


def _lives(of: str, more: ActorOptions, given: dict[str, Any]) -> ActorOptions:
    """Options of an actor that may be restarted."""
    for name, least in (("max_restarts", FOREVER), ("max_task_retries", FOREVER), ("save_every", 0)):
        if name in given:
            more = more._replace(**{name: checks.number(of + name, given[name], least, 1_000_000, whole=True)})
    if "exactly_once" in given:
        if not isinstance(given["exactly_once"], bool):
            raise TypeError(f"{of}exactly_once={given['exactly_once']!r}: want True or False")
        more = more._replace(exactly_once=given["exactly_once"])
    if more.exactly_once and more.max_task_retries:
        raise ValueError(f"{of}max_task_retries: with exactly_once calls run again as often as the actor is restarted")
    for name in ("max_task_retries", "save_every"):
        if getattr(more, name) and not (more.max_restarts or more.exactly_once):
            raise ValueError(f"{of}{name}: the actor is not restarted: add max_restarts, or exactly_once")
    return more
