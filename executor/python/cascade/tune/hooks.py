"""Methods that a class of a user's overrides: one with a misspelt name would never be called."""

from __future__ import annotations

import difflib


def misnamed(of: type, base: type) -> str | None:
    """The error of a class whose method has nearly the name of one of base that the class leaves as it is."""
    hooks = [n for n, f in vars(base).items() if callable(f) and not n.startswith("_")]
    for name in (n for c in of.__mro__ if not issubclass(base, c) for n, f in vars(c).items() if callable(f)):
        meant = difflib.get_close_matches(name.lower(), hooks, 1, 0.85)
        if meant and name not in hooks and getattr(of, meant[0]) is getattr(base, meant[0]):
            return f"{of.__name__} has {name}, which is never called: did you mean {meant[0]}?"
    return None
