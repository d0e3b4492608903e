"""The Transformer on its side, small enough to open a lesson: where in it the lesson is."""

from collections.abc import Collection
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from tfm_lib.show.boxes import arrow, box, canvas, write
from tfm_lib.show.figure import INK, MEANING, QUIET, Figure, style

Parts = Collection[str]
FADED = MEANING["aside"].fill


class Part(NamedTuple):
    """A part that can be lit up."""

    role: str  # in MEANING
    words: str  # of the caption
    label: str = ""  # of its box, if it is one
    width: float = 0.0  # of the box, in inches


PARTS = {  # the last ones lie inside attention
    "embedding": Part("embedding", "the embeddings", "Embed-\nding", 0.62),
    "positions": Part("positions", "the positions, added to the embeddings of both sides", "Positions", 0.74),
    "encoder": Part("encoder", "the encoder"),
    "decoder": Part("decoder", "the decoder"),
    "self_attention": Part("attention", "the encoder's self-attention", "Self-\nattention", 0.84),
    "masked_self_attention": Part("attention", "the decoder's masked self-attention", "Masked self-\nattention", 0.84),
    "cross_attention": Part(
        "attention", "cross-attention, the only way from the source to the target", "Cross-\nattention", 0.68
    ),
    "memory": Part(
        "encoder", "the memory, the output of the last encoder layer, read by every decoder layer", "memory", 0.72
    ),
    "feed_forward": Part("feed-forward", "the feed-forward networks", "Feed-\nforward", 0.64),
    "add_norm": Part("norm", "Add & Norm after every sub-layer", "Add &\nNorm", 0.44),
    "linear": Part("output", "the linear layer", "Linear", 0.5),
    "softmax": Part("output", "the softmax over the vocabulary", "Softmax", 0.62),
    "next_token": Part("output", "the loop: each token that was written is read for the next one"),
    "projections": Part("attention", "the projections to queries, keys and values", "projections\nto q, k, v", 0.84),
    "heads": Part("attention", "the split into heads", "split into\nheads", 0.72),
    "scores": Part("attention", "the scores, a dot product of each query with each key", "scores\nq · k / √d", 0.78),
    "mask": Part("attention", "the mask, which hides keys", "mask", 0.5),
    "weights": Part("attention", "the weights, a softmax of the scores", "softmax:\nweights", 0.68),
    "mixture": Part("attention", "the values, mixed by the weights", "mix of\nvalues", 0.58),
    "merge": Part("attention", "the merge of the heads", "merge\nheads", 0.58),
    "output_projection": Part("attention", "the output projection", "output\nprojection", 0.78),
}
ATTENTIONS = {"self_attention", "masked_self_attention", "cross_attention"}
ENCODER = ("self_attention", "add_norm", "feed_forward", "add_norm")
DECODER = ("masked_self_attention", "add_norm", "cross_attention", "add_norm", "feed_forward", "add_norm")
INSIDE = ("projections", "heads", "scores", "mask", "weights", "mixture", "merge", "output_projection")
TALL, GAP = 0.5, 0.1  # of a box, and between two of them
PLUS, FIRST = 1.32, 1.62  # from the left: the sum with the positions, the first box of a layer


def _part(axes: Axes, x: float, y: float, part: str, lit: Parts, tall: float = TALL, pale: bool = True) -> float:
    """A part from x on, with its middle at y: pale, in color, or with a thick frame where it is lit. Its right edge."""
    role, _, text, width = PARTS[part]
    look = MEANING[role]
    pale = pale and part not in lit
    box(axes, x, y - tall / 2, width, tall, FADED if pale else look.fill, look.color if part in lit else None)
    how: dict[str, Any] = {"weight": "bold", "fontsize": 7.5} if part in lit else {"fontsize": 8}
    how["color"] = QUIET if pale else INK
    axes.text(x + width / 2, y, text, ha="center", va="center", linespacing=1.15, zorder=4, **how)
    return x + width


