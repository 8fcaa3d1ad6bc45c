"""A task under pdb: it stops where the function begins, and where it fails."""

from __future__ import annotations

import bdb
import pdb
import sys
import traceback
from typing import Any


class DebuggerQuit(Exception):
    """Whoever debugs the task has ended it."""


def call(function: Any, /, *args: Any, **named: Any) -> Any:
    """Calls a function of the task's under pdb. Of a generator it stops at each element."""
    debugger = pdb.Pdb(nosigint=True)
    try:
        return debugger.runcall(function, *args, **named)
    except bdb.BdbQuit:
        raise DebuggerQuit("it was ended in the debugger") from None
    except StopIteration:
        raise
    except Exception as e:
        traceback.print_exception(e)
        debugger.reset()
        debugger.interaction(None, e.__traceback__)
        raise
    finally:
        sys.settrace(None)
