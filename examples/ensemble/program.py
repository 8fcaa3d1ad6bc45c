"""The job of job-python.yaml as a program: python3 examples/ensemble/program.py [FOLDER OF RESULTS]

It runs on the cluster that CASCADE_TO names, else on one of its own. It needs the package cascade-run
(just wheel; pip install of the file in dist), and no NumPy, ecCodes or matplotlib: those are in the environments of its tasks.
"""

import os
import pathlib
import sys

import cascade

HERE = pathlib.Path(__file__).resolve().parent
STEPS, MEMBERS, LEVELS = 4, 10, [500, 850]
THRESHOLDS = {500: 253.15, 850: 273.15}  # K
ENVIRONMENTS = {
    "fields": {"go": f"{HERE}/fields"},
    "reader": {"python": {"pip": ["eccodes>=2", "numpy<2"]}, "py_modules": [f"{HERE}/py/reader.py"]},
    "maths": {"python": {"pip": ["numpy>=2"]}, "py_modules": [f"{HERE}/py/statistics_of.py"]},
    "plots": {"python": {"pip": ["matplotlib", "numpy>=2"]}, "py_modules": [f"{HERE}/py/maps.py"]},
}


def build() -> tuple[cascade.Graph, dict[str, cascade.Ref]]:
    """The graph, and what is kept of it by the names of files."""
    kept = {}
    with cascade.Graph("ensemble-python", environments=ENVIRONMENTS) as g:
        about = g.add("fields:Describe", file=f"{HERE}/data/era5-ensemble.npy", steps=STEPS, out=["meta"], task_name="about")
        source = {"file": f"{HERE}/data/era5-t.grib", "steps": STEPS, "levels": LEVELS, "field": "t", "members": MEMBERS}
        step = g.add("reader:reader.steps", **source, out=["step"], task_elements=STEPS, task_name="decode")
        for level in LEVELS:
            products = {}
            for name, more in (("mean", {}), ("spread", {}), ("probability", {"threshold": THRESHOLDS[level]})):
                products[name] = [
                    g.add(f"maths:statistics_of.{name}", fields=step[i], level=level, levels=LEVELS, **more, out=[name])
                    for i in range(STEPS)
                ]
            table, change = g.add("fields:Compare", means=products["mean"], spreads=products["spread"], meta=about,
                                  field="t", level=level, out=["csv", "change"])  # fmt: skip
            kept[f"compare-{level}.csv"] = table
            for name, values in [(name, fields[-1]) for name, fields in products.items()] + [("change", change)]:
                title = f"{name} of temperature at {level} hPa"
                kept[f"map_{name}-{level}.png"] = g.add("plots:maps.draw", values=values, meta=about, title=title, out=["png"])
    return g, kept


def main() -> None:
    """Runs the job and writes its tables and maps."""
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(parents=True, exist_ok=True)
    graph, kept = build()
    with cascade.connect() if "CASCADE_TO" in os.environ else cascade.local() as cluster:
        job = cluster.submit(graph, *kept.values())
        job.wait()
        for name, ref in kept.items():
            value = job.result(ref)
            (out / name).write_bytes(value.encode() if isinstance(value, str) else value)
    print(f"{len(kept)} files in {out}")


if __name__ == "__main__":
    main()
