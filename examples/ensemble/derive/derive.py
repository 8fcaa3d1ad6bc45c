"""Derives ../data/era5-ensemble.npy and .json from the ERA5 GRIB file.

    CASCADE_TEST_DATA=/folder/of/the/grib python3 derive.py [output folder]

GRIB simple packing stores each field as 16-bit codes with
value = reference + code * scale, scale a power of two. We keep the codes
(uint16) and both numbers for each field, so nothing at all is lost; the last
lines decode again and compare bit by bit.
"""

import json
import os
import sys

import numpy as np

from gribfile import FIELDS, LEVELS, read

UNITS = {"z": "m2 s-2", "t": "K"}
ATTRIBUTION = (
    "Generated using Copernicus Climate Change Service information. "
    "ERA5 ensemble of data assimilation (10 members), Copernicus Climate Change Service (C3S), "
    "2017-01-01 and 2017-01-02, on a 3 degree grid, as shipped with the tests of ecmwf/cfgrib. "
    "Neither the European Commission nor ECMWF is responsible for any use of this information."
)


def rows(values, width):
    """JSON of a flat list, width values a line, so that a diff is readable."""
    lines = [", ".join(json.dumps(v) for v in values[i : i + width]) for i in range(0, len(values), width)]
    return "[\n    " + ",\n    ".join(lines) + "\n  ]"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "data")
    times, grid, messages = read()
    members = sorted({key[3] for key in messages})
    shape = (len(times), len(LEVELS), len(FIELDS), len(members), len(grid["lat"]), len(grid["lon"]))
    codes = np.empty(shape, dtype="<u2")
    reference, scale = np.empty(shape[:4]), np.empty(shape[:4])
    names = {}
    for at in np.ndindex(shape[:4]):
        m = messages.pop((times[at[0]], LEVELS[at[1]], FIELDS[at[2]], members[at[3]]))
        exact = (m["values"] - m["reference"]) / m["scale"]
        code = np.rint(exact)
        if code.min() < 0 or code.max() > 65535:
            sys.exit(f"code out of range at {at}")
        codes[at], reference[at], scale[at] = code, m["reference"], m["scale"]
        if not np.array_equal(reference[at] + codes[at] * scale[at], m["values"]):
            sys.exit(f"not exact at {at}")
        names[FIELDS[at[2]]] = m["name"]
    if messages:
        sys.exit(f"messages left over: {sorted(messages)[:3]}")

    np.save(os.path.join(folder, "era5-ensemble.npy"), codes)
    with open(os.path.join(folder, "era5-ensemble.json"), "w") as f:
        f.write("{\n")
        f.write(f'  "attribution": {json.dumps(ATTRIBUTION)},\n')
        f.write('  "axes": ["time", "level", "field", "member", "lat", "lon"],\n')
        f.write(f'  "times": {json.dumps(times)},\n')
        f.write(f'  "levels": {json.dumps(LEVELS)},\n')
        f.write('  "level_units": "hPa",\n')
        fields = [{"name": x, "long_name": names[x], "units": UNITS[x]} for x in FIELDS]
        f.write(f'  "fields": {json.dumps(fields)},\n')
        f.write(f'  "members": {json.dumps(members)},\n')
        f.write(f'  "lat": {rows(grid["lat"], 20)},\n')
        f.write(f'  "lon": {rows(grid["lon"], 20)},\n')
        f.write('  "packing": "value = reference + code * scale, reference and scale for each [time][level][field][member]",\n')
        f.write(f'  "reference": {rows(reference.ravel().tolist(), len(members))},\n')
        f.write(f'  "scale": {rows(scale.ravel().tolist(), len(members))}\n')
        f.write("}\n")


if __name__ == "__main__":
    main()
