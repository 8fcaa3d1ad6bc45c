"""Cascade for Python: what functions of tasks use, and a client that builds and submits jobs.

A task's function is an ordinary function of a module. Inputs and parameters (with:) are its keyword arguments, what it
returns are its outputs, and a function that yields generates a series. docs/python.md of the project tells more.
"""

from .context import Cancelled, Task, current, empty

__version__ = "0.1.0"
__all__ = ["Cancelled", "Task", "current", "empty"]
