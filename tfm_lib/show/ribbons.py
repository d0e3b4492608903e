"""Attention drawn in the texts themselves: lines between words, as wide as the weights."""

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from torch import Tensor

from tfm_lib.show.figure import COLORS, QUIET, Figure, Labels, label_texts, quoted, style, weight_array

LETTER, LETTERS = 0.0753, 94  # inches that a letter of a fixed width takes up at 9 points; letters of a line
WIDTH = 7.2  # inches
LINE, BETWEEN = 0.34, 1.05  # inches from line to line, and between the two texts
FAINT = 0.1  # the least weight that is drawn as a line
NAMED = 5  # queries whose widest line the caption names
MARKS = ".,;:!?"  # stand close to the word before them


class Spot(NamedTuple):
    """A word's place, in letters and in lines."""

    left: int
    right: int
    line: int

    @property
    def middle(self) -> float:
        return LETTER * (self.left + self.right) / 2


def _spots(words: list[str]) -> list[Spot]:
    spots: list[Spot] = []
    right, line = -1, 0
    for word in words:
        left = right + (word not in MARKS)
        if left and left + len(word) > LETTERS and word not in MARKS:
            left, line = 0, line + 1
        right = left + len(word)
        spots.append(Spot(max(left, 0), right, line))
    return spots


def _write(axes: Axes, words: list[str], spots: list[Spot], top: float, colors: list[str]) -> None:
    look: dict[str, Any] = {"family": "DejaVu Sans Mono", "size": 9, "zorder": 4}
    for line in range(spots[-1].line + 1):  # no ribbon crosses words: it passes behind their line
        ends = [(spot.left, spot.right) for spot in spots if spot.line == line]
        corner, wide = (LETTER * ends[0][0], top - LINE * line - 0.095), LETTER * (ends[-1][1] - ends[0][0])
        axes.add_patch(Rectangle(corner, wide, 0.19, facecolor="white", linewidth=0, zorder=3))
    for word, spot, color in zip(words, spots, colors, strict=True):
        place = LETTER * spot.left, top - LINE * spot.line
        axes.text(*place, word, va="center", color=color, parse_math=False, **look)


@style()
def ribbons(weights: Tensor, queries: Labels, keys: Labels, *, caption: str | None = None) -> Figure:
    """Attention weights (T, S) as lines from each query, in the lower text, up to the keys at which it looks.

    A line is as wide as its weight, and has the color of its query; below 10 % there is none. Raises ValueError for
    another rank, weights outside of 0 to 1, and labels that don't fit.
    """
    values = weight_array(weights, "T, S")
    below, above = label_texts(queries, values.shape[0], "queries"), label_texts(keys, values.shape[1], "keys")
    widest = sorted(values.max(1).argsort(kind="stable")[-NAMED:])  # queries, in the order of the text
    joined = ", ".join(f"{quoted(below)[t]} to {quoted(above)[values[t].argmax()]}" for t in widest)
    message = f"Where the words below look in the text above. The widest lines lead from {joined}."
    starts, ends = _spots(below), _spots(above)
    shift = max(0, max(end.right for end in ends) - max(start.right for start in starts)) // 2  # to the middle
    starts = [start._replace(left=start.left + shift, right=start.right + shift) for start in starts]
    floor = 0.15 + LINE * starts[-1].line
    ceiling = floor + BETWEEN + LINE * ends[-1].line
    figure = Figure(caption or message, ceiling + 0.25)
    axes = figure.subplots()
    one_line = starts[-1].line == ends[-1].line == 0
    left = (LETTER * max(starts[-1].right, ends[-1].right) - WIDTH) / 2 if one_line else 0  # one line is centered
    axes.set(xlim=(left, left + WIDTH), ylim=(0, ceiling + 0.15), aspect="equal")
    axes.axis("off")
    colors = [COLORS[t % len(COLORS)] for t in range(len(below))]
    lane = ceiling - LINE * ends[-1].line - 0.09  # below it, ribbons are free to turn
    for row, start, color in zip(values, starts, colors, strict=True):
        low = floor - LINE * start.line + 0.09
        half = (low + lane) / 2
        for weight, end in zip(row, ends, strict=True):
            if weight >= FAINT:
                bend = [(start.middle, low), (start.middle, half), (end.middle, half), (end.middle, lane)]
                corners = [*bend, (end.middle, ceiling - LINE * end.line - 0.09)]
                path = Path(corners, [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO])
                strength: dict[str, Any] = {"linewidth": 9 * weight, "alpha": 0.5, "zorder": 2}
                axes.add_patch(PathPatch(path, fill=False, edgecolor=color, capstyle="round", **strength))
    _write(axes, above, ends, ceiling, [QUIET] * len(above))
    _write(axes, below, starts, floor, colors)
    return figure
