"""The parts of a model that a reader can press."""

from typing import NamedTuple

from tfm_lib.lessons import LESSONS
from tfm_lib.model import TransformerConfig

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
    columns, first = {}, config.norm_first
    layers = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    for side, word in (("encoder", "story"), ("decoder", "summary")):
        rows = f"The row of the embedding matrix for each word of the {word}."
        columns[side] = [
            _box(f"{side}.embedding.tokens", "Embedding", "embedding", "06", rows),
            _box(f"{side}.embedding", "Positions", "positions", "04", "Each row times √D, plus its position vector."),
            *(box for layer in range(layers[side]) for box in _layer(f"{side}.layers.{layer}", side, first)),
        ]
    memory = f"The encoder's output{' after its last norm' if first else ''}; each decoder layer reads it."
    last = _box("decoder.norm", "Norm", "norm", "05", "The decoder's residual stream after its last norm.")
    best = "each possible next word; shown are the two best of each row."
    columns["encoder"].append(_box("encoder", "Memory", "encoder", "06", memory))
    columns["decoder"] += [
        *([last] if first else []),
        _box("output", "Linear", "output", "06", f"A score for {best}"),
        _box("softmax", "Softmax", "output", "08", f"The probability of {best}"),
    ]
    return columns


def _layer(name: str, side: str, norm_first: bool) -> list[Box]:
    """The sub-layers of one layer with their norms and sums, in the order in which they compute."""
    looks = "How much each word looks at each word of the story."
    attentions = {"self_attention": ("Self-attention", "01", looks)}
    if side == "decoder":
        attentions = {
            "self_attention": ("Masked self-attention", "02", "How much each word looks at itself and earlier words."),
            "cross_attention": ("Cross-attention", "03", looks),
        }
    network = "The output of the feed-forward network for each word, before it is added."
    sublayers = [(part, label, "attention", *rest) for part, (label, *rest) in attentions.items()]
    column = []
    for part, *about in (*sublayers, ("feed_forward", "Feed-forward", "feed-forward", "05", network)):
        around, sublayer = f"{name}.around_{part}", _box(f"{name}.{part}", *about)
        if norm_first:
            normed, added = "The residual stream, normalized for the sub-layer.", "plus the output of the sub-layer"
            column += [_box(f"{around}.norm", "Norm", "norm", "05", normed), sublayer]
            column.append(_box(around, "Add", "norm", "05", f"The residual stream {added}, without a norm (pre-norm)."))
        else:
            normed = "The input of the sub-layer plus its output, normalized (post-norm)."
            column += [sublayer, _box(around, "Add & Norm", "norm", "05", normed)]
    return column


def _box(name: str, label: str, role: str, lesson: str, about: str) -> Box:
    return Box(name, label, role, FILES[lesson], about)


def layer_of(one: Box) -> str:
    """The layer in which a box is, as "layer 0"; empty where it is in none."""
    _, _, rest = one.name.partition(".layers.")
    return rest and f"layer {rest.partition('.')[0]}"
