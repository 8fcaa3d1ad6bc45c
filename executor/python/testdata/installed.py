"""A program in an environment that has the wheel and nothing else: it prints what it finds and computes."""

import os
import shutil
import subprocess
import sys

import cascade
from cascade.programs import compare, find


def square(x):
    return x * x


def shown(path):
    return path.replace(sys.prefix, "PREFIX")


if __name__ == "__main__":
    print("go is", shutil.which("go"))
    for path in find("cascade", "cascade-controller", "cascade-agent"):
        print(shown(path), os.access(path, os.X_OK))
    said = subprocess.run([find("cascade")[0], "version"], capture_output=True, text=True, check=True).stdout
    print(said.split()[:2] == ["cascade", cascade.__version__])

    with cascade.local(store="64MiB") as cluster:
        with cascade.Graph("words") as g:
            text = g.command("echo two words | wc -w > ${out.n}", out=["n"])
        print("a graph:", bytes(cluster.run(g, text)).decode().strip())

    with cascade.init(store="64MiB", cpu=2):
        print("calls:", cascade.get([cascade.remote(square).remote(x) for x in range(5)]))

    try:
        find("cascade-agent", "cascade-controller", folder="/nowhere")
    except FileNotFoundError as e:
        print(e)
    try:
        compare("/bin/cascade-controller", "9.9.9 (25c01a85c1e2)")
    except RuntimeError as e:
        print(str(e).replace(cascade.__version__, "VERSION"))
