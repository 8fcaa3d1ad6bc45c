"""Building a job: its tasks are Python functions, functions of other environments, and commands.

with cascade.Graph("spread") as g:          or: x = g.add(ramp, n=5)
    x = ramp(n=5)                            a task, since ramp is decorated with @cascade.task
    mean, stddev = stats(x=x)                its outputs are inputs of others
"""

from __future__ import annotations

import base64
import difflib
import functools
import importlib.util
import inspect
import math
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from . import given
from .checks import is_async, items, listed, texts
from .families import Alike, Families
from .jobtext import written
from .values import VALUES, numpy_type

_Path = str | os.PathLike[str]

_building: ContextVar[Graph | None] = ContextVar("cascade_graph", default=None)

BY_VALUE = "cascade.byvalue.call"


class Ref:
    """An output of a task: an input of others, or a result of the job."""

    def __init__(self, graph: Graph, key: str, output: str, series: bool = False, element: int | None = None) -> None:
        self.graph, self.key, self.output, self.series, self.element = graph, key, output, series, element

    @property
    def task(self) -> str:
        """The name of its task, which that has from now on: tasks that are added later join no family of it."""
        return self.graph._families.task(self.key)

    @property
    def name(self) -> str:
        """TASK.OUTPUT; TASK.OUTPUT[*] for all elements of a series, TASK.OUTPUT[I] for one. As task, it fixes the name."""
        return f"{self.task}.{self._output}"

    @property
    def _output(self) -> str:
        element = "*" if self.series else self.element
        return self.output if element is None else f"{self.output}[{element}]"

    def __getitem__(self, index: int) -> Ref:
        """One element of a series that was added with task_elements."""
        if not self.series or index < 0:
            raise TypeError(f"{self!r}[{index}]: elements are those of a series, from 0 on")
        return Ref(self.graph, self.key, self.output, element=index)

    def __repr__(self) -> str:
        return f"<{self.key}.{self._output} of job {self.graph.name}>"

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} has no value yet: submit the job, or pass it to another task")


