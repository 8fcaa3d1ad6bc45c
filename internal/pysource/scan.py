"""Reads Python files whose paths come as JSON on standard input, and writes as JSON what each defines.

Nothing of them runs. A file that cannot be read or parsed has no entry in the answer.
"""

import ast
import json
import sys

# A module with one of these names in it may define any name, or change a signature.
DYNAMIC = {"globals", "vars", "locals", "exec", "eval", "setattr", "delattr", "modules"}
DYNAMIC |= {"__dict__", "__path__", "__getattr__", "__signature__", "__wrapped__", "__cascade_function__"}
# Functions that are given a module's name and leave the module alone.
HARMLESS = {"getLogger", "get_logger", "print"}
# These leave a method's signature readable.
METHODS = {"staticmethod", "classmethod"}


def own_nodes(body):
    """All nodes of statements, without those inside functions, lambdas and classes."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))


def function(node, bound):
    """A function's signature; without its first parameter when that is bound."""
    a = node.args
    if bound:
        (a.posonlyargs or a.args or [None]).pop(0)
    given = a.posonlyargs + a.args
    required = {p.arg for p in given[: len(given) - len(a.defaults)]}
    required |= {p.arg for p, default in zip(a.kwonlyargs, a.kw_defaults) if default is None}
    for p in [*given, *a.kwonlyargs, a.vararg, a.kwarg]:
        if p is not None:
            p.annotation = None
    return {
        "line": node.lineno,
        "text": ast.unparse(a),
        "takes": [p.arg for p in a.args + a.kwonlyargs],
        "needs": [p.arg for p in given + a.kwonlyargs if p.arg in required],
        "any": a.kwarg is not None,
        "yields": any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(node.body)),
        "async": isinstance(node, ast.AsyncFunctionDef),
    }


def names(body, prefix="", method=False):
    """What statements define by name: a signature, or None where it is not known.

    NAME.* tells that the name may have more than is read here.
    """
    found, again = {}, set()

    def define(name, what=None):
        if prefix + name in found:
            again.add(prefix + name)
        found[prefix + name] = what

    for node in own_nodes(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = {d.id if isinstance(d, ast.Name) else "" for d in node.decorator_list}
            known = not decorators or method and len(decorators) == 1 and decorators <= METHODS
            define(node.name, function(node, decorators == {"classmethod"}) if known else None)
        elif isinstance(node, ast.ClassDef):
            define(node.name)
            plain = not node.decorator_list and not node.keywords and not node.bases
            if plain:
                found.update(names(node.body, prefix + node.name + ".", True))  # a second class of the name is hidden below
            else:
                found[prefix + node.name + ".*"] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                define(alias.asname or alias.name.partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            define(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            define(node.name)
        elif type(node).__name__ in ("MatchAs", "MatchStar", "TypeAlias"):
            if isinstance(getattr(node, "name", None), str):
                define(node.name)
        elif type(node).__name__ == "MatchMapping" and node.rest:
            define(node.rest)
    for name in again:
        hide(found, name)
    return found


def hide(found, name):
    """A name is defined twice, or changed: of it and what it has nothing is known."""
    for other in [name, name + ".*", *(o for o in found if o.startswith(name + "."))]:
        found[other] = None


def root(node):
    """The name at the front of A.b.c; None for what has none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def gives_name(node):
    """Whether a call hands the module's name to a function that may find the module by it."""
    if not isinstance(node, ast.Call) or (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in HARMLESS:
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return any(isinstance(a, ast.Name) and a.id == "__name__" for a in given)


def scan(path):
    with open(path, "rb") as f:
        tree = ast.parse(f.read())
    found, dynamic, imported, changed = names(tree.body), False, set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                hide(found, name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= {a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed.add(root(node))
        dynamic = dynamic or gives_name(node)
        said = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        dynamic = dynamic or isinstance(said, str) and (said in DYNAMIC or said == "*")
    for name in changed & {n.partition(".")[0] for n in found}:
        hide(found, name)
    return {"names": found, "dynamic": dynamic, "changes": bool(changed & imported)}


def main():
    answer = {}
    for path in json.load(sys.stdin):
        try:
            answer[path] = scan(path)
        except (OSError, SyntaxError, ValueError, RecursionError, AttributeError):  # the last before Python 3.9
            pass
    json.dump({"files": answer, "standard": sorted(getattr(sys, "stdlib_module_names", ()))}, sys.stdout)


main()
