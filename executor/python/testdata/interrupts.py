"""Ctrl-C at any time: what a program had called ends, and its session goes on."""

import os
import random
import signal
import sys
import threading
import time

import cascade
import numpy as np


@cascade.remote
def double(x):
    return 2 * x


def storm(n, armed, over):
    """Interrupts the program so often, each time at some moment after it is armed."""
    for _ in range(n):
        armed.wait()
        armed.clear()
        time.sleep(random.uniform(0.0005, 0.006))
        os.kill(os.getpid(), signal.SIGINT)
    armed.wait()
    over.set()


if __name__ == "__main__":
    with cascade.init(programs=sys.argv[1], cpu=2, log_to_driver=False):
        double.remote(1).result()
        armed, over, made, interrupts = threading.Event(), threading.Event(), [], 0
        threading.Thread(target=storm, args=(150, armed, over)).start()
        while not over.is_set():
            try:
                armed.set()
                while not over.is_set():
                    made.append(double.map(range(20)))
                    cascade.get(made[-1][-1])
                    made.append([cascade.put(np.full(100_000, len(made)))])
                    cascade.wait(made[-2], num_returns=20)
                    cascade.get(made[-3][0] if len(made) > 2 else made[-2])
            except KeyboardInterrupt:
                interrupts += 1
        for refs in made:
            got = cascade.get(refs, timeout=60)
            if len(refs) == 20 and got != [2 * i for i in range(20)]:
                print("got", got)
        print("interrupted", interrupts, double.remote(4).result(timeout=60))
        child = threading.Thread(target=lambda: print("thread", double.remote(5).result(timeout=60)))
        child.start()
        child.join()
    print("handler", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
