"""Tasks that change their process, and look whether those before have left it as it was."""

import asyncio
import contextvars
import decimal
import gc
import locale
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings

if "SET_BY_IMPORT" not in os.environ:  # once a process: it belongs to it
    os.environ["SET_BY_IMPORT"] = "yes"
    os.close(0)
    os.open("/dev/zero", os.O_RDONLY)
    warnings.filterwarnings("ignore", "said of the import")

number = contextvars.ContextVar("number", default=0)
start = None  # how the first task found the process


def look():
    """The state of the process, as a task sees it."""
    with open("/proc/self/status") as f:
        status = dict(line.split(":", 1) for line in f)
    return {
        "folder": os.getcwd(),
        "status": {k: status[k].strip() for k in ("Umask", "Uid", "Gid", "SigBlk", "SigIgn", "Cpus_allowed")},
        "variables": dict(os.environ),
        "time zone": time.tzname,
        "streams": [(os.fstat(n).st_dev, os.fstat(n).st_ino) for n in range(3)],
        "python streams": [hasattr(sys, "stdin") and id(sys.stdin), id(sys.stdout), id(sys.stderr), sys.stdout.closed],
        "paths": [list(sys.path), list(sys.argv), len(sys.meta_path)],
        "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)],
        "signals": {n: str(signal.getsignal(n)) for n in (signal.SIGALRM, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)},
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "warnings": [str(f) for f in warnings.filters],
        "logging": [logging.root.level, len(logging.root.handlers), logging.root.manager.disable],
        "locale": locale.setlocale(locale.LC_ALL),
        "sockets": socket.getdefaulttimeout(),
        "precision": [decimal.getcontext().prec, number.get()],
        "interpreter": [sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), str(sys.excepthook), str(sys.displayhook), str(threading.excepthook)],
        "processes": multiprocessing.get_start_method(allow_none=True),
        "temporary": tempfile.tempdir,
        "wakeup": signal.set_wakeup_fd(-1),
        "event loop": loop(),
        "priority": os.nice(0),
    }  # fmt: skip


def loop():
    """Whether asyncio's event loop is that of an earlier task."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is said to be deprecated
        try:
            found = asyncio.get_event_loop()
        except RuntimeError as e:  # from 3.14 on always
            return str(e)
    kept = hasattr(found, "used")
    found.used = True
    found.close()
    return kept


class Unequal:
    """A hook that cannot be compared."""

    def __call__(self, *_):
        pass

    def __eq__(self, other):
        raise SystemExit("compared")

    __hash__ = None


async def nothing():
    pass


def differences():
    """The parts that are not as the first task found them."""
    global start
    now = look()
    start = start or now
    return [name for name in now if now[name] != start[name]]


def change(what, after=None):
    """Looks, and then changes one thing."""
    found = differences()
    match what:
        case "folder":
            os.chdir("/")
        case "removed folder":
            os.chdir(tempfile.mkdtemp())
            os.rmdir(os.getcwd())
        case "mask":
            os.umask(0o777)
        case "variables":
            os.environ["MODE"] = "fast"
            os.environ["TZ"] = "Asia/Tokyo"
            time.tzset()
            del os.environ["GIVEN"]
        case "all variables":
            os.environ.clear()
        case "other variables":
            os.environ = {"PATH": "/nowhere"}
        case "streams":
            sys.stdout.close()
            sys.stdin = sys.stderr = None
        case "descriptors":
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(1, 0)
            os.dup2(null, 1)
            os.close(2)
            os.close(null)
        case "paths":
            sys.path.insert(0, "/nowhere")
            sys.argv = ["other"]
        case "limits":
            for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
                resource.setrlimit(n, (0 if n == resource.RLIMIT_CORE else 64, resource.getrlimit(n)[1]))
        case "signals":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 5, signal.SIGUSR1])
        case "hooks":
            sys.displayhook = sys.unraisablehook = Unequal()
            logging.root.addFilter(Unequal())
            del sys.stdin
            reading, writing = socket.socketpair()
            writing.setblocking(False)
            signal.set_wakeup_fd(writing.detach())
            reading.close()
        case "event loop":
            asyncio.run(nothing())
        case "timer":
            signal.alarm(3600)
        case "warnings":
            warnings.simplefilter("error")
        case "logging":
            logging.basicConfig(level=logging.DEBUG)
            logging.disable(logging.CRITICAL)
        case "locale":
            locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C")
        case "sockets":
            socket.setdefaulttimeout(0.001)
        case "context":
            decimal.getcontext().prec = 3
            number.set(1)
        case "interpreter":
            sys.setrecursionlimit(77)
            sys.setswitchinterval(1)
            sys.excepthook = threading.excepthook = print
            gc.disable()
        case "processes":
            multiprocessing.set_start_method("spawn")
        case "temporary":
            tempfile.tempdir = "/nowhere"
        case "for good":
            if os.getuid() == 0:
                os.setuid(65534)
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
    return [what, found, os.getpid()]


def series(n, after=None):
    """Sees in each element the context variables that the element before has set, as a generator does."""
    for i in range(n):
        if number.get() != i:
            raise ValueError(f"element {i} finds {number.get()}")
        number.set(i + 1)
        yield i


def after(changes: list, series=None):
    """The changes that are left when all have ended, and the number of processes in which they ran."""
    print("printed at the end")
    left = {what: found for what, found, _ in changes if found}
    return {"left": left, "at the end": differences(), "processes": len({pid for *_, pid in changes} | {os.getpid()})}


def processes(a, b, c):
    """Of three tasks, one behind the other, in which process each ran; and what the last of them found."""
    pids = [a[2], b[2], c[2]]
    return {"processes": [pids.index(pid) for pid in pids], "found": c[1]}
