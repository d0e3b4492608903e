"""What drawings of boxes and arrows are made of; they count in inches."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from tfm_lib.show.figure import QUIET, Figure

PAGE = 7.2  # inches from the left edge of a drawing to its right one


def canvas(alt: str, height: float) -> tuple[Figure, Axes]:
    """A figure whose axes count in inches, x from 0 to PAGE."""
    figure = Figure(alt, height)
    axes = figure.subplots()
    axes.set(xlim=(0, PAGE), ylim=(0, height - 0.12), aspect="equal")
    axes.axis("off")
    return figure, axes


def box(
    axes: Axes, x: float, y: float, width: float, height: float, color: str, edge: str | None = None, layer: float = 2
) -> None:
    """A rounded box with its lower left corner at (x, y); one with an edge of its own has a thick frame."""
    patch = FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.07", facecolor=color, zorder=layer)
    patch.set(edgecolor=edge or QUIET, linewidth=2.6 if edge else 0.9)
    axes.add_patch(patch)


def write(axes: Axes, x: float, y: float, text: str, size: float, **look: Any) -> Text:
    """Words around the point (x, y)."""
    return axes.text(x, y, text, ha="center", va="center", fontsize=size, **look)


def arrow(axes: Axes, *corners: tuple[float, float], color: str = QUIET) -> None:
    """A line through the corners, with a head at the last one."""
    axes.plot(*zip(*corners, strict=True), color=color, linewidth=1.1, linestyle="-", zorder=1.5, solid_capstyle="butt")
    head = {"arrowstyle": "-|>,head_width=0.18,head_length=0.35", "color": color, "linewidth": 1.1}
    axes.annotate("", corners[-1], corners[-2], arrowprops=head | {"shrinkA": 0, "shrinkB": 0}, zorder=3)
