"""The Transformer on its side, small enough to open a lesson: where in it the lesson is."""

from collections.abc import Collection
from typing import Any

from matplotlib.axes import Axes

from tfm_lib.show.boxes import arrow, box, canvas, write
from tfm_lib.show.figure import INK, MEANING, QUIET, Figure, style

Parts = Collection[str]
FADED = MEANING["aside"].fill

# What can be lit up: what each part is in MEANING, and the words of the caption. The last ones lie inside attention.
PARTS = {
    "embedding": ("embedding", "the embeddings"),
    "positions": ("positions", "the positions, added to the embeddings of both sides"),
    "encoder": ("encoder", "the encoder"),
    "decoder": ("decoder", "the decoder"),
    "self_attention": ("attention", "the encoder's self-attention"),
    "masked_self_attention": ("attention", "the decoder's masked self-attention"),
    "cross_attention": ("attention", "cross-attention, the only way from the source to the target"),
    "memory": ("encoder", "the memory, the output of the last encoder layer, read by every decoder layer"),
    "feed_forward": ("feed-forward", "the feed-forward networks"),
    "add_norm": ("norm", "Add & Norm after every sub-layer"),
    "linear": ("output", "the linear layer"),
    "softmax": ("output", "the softmax over the vocabulary"),
    "next_token": ("output", "the way back: what was written is read for the next token"),
    "projections": ("attention", "the projections to queries, keys and values"),
    "heads": ("attention", "the split into heads"),
    "scores": ("attention", "the scores, a dot product of each query with each key"),
    "mask": ("attention", "the mask, which hides keys"),
    "weights": ("attention", "the weights, a softmax of the scores"),
    "mixture": ("attention", "the values, mixed by the weights"),
    "merge": ("attention", "the merge of the heads"),
    "output_projection": ("attention", "the output projection"),
}
ATTENTIONS = {"self_attention", "masked_self_attention", "cross_attention"}
ENCODER = ("self_attention", "add_norm", "feed_forward", "add_norm")
DECODER = ("masked_self_attention", "add_norm", "cross_attention", "add_norm", "feed_forward", "add_norm")
INSIDE = ("projections", "heads", "scores", "mask", "weights", "mixture", "merge", "output_projection")
BOXES = {  # what stands in the box of a part, and how wide it is, in inches
    "embedding": ("Embed-\nding", 0.62),
    "positions": ("Positions", 0.74),
    "self_attention": ("Self-\nattention", 0.84),
    "masked_self_attention": ("Masked self-\nattention", 0.84),
    "cross_attention": ("Cross-\nattention", 0.68),
    "memory": ("memory", 0.72),
    "feed_forward": ("Feed-\nforward", 0.64),
    "add_norm": ("Add &\nNorm", 0.44),
    "linear": ("Linear", 0.5),
    "softmax": ("Softmax", 0.62),
    "projections": ("projections\nto q, k, v", 0.84),
    "heads": ("split into\nheads", 0.72),
    "scores": ("scores\nq · k / √d", 0.78),
    "mask": ("mask", 0.5),
    "weights": ("softmax:\nweights", 0.68),
    "mixture": ("mix of\nvalues", 0.58),
    "merge": ("merge\nheads", 0.58),
    "output_projection": ("output\nprojection", 0.78),
}
TALL, GAP = 0.5, 0.1  # of a box, and between two of them
PLUS, FIRST = 1.32, 1.62  # from the left: the sum with the positions, the first box of a layer


def _part(axes: Axes, x: float, y: float, part: str, lit: Parts, tall: float = TALL, pale: bool = True) -> float:
    """A part from x on, with its middle at y: pale, in color, or with a thick frame where it is lit. Its right edge."""
    (text, width), look = BOXES[part], MEANING[PARTS[part][0]]
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
        f"Where this lesson is in the Transformer, in color: {'; '.join(PARTS[part][1] for part in lit)}. "
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
    half = BOXES["positions"][1] / 2
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
