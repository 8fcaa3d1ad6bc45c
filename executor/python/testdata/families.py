"""Tasks that are alike become families of the job file, and run as such."""

import datetime
import pathlib
import sys

import numpy
import steps

import cascade


def show(what, g, *results):
    """Prints what the job file has of a graph's tasks."""
    print(f"{what}:")
    document = g.document(*results)
    for kind in ("params", "inputs", "tasks"):
        for name, body in document.get(kind, {}).items():
            if kind == "tasks":
                body = {k: v for k, v in body.items() if k != "out"}
            print(f"  {kind} {name}: {body}")
    print("  outputs:", *document.get("outputs", ()))


with cascade.Graph("map") as g:
    ramps = g.map(steps.ramp, range(4))
    odd = g.map(steps.ramp, [7, True, 1.0, "a ${b}"], task_name="odd")
    pairs = g.map("other:add", [], scale=2)
    both = g.map(steps.two, ramps, reversed(odd), scale=2)
    shifted = g.map(steps.two, ramps[1:], range(5, 8), scale=3)
    show("map", g, steps.total(parts=both), *shifted)

with cascade.Graph("loop") as g:
    for _ in range(2):
        for n in (3, 1, 2):
            steps.total(parts=[steps.ramp(n), steps.ramp(n)])
    steps.ramp(5)
    g.add(steps.ramp, 5, task_name="own")
    g.add("other:module.ramp", n=1)
    g.add("other:module.ramp", n=2, out=["x"])
    one = steps.ramp(6)
    print("a name that was told stays:", one.name)
    again = [steps.ramp(n) for n in (1, 2)]
    parts = [steps.count(n) for n in (2, 2)]
    for i in range(2):
        steps.two(parts[1 - i][i], again[i])
        g.command("wc -c < ${in.x} > ${out.n}", x=again[i], out=["n"])
    show("loop", g)

with cascade.Graph("chain") as g:
    x = steps.ramp(3)
    for _ in range(3):
        x = steps.two(x, x)
    show("a task needs none of its own family", g, x)

with cascade.Graph("several") as g:
    files = g.files(["a.txt", "b.txt"], name="texts") + [g.file(f"{d}/c.txt") for d in ("x", "y")] + [g.file("d.txt")]
    g.map(steps.look, files)
    show("what reads from several is as many families", g)

for wrong in (lambda: g.map(steps.ramp), lambda: g.map(steps.two, [1], [2, 3]), lambda: g.map(steps.ramp, files[0])):
    try:
        wrong()
    except (TypeError, ValueError) as e:
        print("refused:", e)

with cascade.Graph("zeros") as g:
    g.map(steps.ramp, [0.0, -0.0])
    g.map(steps.ramp, [[1, 0.0], [1, -0.0]])
    show("what is equal and written otherwise differs", g)

with cascade.local(store="64MiB", programs=sys.argv[1]) as cluster:
    with cascade.Graph("runs", pip=["numpy"]) as g:
        ramps = g.map(steps.ramp, range(1, 21))
        sums = [steps.two(r, k, scale=s) for r, k, s in zip(ramps, range(20), [1, 2] * 10, strict=True)]
        series = g.map(steps.count, [1, 2])
        ends = g.map(steps.total, series)
        whole = steps.total(parts=sums)
    job = cluster.submit(g, whole, *sums, *ends)
    print("whole:", job.result(whole), "and one:", job.result(sums[3]), sums[3].name, "of series:", *(job.result(e) for e in ends))
    for last in job.watch():
        pass
    print("families:", *(f"{group.group}={group.done}/{group.total}" for group in last.groups))

    given = {
        "arrays in a loop": [numpy.arange(i) for i in range(50)],
        "arrays": [numpy.arange(3), numpy.arange(4)],
        "times": [datetime.datetime(2024, 2, day) for day in (28, 29)],
        "paths": [pathlib.PurePosixPath(f"/a/${{i}}/{i}") for i in range(3)],
        "large": [numpy.arange(n) for n in (5000, 5001, 5000)],
        "mixed": [1, numpy.arange(3), "x", numpy.arange(6000), None, numpy.arange(2)],
    }
    with cascade.Graph("given", pip=["numpy"]) as g:
        said = {what: [g.add(steps.said, x=v) for v in values] if "loop" in what else g.map(steps.said, values) for what, values in given.items()}
    results = iter(cluster.run(g, *(s for several in said.values() for s in several), progress=False))
    for what, values in given.items():
        right = [next(results) == steps.said(v) for v in values]
        print(f"given {what}: right {all(right)}, families", *sorted({s.task.partition("[")[0] for s in said[what]}))
