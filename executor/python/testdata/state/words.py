"""Tasks that print, and whose process dies at once."""

import ctypes
import os
import signal
import sys


def say(how):
    """Prints on both streams, and dies."""
    print("said", how)
    print("and on stderr", file=sys.stderr)
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def series(how):
    """Dies between two elements."""
    yield 1
    say(how)
    yield 2


def much():
    """Prints more than any pipe holds."""
    for i in range(30000):
        print(i, "x" * (i % 100))
    print("the end")
    os._exit(7)


def broken_off():
    """Changes the stream, and dies within a line."""
    print("before the crash")
    sys.stderr.write("no end of line")
    ctypes.string_at(0)
