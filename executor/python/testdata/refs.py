"""Futures in values: in dicts, lists and objects that are given, put, returned and found in each other, until nothing holds them."""

import json
import subprocess
import sys
import threading
import time

import cascade
from holds import Actor, Pair, added, again, dies, double, down, fails, family, mark, mean, of_series, paired, series, total, up, wrapped

PROGRAMS, STATE = sys.argv[1], sys.argv[2]


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0]}"


def kept():
    """What the agent keeps, when it has heard of all that the program has let go."""
    cascade.get(mark.remote())
    last = mark.remote()  # behind what was let go
    cascade.get(last)
    address = f"ipc://{STATE}/controller/run/controller.sock"
    out = subprocess.run([PROGRAMS + "/cascade", "memory", "--json", "--to", address], stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    named = [(r["kind"], r.get("function", "").rpartition(".")[2], r["holders"]) for r in rows]
    return sorted(f"{kind} {function}: {holders}" for kind, function, holders in named if function != "mark")


if __name__ == "__main__":
    session = cascade.init(state=STATE, programs=PROGRAMS, cpu=4)

    got = cascade.get(family.remote(4))
    print("a dict of a task that has ended:", cascade.get(got["all"]), got["big"].result().shape, got["n"])
    print("given to a task:", cascade.get(total.remote(got)), cascade.get(mean.remote(got)))
    print("in a list in a list:", cascade.get(total.remote({"all": [*got["all"], double.remote(50)]})))
    print("an object:", cascade.get(added.remote(Pair(got["all"][3], double.remote(1)))))
    back = cascade.get(paired.remote(Pair(got["all"][1], got["all"][2])))
    key = next(k for k in back.right if k != "more")
    print("keys and tuples:", back.left.result(), key.result(), back.right["more"][0] is back.right["more"][1] is key)
    print("found in what was found:", cascade.get(cascade.get(cascade.get(wrapped.remote(3))["inner"])["all"]))
    print("three levels down and up:", cascade.get(down.remote({"f": got["all"][3]}, 3)), cascade.get(up.remote(8, 3))["f"].result())
    print("a series:", [cascade.get(x["f"]) for x in series.remote(3)], [x.result()["f"].result() for x in cascade.get(of_series.remote(3))])

    f = double.remote(100)
    box = cascade.put({"f": f, "why": "it is held"})
    del f
    print("put, and let go by its maker:", kept()[-1], cascade.get(down.remote(box, 0)), box.result()["f"].result())
    print("a failed one:", tried(lambda: cascade.get(down.remote({"f": fails.remote("no")}, 0))))
    print("a task that is tried again:", cascade.get(again.remote(STATE + "/again"))["f"].result())
    print("a process that dies with one:", cascade.get(dies.remote(got, STATE + "/dies"))["f"].result())
    found = []
    threads = [threading.Thread(target=lambda: found.append(cascade.get(down.remote({"f": got["all"][2]}, 1)))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("threads:", found)

    print("refused:", tried(lambda: cascade.put([series.remote(2)])))
    actor = Actor.remote()
    one = actor.one.remote()
    print("refused:", tried(lambda: cascade.put({"f": one})))
    print("refused:", tried(lambda: cascade.get(actor.takes.remote({"f": got["all"][0]}))))
    print("refused:", tried(lambda: cascade.remote(lambda: cascade.get(box)).remote()))
    del actor, one

    del box
    print("what is put is freed:", not any(row.startswith("value") for row in kept()))
    del got, back, key
    deadline = time.monotonic() + 60
    while (left := kept()) and time.monotonic() < deadline:  # the process of the actor ends, and the series
        pass
    print("and in the end:", left)
    cascade.shutdown()
