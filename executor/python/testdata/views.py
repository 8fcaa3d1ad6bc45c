"""Large results are views of shared memory, which stay true whatever becomes of the cluster: views.py PROGRAMS FOLDER."""

import faulthandler
import gc
import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np

import cascade
from cascade.wire import messages as m

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
programs, folder = sys.argv[1:]
socket = os.path.join(folder, "c", "run", "controller.sock")
LARGE, SMALL = 24 << 20, 2 << 20  # bytes; the store has 64 MiB


def start(program, *args):
    with open(os.path.join(folder, program + ".log"), "ab") as log:
        return subprocess.Popen([os.path.join(programs, program), *args], stdout=log, stderr=log, start_new_session=True)


def start_agent():
    return start("cascade-agent", "--controller", f"ipc://{socket}", "--name", "local", "--state", os.path.join(folder, "a"),
                 "--runtime", os.path.join(folder, "r"), "--store", "64MiB", "--cpu", "2")  # fmt: skip


def until(there):
    while not there():
        time.sleep(0.01)


def field(n, seed):
    return np.random.default_rng(seed).integers(0, 255, n, np.uint8)


def digest(x):
    return hashlib.sha256(x).hexdigest()


def place(x):
    """The file of which an array is a mapping; nothing for memory of the process."""
    at = x.ctypes.data
    with open("/proc/self/maps", encoding="utf-8") as f:
        for line in f:
            low, high = (int(n, 16) for n in line.split()[0].split("-"))
            if low <= at < high:
                found = re.search(r"/cascade-[^/]*/([a-z])\d+( \(deleted\))?", line)
                return "" if found is None else found[1] + (found[2] or "")
    return "nowhere"


def made(cluster, *seeds, n=LARGE):
    with cascade.Graph("fields", pip=["numpy"]) as g:
        fields = [g.add(field, n, s) for s in seeds]
    job = cluster.submit(g, *fields)
    job.wait(progress=False)
    return job, [result(job, f) for f in fields]


def result(job, ref):
    try:
        return job.result(ref)
    except ConnectionError:  # the agent was killed since; the next call connects again
        return job.result(ref)


def show(what, x, seed):
    right = digest(x) == digest(field(x.size, seed))
    print(f"{what}: file {place(x) or 'none'!r}, writeable {x.flags.writeable}, right {right}")


def forget(cluster, job):
    cluster._controller.ask(lambda req: m.Control(req, job._id.bytes, 4))


def descriptors():
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    return len([n for n in names if re.search(r"/cascade-[^/]*/f\d+", n)])


running = [start("cascade-controller", "--state", os.path.join(folder, "c"), "--durability", "crash"), start_agent()]
try:
    until(lambda: os.path.exists(socket))
    cluster = cascade.connect(socket)
    job, (x,) = made(cluster, 1)
    show("a large result", x, 1)
    show("a small one", made(cluster, 2, n=SMALL)[1][0], 2)
    made(cluster, 3, 4, 5, 6)
    show("moved to disk", x, 1)
    again = cluster.job(job.id).result("field.out")
    show("fetched again", again, 1)
    forget(cluster, job)
    until(lambda: place(again).endswith("(deleted)"))
    made(cluster, 7, 8, 9)
    show("the job is removed", again, 1)

    job, (y,) = made(cluster, 10)
    running[1].send_signal(signal.SIGKILL)
    running[1].wait()
    show("the agent is killed", y, 10)
    running[1] = start_agent()
    made(cluster, 11, 12, 13)
    show("another agent goes on", y, 10)
    z = result(job, "field.out")
    show("fetched from that", z, 10)
    forget(cluster, job)
    until(lambda: place(z).endswith("(deleted)"))
    made(cluster, 14, 15, 16)
    show("the job is removed then", z, 10)

    print("files are open:", descriptors() > 0)
    del x, y, z, again
    gc.collect()
    print("files are open:", descriptors() > 0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * lowest - 1, limits[1]))
    few = made(cluster, 17)[1][0]
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    show("few descriptors are left", few, 17)
    last = made(cluster, 18)[1][0]
    cluster.close()
    for process in reversed(running):
        process.terminate()
        process.wait()
    show("the cluster has ended", last, 18)
finally:
    for process in running:
        process.kill()
        process.wait()
