"""Functions by value as executors load them: once while they are used, and of their own version of Python alone."""

import pickle
import sys

from cascade import byvalue
from cascade.context import Options
from cascade.calling import RemoteFunction, _options, code


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def unread():
    raise AssertionError("the code of a function that is known was asked for")


here = ".".join(map(str, sys.version_info[:2]))
factor = 3
coded = code(RemoteFunction(lambda x: x * factor, Options(retries=2)), lambda module: True)
loaded = byvalue.function("f", coded.key, lambda: coded.data)
print(loaded(2), loaded.__code__.co_filename == __file__, byvalue.function("f", coded.key, unread) is loaded)
for i in range(300):
    byvalue.function("f", str(i), lambda: coded.data)
print(len(byvalue._known), byvalue.function("f", coded.key, lambda: coded.data) is loaded)
print(tried(lambda: byvalue.function("f", "a", lambda: b"3.8\n" + coded.data)).replace(here, "HERE"))


class Absent:
    """It is in no module that is there."""


Absent.__module__, sys.modules["absent"] = "absent", sys.modules[__name__]
lacks = here.encode() + b"\n" + pickle.dumps(Absent())
del sys.modules["absent"]
print(tried(lambda: byvalue.function("f", "b", lambda: lacks)))
print(tried(lambda: byvalue.function("f", "c", lambda: here.encode() + b"\nno pickle")))

for options in ({"num_cpus": 2, "num_gpus": 1, "num_returns": 3}, {"max_retries": 4}, {"max_retries": 4, "retry_exceptions": True},
                {"retry_exceptions": [KeyError]}, {"retry_exceptions": False}, {"num_cpus": "2"}, {"timout": 1}):  # fmt: skip
    print(options, "->", tried(lambda o=options: {k: v for k, v in _options(Options(), o)._asdict().items() if v != getattr(Options(), k)}))
