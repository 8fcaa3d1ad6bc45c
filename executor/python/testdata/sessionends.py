"""Sessions that end before their program, and programs that are interrupted."""

import os
import signal
import sys
import threading
import time

import cascade


@cascade.remote
def double(x):
    return 2 * x


@cascade.remote
def until(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


def soon(do, started):
    """Does something once a call has begun."""

    def act():
        while not os.path.exists(started):
            time.sleep(0.01)
        do()

    threading.Thread(target=act).start()


@cascade.remote
def begins(path):
    open(path, "w").close()
    time.sleep(1000)


def agent():
    """The number of the process of this program's agent."""
    for child in open(f"/proc/self/task/{os.getpid()}/children").read().split():
        if "cascade-agent" in open(f"/proc/{child}/cmdline").read().partition("\0")[0]:
            return int(child)


def interrupted(folder):
    path = os.path.join(folder, "interrupted")
    ref = begins.remote(path)
    soon(lambda: os.kill(os.getpid(), signal.SIGINT), path)
    print("interrupt", tried(ref.result), double.remote(1).result())
    ref.cancel()


def cancelled(folder):
    path = os.path.join(folder, "cancelled")
    session = cascade.init(cpu=2)
    ref = begins.remote(path)
    other = double.remote(3)
    soon(lambda: session.cluster.job(session.id).cancel("enough"), path)
    print("cancel", tried(ref.result), "|", tried(lambda: double.remote(1)), "|", cascade.is_initialized())
    print("future", tried(other.result))


def killed(folder):
    path = os.path.join(folder, "killed")
    cascade.init(cpu=2)
    ref = begins.remote(path)
    errors = []
    thread = threading.Thread(target=lambda: errors.append(tried(lambda: cascade.wait([ref]))))
    thread.start()
    soon(lambda: os.kill(agent(), signal.SIGKILL), path)
    print("kill", tried(lambda: cascade.get(ref)).replace(folder, ""))
    thread.join()
    print("other thread", errors)
    print("call", tried(lambda: double.remote(1)))
    print("put", tried(lambda: cascade.put(1)))
    cascade.init(cpu=2)
    print("another", double.remote(4).result())
    cascade.shutdown()


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    cascade.init(cpu=2)
    interrupted(sys.argv[2])
    cascade.shutdown()
    cancelled(sys.argv[2])
    killed(sys.argv[2])
    print("refused", tried(lambda: cascade.init("/none")))
    print("environment", tried(lambda: cascade.init(cpu=2, env={"CASCADE_X": "x"})))
    double.remote(1)  # the session ends with the program
