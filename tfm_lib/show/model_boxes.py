"""The parts of a model that a reader can press, and their drawing."""

from typing import Any, NamedTuple

from matplotlib.axes import Axes

from tfm_lib.lessons import LESSONS
from tfm_lib.model import TransformerConfig
from tfm_lib.show.boxes import arrow, box
from tfm_lib.show.figure import INK, MEANING, QUIET

FILES = {lesson.number: lesson.name for lesson in LESSONS}


class Box(NamedTuple):
    """A part that can be pressed."""

    name: str  # in PyTorch; an attention shows its weights
    label: str
    role: str  # in MEANING
    lesson: str  # the file that explains it, without the ending
    about: str  # what its numbers are, in a sentence


Columns = dict[str, list[Box]]  # of the encoder and of the decoder


def boxes(config: TransformerConfig) -> Columns:
    """What can be pressed in such a model, from the bottom of each side to its top."""
    columns = {}
    layers = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    for side, word in (("encoder", "story"), ("decoder", "summary")):
        rows = f"The row of the embedding matrix for each word of the {word}."
        columns[side] = [
            _box(f"{side}.embedding.tokens", "Embedding", "embedding", "06", rows),
            _box(f"{side}.embedding", "Positions", "positions", "04", "Each row times √D, plus its position vector."),
            *(box for layer in range(layers[side]) for box in _layer(f"{side}.layers.{layer}", side)),
        ]
    memory = "The encoder's vector for each word, after the last norm. Every decoder layer reads it."
    best = "each possible next word; shown are the two best of each row."
    columns["encoder"].append(_box("encoder", "Memory", "encoder", "06", memory))
    columns["decoder"] += [
        _box("decoder.norm", "Norm", "norm", "05", "The residual stream, after the last norm."),
        _box("output", "Linear", "output", "06", f"A score for {best}"),
        _box("softmax", "Softmax", "output", "08", f"The probability of {best}"),
    ]
    return columns


def _layer(name: str, side: str) -> list[Box]:
    """The sub-layers of one layer, and what stands around each of them."""
    looks = "How much each word looks at each word of the story."
    attentions = {"self_attention": ("Self-attention", "01", looks)}
    if side == "decoder":
        attentions = {
            "self_attention": ("Masked self-attention", "02", "How much each word looks at itself and earlier words."),
            "cross_attention": ("Cross-attention", "03", looks),
        }
    network = "The output of the feed-forward network for each word, before it is added."
    sum_of = "The input of the sub-layer plus its output; the norm comes before the sub-layer (pre-norm)."
    sublayers = [(part, label, "attention", *rest) for part, (label, *rest) in attentions.items()]
    column = []
    for part, *about in (*sublayers, ("feed_forward", "Feed-forward", "feed-forward", "05", network)):
        column += [_box(f"{name}.{part}", *about), _box(f"{name}.around_{part}", "Add & Norm", "norm", "05", sum_of)]
    return column


def _box(name: str, label: str, role: str, lesson: str, about: str) -> Box:
    return Box(name, label, role, FILES[lesson], about)


def layer_of(one: Box) -> str:
    """The layer in which a box is, as "layer 0"; empty where it is in none."""
    _, _, rest = one.name.partition(".layers.")
    return rest and f"layer {rest.partition('.')[0]}"


def draw_boxes(axes: Axes, columns: Columns, opened: Box) -> None:
    """Both sides, read upward, the opened box with a thick frame; the memory leads to every cross-attention."""
    wide, tall, step, gap = 1.36, 0.24, 0.26, 0.08  # inches
    places = {}
    for side, (left, aside) in {"encoder": (0.2, 0.08), "decoder": (1.84, 3.34)}.items():
        middle, y, before = left + wide / 2, 0.3, columns[side][0]
        layers: dict[str, list[float]] = {}
        reads = "↑ story" if side == "encoder" else "↑ summary so far"
        text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "zorder": 4}
        axes.text(middle, 0.1, reads, color=QUIET, **text)
        for one in columns[side]:
            y += gap * (layer_of(one) != layer_of(before))
            box(axes, left, y, wide, tall, MEANING[one.role].fill, INK if one is opened else None)
            axes.text(middle, y + tall / 2 - 0.01, one.label, **text)
            places[one.name] = y + tall / 2
            layers.setdefault(layer_of(one), []).append(y + tall / 2)
            y, before = y + step, one
        for name, heights in layers.items():
            axes.text(aside, sum(heights) / len(heights), name, rotation=90, color=QUIET, **text)
    for one in columns["decoder"]:
        if one.label == "Cross-attention":
            low, high = places["encoder"], places[one.name]
            arrow(axes, (1.56, low), (1.7, low), (1.7, high), (1.84, high), color=MEANING["encoder"].color)
    axes.set(xlim=(0, 3.42), ylim=(0, max(places.values()) + tall))
    axes.axis("off")
