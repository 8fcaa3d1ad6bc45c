"""Tasks with objects of xarray."""

from typing import Any

import numpy as np
import xarray as xr
from tasks import segment


def field(n: int) -> xr.DataArray:
    """Temperatures with all that can be said of them."""
    days = np.array(["2026-01-01", "2026-01-02"], "M8[ns]")
    coords = {"time": days, "point": np.arange(n), "side": ("point", np.where(np.arange(n) % 2, "odd", "even")), "level": 500}
    return xr.DataArray(np.arange(2.0 * n).reshape(2, n), coords, ["time", "point"], "t", {"units": "K", "range": [1, None]})


def seen(t: Any) -> tuple[str, str]:
    """What a task sees of an object, and where its first array lies."""
    first = t if isinstance(t, xr.DataArray) else next(iter(t.data_vars.values()))
    lines = [f"{type(t).__name__} {dict(t.sizes)} {t.attrs}, NumPy {np.__version__[0]}"]
    for name, array in {**({} if t is first else t.data_vars), **t.coords}.items():
        lines.append(f"{name} {array.dims} {array.dtype.kind} {array.attrs} {array.values.ravel()[-2:].astype(str)}")
    lines.append(f"{first.name} writeable: {first.values.flags.writeable}, selected: {float(first.isel(point=-1).sum())}")
    return "\n".join(lines), segment(first.values)


def means(t: xr.DataArray) -> xr.Dataset:
    """Several variables."""
    return xr.Dataset({"mean": t.mean("time", keep_attrs=True), "max": t.max(keep_attrs=False)}, attrs={"from": t.name})


def array(t: np.ndarray) -> str:
    """Takes the numbers alone."""
    return f"{type(t).__name__} {t.shape} {t.sum()}"


def writes(t: Any) -> None:
    """Writes to its input."""
    t[{"point": 0}] = 3.0
