"""xarray's objects as a dataset: their arrays as they are, and all that is said of them beside.

    DataArray, Dataset ──split()──▶ (head, arrays)      head: name, attributes, and for each array its name, dimensions,
                       ◀──join()───  head, arrays             attributes, dtype and shape

Neither depends on the versions of xarray and NumPy, as a pickle does.
"""

from __future__ import annotations

import sys
import typing
from typing import Any

_KINDS = "biufcmMSU"  # of dtypes whose bytes are the values


def split(value: Any) -> tuple[dict[str, Any], list[Any]] | None:
    """An object of xarray in parts; None for everything else, and for what has more to it.

    That are indexes other than xarray's usual ones, arrays that are not NumPy's (of dask, for example), and subclasses.
    """
    xarray = sys.modules.get("xarray")
    if xarray is None or type(value) not in (xarray.DataArray, xarray.Dataset):
        return None
    if any(type(index) is not xarray.indexes.PandasIndex for index in value.xindexes.values()):
        return None
    arrays: list[Any] = []
    head: dict[str, Any] = {"attrs": value.attrs, "data": [], "coords": []}
    if type(value) is xarray.DataArray:
        head["name"] = value.name
        found = [("data", "", value.variable)]
    else:
        found = [("data", name, array.variable) for name, array in value.data_vars.items()]
    found += [("coords", name, array.variable) for name, array in value.coords.items()]
    numpy = sys.modules["numpy"]
    for role, name, variable in found:
        data = variable.data
        if type(data) is not numpy.ndarray or data.dtype.kind not in _KINDS or not data.dtype.itemsize:
            return None
        if not all(isinstance(text, str) for text in (name, *variable.dims)):
            return None
        head[role].append([name, list(variable.dims), variable.attrs, data.dtype.str, list(data.shape)])
        arrays.append(data)
    return head, arrays


def join(head: dict[str, Any], arrays: list[Any], want: Any = None) -> Any:
    """The object that was split, or the array of a DataArray where want is numpy.ndarray. Arrays are not copied."""
    if "name" in head and want is not None and (typing.get_origin(want) or want) is sys.modules["numpy"].ndarray:
        return arrays[0]
    import xarray

    rest = iter(arrays)
    data = {name: xarray.Variable(dims, next(rest), attrs) for name, dims, attrs, _, _ in head["data"]}
    coords = {name: xarray.Variable(dims, next(rest), attrs) for name, dims, attrs, _, _ in head["coords"]}
    if "name" in head:
        return xarray.DataArray(data[""].data, coords, data[""].dims, head["name"], head["attrs"])
    return xarray.Dataset(data, coords, head["attrs"])


def layouts(head: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """dtype and shape of each array."""
    return [(dtype, shape) for *_, dtype, shape in head["data"] + head["coords"]]
