"""Jobs take over what has not changed from an earlier one: resume.py ADDRESS FOLDER PHASE."""

import contextlib
import faulthandler
import io
import pathlib
import sys

import cascade

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
address, folder, phase = sys.argv[1:]
known = {}


def show(what, job):
    known[job.id] = what
    reused = job.reused()
    print(f"{what}:", str(reused).replace(reused.job or "\0", f"of {known.get(reused.job)!r}"))
    for task, why in reused.again.items():
        print(f"  {task}: {why}")


def total(parts):
    return sum(parts)


def part(n, offset):
    return n + offset


def program(cluster, offset, bad=False, **options):
    with cascade.Graph("program") as g:
        parts = [part_of(n=n, offset=offset if n == 2 else 0) for n in range(3)]
        y = g.add(total, parts)
    return cluster.submit(g, y, **options), y


part_of = cascade.task(part)

with cascade.connect(address) as cluster:
    path = pathlib.Path(folder, "job.yaml")
    if phase == "go":  # the newest job was submitted by a program in Go
        job = cluster.submit(path, resume=True)
        job.wait(progress=False)
        print("of a job in Go:", len(job.reused().tasks), "taken", dict(job.reused().again))
        print(job.id)
        sys.exit()
    first = cluster.submit(path, resume=True)
    show("the first", first)
    try:
        first.wait(progress=False)
    except cascade.TaskFailed as e:
        print("  failed:", e.task)
    pathlib.Path(folder, "go.txt").write_text("go\n")
    job = cluster.submit(path, resume=True)
    show("the failed one goes on", job)
    job.wait(progress=False)
    job = cluster.submit(path, resume=True)
    show("again", job)
    job.wait(progress=False)
    job = cluster.submit(path, resume=True, params={"tag": "y"})
    show("another parameter", job)
    job.wait(progress=False)
    print("  result:", bytes(job.result("last.text")))
    job = cluster.submit(path.read_text(), dir=folder, resume=first.id)
    show("the text, of the first", job)
    job.wait(progress=False)
    pathlib.Path(folder, "mod.py").write_text("def one():\n    return 3\n")
    job = cluster.submit(path, resume=job)
    show("a module has changed", job)
    job.wait(progress=False)

    job, y = program(cluster, 0, resume=True)
    show("a graph", job)
    print("  result:", job.result(y))
    job.wait(progress=False)
    job, y = program(cluster, 5, resume=True)
    show("one argument", job)
    print("  result:", job.result(y))
    job.wait(progress=False)
    told = io.StringIO()
    with cascade.Graph("program") as g:
        y = g.add(total, [part_of(n=n, offset=5 if n == 2 else 0) for n in range(3)])
    with contextlib.redirect_stderr(told):
        value = cluster.run(g, y, resume=job)
    print("run:", value, told.getvalue().replace(job.id, "of 'one argument'"), end="")
    for wrong in ("nothing", "0190f3a1-7c00-7000-8000-000000000001", 7):
        try:
            cluster.submit(g, y, resume=wrong)
        except (ValueError, TypeError, cascade.RequestError) as e:
            print("refused:", e)
    print(next(row["id"] for row in cluster.jobs() if row["name"] == "resumable"))
