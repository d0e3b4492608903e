"""The pictures of landscape.md: how far apart two words are, and who may attend to whom in a long text.

`.venv/bin/python -m docs.landscape` writes both anew.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea

from tfm_lib.show.figure import COLORS, INK, PALE, QUIET, Figure, style

HERE = Path(__file__).resolve().parent
PATHS, MASKS = HERE / "landscape_paths.png", HERE / "landscape_masks.png"

# The first word decides how the last one ends: not "wilts".
SENTENCE = ["Flowers", "that", "I", "bought", "for", "my", "mother", "yesterday", "wilt"]
KERNEL = 3  # the words that a convolution reads at once

POSITIONS = 64
NEAR = 4  # how far a window reaches to either side
STRIDE = 8  # the square root of the positions, as Child and others choose it
SEGMENT = 16
GLOBAL = 2  # positions that attend to all, and to which all attend
RANDOM = 3  # keys drawn for each query
BUCKETS = 8

Node = tuple[int, int]  # row, counted from the words upward, and place in the sentence
Arrows = list[tuple[Node, Node]]
Parts = dict[str, np.ndarray]  # each (POSITIONS, POSITIONS), query by key, True = may attend


def recurrence(words: int) -> Arrows:
    """Each state reads its word and the state before it."""
    reads: Arrows = [((0, place), (1, place)) for place in range(words)]
    return reads + [((1, place), (1, place + 1)) for place in range(words - 1)]


def convolution(words: int, growth: int = 1) -> Arrows:
    """As many layers as the last word needs to hear of the first; each one's gaps are `growth` times the last one's."""
    arrows: Arrows = []
    row, gap, reach = 0, 1, 0
    while reach < words - 1:
        for place in range(words):
            starts = range(place, max(-1, place - gap * KERNEL), -gap)
            arrows += [((row, start), (row + 1, place)) for start in starts]
        reach += gap * (KERNEL - 1)
        row, gap = row + 1, gap * growth
    return arrows


def attention(words: int) -> Arrows:
    """Each word reads itself and all words before it."""
    return [((0, start), (1, place)) for place in range(words) for start in range(place + 1)]


def longest_path(arrows: Arrows) -> list[Node]:
    """The shortest way from the first word to the last one's output, which no two words have a longer one than."""
    reads: dict[Node, list[Node]] = {}
    for start, end in arrows:
        reads.setdefault(start, []).append(end)
    ways, goal = [[(0, 0)]], max(end for _, end in arrows)
    for way in ways:  # grows while it is walked through: breadth first
        if way[-1] == goal:
            return way
        for end in reads.pop(way[-1], []):
            ways.append([*way, end])
    raise ValueError(f"no arrows lead from the first word, {(0, 0)}, to the last one's output, {goal}")


def steps(way: list[Node]) -> int:
    """The arrows of a way that lead from one word's place to another's."""
    return sum(start[1] != end[1] for start, end in pairwise(way))


def networks(words: int) -> dict[str, Arrows]:
    """Four ways to carry news from word to word, all of them looking back only."""
    return {
        "recurrence": recurrence(words),
        "convolution": convolution(words),
        "dilated convolution": convolution(words, growth=KERNEL),
        "attention": attention(words),
    }


def draw_network(axes: Axes, arrows: Arrows) -> None:
    """All arrows in gray, and those of the longest path above them."""
    for (low, left), (high, right) in arrows:
        axes.plot((left, right), (low, high), color="#aab4be", linewidth=0.7, linestyle="-", zorder=1)
    way = longest_path(arrows)
    for (low, left), (high, right) in pairwise(way):
        look = {"arrowstyle": "-|>,head_width=0.2,head_length=0.4", "color": COLORS[1], "linewidth": 2.2}
        axes.annotate("", (right, high), (left, low), arrowprops={**look, "shrinkA": 0, "shrinkB": 2.5}, zorder=3)
    off_path = {node for arrow in arrows for node in arrow} - set(way)
    for nodes, color, layer in ((off_path, "white", 2), (way, COLORS[1], 4)):
        rows, places = zip(*sorted(nodes), strict=True)
        axes.plot(places, rows, "o", markersize=5, color=color, markeredgecolor=QUIET, zorder=layer)


@style()
def paths() -> Figure:
    """Recurrence, convolution, dilated convolution and attention on one sentence."""
    drawn = networks(len(SENTENCE))
    counts = {name: steps(longest_path(arrows)) for name, arrows in drawn.items()}
    counted = ", ".join(f"{name} {count}" for name, count in counts.items())
    figure = Figure(
        f"From the first word to the last, words at the bottom and outputs at the top. Steps from one word's place to "
        f"another's: {counted}."
        " Each gray line is a connection, each circle a vector; all four look back only, and both convolutions read "
        f"{KERNEL} vectors at once.",
        height=2.75,
    )
    rows = max(end[0] for arrows in drawn.values() for _, end in arrows)
    for axes, (name, arrows) in zip(figure.subplots(1, len(drawn), sharey=True), drawn.items(), strict=True):
        draw_network(axes, arrows)
        count = counts[name]
        axes.set_title(f"{name}\n{count} step{'s' if count > 1 else ''}")
        axes.set(xlim=(-0.6, len(SENTENCE) - 0.4), ylim=(-0.35, rows + 0.35), yticks=[])
        axes.set_xticks(range(len(SENTENCE)), SENTENCE, rotation=90)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


