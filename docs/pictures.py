"""The README's picture and its animation, drawn from what the shipped model does with stories of its test set.

`.venv/bin/python -m docs.pictures` writes both anew.
"""

from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path as Curve
from matplotlib.patheffects import withStroke
from matplotlib.textpath import text_to_path
from PIL import Image

from docs.reading import (
    ANIMATED,
    CHOICES,
    PICTURED,
    Reading,
    animation_words,
    picture_words,
    probability,
    read,
)
from tfm_lib.data.newsroom import SLOTS
from tfm_lib.show.control import percent
from tfm_lib.show.figure import COLORS, QUIET, style

HERE = Path(__file__).resolve().parent
PICTURE, ANIMATION = HERE / "newsroom.png", HERE / "decoding.gif"
WIDTH = 8.3  # inches, a hundred pixels each on a page
SHARP, SMALLER = 200, 150  # pixels an inch: as fine screens show it, and for a file of half the size
SIZE, SMALL, ROW = 15, 11.5, 0.43  # points of the letters, inches from line to line
MARGIN = 0.3  # inches beside the words
FAINT = 0.04  # the least weight that is drawn as a line
ROOM = 1.6  # inches for the five most probable words
FIRST, EACH, LAST = 2000, 1000, 4000  # milliseconds: the first image, each token, the last image


class Box(NamedTuple):
    left: float
    right: float
    base: float  # where the letters stand

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


def color(reading: Reading, token: int) -> str:
    """One color for each slot; the other words are gray."""
    return COLORS[SLOTS.index(reading.slots[token])] if token in reading.slots else QUIET


def inches(word: str, weight: str = "normal", size: float = SIZE) -> float:
    """How wide a word is."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(word, font, ismath=False)[0] / 72


def rounded(axes: Axes, box: Box, below: float, above: float, layer: float, **look: Any) -> None:
    """A box with round corners around the letters of `box`."""
    corner, size = (box.left, box.base - below), (box.right - box.left, below + above)
    axes.add_patch(FancyBboxPatch(corner, *size, "round,pad=0,rounding_size=0.08", zorder=layer, **look))


def part(axes: Axes, x: float, y: float, name: str, does: str) -> None:
    """A part of the model, and what it does."""
    axes.text(x, y, name, size=SMALL, weight="bold")
    axes.text(x + inches(name, "bold", SMALL) + 0.08, y, does, size=SMALL, color=QUIET)


def set_story(axes: Axes, words: list[str], top: float) -> list[Box]:
    """Put the words into lines, marks close to the word before them."""
    boxes: list[Box] = []
    x, y = MARGIN, top
    for word in words:
        wide = inches(word)
        if boxes:
            x += 0.1 if word[0].isalnum() else 0
        if x + wide > WIDTH - MARGIN:
            x, y = MARGIN, y - ROW
        boxes.append(Box(x, x + wide, y))
        x += wide
    halo = [withStroke(linewidth=2.5, foreground="white")]  # letters stay readable where a line passes behind them
    for box, word in zip(boxes, words, strict=True):
        axes.text(box.left, box.base, word, size=SIZE, parse_math=False, path_effects=halo, zorder=4)
    return boxes


def set_summary(axes: Axes, reading: Reading, written: int, base: float) -> list[Box]:
    """Put so many words of the summary into one line, each on the color of its slot, with the slot's name below."""
    boxes: list[Box] = []
    x = MARGIN
    for token, word in enumerate(reading.summary[:written]):
        box = Box(x, x + inches(word, "bold") + 0.16, base)
        shade, last = color(reading, token), token == len(reading.summary) - 1
        name = reading.slots.get(token, "end" * last).replace("_", " ")
        rounded(axes, box, 0.11, 0.27, 3, facecolor=shade, edgecolor="none")
        center: dict[str, Any] = {"ha": "center", "zorder": 4}
        axes.text(box.middle, base, word, size=SIZE, weight="bold", color="white", parse_math=False, **center)
        axes.text(box.middle, base - 0.34, name, size=11, color=QUIET, **center)
        boxes.append(box)
        x = box.right + 0.08
    return boxes


def look(axes: Axes, reading: Reading, token: int, story: list[Box], start: Box) -> None:
    """Lines from a word of the summary up to where it looked, as wide as the weights; a slot lights its first."""
    weights, shade, named = reading.weights[token].tolist(), color(reading, token), token in reading.slots
    if named:
        first = story[max(range(len(weights)), key=weights.__getitem__)]
        around = Box(first.left - 0.05, first.right + 0.05, first.base)
        rounded(axes, around, 0.11, 0.27, 1, facecolor=shade, edgecolor="none", alpha=0.3)
    low = start.base + 0.27
    for weight, end in zip(weights, story, strict=True):
        if weight >= FAINT:
            high = end.base - 0.11
            half = (low + high) / 2
            corners = [(start.middle, low), (start.middle, half), (end.middle, half), (end.middle, high)]
            path = Curve(corners, [Curve.MOVETO, *[Curve.CURVE4] * 3])
            strength = {"linewidth": 12 * weight, "alpha": 0.8 if named else 0.35, "zorder": 2 if named else 1.5}
            axes.add_patch(PathPatch(path, fill=False, edgecolor=shade, capstyle="round", **strength))