def _chain(axes: Axes, x: float, y: float, parts: Parts, lit: Parts, belongs: Parts) -> float:
    """Parts in a row from x on, an arrow from each to the next; those of `belongs` are not pale. The right edge."""
    for place, part in enumerate(parts):
        if place:
            arrow(axes, (x, y), (x + GAP, y))
            x += GAP
        x = _part(axes, x, y, part, lit, pale=part not in belongs)
    return x


def _stack(axes: Axes, y: float, side: str, parts: Parts, lit: Parts, belongs: Parts) -> float:
    """One side of the model up to the end of its layers; the right edge of their frame."""
    write(axes, 0.22, y, "source" if side == "encoder" else "target\nso far", 8, color=QUIET)
    arrow(axes, (0.44, y), (0.54, y))
    arrow(axes, (_part(axes, 0.54, y, "embedding", lit), y), (PLUS - 0.09, y))
    axes.plot(PLUS, y, "o", ms=12, mfc="white", mec=QUIET, zorder=2)
    write(axes, PLUS, y, "+", 10, zorder=4)
    arrow(axes, (PLUS + 0.09, y), (FIRST, y))
    end = _chain(axes, FIRST, y, parts, lit, parts if side in lit else belongs)
    look = MEANING[side]
    edge = look.color if side in lit else None
    box(axes, FIRST - GAP, y - TALL / 2 - GAP, end - FIRST + 2 * GAP, TALL + 2 * GAP, "white", edge, layer=1)
    label = axes.text(FIRST + 0.12, y + TALL / 2 + GAP + 0.05, f"{side}: N layers", va="bottom", fontsize=8)
    label.set(weight="bold" if edge else "normal", color=edge or QUIET)
    return end + GAP


@style()
def overview(lit: Parts) -> Figure:
    """The Transformer on its side with the parts of `lit` in their colors, and a row of what is inside attention.

    Raises ValueError for a part that the drawing does not have.
    """
    if isinstance(lit, str) or not set(lit) <= set(PARTS):
        raise ValueError(f"lit is {lit!r}; wanted a list of names out of {', '.join(PARTS)}")
    message = (
        f"Where this lesson is in the Transformer, in color: {'; '.join(PARTS[part].words for part in lit)}. "
        "Above, the encoder turns the source into memory; below, the decoder reads it and predicts each next token."
    )
    inside = set(INSIDE) & set(lit)
    foot, belongs = 1.05 if inside else 0.0, ATTENTIONS if inside else set[str]()
    figure, axes = canvas(message, 2.7 + foot)
    above, below = foot + 1.98, foot + 0.6
    middle = (above + below) / 2
    end = _stack(axes, above, "encoder", ENCODER, lit, belongs)
    arrow(axes, (end, above), (end + 0.16, above))
    _part(axes, end + 0.16, above, "memory", lit, 0.3)
    color, x, into = MEANING["encoder"].color if "memory" in lit else QUIET, end + 0.52, 3.44
    arrow(axes, (x, above - 0.15), (x, middle), (into, middle), (into, below + TALL / 2), color=color)
    half = PARTS["positions"].width / 2
    _part(axes, PLUS - half, middle, "positions", lit, 0.3)
    arrow(axes, (PLUS, middle + 0.15), (PLUS, above - 0.09))
    arrow(axes, (PLUS, middle - 0.15), (PLUS, below + 0.09))
    end = _stack(axes, below, "decoder", DECODER, lit, belongs)
    arrow(axes, (end, below), (end + 0.14, below))
    end = _chain(axes, end + 0.14, below, ("linear", "softmax"), lit, ())
    if "next_token" in lit:
        x, y = end - 0.31, below - 0.5
        arrow(axes, (x, below - TALL / 2), (x, y), (0.22, y), (0.22, below - 0.17), color=MEANING["output"].color)
    if inside:
        axes.text(0.02, 0.78, "inside each attention", fontsize=8, weight="bold", color=MEANING["attention"].color)
        write(axes, 0.4, 0.4, "query,\nkey, value", 8, color=QUIET)
        arrow(axes, (0.72, 0.4), (0.85, 0.4))
        _chain(axes, 0.85, 0.4, INSIDE, lit, ())
    return figure