def buckets(queries: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """The bucket of each vector: to which of the rotated axes, or their opposites, it is nearest.

    Kitaev et al. 2020, section 2.
    """
    turned = queries @ rotation  # (POSITIONS, BUCKETS / 2)
    return np.concatenate([turned, -turned], axis=1).argmax(axis=1)


def masks() -> dict[str, Parts]:
    """Who may attend to whom, by model; the first four look back only. The parts of a model may overlap."""
    draw = np.random.RandomState(0)  # the one generator whose numbers numpy promises never to change
    query, key = np.arange(POSITIONS)[:, None], np.arange(POSITIONS)[None]
    everywhere = np.ones((POSITIONS, POSITIONS), dtype=bool)
    past = key <= query
    segments_back = query // SEGMENT - key // SEGMENT
    window = abs(query - key) <= NEAR
    some = (query < GLOBAL) | (key < GLOBAL)
    chance = np.zeros_like(everywhere)
    for row in chance:
        row[draw.choice(POSITIONS, RANDOM, replace=False)] = True
    bucket = buckets(draw.randn(POSITIONS, 2 * BUCKETS), draw.randn(2 * BUCKETS, BUCKETS // 2))
    earlier = (bucket[:, None] == bucket[None]) & (key < query)
    # A query is also a key here, and would find itself the best match: it may attend to itself only if it is alone.
    alone = (query == key) & ~earlier.any(axis=1, keepdims=True)
    return {
        "full, looking back": {"all so far": past},
        "Sparse Transformer": {
            f"the last {STRIDE}": past & (query - key <= STRIDE),
            f"each {STRIDE}th": past & ((query - key) % STRIDE == 0),
        },
        "Transformer-XL": {"segment": past & (segments_back == 0), "memory": segments_back == 1},
        "Reformer": {"same bucket": earlier | alone},
        "full, both ways": {"all": everywhere},
        "window": {"window": window},
        "Longformer": {"window": window, "global": some},
        "BigBird": {"window": window, "global": some, "random": chance},
    }


def allowed(parts: Parts) -> int:
    """How many of the pairs of a query and a key some part allows."""
    return int(np.logical_or.reduce(list(parts.values())).sum())


def draw_mask(axes: Axes, name: str, parts: Parts) -> None:
    """The parts in three colors of different lightness, the first of them on top, with their names and the count."""
    colors = (COLORS[0], "#f0a45d", INK)
    picture = np.zeros((POSITIONS, POSITIONS))
    for number, part in reversed(list(enumerate(parts.values(), start=1))):
        picture[part] = number
    shades = ListedColormap(["#eef1f4", *colors])
    axes.imshow(picture, cmap=shades, vmin=0, vmax=len(colors), interpolation="nearest")
    axes.set_title(f"{name}\n{allowed(parts):,} pairs")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=PALE)
    legend: list[Artist] = []
    for color, label in zip(colors, parts, strict=False):
        entry: list[Artist] = [TextArea("■", textprops={"color": color}), TextArea(label, textprops={"size": 8})]
        legend.append(HPacker(children=entry, pad=0, sep=0.8, align="center"))
    line = HPacker(children=legend, pad=0, sep=2.6, align="center")
    axes.add_artist(
        AnchoredOffsetbox(
            "upper center",
            child=line,
            frameon=False,
            pad=0.4,
            borderpad=0,
            bbox_to_anchor=(0.5, 0),
            bbox_transform=axes.transAxes,
        )
    )


@style()
def long_inputs() -> Figure:
    """Eight masks for the same number of positions."""
    drawn = masks()
    counted = ", ".join(f"{name} {allowed(parts):,}" for name, parts in drawn.items() if "full" not in name)
    full, half = allowed(drawn["full, both ways"]), allowed(drawn["full, looking back"])
    figure = Figure(
        f"Who may attend to whom among {POSITIONS} positions: a row for each query, a column for each key, color where "
        f"it may. Full attention allows {full:,} pairs, or {half:,} looking back. {counted}.",
        height=4.7,
    )
    for axes, (name, parts) in zip(figure.subplots(2, 4).flat, drawn.items(), strict=True):
        draw_mask(axes, name, parts)
    return figure


if __name__ == "__main__":
    PATHS.write_bytes(paths().png())
    MASKS.write_bytes(long_inputs().png())