def scene(
    reading: Reading, written: int, looking: Collection[int], does: str, room: float = 0
) -> tuple[Figure, Axes, list[Box]]:
    """The story in the encoder, so many words of the summary in the decoder, and where the words `looking` looked.

    The axes count in inches; `room` is left free at the bottom of the decoder. The boxes are those of the summary.
    """
    height = 4.5 + room
    figure = Figure((WIDTH, height), dpi=SHARP, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    story = set_story(axes, reading.story, height - 0.85)
    summary = set_summary(axes, reading, written, room + 0.96)
    for bottom, top in ((story[-1].base - 0.3, height - 0.1), (0.1, room + 1.36)):
        frame = {"facecolor": "none", "edgecolor": QUIET, "linewidth": 1}
        rounded(axes, Box(0.1, WIDTH - 0.1, bottom), 0, top - bottom, 0.5, **frame)
    part(axes, MARGIN, height - 0.39, "encoder", "reads the story")
    part(axes, 6.7, room + 1.95, "cross-attention", "")
    axes.text(6.7, room + 1.72, "looks things up", size=SMALL, color=QUIET)
    part(axes, MARGIN, room + 0.25, "decoder", does)
    for token in looking:
        look(axes, reading, token, story, summary[token])
    return figure, axes, summary


@style()
def picture(reading: Reading) -> Figure:
    """The finished summary, and where each of its words looked."""
    words = len(reading.summary) - 1  # [eos] is none
    return scene(reading, words, range(words), "writes the summary, word by word")[0]


@style()
def moment(reading: Reading, token: int) -> Figure:
    """A token is written: where it looked, and what else it might have been."""
    does = f"chooses the next word: the {CHOICES} most probable of {reading.vocabulary}"
    figure, axes, _ = scene(reading, token + 1, [token], does, ROOM)
    for row, (word, p) in enumerate(reading.best[token]):
        y = ROOM - 0.06 - 0.29 * row
        axes.text(1.9, y, word, size=13, ha="right", va="center", weight="normal" if row else "bold")
        axes.barh(y, 5.2 * p, 0.22, left=2, color=QUIET if row else color(reading, token))
        axes.text(2.08 + 5.2 * p, y, percent(p), size=13, va="center")
    return figure


@style()
def end(reading: Reading) -> Figure:
    """All is written: where each word looked, and how sure the model was of it."""
    does = f"wrote each word with this probability, and the whole with {percent(probability(reading))}"
    words = range(len(reading.summary) - 1)
    figure, axes, boxes = scene(reading, len(reading.summary), words, does, ROOM)
    for token, (box, best) in enumerate(zip(boxes, reading.best, strict=True)):
        axes.bar(box.middle, 0.95 * best[0][1], 0.4, bottom=0.25, color=color(reading, token))
        axes.text(box.middle, 0.3 + 0.95 * best[0][1], percent(best[0][1]), size=10, ha="center")
    return figure


def pixels(figure: Figure, dpi: int = SHARP) -> Image.Image:
    """What the figure looks like."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.frombytes("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")


def few_colors(image: Image.Image, count: int) -> Image.Image:
    """The image in so many colors; the paper, which is most of it, stays white."""
    few = image.quantize(count, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    paper, colors = np.bincount(np.asarray(few).ravel()).argmax(), few.getpalette() or []
    colors[3 * paper : 3 * paper + 3] = [255, 255, 255]
    few.putpalette(colors)
    return few


def png(reading: Reading) -> bytes:
    """The picture, the same bytes in every run."""
    out = BytesIO()
    few_colors(pixels(picture(reading)), 256).save(out, "png", optimize=True)
    return out.getvalue()


def gif(reading: Reading) -> bytes:
    """The animation: a moment for each token, and the end, where it rests after three times.

    The end is also its first image, which is all that pages show to people who want nothing to move.
    """
    moments = [moment(reading, token) for token in range(len(reading.summary))]
    images = [pixels(figure, SMALLER) for figure in (end(reading), *moments, end(reading))]
    width, height = images[0].size
    sheet = Image.new("RGB", (width, height * len(images)))  # all at once, so that they share their palette
    for place, image in enumerate(images):
        sheet.paste(image, (0, height * place))
    sheet = few_colors(sheet, 192)
    first, *rest = [sheet.crop((0, top, width, top + height)) for top in range(0, sheet.height, height)]
    out = BytesIO()
    pauses = [FIRST, *[EACH] * len(moments), LAST]
    first.save(out, "gif", save_all=True, append_images=rest, duration=pauses, loop=2)
    return out.getvalue()


if __name__ == "__main__":
    pictured, animated = read(*PICTURED), read(*ANIMATED)
    PICTURE.write_bytes(png(pictured))
    ANIMATION.write_bytes(gif(animated))
    print(picture_words(pictured), animation_words(animated), sep="\n\n")  # for the README
