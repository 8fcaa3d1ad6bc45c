"""What a call cannot take is refused before anything is sent, and the link lives; one text is a list of it, and paths are texts."""

import datetime
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy

import cascade

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "data.txt").write_text("some data")
(folder / "job.yaml").write_text("job: plain\nparams: {n: 1}\ntasks: {t: {command: 'echo ${params.n} > ${out.o}', out: [o]}}\noutputs: [t.o]\n")


def ask(name: str, call: Callable[[], Any]) -> None:
    try:
        print(f"{name}: {call()!r}")
    except Exception as e:
        print(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", f"{name}: {type(e).__name__}: {e}".replace(str(folder), "FOLDER")))


def square(i: int) -> int:
    return i * i


def read(x: Any) -> str:
    return bytes(x).decode()


@cascade.task(out="mean")
def average(x: list[float]) -> float:
    return sum(x) / len(x)


with cascade.local(store="256MiB", programs=pathlib.Path(sys.argv[1])) as cluster:
    with cascade.Graph("lists", pip="cloudpickle", working_dir=folder, env={"PLACE": folder}) as g:
        y = g.add(square, 3, out="mean")
        average([1.0, 2.0])
        (one,) = g.files(str(folder / "data.txt"))
        (again,) = g.files(p for p in [folder / "data.txt"])
        file = g.file(folder / "data.txt")
        text = g.add(read, file)
        said = g.command(["cp", folder / "data.txt", "${out.o}"], out="o")
    document = g.document()
    print("outputs:", {name: task["out"] for name, task in document["tasks"].items()}, document["environments"]["python"]["python"]["pip"])
    print("working_dir and env:", document["environments"]["python"]["working_dir"] == str(folder), document["environments"]["python"]["env"] == {"PLACE": str(folder)})
    print("modules:", [os.path.basename(m) for m in cascade.Graph("m", py_modules=folder / "mods.py")._modules], cascade.Graph("m", py_modules="mods.py")._modules == [os.path.abspath("mods.py")])
    ask("no files", lambda: g.files([]))
    job = cluster.submit(g, y, text, said)
    job.wait(progress=False)
    print("results:", job.result(y), job.result(text), bytes(job.result(said)))

    ask("cancel(5)", lambda: job.cancel(5))
    ask("logs(5)", lambda: job.logs(5))
    ask("logs(ref)", lambda: job.logs(y))
    ask("save", job.save)
    ask("a resource of one's own beside cpu", lambda: cascade.Graph("o", pip="cloudpickle").add(cascade.task(square, licence=1, cpu=1), 3))
    ask("cpu twice", lambda: cascade.Graph("o", pip="cloudpickle").add(cascade.task(square, cpu=1, resources={"cpu": 2}), 3))
    with cascade.Graph("o", pip="cloudpickle") as both:
        both.add(cascade.task(square, cpu=1, resources={"licence": 1}, retries=2), 3)
    print("options:", {k: v for k, v in both.document()["tasks"]["square"].items() if k in ("resources", "retries")})
    ask("result(5)", lambda: job.result(5))
    ask("result(timeout)", lambda: job.result(y, timeout="1"))
    ask("watch(every)", lambda: job.watch("1"))
    ask("keep", lambda: cluster.submit(g, y, keep="yes"))
    ask("id", lambda: cluster.submit(g, y, id="x"))
    ask("id 5", lambda: cluster.submit(g, y, id=5))
    ask("dir", lambda: cluster.submit(g, y, dir=5))
    ask("result of a file", lambda: cluster.submit(folder / "job.yaml", "t.o"))
    ask("result of a graph", lambda: cluster.submit(g, "square.mean"))
    ask("params", lambda: cluster.submit(folder / "job.yaml", params=[1]))
    ask("job(5)", lambda: cluster.job(5))
    ask("job(x)", lambda: cluster.job("x"))
    for n in (numpy.int64(4), numpy.float32(2.5), datetime.date(2024, 2, 29), folder, numpy.arange(2), float("nan"), 1j):
        ask(f"param {type(n).__name__}", lambda: bytes(cluster.submit(folder / "job.yaml", params={"n": n}).result("t.o")))  # noqa: B023 (called at once)
    print("the link lives:", job.status, len(cluster.jobs()), job.result(y))
