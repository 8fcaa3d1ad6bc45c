"""Derives ../data/members.csv and ../data/bands.csv from the ensemble example's array.

    python3 derive.py [output folder]      # needs numpy, any version since 1.20

One line for each time, level, field, member and band of latitude: the mean over
the band's area and the extremes. Area means weight a row by the cosine of its
latitude; a row on the border of two bands (30, 60 ...) belongs half to each.
"""

import json
import os
import sys

import numpy as np

HERE = os.path.dirname(__file__)
EXAMPLE = os.path.join(HERE, "..", "..", "ensemble", "data", "era5-ensemble")
BANDS = [("arctic", 60, 90), ("north", 30, 60), ("tropics-north", 0, 30), ("tropics-south", -30, 0), ("south", -60, -30), ("antarctic", -90, -60)]
DECIMALS = {"z": 1, "t": 3}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "data")
    with open(EXAMPLE + ".json") as f:
        meta = json.load(f)
    codes = np.load(EXAMPLE + ".npy")
    packing = codes.shape[:4] + (1, 1)
    values = np.reshape(meta["reference"], packing) + codes * np.reshape(meta["scale"], packing)
    lat = np.array(meta["lat"])

    with open(os.path.join(folder, "members.csv"), "w") as out:
        out.write("time,level,field,member,band,mean,min,max\n")
        for t, level, field, member in np.ndindex(codes.shape[:4]):
            name = meta["fields"][field]["name"]
            for band, south, north in BANDS:
                weight = np.cos(np.deg2rad(lat)) * ((lat > south) & (lat < north)) + 0.5 * np.cos(np.deg2rad(lat)) * (np.isin(lat, (south, north)))
                inside = (lat >= south) & (lat <= north)
                x = values[t, level, field, member]
                mean = (x.mean(axis=1) * weight).sum() / weight.sum()
                numbers = [f"{v:.{DECIMALS[name]}f}" for v in (mean, x[inside].min(), x[inside].max())]
                out.write(",".join([meta["times"][t], str(meta["levels"][level]), name, str(meta["members"][member]), band] + numbers) + "\n")

    with open(os.path.join(folder, "bands.csv"), "w") as out:
        out.write("band,south,north,area\n")
        for band, south, north in BANDS:
            share = (np.sin(np.deg2rad(north)) - np.sin(np.deg2rad(south))) / 2
            out.write(f"{band},{south},{north},{share:.6f}\n")


if __name__ == "__main__":
    main()
