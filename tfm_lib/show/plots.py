"""The figures that lessons share: attention, masks, positions, learning curves. Tensors and labels in, a Figure out."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from tfm_lib.show.cells import header_inches, label_inches, mark_pairs, token_grid
from tfm_lib.show.colors import DARK, DIVERGING, INK, MASK, SEQUENTIAL
from tfm_lib.show.curves import learning_curve
from tfm_lib.show.figure import PAGE_WIDTH, Figure, Labels, finite_array, label_texts, quoted, style, weight_array

__all__ = ["attention_map", "learning_curve", "mask_picture", "sinusoids"]

NUMBER_WIDTH = 0.24  # inches; a narrower cell has no room for two decimals


def _look(row: np.ndarray, keys: list[str]) -> str:
    """Where one query looks: its largest weight, and the keys that share it to two decimals."""
    top = f"{row.max():.2f}"
    best = [key for key, weight in zip(keys, row, strict=True) if f"{weight:.2f}" == top]
    if row.max() == 0:
        return "at nothing"
    if len(best) > 3:
        return f"at {len(best)} keys alike ({top} each)"
    return f"at {' and '.join(best)} ({top}{' each' if len(best) > 1 else ''})"


def _attention_message(maps: np.ndarray, queries: list[str], keys: list[str], heads: list[str]) -> str:
    asks, answers = quoted(queries), quoted(keys)
    if len(maps) == 1 and len(queries) <= 6:
        looks = "; ".join(f"{ask} {_look(row, answers)}" for ask, row in zip(asks, maps[0], strict=True))
        return f"Attention: each row is a query, each column a key. Each query looks most here: {looks}."
    rows = [weights.max(1).argmax() for weights in maps]
    tops = [f"{asks[row]} looks {_look(weights[row], answers)}" for row, weights in zip(rows, maps, strict=True)]
    if len(maps) == 1:
        return f"Attention of {len(queries)} queries (rows) over {len(keys)} keys. The largest weight: {tops[0]}."
    tops = [f"{head}: {top}" for head, top in zip(heads, tops, strict=True)]
    return f"Attention of {len(maps)} heads; rows are queries, columns keys. The largest weights: {'; '.join(tops)}."


def _mark(axes: Axes, weights: np.ndarray, cell: tuple[float, float]) -> None:
    """The numbers in the cells where they fit, otherwise a ring on each query's largest weight."""
    for row, values in enumerate(weights):
        if cell[0] >= NUMBER_WIDTH:
            for column, value in enumerate(values):
                text = f"{value:.2f}".removeprefix("0" * (cell[0] < 0.32)) if value else "0"
                color = "black" if value < DARK else "white"
                axes.text(column, row, text, ha="center", va="center", size=8, color=color)
        elif values.max() > 0:
            size = 0.4 * 72 * min(cell)
            axes.plot(values.argmax(), row, "o", ms=size, mfc="white", mec=INK, mew=0.25 * size)