class Function:
    """A function that makes a task when it is called while a graph is built, and is itself otherwise."""

    def __init__(self, function: Callable[..., Any], out: str | Iterable[str], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.__cascade_function__ = function
        self.out = tuple(items(out))
        self.options = dict(options)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Adds a task to the graph that is built; outside of one it calls the function."""
        graph = _building.get()
        if graph is None:
            return self.__cascade_function__(*args, **named)
        return graph.add(self, *args, **named)


def task(function: Callable[..., Any] | None = None, /, *, out: str | Iterable[str] = ("out",), **options: Any) -> Any:
    """Makes a function usable as a task: @cascade.task, or @cascade.task(out=["mean", "stddev"], memory="1GiB").

    A function that is not decorated takes them as g.add(cascade.task(f, retries=2), x).
    Options are keys of a task in a job file: cpu, memory, memory_max, gpu and gpu_memory for its resources (others of your own: resources={"licence": 1}), timeout,
    retries, priority.
    """
    if function is None:
        return lambda f: Function(f, out, options)
    return Function(function, out, options)


class Graph:
    """A job that is being built. Python functions run in one environment, described by the arguments."""

    def __init__(
        self,
        name: str,
        *,
        pip: _Path | Iterable[_Path] = (),
        version: str = "",
        py_modules: _Path | Iterable[_Path] = (),
        working_dir: _Path = "",
        env: Mapping[str, _Path] | None = None,
        environments: Mapping[str, Any] | None = None,
        keep_going: bool = False,
        rebuilt: str = "",
    ) -> None:
        """pip, version, py_modules, working_dir and env describe the Python environment; environments are further ones.

        The packages of this program are not in it: name them in pip. The modules of functions are added to py_modules by
        themselves, but not the modules that those import.

        All are as in a job file, as is rebuilt. Folders and files that they name are sent to the cluster with the job.
        """
        self.name, self.keep_going, self.rebuilt = name, keep_going, rebuilt
        self._pip, self._version, self._env = listed(pip), version, texts(env or {})
        self._modules = [_place(p) for p in listed(py_modules)]
        self._working_dir = _place(os.fsdecode(working_dir)) if working_dir else ""
        self._others: dict[str, Any] = texts(environments or {})
        self._families = Families(self._name)
        self._names: set[str] = set()  # of tasks and inputs
        self._numbers: dict[str, int] = {}  # the last number behind each name
        self._python = self._by_value = False
        self._token: Any = None
        self._values = given.Files()
        self._given_inputs: dict[str, Ref] = {}

    def __enter__(self) -> Graph:
        self._token = _building.set(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _building.reset(self._token)

    def add(
        self,
        function: Callable[..., Any] | str,
        /,
        *args: Any,
        task_name: str = "",
        task_elements: int | str = 0,
        out: str | Iterable[str] = (),
        **named: Any,
    ) -> Any:
        """Adds a task, and returns its outputs: one, a tuple of several, or None for none.

        Tasks that are alike, as those of a function that is added in a loop, are one family of the job: f[0], f[1], ...
        With task_name a task has its own name.

        function is a Python function, or "ENVIRONMENT:FUNCTION" of another environment. Arguments that are outputs of
        other tasks, or lists of such, are inputs; others are parameters: plain values, and what Python can pickle (arrays, times,
        paths). Large ones are sent once, as inputs of the job. Functions that are not of Python take plain values only.

        task_elements says that the outputs are series, of so many elements; "*" of as many as there are. A Python function
        that yields makes such, also without a word.
        """
        return self._add(function, args, named, task_name, task_elements, out, None)

    def map(
        self,
        function: Callable[..., Any] | str,
        /,
        *iterables: Iterable[Any],
        task_name: str = "",
        task_elements: int | str = 0,
        out: str | Iterable[str] = (),
        **constants: Any,
    ) -> list[Any]:
        """Adds a family of tasks: one for each element of iterables, as Python's map calls, with constants the same for all.

            squares = g.map(square, range(300))
            sums = g.map(add, squares, range(300), scale=2)

        It returns what add returns, of each task in order. Elements are values or outputs of tasks; the iterables have one
        length. Tasks that read from tasks of several families or names are as many families, as are plain values, others, and
        large ones in one iterable.
        """
        columns = [list(it) for it in iterables]
        if not columns:
            raise TypeError("map takes an iterable for each parameter that differs among the tasks: map(f, [1, 2, 3])")
        if len({len(c) for c in columns}) > 1:
            raise ValueError(
                f"the iterables of map have {', '.join(str(len(c)) for c in columns)} elements: they need one length"
            )
        family = _Family()
        return [self._add(function, row, constants, task_name, task_elements, out, family) for row in zip(*columns)]  # noqa: B905

    def _add(
        self,
        function: Callable[..., Any] | str,
        args: Sequence[Any],
        named: Mapping[str, Any],
        task_name: str,
        task_elements: int | str,
        out: str | Iterable[str],
        family: _Family | None,
    ) -> Any:
        body: dict[str, Any] = {}
        series = bool(task_elements)
        code: Any = function
        if isinstance(function, str):
            if args:
                raise TypeError("name the inputs and parameters of a function of another environment: FUNCTION(x=...)")
            body["run"], outputs = function, tuple(items(out))
            base = function.rpartition(":")[2].rpartition(".")[2]
        else:
            plain = getattr(function, "__cascade_function__", function)
            _can_be_task(plain)
            code = getattr(plain, "__code__", plain)  # closures of one function are alike
            options = getattr(function, "options", {})
            outputs = tuple(items(out)) or getattr(function, "out", ("out",))
            base = plain.__name__.strip("<>_") or "task"
            bound = _bound(plain, base, args, named)
            named = _by_name(bound)
            series = series or inspect.isgeneratorfunction(plain)
            body.update(_options(options))
            body["run"] = "python:" + self._function(plain, named)
            self._python = True
        self._arguments(body, named)
        if outputs and series:
            body["generates"] = {o: task_elements or "*" for o in outputs}
        elif outputs:
            body["out"] = list(outputs)
        if family is not None:
            family.name = family.name or self._name(task_name or base)
            key = f"{family.name}[{family.size}]"
            family.size += 1
            self._families.add(key, body, Alike(family, family.name, True))
        else:
            key = self._name(task_name or base)
            self._families.add(key, body, None if task_name else Alike((base, code)))
        refs = tuple(Ref(self, key, o, series) for o in outputs)
        return refs[0] if len(refs) == 1 else refs or None

    def command(
        self,
        command: _Path | Sequence[_Path],
        *,
        task_name: str = "",
        out: str | Iterable[str] = (),
        stdin: _Path = "",
        stdout: _Path = "",
        options: Mapping[str, Any] | None = None,
        **inputs: Any,
    ) -> Any:
        """Adds a command. Its words name datasets as ${in.NAME} and ${out.NAME}, as in a job file."""
        body: dict[str, Any] = {"command": texts(command if isinstance(command, (str, os.PathLike)) else list(command)), **_options(options or {})}
        self._arguments(body, inputs)
        if "with" in body:
            raise TypeError(f"{', '.join(body['with'])}: a command takes datasets as inputs; write values into its words")
        outputs = items(out)
        for key, value in (("out", outputs), ("stdin", texts(stdin)), ("stdout", texts(stdout))):
            if value:
                body[key] = value
        key = self._name(task_name or "command")
        self._families.add(key, body, None if task_name else Alike("command"))
        refs = tuple(Ref(self, key, o) for o in outputs)
        return refs[0] if len(refs) == 1 else refs or None

    def file(self, path: _Path, *, name: str = "") -> Ref:
        """An input of the job: a file of this host, whose bytes go to the hosts that need them.

        A relative path begins at the folder of the job. The file counts as it is when the job is submitted.
        """
        path = os.fsdecode(path)
        return self._input(path, name, {"file": _text(path)})

    def files(self, paths: _Path | Iterable[_Path], *, name: str = "") -> list[Ref]:
        """Several files as inputs of the job, in this order."""
        found = listed(paths)
        if not found:
            raise ValueError("files: it names no file")
        keys = self._families.files(self._input_name(found[0], name), {"files": [{"file": _text(p)} for p in found]})
        return [Ref(self, key, "data") for key in keys]

    def url(self, url: str, *, sha256: str = "", name: str = "") -> Ref:
        """An input of the job that the host which needs it fetches, by http or https. sha256 is what its bytes must have."""
        return self._input(url.partition("?")[0], name, {"url": _text(url), **({"sha256": sha256} if sha256 else {})})

    def _input(self, path: str, name: str, body: dict[str, Any]) -> Ref:
        key = self._input_name(path, name)
        alike = None if name or body.keys() != {"file"} else Alike(("input", self._input_base(path)))
        self._families.add(key, body, alike, input=True)
        return Ref(self, key, "data")

    def _input_name(self, path: str, name: str) -> str:
        return self._name(name or self._input_base(path))

    def _input_base(self, path: str) -> str:
        return re.sub("[^A-Za-z0-9_-]+", "_", os.path.splitext(os.path.basename(path))[0]).lstrip("-0123456789") or "input"

    def job(self, *results: Ref) -> str:
        """The text of the job file, whose outputs are the results."""
        return written(self.document(*results))

    def document(self, *results: Ref) -> dict[str, Any]:
        """The job file, whose outputs are the results. Its tasks have their names from now on."""
        self._families.settle()
        environments = dict(self._others)
        if self._python:
            python: dict[str, Any] = {}
            pip = self._pip + (["cloudpickle"] if self._by_value else [])
            version = self._version
            if self._by_value and not version:  # a function's code is that of one version
                version = f"=={sys.version_info[0]}.{sys.version_info[1]}.*"
            if pip:
                python["pip"] = pip
            if version:
                python["version"] = version
            environments["python"] = {"python": python}
            if self._modules:
                environments["python"]["py_modules"] = self._modules
            if self._working_dir:
                environments["python"]["working_dir"] = self._working_dir
            if self._env:
                environments["python"]["env"] = self._env
        job: dict[str, Any] = {"job": self.name, "tasks": self._families.tasks}
        if self._families.params:
            job["params"] = self._families.params
        if environments:
            job["environments"] = environments
        if self._families.inputs:
            job["inputs"] = self._families.inputs
        if self.keep_going:
            job["keep_going"] = True
        if self.rebuilt:
            job["rebuilt"] = self.rebuilt
        if results:
            job["outputs"] = [self.own(r).name for r in results]
        return job

    def own(self, ref: Ref) -> Ref:
        """An output of this graph; TypeError for what is none, ValueError for one of another graph."""
        if not isinstance(ref, Ref):
            raise TypeError(f"{getattr(ref, '__name__', repr(ref))} is no output of a task: give what its call returned while the graph was built")
        if ref.graph is not self:
            raise ValueError(f"{ref!r} is an output of another graph")
        return ref

    def _name(self, base: str) -> str:
        """A name that no task and no input has: base, then with a number behind it."""
        name, n = base, self._numbers.get(base, 1)
        while name in self._names:
            n += 1
            name = f"{base}-{n}"
        self._numbers[base] = n
        self._names.add(name)
        return name

    def _given(self, body: dict[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, of which those that are no plain values, or large, become inputs or stay in the body as bytes."""
        environment = body.get("run", "").partition(":")[0]
        if "run" not in body or environment != "python" and "python" not in self._others.get(environment, ()):
            return dict(named)
        left = {}
        for name, value in named.items():
            if any(isinstance(v, Ref) for v in (value if isinstance(value, (list, tuple)) else (value,))):
                left[name] = value
                continue
            if (hidden := _hidden(value)) is not None:
                raise TypeError(f"{name}: the output {hidden!r} lies within a {type(value).__name__}: give it as an argument of its own, or in a list of outputs")
            encoded = given.encoded(name, value, plain)
            if encoded is None:
                left[name] = value
                continue
            self._by_value = self._by_value or encoded.by_value
            small = encoded.size <= given.SMALL
            if not small:
                path, new = self._values.add(name, encoded)
                if new:
                    self._given_inputs[path] = self._input(path, "", {"file": _text(path)})
                left[name] = self._given_inputs[path]
            body.setdefault("with", {}).setdefault(VALUES, {})[name] = given.row(encoded, small)
        return left

    def _arguments(self, body: dict[str, Any], named: Mapping[str, Any]) -> None:
        named = self._given(body, named)
        for name, value in named.items():
            refs = list(value) if isinstance(value, (list, tuple)) else [value]
            if refs and all(isinstance(r, Ref) for r in refs):
                if any(r.graph is not self for r in refs):
                    raise ValueError(f"{name}: it is an output of another graph")
                body.setdefault("in", {})[name] = refs if isinstance(value, (list, tuple)) else refs[0]
            elif any(isinstance(r, Ref) for r in refs):
                raise TypeError(f"{name}: a list holds outputs of tasks or plain values, not both")
            else:
                body.setdefault("with", {})[name] = plain(name, value)

    def _function(self, function: Callable[..., Any], named: dict[str, Any]) -> str:
        """How an executor finds a function: by its name, or by value when no module of a file has it."""
        module = sys.modules.get(function.__module__)
        path = _importable(module, function)
        if path is not None:
            if path and path not in self._modules:
                self._modules.append(path)
            return f"{function.__module__}.{function.__qualname__}"
        try:
            import cloudpickle
        except ImportError:
            raise ImportError(
                f"function {function.__qualname__} is not in a module of a file, and so must be sent by value: "
                "that takes cloudpickle (pip install cloudpickle)"
            ) from None
        self._by_value = True
        named["cascade_function"] = base64.b64encode(cloudpickle.dumps(function)).decode()
        return BY_VALUE


class _Family:
    """The family that a call of map adds."""

    name = ""
    size = 0


def _text(value: str) -> str:
    """A text as a job file has it, which reads ${ otherwise."""
    return value.replace("${", "$${")


def _place(path: str) -> str:
    """A path, or an address as it is."""
    return path if path.startswith(("http://", "https://")) else os.path.abspath(path)


def _can_be_task(function: Any) -> None:
    """Refuses what no executor could find or run, before anything of it is sent."""
    if isinstance(function, (functools.partial, functools.partialmethod)):
        name = getattr(function.func, "__name__", repr(function.func))
        raise TypeError(f"a partial of {name} is no function that a task can name: give its arguments with the task, add({name}, ...)")
    name = getattr(function, "__name__", None)
    if not callable(function) or name is None:
        raise TypeError(f"{function!r} is no function: a task is a Python function, or ENVIRONMENT:FUNCTION as a text")
    if isinstance(function, types.BuiltinFunctionType):
        raise TypeError(f"{name} is built in, and its arguments have no names by which they could travel: write a function that calls it")
    if is_async(function):
        raise TypeError(f"function {name} is async, and nothing would await it: write def, and asyncio.run(...) in it")


def _hidden(value: Any, level: int = 0) -> Ref | None:
    """An output of a task that lies within a value."""
    if isinstance(value, Ref):
        return value
    if level == _MOST_LEVELS or not isinstance(value, (list, tuple, set, frozenset, Mapping)):
        return None
    within = value.values() if isinstance(value, Mapping) else value
    return next((found for v in within if (found := _hidden(v, level + 1)) is not None), None)


_MOST_LEVELS = 20  # of lists and mappings that lie in each other


def _bound(function: Callable[..., Any], name: str, args: Sequence[Any], named: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments by parameter. An error names the function's own parameters."""
    signature = inspect.signature(function)
    try:
        return signature.bind(*args, **named)
    except TypeError as e:
        parameters = signature.parameters
        keywords = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        wrong = str(e)
        others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if unknown := [n for n in named if n not in keywords and not others]:
            near = difflib.get_close_matches(unknown[0], [n for n in keywords if n not in named], 1)
            wrong = f"it takes no {', '.join(unknown)}" + (f" (did you mean {near[0]}?)" if near else _option(unknown[0]))
        else:
            try:
                given = signature.bind_partial(*args, **named).arguments
                several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
                needed = [n for n, p in parameters.items() if p.default is p.empty and p.kind not in several and n not in given]
                wrong = f"nothing is given for {', '.join(needed)}"
            except TypeError:  # more than it takes, or one twice: Python's words say it
                pass
        plain = signature.replace(
            parameters=[p.replace(annotation=p.empty) for p in parameters.values()], return_annotation=signature.empty
        )
        raise TypeError(f"task {name}: {wrong}; it is {name}{plain}") from None


def _by_name(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Arguments by the names of their parameters."""
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise TypeError(f"parameter {name}: arguments of a task travel by name")
        else:
            named[name] = value
    return named


def _importable(module: types.ModuleType | None, function: Callable[..., Any]) -> str | None:
    """The file or folder that holds a function's module.

    It is "" for a module that is installed, and None when an executor could not import it.
    """
    if module is None or module.__name__ == "__main__" or "<" in function.__qualname__ or not getattr(module, "__file__", None):
        return None
    top = module.__name__.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    path = os.path.dirname(spec.origin) if spec.submodule_search_locations else spec.origin
    return "" if top == "cascade" or path.startswith(_installed()) else os.path.abspath(path)


@functools.cache
def _installed() -> tuple[str, ...]:
    """Folders of installed modules: asking for them takes longer than all else that a task does."""
    return tuple(sysconfig.get_path(p) + os.sep for p in ("purelib", "platlib", "stdlib"))


def plain(
    name: str, value: Any, text: Callable[[str], str] = _text, instead: str = "let a task make it, and pass its output"
) -> Any:
    """A parameter as a job file has it: its texts as text makes them. instead is said of what is no plain value."""
    if isinstance(value, numpy_type("generic")) and value.dtype.kind in "biufU":  # its times have numbers as items, too
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}: a parameter is a finite number, not {value}: pass None or a text, or let a task make it")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{name}: a parameter is a whole number of 64 bits, not {value}: pass a text")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, (list, tuple)):
        return [plain(name, v, text, instead) for v in value]
    if isinstance(value, Mapping):
        if other := [k for k in value if not isinstance(k, str)]:
            raise TypeError(f"{name}: the keys of a parameter are texts, not {other[0]!r}: str() makes it one")
        return {k: plain(name, v, text, instead) for k, v in value.items()}
    kind = type(value)
    full = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise TypeError(f"{name}: a parameter is a plain value, not {full}: {instead}")


_RESOURCES = ("cpu", "memory", "memory_max", "gpu", "gpu_memory")


_OPTIONS = (*_RESOURCES, "timeout", "retries", "priority")


_KEYS = ("resources", "timeout", "retries", "priority", "deadline", "keep_going", "env", "environment", "gang")  # as in a job file


def _option(name: str) -> str:
    """A hint for a name that no function takes: it may be meant as an option of the task."""
    near = difflib.get_close_matches(name.removeprefix("task_"), _OPTIONS, 1, 0.7)
    return f" (an option of the task is given with the function: @cascade.task({near[0]}=...))" if near else ""


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a task as keys of the job file."""
    body = {k: v for k, v in options.items() if k not in _RESOURCES}
    for name in body:
        if name not in _KEYS:
            near = difflib.get_close_matches(name, (*_RESOURCES, *_KEYS), 1, 0.7)
            hint = f"did you mean {near[0]}=?" if near else f"a resource of your own is resources={{{name!r}: {body[name]!r}}}"
            raise TypeError(f"{name} is no option of a task: {hint}")
    resources = {k: options[k] for k in _RESOURCES if k in options}
    if resources:
        for name in sorted(resources.keys() & (named := dict(body.get("resources") or {})).keys()):
            raise TypeError(f"{name} is given twice: as {name}= and in resources=")
        body["resources"] = {**named, **resources}
    return body
