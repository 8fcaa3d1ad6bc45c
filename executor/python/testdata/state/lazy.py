"""Tasks that import what keeps state of the process, and use it."""

import os


def use():
    """Has each of them remember something; it returns in which process."""
    import decimal
    import logging
    import multiprocessing
    import socket
    import tempfile
    import warnings

    logging.warning("used")
    multiprocessing.get_start_method()
    tempfile.gettempdir()
    decimal.getcontext()
    socket.getdefaulttimeout()
    warnings.filterwarnings("ignore", "none of these")
    return os.getpid()


def same(pids: list):
    """Whether it was one process."""
    return len(set(pids)) == 1
