"""Computes ../testdata/golden.json: the numbers the Go code is checked against.

    CASCADE_TEST_DATA=/folder/of/the/grib python3 golden.py [output file]

Reads the GRIB file itself, not the array derived from it, and uses numpy in
float64 only. Spread is the standard deviation with ddof = 1. Probability is the
share of members strictly above the threshold. Area means weight a grid point by
the cosine of its latitude.
"""

import json
import math
import os
import sys

import numpy as np

from gribfile import FIELDS, LEVELS, read

# 5520 and 1500 gpm (g = 9.80665 m s-2), -20 and 0 degrees Celsius
THRESHOLDS = {(500, "z"): 54132.708, (850, "z"): 14709.975, (500, "t"): 253.15, (850, "t"): 273.15}
# row, column: north pole, mid-latitudes, equator, date line, south
POINTS = [(0, 0), (13, 4), (14, 95), (30, 60), (40, 10), (55, 119), (60, 0)]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "testdata", "golden.json")
    times, grid, messages = read()
    members = sorted({key[3] for key in messages})
    weights = np.cos(np.deg2rad(grid["lat"]))[:, None] * np.ones(len(grid["lon"]))[None, :]

    def area_mean(x):
        return float((x * weights).sum() / weights.sum())

    def summary(x):
        return {
            "area_mean": area_mean(x),
            "sum": math.fsum(x.ravel()),
            "min": float(x.min()),
            "max": float(x.max()),
            "points": [float(x[p]) for p in POINTS],
        }

    statistics, mean, spread = [], {}, {}
    for time in times:
        for level in LEVELS:
            for field in FIELDS:
                x = np.stack([messages[time, level, field, m]["values"] for m in members])
                key = time, level, field
                mean[key], spread[key] = x.mean(axis=0), x.std(axis=0, ddof=1)
                threshold = THRESHOLDS[level, field]
                statistics.append({
                    "time": time, "level": level, "field": field, "threshold": threshold,
                    "mean": summary(mean[key]),
                    "spread": summary(spread[key]),
                    "probability": summary((x > threshold).mean(axis=0)),
                })

    steps = []
    for level in LEVELS:
        for field in FIELDS:
            for before, after in zip(times, times[1:]):
                dm = mean[after, level, field] - mean[before, level, field]
                ds = spread[after, level, field] - spread[before, level, field]
                steps.append({
                    "level": level, "field": field, "from": before, "to": after,
                    "mean_change": area_mean(dm), "mean_change_rms": math.sqrt(area_mean(dm**2)),
                    "spread_change": area_mean(ds), "spread_change_rms": math.sqrt(area_mean(ds**2)),
                    "mean_change_points": [float(dm[p]) for p in POINTS],
                })

    with open(out, "w") as f:
        f.write('{\n"ddof": 1,\n"points": %s,\n"statistics": [\n' % json.dumps(POINTS))
        f.write(",\n".join(json.dumps(s) for s in statistics))
        f.write('\n],\n"steps": [\n')
        f.write(",\n".join(json.dumps(s) for s in steps))
        f.write("\n]\n}\n")


if __name__ == "__main__":
    main()
