"""Reads the ERA5 ensemble file with ecCodes, in the order the example keeps it.

The file's folder is given by the variable CASCADE_TEST_DATA.
"""

import os
import sys

import eccodes
import numpy as np

NAME = "era5-levels-members.grib"
LEVELS = [500, 850]  # hPa
FIELDS = ["z", "t"]


def path():
    folder = os.environ.get("CASCADE_TEST_DATA")
    if not folder:
        sys.exit("CASCADE_TEST_DATA is not set: set it to the folder that holds " + NAME)
    file = os.path.join(folder, NAME)
    if not os.path.isfile(file):
        sys.exit(f"{file} is not there: CASCADE_TEST_DATA names the wrong folder")
    return file


def read():
    """Returns (times, grid, messages): messages maps (time, level, field, member)
    to a dict of the float64 values as ecCodes decodes them and how they were packed."""
    grid, messages, times = None, {}, []
    with open(path(), "rb") as f:
        while (h := eccodes.codes_grib_new_from_file(f)) is not None:
            get = lambda key, h=h: eccodes.codes_get(h, key)
            if get("bitmapPresent") or get("decimalScaleFactor") or get("bitsPerValue") > 16:
                sys.exit("a message has missing points or is packed otherwise than 16-bit binary: derive.py has to learn it")
            nlat, nlon = get("Nj"), get("Ni")
            here = {
                "lat": np.linspace(get("latitudeOfFirstGridPointInDegrees"), get("latitudeOfLastGridPointInDegrees"), nlat).tolist(),
                "lon": np.linspace(get("longitudeOfFirstGridPointInDegrees"), get("longitudeOfLastGridPointInDegrees"), nlon).tolist(),
            }
            if grid not in (None, here):
                sys.exit("the messages are not all on one grid")
            grid = here
            date, time = get("dataDate"), get("dataTime")
            stamp = f"{date // 10000:04}-{date // 100 % 100:02}-{date % 100:02}T{time // 100:02}:{time % 100:02}:00Z"
            if stamp not in times:
                times.append(stamp)
            key = (stamp, get("level"), get("shortName"), get("number"))
            if key in messages:
                sys.exit(f"{key} occurs twice")
            messages[key] = {
                "values": eccodes.codes_get_values(h).reshape(nlat, nlon),
                "reference": get("referenceValue"),
                "scale": 2.0 ** get("binaryScaleFactor"),
                "units": get("units"),
                "name": get("name"),
            }
            eccodes.codes_release(h)
    return sorted(times), grid, messages
