"""Reads Python files whose paths come as JSON on standard input, and writes as JSON what each defines.

Nothing of them runs. A file that cannot be read or parsed has no entry in the answer.
"""

import ast
import json
import sys

# A module with one of these names in it may define any name, or change a signature.
DYNAMIC = {"globals", "vars", "locals", "exec", "eval", "setattr", "modules"}
DYNAMIC |= {"__dict__", "__path__", "__getattr__", "__signature__", "__wrapped__", "__cascade_function__"}
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
    """What statements define by name: a signature, or None where it is not known."""
    found = {}

    def define(name, what=None):
        found[prefix + name] = what if prefix + name not in found else None

    for node in own_nodes(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = {d.id if isinstance(d, ast.Name) else "" for d in node.decorator_list}
            known = not decorators or method and len(decorators) == 1 and decorators <= METHODS
            define(node.name, function(node, decorators == {"classmethod"}) if known else None)
        elif isinstance(node, ast.ClassDef):
            define(node.name)
            plain = not node.decorator_list and not node.keywords and not node.bases
            if plain:
                found.update(names(node.body, prefix + node.name + ".", True))
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
    return found


def scan(path):
    with open(path, "rb") as f:
        tree = ast.parse(f.read())
    found, dynamic = names(tree.body), False
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                found[name] = None
        said = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        dynamic = dynamic or isinstance(said, str) and (said in DYNAMIC or said == "*")
    return {"names": found, "dynamic": dynamic}


def main():
    answer = {}
    for path in json.load(sys.stdin):
        try:
            answer[path] = scan(path)
        except (OSError, SyntaxError, ValueError, RecursionError):
            pass
    json.dump({"files": answer, "standard": sorted(getattr(sys, "stdlib_module_names", ()))}, sys.stdout)


main()
