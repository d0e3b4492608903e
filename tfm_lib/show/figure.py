"""What a figure is here: a picture with its message in words, in one style, and cells with tokens as labels.

Nothing here imports pyplot or leaves a trace in `matplotlib.rcParams`; a lesson shows a figure by ending a cell in it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib import figure
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image
from torch import Tensor

from tfm_lib.show.live import caption

PAGE_WIDTH = 7.4  # inches; shown as 740 pixels, the width of a notebook's text
CSS_PIXELS_PER_INCH = 100
INK, QUIET, PALE = "#1f2933", "#52606d", "#d9dee4"
# After Okabe and Ito, darker where letters ask for it (4.5 to 1 on white): color-blind readers tell apart what meets in
# one picture. Each goes with a line style.
_BLUE, _VERMILION, _GREEN = ("#006aae", "#d3e5f6"), ("#c5510b", "#fbe3c8"), ("#00865b", "#d5ecd9")
_PURPLE, _OLIVE, _TEAL = ("#6b2f86", "#e6def2"), ("#625000", "#f3eec9"), ("#087272", "#d3ecec")
_CRIMSON, _GRAY = ("#8a1b4e", "#f9d9d6"), ("#7b8794", "#eef1f4")
COLORS = tuple(color for color, _ in (_BLUE, _VERMILION, _GREEN, _PURPLE, _OLIVE, _TEAL))  # of lines without a role
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 0.6)))


class Look(NamedTuple):
    """How a role is drawn: `axes.plot(losses, **MEANING["pre-norm"].line)`."""

    color: str  # of its lines, points and letters
    fill: str  # of its boxes and areas, pale under dark letters
    linestyle: str = "-"

    @property
    def line(self) -> dict[str, str]:
        """Arguments for a line of it."""
        return {"color": self.color, "linestyle": self.linestyle}


# One meaning a color through the whole course. A row holds roles that may meet in one picture; in it no color stands
# for two of them. Roles of different rows may share a color, and never meet.
ROLES = (
    {"query": Look(*_BLUE), "key": Look(*_VERMILION, "--"), "value": Look(*_GREEN, "-.")},
    {  # parts of the model; "norm" takes in the residual ways, "output" turns the last vectors into words
        "embedding": Look(*_CRIMSON),
        "positions": Look(*_VERMILION, "--"),
        "attention": Look(*_BLUE),
        "feed-forward": Look(*_GREEN, "-."),
        "norm": Look(*_OLIVE, "--"),
        "output": Look(*_PURPLE, ":"),
    },
    {"encoder": Look(*_TEAL), "decoder": Look(*_PURPLE, "--")},  # the memory is the encoder's
    {"post-norm": Look(*_PURPLE), "pre-norm": Look(*_GREEN, "--")},
    {"with": Look(*_BLUE), "without": Look(*_VERMILION, "--")},  # a part; without it, or broken
    {"training": Look(*_BLUE), "validation": Look(*_OLIVE, "--")},
    {"ours": Look(*_BLUE), "library": Look(*_OLIVE, "--")},
    {"allowed": Look("#08306b", "#9cc9e8"), "hidden": Look("#9a5b13", "#f1f3f5")},  # pairs of a mask
    {"chosen": Look(*_BLUE), "aside": Look(*_GRAY, ":")},  # aside: what was dropped, baselines, guides
)
MEANING = {role: look for row in ROLES for role, look in row.items()}
# Zero is nearly white, so that the eye goes to the weights; light to dark, so that it also reads in gray.
SEQUENTIAL = LinearSegmentedColormap.from_list("weight", ["#f9fafb", "#a9d0ea", "#2f7fb8", "#08306b"])
MASK = ListedColormap([MEANING["hidden"].fill, MEANING["allowed"].fill])  # of False and True
# Its ends differ in lightness as well as in hue: the sign of a number survives a gray print.
DIVERGING = LinearSegmentedColormap.from_list("tfm", ["#08306b", "#5b8fc7", "#f7f7f7", "#fdc67a", "#ec8a1c"])
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
    "axes.unicode_minus": True,
    "grid.color": PALE,
    "grid.linewidth": 0.7,
    "grid.linestyle": "-",
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
}
DARK = 0.68  # from this weight on white letters stand out from SEQUENTIAL, below it black ones, by 4.5 to 1
Labels = Sequence[object] | None  # tokens, or their numbers where there are none


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's own defaults plus the course's style, for the length of a `with` block or a decorated call."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        with matplotlib.rc_context(STYLE):
            yield


class Figure(figure.Figure):
    """A picture of `height` inches with its message `alt` as alt text and, where a cell shows it, as text under it.

    Made without pyplot: end a cell in it, or pass it to `display`. Draw on it as on any matplotlib figure, inside
    `with style():` where lines and letters should look like the course's. Raises ValueError where the message is empty.
    """

    @style()
    def __init__(self, alt: str, height: float = 3.0, width: float = PAGE_WIDTH) -> None:
        if not alt.strip():
            raise ValueError("alt is empty; wanted the figure's message in a sentence: what should a reader see in it?")
        layout = ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06, compress=True)
        dpi = 1.5 * CSS_PIXELS_PER_INCH
        super().__init__(figsize=(width, height), dpi=dpi, facecolor="white", layout=layout)
        self.alt = " ".join(alt.split())

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
        return data, {"image/png": {"alt": self.alt, "width": width}}

    def _ipython_display_(self) -> None:
        # Once any cell has imported pyplot (d2l does), IPython would draw every matplotlib figure its own way,
        # cropped and perhaps as SVG with random names, instead of asking for the bundle above.
        from IPython.display import publish_display_data

        publish_display_data(*self._repr_mimebundle_())
        publish_display_data({"text/html": caption(self.alt)})


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
