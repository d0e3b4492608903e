"""What a figure is here: a picture with its message in words, in one style, made from sound tensors and labels.

Nothing here imports pyplot or leaves a trace in `matplotlib.rcParams`; a lesson shows a figure by ending a cell in it.
"""
# ruff: noqa: F401  (lessons and drawings find the colors here, too)

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib import figure
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image
from torch import Tensor

from tfm_lib.show.colors import COLORS, DARK, DIVERGING, INK, LINE_STYLES, MASK, MEANING, PALE, QUIET, ROLES, SEQUENTIAL
from tfm_lib.show.live import caption

PAGE_WIDTH = 7.4  # inches; shown as 740 pixels, the width of a notebook's text
CSS_PIXELS_PER_INCH = 100
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same pixels on every machine
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLORS, linestyle=LINE_STYLES),
    "grid.color": PALE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
}
SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z“])|(?<=[.!?][”)]) (?=[A-Z“])")
Labels = Sequence[object] | None  # tokens, or their numbers where there are none


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's own defaults plus the course's style, for the length of a `with` block or a decorated call."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


class Figure(figure.Figure):
    """A picture of `height` inches with its message `alt` as alt text, whose first sentence stands under it in a cell.

    What follows that sentence, such as numbers, is for those who cannot see the picture. `figure.caption = ...` puts
    another sentence under it. Draw on it as on any matplotlib figure, inside `with style():` where lines and letters
    should look like the course's. Raises ValueError where the message is empty.
    """

    @style()
    def __init__(self, alt: str, height: float = 3.0) -> None:
        if not alt.strip():
            raise ValueError("alt is empty; wanted the figure's message in a sentence: what should a reader see in it?")
        layout = ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06, compress=True)
        size, dpi = (PAGE_WIDTH, height), 1.5 * CSS_PIXELS_PER_INCH
        super().__init__(figsize=size, dpi=dpi, facecolor="white", layout=layout)
        self.alt = " ".join(alt.split())
        self.caption = SENTENCE_END.split(self.alt, maxsplit=1)[0]

    @style()
    def subplots(self, *args: Any, **kwargs: Any) -> Any:
        """Axes in the course's style."""
        return super().subplots(*args, **kwargs)

    @style()
    def draw(self, renderer: Any) -> None:
        """As every matplotlib figure, in the course's style: ticks come into being only now."""
        super().draw(renderer)

    @style()
    def png(self) -> bytes:
        """The picture as PNG, the same bytes in every run; its palette of 256 colors keeps notebooks small."""
        canvas = FigureCanvasAgg(self)
        canvas.draw()
        pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        buffer = BytesIO()
        # Of Pillow's ways the one that moves no color by more than 10 of 255, and none where another changes a little.
        colors = pixels.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        colors.save(buffer, "png", optimize=True)
        return buffer.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {"image/png": self.png(), "text/plain": self.alt}
        width = round(self.get_size_inches()[0] * CSS_PIXELS_PER_INCH)
        return data, {"image/png": {"alt": self.alt, "caption": self.caption, "width": width}}

    def _ipython_display_(self) -> None:
        # Once any cell has imported pyplot (d2l does), IPython would draw every matplotlib figure its own way,
        # cropped and perhaps as SVG with random names, instead of asking for the bundle above.
        from IPython.display import publish_display_data

        publish_display_data(*self._repr_mimebundle_())
        publish_display_data({"text/html": caption(self.caption)})


def finite_array(tensor: Tensor, name: str, axes: str) -> np.ndarray:
    """The tensor as a float array of the rank that `axes` names, not empty and finite; ValueError otherwise."""
    shape = tuple(tensor.shape)
    if len(shape) != len(axes.split(", ")) or 0 in shape:
        fix = f"{name}[0] picks one example, {name}[None] adds an axis"
        raise ValueError(f"{name} has shape {shape}; wanted ({axes}), none of them 0: {fix}")
    values = tensor.detach().double().cpu().numpy()
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds nan or infinite values; wanted finite ones: find where they arise first")
    return values


def weight_array(weights: Tensor, axes: str) -> np.ndarray:
    """As `finite_array`, of attention weights; ValueError where they lie outside of 0 to 1, too."""
    values = finite_array(weights, "weights", axes)
    if values.min() < 0 or values.max() > 1 + 1e-3:
        got = f"{values.min():.3g} to {values.max():.3g}"
        raise ValueError(f"weights run from {got}; wanted 0 to 1: apply the softmax over the keys first")
    return values


def label_texts(labels: Labels, count: int, name: str) -> list[str]:
    """The labels as texts, numbers where there are none; ValueError unless there are `count` of them."""
    if labels is None:
        return [str(place) for place in range(count)]
    if isinstance(labels, str) or len(labels) != count:
        raise ValueError(f"{name} has {len(labels)} labels; wanted a list of {count}, one for each row or column")
    return [str(label) for label in labels]


def quoted(labels: list[str]) -> list[str]:
    """How a caption calls them: in quotes, with its place where a label occurs twice."""
    return [f"“{x}” ({i})" if labels.count(x) > 1 else f"“{x}”" for i, x in enumerate(labels)]
