"""Half of a character in a text for people ends no executor and no link: it is written as an escape."""

import pathlib
import sys
import tempfile

import cascade


def raises(how: str):
    if how == "exit":
        sys.exit("half \ud83d")
    if how == "file":
        exec(compile("raise ValueError('in a file')", "half-\ud83d.py", "exec"))
    e = ValueError("half \ud83d, byte \udcff")
    if how == "note":
        e = ValueError("noted")
        e.add_note("half \ud83d")
    raise e


def series(how: str):
    yield 1
    raises(how)


with cascade.local(store="256MiB", programs=sys.argv[1]) as cluster:
    for function in (raises, series):
        for how in ("raise", "exit", "note", "file"):
            with cascade.Graph("half") as g:
                made = g.add(function, how)
            try:
                cluster.run(g, made, progress=False)
            except cascade.TaskFailed as e:
                last = [line for line in e.stack.splitlines() if "half" in line][-1]
                print(function.__name__, how, e.kind, e.attempt, ascii(e.message), "| traceback:", ascii(last.strip()))
    gate = pathlib.Path(tempfile.mkdtemp(), "gate")
    job = cluster.submit(f"job: cancelled\ntasks: {{t: {{command: 'until test -e {gate}; do sleep 0.1; done', out: []}}}}\n")
    job.cancel("byte \udcff, half \ud83d")
    try:
        job.wait(progress=False)
    except cascade.JobCancelled as e:
        print("cancelled:", e)
    print("rows:", sorted({row["phase"] for row in cluster.jobs()}))
