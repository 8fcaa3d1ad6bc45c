"""Reads fields from GRIB with ecCodes, in an environment with NumPy 1."""

import eccodes
import numpy as np

import cascade


def steps(file: str, steps: int, levels: list[int], field: str, members: int):
    """Yields for each time an array [level][member][lat][lon], filled in the store."""
    assert np.__version__.startswith("1.")
    index = eccodes.codes_index_new_from_file(file, ["dataDate", "dataTime", "level", "perturbationNumber", "shortName"])
    times = [(d, t) for d in eccodes.codes_index_get(index, "dataDate") for t in eccodes.codes_index_get(index, "dataTime")]
    for date, time in sorted(times, key=lambda at: (int(at[0]), int(at[1])))[:steps]:
        out = None
        for i, level in enumerate(levels):
            for member in range(members):
                keys = {"dataDate": date, "dataTime": time, "level": level, "perturbationNumber": member, "shortName": field}
                for key, value in keys.items():
                    eccodes.codes_index_select(index, key, value)
                message = eccodes.codes_new_from_index(index)
                if message is None:
                    raise ValueError(f"{file} has no message with {keys}")
                values = eccodes.codes_get_values(message)
                if out is None:
                    shape = eccodes.codes_get(message, "Nj"), eccodes.codes_get(message, "Ni")
                    out = cascade.empty((len(levels), members, *shape))
                out[i, member] = values.reshape(shape)
                eccodes.codes_release(message)
        yield out
    eccodes.codes_index_release(index)
