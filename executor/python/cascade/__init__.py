"""Cascade for Python: what functions of tasks use, and a client that builds and submits jobs."""

__version__ = "0.1.0"
