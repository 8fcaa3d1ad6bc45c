"""Computes ../testdata/report.txt, which the job's report must equal, from
../data by Python alone.

    python3 golden.py [output file]
"""

import csv
import os
import statistics
import sys
from collections import Counter, defaultdict

HERE = os.path.dirname(__file__)


def table(name):
    with open(os.path.join(HERE, "..", "data", name)) as f:
        return list(csv.DictReader(f))


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "testdata", "report.txt")
    area = {b["band"]: float(b["area"]) for b in table("bands.csv")}
    means, coldest = defaultdict(list), {}
    for r in table("members.csv"):
        means[r["field"], int(r["level"]), r["time"], r["band"]].append(float(r["mean"]))
        if r["field"] == "t":
            at = r["time"], r["level"], r["band"]
            coldest[at] = min(coldest.get(at, (float("inf"), 0)), (float(r["mean"]), int(r["member"])))

    lines = ["field level time                      mean  spread  largest in"]
    for field, level, time in sorted({key[:3] for key in means}):
        here = {b: means[field, level, time, b] for b in area}
        mean = sum(area[b] * statistics.fmean(x) for b, x in here.items()) / sum(area.values())
        spread, band = max((statistics.stdev(x), b) for b, x in here.items())
        lines.append(f"{field:5} {level:5} {time} {mean:9.2f} {spread:7.3f}  {band}")
    lines += ["", "member  coldest in"]
    count = Counter(member for _, member in coldest.values())
    lines += [f"{m:6} {n:3} of {len(coldest)}" for m, n in sorted(count.items(), key=lambda c: (-c[1], c[0]))]
    with open(out, "w") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
