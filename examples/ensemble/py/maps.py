"""Draws maps with matplotlib."""

import io

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def draw(values: np.ndarray, meta: dict, title: str) -> bytes:
    """A PNG of 1100 x 600 points."""
    lat, lon = meta["Lat"], meta["Lon"]
    figure, axes = pyplot.subplots(figsize=(11, 6), dpi=100)
    mesh = axes.pcolormesh(lon, lat, values, shading="nearest")
    figure.colorbar(mesh)
    axes.set(title=title, xlabel="longitude", ylabel="latitude")
    page = io.BytesIO()
    figure.savefig(page, format="png")
    pyplot.close(figure)
    return page.getvalue()