@style()
def attention_map(
    weights: Tensor, queries: Labels, keys: Labels, *, heads: Labels = None, caption: str | None = None
) -> Figure:
    """Attention weights (T, S), or of several heads (H, T, S) side by side, with their tokens as labels.

    The weights stand in the cells where they fit, a hidden one as a bare 0; elsewhere a ring marks each row's largest.
    Raises ValueError for another rank, weights outside of 0 to 1, and labels that don't fit.
    """
    maps = weight_array(weights if weights.dim() != 2 else weights[None], "H, T, S")
    count, rows, columns = maps.shape
    asks, answers = label_texts(queries, rows, "queries"), label_texts(keys, columns, "keys")
    titles = label_texts(heads or [f"head {head}" if count > 1 else "" for head in range(count)], count, "heads")
    across = min(count, 2 if columns > 12 or (count <= 4 and columns <= 8) else 4)
    width = min(0.8, ((PAGE_WIDTH - 0.5 - label_inches(asks)) / across - 0.12) / columns)
    scale = width < NUMBER_WIDTH  # no numbers: the colors need their scale
    width -= scale * 0.75 / across / columns
    height = min(max(0.6 * width, 0.25), width, 5 / rows)
    down = -(-count // across)  # rounded up
    message = _attention_message(maps, asks, answers, titles) + scale * " A ring marks each row's largest weight."
    figure = Figure(caption or message, down * (rows * height + header_inches(answers, width) + 0.2 * any(titles)))
    grid = figure.subplots(down, across, squeeze=False)
    for axes, one, title in zip(grid.flat, maps, titles, strict=False):
        image = axes.imshow(one, SEQUENTIAL, vmin=0, vmax=(scale and maps.max()) or 1, aspect="auto")
        token_grid(axes, asks, answers, (width, height))
        _mark(axes, one, (width, height))
        axes.set_title(title, parse_math=False)
        if axes not in grid[:, 0]:
            axes.set(yticklabels=[], ylabel="")
    for axes in grid.flat[count:]:
        axes.remove()
    if scale:
        figure.colorbar(image, ax=grid, label="weight", shrink=0.8, aspect=30)
    return figure


@style()
def mask_picture(mask: Tensor, queries: Labels = None, keys: Labels = None, *, caption: str | None = None) -> Figure:
    """A boolean mask (T, S), True = may attend, as dots and crosses; leading axes of size 1 are dropped.

    A mask with one row is shown for each of the queries. Raises TypeError unless the mask is boolean, ValueError for
    another rank and labels that don't fit.
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"mask is {mask.dtype}; wanted torch.bool, True = may attend: use mask.bool()")
    while mask.dim() > 2 and len(mask) == 1:
        mask = mask[0]
    allowed = finite_array(mask, "mask", "T, S") == 1
    if len(allowed) == 1 and queries is not None:
        allowed = allowed.repeat(len(queries), axis=0)
    rows, columns = allowed.shape
    asks, answers = label_texts(queries, rows, "queries"), label_texts(keys, columns, "keys")
    hidden = [name for name, seen in zip(quoted(answers), allowed.any(0), strict=True) if not seen]
    message = (
        f"Which of {columns} keys (columns) each of {rows} queries (rows) may attend to: a dot may be seen, a cross is "
        f"hidden. {allowed.sum()} of {allowed.size} pairs are allowed"
        f"{', and no query sees ' + ', '.join(hidden) if 0 < len(hidden) < 5 else ''}."
    )
    side = min(0.53, 5.5 / columns, 5 / rows)
    figure = Figure(caption or message, rows * side + header_inches(answers, side))
    axes = figure.subplots()
    axes.imshow(allowed, MASK, vmin=0, vmax=1, aspect="auto")
    token_grid(axes, asks, answers, (side, side))
    mark_pairs(axes, allowed, 72 * 0.3 * side, 72 * 0.045 * side)
    return figure


def _from_fast_to_slow(heat: Axes, start: int, end: int) -> None:
    """An arrow over the table, from the fast column to the slow one."""
    above = heat.get_xaxis_transform()  # columns across, fractions of the axes' height upward
    heat.annotate("", (end, 1.03), (start, 1.03), above, arrowprops={"arrowstyle": "->"})
    heat.text(start, 1.05, "fast", transform=above, ha="left", va="bottom", weight="bold")
    heat.text(end, 1.05, "slow", transform=above, ha="right", va="bottom", weight="bold")


@style()
def sinusoids(table: Tensor, columns: Sequence[int] | None = None, *, caption: str | None = None) -> Figure:
    """A table of positional encodings (positions, D) as a heat map, and some of its columns as curves.

    Fast and slow are counted, not assumed: by how often a column changes its sign. Raises ValueError for another rank
    and for columns that the table does not have. Source of the table: Vaswani et al. 2017, section 3.5.
    """
    values = finite_array(table, "table", "positions, d_model")
    length, width = values.shape
    turns = np.diff(values >= 0, axis=0).sum(0)
    halves = width > 2 and turns[width // 2] > turns[width // 2 - 1] + 1  # all sines first, then all cosines
    if columns is None:  # one in each quarter of the clocks' logarithmic range, as far as there are so many
        pairs = dict.fromkeys(width // 2 * part // 8 for part in (0, 1, 2, 4))
        columns = [pair if halves else 2 * pair for pair in pairs]
    if not columns or min(columns) < 0 or max(columns) >= width:
        raise ValueError(f"columns are {columns}; wanted numbers from 0 to {width - 1}, the table's columns")
    counts = ", ".join(f"{turns[column]} in column {column}" for column in columns)
    message = (
        f"Sinusoidal positions: each row is a position, each column a wave. {'In each half, low' if halves else 'Low'} "
        f"columns are fast, high ones slow. Sign changes over {length} positions: {counts}."
    )
    figure = Figure(caption or message, 3.4)
    parts = figure.add_gridspec(len(columns), 2, width_ratios=(1.15, 1))
    heat = figure.add_subplot(parts[:, 0])
    image = heat.imshow(values, DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=heat, ticks=[-1, 0, 1], aspect=30, pad=0.02)
    heat.set(xlabel="column", ylabel="position")
    heat.locator_params(integer=True)
    for start in (0, width // 2) if halves else (0,):
        _from_fast_to_slow(heat, start, start + width // (1 + halves) - 1)
    for place, column in enumerate(columns):
        curve = figure.add_subplot(parts[place, 1])
        curve.plot(values[:, column])
        curve.set(ylim=(-1.25, 1.25), yticks=[-1, 1], xlim=(0, length - 1))
        curve.set_title(f"column {column}: {turns[column]} sign changes", loc="left", fontsize=9)
        if place < len(columns) - 1:
            curve.set_xticklabels([])
    curve.set_xlabel("position")
    return figure
