"""Whether the names of docs/ray-names.md are there: its rows come as arguments, each with what it says, Ray's name and ours."""

import importlib
import inspect
import sys

import cascade
from cascade.actor import ActorOptions
from cascade.calling import RAY
from cascade.context import Options

OPTIONS = {*Options._fields, *ActorOptions._fields, *RAY, "max_retries", "retry_exceptions"}


def there(name):
    """Whether a name of the package is there, with a parameter."""
    name, _, parameter = name.rstrip("=)").partition("(")
    value = cascade
    for part in name.split(".")[1:]:
        if not hasattr(value, part) and value is cascade:
            importlib.import_module(f"cascade.{part}")
        value = getattr(value, part)
    if parameter and value is cascade.remote:
        return parameter in OPTIONS
    return not parameter or parameter in inspect.signature(value).parameters


for row in sys.argv[1:]:
    state, theirs, ours = row.split("|")
    try:
        if state == "absent":
            name = theirs.partition(".")[2]
            if theirs.startswith("ray.") and "." not in name and hasattr(cascade, name):
                try:
                    getattr(cascade, name)("x")
                    print(f"{theirs} is said to be absent, and is there")
                except NotImplementedError:
                    pass
        elif not there(ours):
            print(f"{theirs}: {ours} takes no such parameter")
    except (AttributeError, ImportError) as e:
        print(f"{theirs}: {ours} is not there: {e}")
