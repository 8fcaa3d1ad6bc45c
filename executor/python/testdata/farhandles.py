"""Handles of actors go between the hosts of two agents, each of which calls the actors of the other. Then one dies."""

import os
import shutil
import signal
import socket
import subprocess
import sys

import cascade
from handing import Box, Tally, adds, adds_all, here, kills, makes, passes
from handles import tried, until

PROGRAMS, STATE = sys.argv[1], sys.argv[2]


def there(function):
    """The function at the other agent: this one has a single core."""
    return function.options(cpu=2)


def second(address):
    """Starts an agent beside the one of this program."""
    folder = os.path.join(STATE, "second")
    agent = subprocess.Popen(
        [PROGRAMS + "/cascade-agent", "--controller", address, "--name", "second", "--state", folder, "--runtime", folder + "/run",
         "--cpu", "2", "--memory", "1GiB", "--store", "256MiB"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return agent


if __name__ == "__main__":
    session = cascade.init(state=os.path.join(STATE, "first"), programs=PROGRAMS, cpu=1)
    agent = second(session.cluster.address)
    try:
        until(lambda: there(here).remote().exception() is None)  # it is up
        (home, _), (away, memory) = cascade.get([here.remote(), there(here).remote()])
        print("two hosts:", away, home != away)
        a = Tally.remote(10)
        print("at another host:", cascade.get(there(adds).remote(a, 3)), cascade.get(a.add.remote(0)))
        back = cascade.get(there(passes).remote(a, 0))
        print("back from there:", cascade.get(adds.remote(back, 1)), cascade.get(a.add.remote(0)))
        b = cascade.get(there(makes).remote(5))["a"]
        print("one that was made there:", cascade.get(b.add.remote(1)), cascade.get(there(adds).remote(b, 1)))
        print("both at once:", cascade.get(there(adds_all).remote(Box(a, {"x": [b], "y": [a, b]}))))
        all = [there(adds).remote(a, 20) for _ in range(5)] + [adds.remote(b, 20) for _ in range(5)]
        print("many:", len(cascade.get(all)), cascade.get(a.add.remote(0)), cascade.get(b.add.remote(0)))
        large = b.echo.remote(bytes(3 << 20))
        print("3 MiB there and back:", len(large.result()))
        print("a series:", list(b.upto.remote(3)))
        path = os.path.join(STATE, "held")
        never = b.held.remote(path)
        until(lambda: os.path.exists(path))
        never.cancel("enough")
        print("cancelled:", tried(never.result))
        os.unlink(path)
        before, n = b.held.remote(path), b.add.remote(0).result
        until(lambda: os.path.exists(path))
        b._cascade_line.link._socket.shutdown(socket.SHUT_RDWR)  # as when an agent is silent for too long
        print("the way breaks:", tried(before.result), tried(n))
        os.unlink(path)
        print("and another is found:", b.add.remote(1).result())
        c = cascade.get(there(makes).remote(0))["a"]
        print("killed from here:", cascade.get(c.add.remote(1)), cascade.kill(c, why="from afar"), tried(c.add.remote(1).result))
        print("killed from there:", cascade.get(there(kills).remote(a)))
        until(lambda: a._cascade_line.dead is not None)  # the kill comes by another way
        print("the maker is told:", tried(a.add.remote(1).result))
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        print("its host dies:", tried(lambda: [b.add.remote(1).result() for _ in range(10000)]).partition(":")[0])
    finally:
        agent.kill()
        agent.wait()
    cascade.shutdown()
    shutil.rmtree(memory, ignore_errors=True)
