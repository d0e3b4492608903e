"""Controls around the pictures of lessons 01 and 02: turn a knob, and see what follows, in numbers and in words."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tfm_lib.show.control import Live, control, minus, sentence
from tfm_lib.show.figure import COLORS, INK, MEANING, QUIET, Figure, quoted, style

WIDTHS = (1, 4, 16, 64, 256, 1024)
WIDTH = 64  # to begin with
KEYS = 8


@style()
def softmax_temperature() -> Live:
    """The softmax of one random query over random keys: turn the temperature, the width, and the division by √d.

    Entries are independent with variance 1, as in Vaswani et al. 2017, section 3.2.1; a wider vector begins with the
    entries of the narrower ones.
    """
    vectors = torch.randn(WIDTHS[-1], 1 + KEYS, generator=torch.Generator().manual_seed(0)).T  # (1 + S, Dh)
    query, keys = vectors[0], vectors[1:]
    products = {width: keys[:, :width] @ query[:width] for width in WIDTHS}
    scores = products[WIDTH] / math.sqrt(WIDTH)  # (S,)
    weights = scores.softmax(0)
    low, high = scores.min().item(), scores.max().item()
    top, best = weights.max().item(), int(weights.argmax()) + 1
    most = int((weights.sort(descending=True).values.cumsum(0) < 0.9).sum()) + 1
    scale, gradient = (WIDTH, "1.00", f"divided by √{WIDTH}", minus(low), minus(high)), f"{top * (1 - top):.3f}"
    figure = Figure(sentence("softmax", *scale, f"{top:.2f}", best, most, KEYS, best, gradient), 2.3)
    left, right = figure.subplots(1, 2)
    places = range(1, 1 + KEYS)
    left.bar(places, scores.numpy(), color=COLORS[1])
    left.axhline(0, color=QUIET, linewidth=0.8, linestyle="-")
    left.set(title="in: scores of the keys", xlabel="key", xticks=places, ylim=(-6, 6))
    right.bar(places, weights.numpy(), color=COLORS[0])
    for place, weight in zip(places, weights.tolist(), strict=True):
        right.text(place, weight + 0.02, f"{weight:.2f}", ha="center", va="bottom", size=8)
    right.set(title="out: weights of the keys", xlabel="key", xticks=places, ylim=(0, 1.14))
    data = {
        "products": {width: [round(x, 6) for x in found.tolist()] for width, found in products.items()},
        "temperatures": [round(10 ** (step / 20), 4) for step in range(-20, 21)],
        "width": WIDTH,
        "temperature": 1.0,
    }
    return control("softmaxTemperature", data, figure)


TWO_COLUMNS = {
    "rain": (2, 0), "flood": (3.5, 0.5), "bridge": (0.5, 3), "harbor": (3, 2.5), "the": (0, 0), "desert": (-3, 0),
}  # fmt: skip


@style()
def query_among_keys(keys: Mapping[str, tuple[float, float]] = TWO_COLUMNS) -> Live:
    """Move a query among keys in the plane: how much each of them weighs, by dot product or by distance.

    keys: names and vectors of width 2; lesson 01 calls their columns "water" and "building". They are the values too,
    so that the mixture is a point between them. Raises ValueError for fewer than 2 keys or more than 10, and for
    entries beyond 4.
    """
    names, points = quoted(list(keys)), torch.tensor(list(keys.values()), dtype=torch.float64)  # (S, 2)
    if not 2 <= len(names) <= 10 or points.shape[1] != 2 or not points.abs().max() <= 4:
        raise ValueError(f"keys must be 2 to 10 names with two numbers from -4 to 4 each, got {dict(keys)}")
    query = torch.tensor([1.0, 1.5], dtype=torch.float64)
    weights = (points @ query / math.sqrt(2)).softmax(0)  # (S,)
    mixture = (weights @ points).tolist()  # (S,) @ (S, 2) -> (2,)
    first, second = weights.argsort(descending=True, stable=True)[:2].tolist()
    place, mean = (", ".join(map(minus, point)) for point in (query.tolist(), mixture))
    most = [f"{weights[key]:.2f} to {names[key]}" for key in (first, second)]
    least = list(keys)[int(weights.argmin())], f"{weights.min():.2f}"
    figure = Figure(sentence("query", place, *most, *least, mean, "the dot product / √2"), 3.3)
    plane, side = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_plane(plane, keys, query, weights, mixture)
    rows = range(len(names))
    side.barh(rows, weights.numpy(), color=MEANING["query"].color)
    for row, weight in enumerate(weights.tolist()):
        side.text(weight + 0.02, row, f"{weight:.2f}", va="center", size=8)
    side.set_yticks(rows, list(keys), parse_math=False)
    side.set(xlim=(0, 1.15), ylim=(len(names) - 0.4, -0.6), title="weight of each key")
    data = {"names": list(keys), "points": points.tolist(), "query": query.tolist()}
    return control("queryAmongKeys", data, figure)


def _draw_plane(
    plane: Any, keys: Mapping[str, tuple[float, float]], query: Tensor, weights: Tensor, mixture: list[float]
) -> None:
    """The query with a line to each key, as wide as its weight, and the mixture."""
    points = torch.tensor(list(keys.values()), dtype=torch.float64)  # (S, 2)
    asks, key, areas = MEANING["query"], MEANING["key"], 30 + 900 * weights.numpy()
    for point, weight in zip(points, weights.tolist(), strict=True):
        plane.plot(*torch.stack([query, point]).T, "-", color=asks.color, linewidth=9 * weight)
    plane.scatter(*points.T, s=areas, color=key.fill, edgecolor=key.color, zorder=2)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 0.5}  # over lines, too
    for (name, point), area in zip(keys.items(), areas.tolist(), strict=True):
        above = (0, math.sqrt(area) / 2 + 2)  # its disc, however large
        about = {"ha": "center", "va": "bottom", "size": 8.5, "bbox": box, "parse_math": False}
        plane.annotate(name, point, above, textcoords="offset points", **about)
    plane.plot(*query[:, None], "*", ms=15, color=asks.color, mec=INK, mew=0.6, label="query")
    plane.plot([mixture[0]], [mixture[1]], "D", ms=7, color="white", mec=INK, mew=1.4, label="mixture")
    plane.legend(loc="lower left", frameon=False, borderpad=0)
    plane.set(xlim=(-4.5, 4.5), ylim=(-4.5, 4.5), aspect="equal", xlabel="water", ylabel="building")
    plane.grid()
    plane.set_axisbelow(True)
