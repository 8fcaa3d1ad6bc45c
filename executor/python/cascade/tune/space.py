"""Spaces of parameters, as the file of an experiment has them: {"lr": {"loguniform": [0.0001, 0.1]}}.

The runner draws all values, so they are the same as those of a Go program with the same seed. What JSON cannot express
stays here: its place in the file has a number, and the worker puts the object, or the value of the function, in that place.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

OBJECT, COMPUTED = "cascade.object", "cascade.computed"  # keys of what stands for an object, and for a function's value


class Domain:
    """A set of values with a distribution, from which the runner draws."""

    def __init__(self, name: str, arguments: list[Any]) -> None:
        self.name, self.arguments = name, arguments

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


class Computed:
    """A value that a function makes of the others of a configuration."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def _number(name: str, *arguments: Any) -> Domain:
    plain = [a.item() if hasattr(a, "item") else a for a in arguments]
    for a in plain:
        if isinstance(a, bool) or not isinstance(a, (int, float)) or not math.isfinite(a):
            raise ValueError(f"tune.{name}: {a!r} is no finite number")
    return Domain(name, plain)


def uniform(lower: float, upper: float) -> Domain:
    """A number in [lower, upper)."""
    return _number("uniform", lower, upper)


def quniform(lower: float, upper: float, q: float) -> Domain:
    """A multiple of q in [lower, upper]."""
    return _number("quniform", lower, upper, q)


def loguniform(lower: float, upper: float) -> Domain:
    """A number in [lower, upper) whose logarithm is distributed evenly."""
    return _number("loguniform", lower, upper)


def qloguniform(lower: float, upper: float, q: float) -> Domain:
    """As loguniform, rounded to a multiple of q."""
    return _number("qloguniform", lower, upper, q)


def randint(lower: int, upper: int) -> Domain:
    """A whole number from lower to upper-1."""
    return _number("randint", lower, upper)


def qrandint(lower: int, upper: int, q: int = 1) -> Domain:
    """A multiple of q from lower to upper; with q of 1 to upper-1."""
    return _number("qrandint", lower, upper, q)


def lograndint(lower: int, upper: int) -> Domain:
    """As randint, with an even distribution of the logarithm."""
    return _number("lograndint", lower, upper)


def qlograndint(lower: int, upper: int, q: int) -> Domain:
    """As lograndint, rounded to a multiple of q."""
    return _number("qlograndint", lower, upper, q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Domain:
    """A number of the normal distribution."""
    return _number("randn", mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Domain:
    """As randn, rounded to a multiple of q."""
    return _number("qrandn", mean, sd, q)


def choice(categories: Any) -> Domain:
    """One of some values."""
    return Domain("choice", list(categories))


def grid_search(values: Any) -> dict[str, Any]:
    """Each of some values, with each of other grids."""
    return {"grid_search": list(values)}


def sample_from(function: Callable[..., Any]) -> Computed:
    """What a function of the configuration returns: sample_from(lambda config: config["layers"] * 2)."""
    return Computed(function)


def written(space: Mapping[str, Any], kept: list[Any]) -> dict[str, Any]:
    """A space as its file has it. kept gets what the file cannot have, by its number there."""

    def one(path: str, x: Any) -> Any:
        if isinstance(x, Computed):
            kept.append(x.function)
            return {COMPUTED: len(kept) - 1}
        if isinstance(x, Domain):
            return {x.name: [one(path, v) for v in x.arguments]}
        if isinstance(x, Mapping) and all(isinstance(k, str) for k in x):
            for k in x:
                if "/" in k:
                    raise ValueError(f"parameter {path}{k!r}: a slash is not permitted in a name")
            return {k: one(f"{path}{k}/", v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [one(path, v) for v in x]
        if type(x).__module__ == "numpy" and getattr(x, "ndim", 1) == 0:
            x = x.item()
        if isinstance(x, (bool, str, type(None))) or isinstance(x, int) and -(2**63) <= x < 2**63 or isinstance(x, float) and math.isfinite(x):
            return x
        kept.append(x)
        return {OBJECT: len(kept) - 1}

    if not isinstance(space, Mapping):
        raise TypeError(f"param_space is a dict, not {type(space).__name__}")
    return {k: one(f"{k}/", v) for k, v in space.items()}


class Spec(dict[str, Any]):
    """A configuration for a function of sample_from: its values by item or attribute, also as spec.config."""

    def __getattr__(self, name: str) -> Any:
        if name == "config" and name not in self:
            return self
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the configuration has no {name}") from None


def restored(config: Mapping[str, Any], kept: list[Any], trial: int) -> dict[str, Any]:
    """A configuration as a trainable gets it. Functions are called in the order of their places, and draw from `random` alike
    for each attempt at a trial."""
    computed: list[tuple[dict[str, Any] | list[Any], Any, int]] = []

    def one(x: Any) -> Any:
        if isinstance(x, Mapping):
            if len(x) == 1 and OBJECT in x:
                return kept[x[OBJECT]]
            made: dict[str, Any] = Spec()
            for k, v in x.items():
                if isinstance(v, Mapping) and len(v) == 1 and COMPUTED in v:
                    computed.append((made, k, v[COMPUTED]))
                else:
                    made[k] = one(v)
            return made
        return [one(v) for v in x] if isinstance(x, list) else x

    made = one(config)
    before = random.getstate()
    random.seed(f"cascade.tune {trial}")
    try:
        for place, key, n in computed:
            function = kept[n]
            place[key] = function(made) if _takes_one(function) else function()
    finally:
        random.setstate(before)
    plain: dict[str, Any] = _plain(made)
    return plain


def _plain(x: Any) -> Any:
    if isinstance(x, Spec):
        return {k: _plain(v) for k, v in x.items()}
    return [_plain(v) for v in x] if type(x) is list else x


def _takes_one(function: Callable[..., Any]) -> bool:
    import inspect

    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def json_of(x: Any) -> str:
    """A value as JSON, in which floats that are no numbers are texts."""

    def one(x: Any) -> Any:
        if isinstance(x, float) and not math.isfinite(x):
            return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
        if isinstance(x, Mapping):
            return {str(k): one(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [one(v) for v in x]
        if type(x).__module__ == "numpy":
            return one(x.tolist())
        if isinstance(x, (bool, int, float, str, type(None))):
            return x
        if hasattr(x, "item"):  # a tensor of one number
            return one(x.item())
        raise TypeError(f"a value of type {type(x).__name__} cannot be reported: use numbers, texts, lists and dicts")

    return json.dumps(one(x), separators=(",", ":"))


def numbers(x: Any) -> Any:
    """What json_of wrote, with its numbers."""
    if isinstance(x, dict):
        return {k: numbers(v) for k, v in x.items()}
    if isinstance(x, list):
        return [numbers(v) for v in x]
    return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(x, x) if isinstance(x, str) else x
