"""Actors that end: by themselves, by their callers, with their process, with the program that made them, and with its session."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import cascade


@cascade.remote
class Log:
    def __init__(self):
        self.seen = []

    def add(self, x):
        self.seen.append(x)
        return len(self.seen)

    def pid(self):
        return os.getpid()

    def child(self):
        """Has a child that lives on and has all descriptors that were inherited."""
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        return child

    def ends(self, how):
        """Ends its process."""
        how()

    def begins(self, path):
        open(path, "w").close()
        while True:
            time.sleep(0.01)


@cascade.remote
def makes(path):
    log = Log.remote()
    with open(path, "w") as f:
        f.write(str(log.pid.remote().result()))
    time.sleep(1000)


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


def until(so):
    """Waits until something is so."""
    while not so():
        time.sleep(0.01)


def gone(pid):
    """Whether a process has ended."""
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def dies(folder):
    log = Log.remote()
    pid = log.pid.remote().result()
    child = log.child.remote().result()
    queued = [log.add.remote(i) for i in range(10_000)]
    queued[99].result()
    os.kill(pid, signal.SIGKILL)
    ends = [tried(f.result) for f in queued]
    ran = next((i for i, e in enumerate(ends) if e != i + 1), len(ends))
    rest = set(str(e).replace(str(pid), "PID") for e in ends[ran:])
    print("killed: results, then errors", 100 <= ran < 10_000, rest, tried(log.add.remote(1).result).replace(str(pid), "PID"))
    with contextlib.suppress(ProcessLookupError):  # the agent has ended it
        os.kill(child, signal.SIGKILL)
    until(lambda: gone(pid))
    for how in (lambda: os.kill(os.getpid(), signal.SIGSEGV), lambda: os.kill(os.getpid(), signal.SIGTERM), lambda: os._exit(3)):
        log = Log.remote()
        pid = log.pid.remote().result()
        print("ends", tried(log.ends.remote(how).result).replace(str(pid), "PID"), "|", tried(log.add.remote(1).result).replace(str(pid), "PID"))
    other = Log.remote()
    print("another", other.add.remote(1).result(), log)


def never(folder):
    log = Log.remote()
    path = os.path.join(folder, "never")
    running, queued, dropped = log.begins.remote(path), log.add.remote(1), log.add.remote(2)
    until(lambda: os.path.exists(path))
    queued.cancel("not needed")
    print("cancelled behind it", tried(queued.result))
    running.cancel("nor this")
    print("cancelled while it runs", tried(running.result), dropped.done())
    cascade.kill(log, why="enough")
    print("killed", tried(dropped.result), "|", tried(log.add.remote(1).result))


def children():
    """The processes below this one."""
    found, todo = [], [os.getpid()]
    while todo:
        try:
            below = open(f"/proc/{todo[0]}/task/{todo[0]}/children").read().split()
        except FileNotFoundError:
            below = []
        todo = todo[1:] + [int(p) for p in below]
        found += below
    return found


def cmdline(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read()
    except FileNotFoundError:
        return b""


def dropped():
    log = Log.remote()
    pid, first = log.pid.remote(), log.add.remote(1)
    last = log.add.remote(2)
    del log  # it ends behind the calls that were made
    print("last handle", first.result(), last.result(), pid.result() > 0)
    print("temporary", Log.remote().add.remote(1).result())
    log = Log.remote()
    print("its process is used again", log.add.remote(1).result())


def caller(folder):
    path = os.path.join(folder, "caller")
    call = makes.remote(path)
    until(lambda: os.path.exists(path) and open(path).read())
    pid = int(open(path).read())
    call.cancel("enough")
    print("its caller", tried(call.result))
    until(lambda: not serves(pid))
    print("ends with its caller", True)


def serves(pid):
    """Whether a process has the socket of an actor."""
    sockets = {f"socket:[{line.split()[6]}]" for line in open("/proc/net/unix") if line.endswith("actors.sock\n")}
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in sockets for fd in os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:  # a descriptor, or the process, has gone meanwhile
        return serves(pid) if not gone(pid) else False


def interrupted(folder):
    log = Log.remote()
    path = os.path.join(folder, "interrupted")
    call = log.begins.remote(path)
    waits = threading.Event()

    def act():
        until(lambda: os.path.exists(path))
        waits.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=act)
    thread.start()
    print("interrupt", tried(lambda: waits.set() or call.result()))
    thread.join()
    call.cancel()
    print("goes on", call.done() or tried(call.result))
    cascade.kill(log)


def agent_dies():
    log = Log.remote()
    log.add.remote(1).result()
    pid = log.pid.remote().result()
    agent = next(int(p) for p in children() if b"cascade-agent" in cmdline(p).partition(b"\0")[0])
    os.kill(agent, signal.SIGKILL)
    until(lambda: gone(pid))
    print("agent", tried(lambda: log.add.remote(2).result()).partition(":")[0])


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    if sys.argv[2] == "program":  # whose actor is to end with it
        cascade.init(cpu=2)
        log = Log.remote()
        print(log.pid.remote().result(), flush=True)
        signal.pause()
    cascade.init(cpu=2)
    dies(sys.argv[2])
    never(sys.argv[2])
    dropped()
    caller(sys.argv[2])
    interrupted(sys.argv[2])
    agent_dies()
    program = subprocess.Popen([sys.executable, __file__, sys.argv[1], "program"], stdout=subprocess.PIPE)
    pid = int(program.stdout.readline())
    program.kill()
    program.wait()
    until(lambda: not serves(pid))
    print("ends with its program", True)
