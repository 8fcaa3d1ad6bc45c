"""Writes ../data/era5-t.grib: the temperatures of ../data/era5-ensemble.npy as GRIB.

    python3 grib.py [output file]

One message for each time, level and member, packed as the original was: the file
holds the same numbers, bit by bit, which is checked by reading it again.
"""

import json
import os
import sys

import eccodes
import numpy as np

DATA = os.path.join(os.path.dirname(__file__), "..", "data")


def message(meta, values, time, level, member):
    h = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib1")
    put = lambda key, value: eccodes.codes_set(h, key, value)
    put("centre", 98)
    put("setLocalDefinition", 1)
    put("localDefinitionNumber", 1)
    put("marsType", "an")
    put("marsStream", "enda")
    put("experimentVersionNumber", "0001")
    put("perturbationNumber", member)
    put("numberOfForecastsInEnsemble", len(meta["members"]))
    put("indicatorOfParameter", 130)
    put("level", level)
    put("dataDate", int(time[:10].replace("-", "")))
    put("dataTime", int(time[11:13]) * 100)
    lat, lon = meta["lat"], meta["lon"]
    put("Ni", len(lon))
    put("Nj", len(lat))
    put("latitudeOfFirstGridPointInDegrees", lat[0])
    put("latitudeOfLastGridPointInDegrees", lat[-1])
    put("longitudeOfFirstGridPointInDegrees", lon[0])
    put("longitudeOfLastGridPointInDegrees", lon[-1])
    put("iDirectionIncrementInDegrees", lon[1] - lon[0])
    put("jDirectionIncrementInDegrees", lat[0] - lat[1])
    put("bitsPerValue", 16)
    eccodes.codes_set_values(h, values.ravel())
    if not np.array_equal(eccodes.codes_get_values(h), values.ravel()):
        sys.exit(f"not exact: {time}, {level} hPa, member {member}")
    text = eccodes.codes_get_message(h)
    eccodes.codes_release(h)
    return text


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(DATA, "era5-t.grib")
    with open(os.path.join(DATA, "era5-ensemble.json")) as f:
        meta = json.load(f)
    codes = np.load(os.path.join(DATA, "era5-ensemble.npy"))
    reference, scale = (np.array(meta[key]).reshape(codes.shape[:4]) for key in ("reference", "scale"))
    field = [f["name"] for f in meta["fields"]].index("t")
    with open(out, "wb") as f:
        for at in np.ndindex(codes.shape[0], codes.shape[1], codes.shape[3]):
            where = at[0], at[1], field, at[2]
            values = reference[where] + codes[where] * scale[where]
            f.write(message(meta, values, meta["times"][at[0]], meta["levels"][at[1]], meta["members"][at[2]]))


if __name__ == "__main__":
    main()
