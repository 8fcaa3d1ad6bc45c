"""Computes ../testdata/report-850.txt and report-500.txt, which the job's report
must equal, from the list of cities and the ensemble's array. It needs nothing but
Python, and shares nothing with the Go code.

    python3 golden.py [output folder]
"""

import csv
import json
import os
import statistics
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHIVE = os.path.join(HERE, "..", "..", "ensemble", "data", "era5-ensemble")
PAGE = [  # the tables, and what comes first in each
    ("uncertain", lambda r: -r["spread"]),
    ("changed", lambda r: -abs(r["change"])),
    ("warmest", lambda r: -r["mean"]),
    ("coldest", lambda r: r["mean"]),
]


class Archive:
    def __init__(self):
        with open(ARCHIVE + ".json") as f:
            self.meta = json.load(f)
        with open(ARCHIVE + ".npy", "rb") as f:
            f.seek(8)
            (header,) = struct.unpack("<H", f.read(2))
            f.seek(10 + header)
            raw = f.read()
        self.codes = struct.unpack(f"<{len(raw) // 2}H", raw)

    def at(self, time, level, name, member, row, column):
        m = self.meta
        field = [f["name"] for f in m["fields"]].index(name)
        k = ((time * len(m["levels"]) + m["levels"].index(level)) * len(m["fields"]) + field) * len(m["members"]) + member
        code = self.codes[(k * len(m["lat"]) + row) * len(m["lon"]) + column]
        return m["reference"][k] + code * m["scale"][k]

    def near(self, time, level, name, member, lat, lon):
        """Interpolates along the row north of the place and the row south of it, then between them."""
        m = self.meta
        north = max(i for i, v in enumerate(m["lat"]) if v >= lat and i + 1 < len(m["lat"]))
        lon %= 360
        west = max(i for i, v in enumerate(m["lon"]) if v <= lon)
        east = (west + 1) % len(m["lon"])
        part = (lon - m["lon"][west]) / 3
        rows = []
        for row in (north, north + 1):
            a, b = (self.at(time, level, name, member, row, c) for c in (west, east))
            rows.append(a + (b - a) * part)
        return rows[0] + (rows[1] - rows[0]) * (m["lat"][north] - lat) / 3


def report(archive, level):
    members, last = range(len(archive.meta["members"])), len(archive.meta["times"]) - 1
    with open(os.path.join(HERE, "..", "data", "cities.csv")) as f:
        cities = list(csv.DictReader(f))
    records = []
    for c in cities:
        def near(name, time):
            return [archive.near(time, level, name, m, float(c["lat"]), float(c["lon"])) for m in members]

        if statistics.fmean(near("z", last)) / 9.80665 < float(c["height"]):
            continue
        begin, end = near("t", 0), near("t", last)
        records.append({
            "city": c["city"],
            "mean": statistics.fmean(end) - 273.15,
            "spread": statistics.stdev(end),
            "change": statistics.fmean(end) - statistics.fmean(begin),
        })
    lines = []
    for title, first in PAGE:
        lines.append(f"{title}, of {len(records)} cities out of {len(cities)}")
        for r in sorted(records, key=lambda r: (first(r), r["city"]))[:5]:
            lines.append(f"  {r['city']:16} {r['mean']:7.2f} C {r['spread']:6.2f} K spread {r['change']:+7.2f} K change")
    return "\n".join(lines) + "\n"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "testdata")
    archive = Archive()
    for level in (850, 500):
        with open(os.path.join(folder, f"report-{level}.txt"), "w") as f:
            f.write(report(archive, level))


if __name__ == "__main__":
    main()
