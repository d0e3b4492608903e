"""Cells with tokens as labels: their sizes, their axes, and what stands in them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap

from tfm_lib.show.colors import MEANING, PALE


def label_inches(labels: list[str]) -> float:
    """About how many inches the longest label needs."""
    return 0.078 * max(map(len, labels)) + 0.05


def header_inches(keys: list[str], width: float) -> float:
    """Inches above the cells for the axis' name and the keys, which stand upright where they are too long."""
    return 0.42 + (label_inches(keys) if label_inches(keys) > width else 0.15)


def token_grid(axes: Axes, queries: list[str], keys: list[str], cell: tuple[float, float]) -> None:
    """Tokens as ticks around cells of the given width and height in inches: keys on top, queries on the left."""
    width, height = cell
    axes.set_box_aspect(len(queries) * height / (len(keys) * width))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    across, down = (next(n for n in (1, 2, 5, 10, 20, 50, 100) if n * side >= 0.15 or n == 100) for side in cell)
    axes.set_xticks(range(0, len(keys), across), keys[::across], parse_math=False)  # thinned out where they would touch
    axes.set_yticks(range(0, len(queries), down), queries[::down], parse_math=False)
    axes.tick_params("x", labelrotation=90 if label_inches(keys) > across * width else 0)
    axes.set_xticks(np.arange(len(keys) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(queries) + 1) - 0.5, minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(which="minor", linewidth=min(1.0, 6 * min(cell)))
    axes.spines[:].set_visible(False)
    axes.set(xlabel="key", ylabel="query")


def draw_cells(axes: Axes, labels: list[str], cells: np.ndarray, colors: Colormap, side: float) -> None:
    """A table (T, T) of values from 0 to 1 as cells with a frame, `side` inches wide, between their tokens."""
    edges = np.arange(len(labels) + 1) - 0.5
    axes.pcolormesh(edges, edges, cells, cmap=colors, vmin=0, vmax=1, edgecolor=PALE, linewidth=1)
    token_grid(axes, labels, labels, (side, side))
    axes.set(xlim=edges[[0, -1]], ylim=edges[[-1, 0]])


def mark_pairs(axes: Axes, allowed: np.ndarray, size: float, edge: float) -> None:
    """A dot on each pair of a mask (T, S) that may attend, a cross on each that is hidden; sizes in points."""
    for role, sign, pairs in (("allowed", "o", allowed), ("hidden", "x", ~allowed)):
        query, key = np.nonzero(pairs)
        axes.plot(key, query, sign, color=MEANING[role].color, ms=size, mew=edge)
