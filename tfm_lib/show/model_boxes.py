"""The parts of a model that a reader can press, and where they are drawn: beside the residual stream of each side."""

from typing import NamedTuple

from matplotlib.axes import Axes

from tfm_lib.lessons import LESSONS
from tfm_lib.model import TransformerConfig
from tfm_lib.show.boxes import arrow, box, write
from tfm_lib.show.figure import INK, MEANING, PALE, QUIET

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


Line = list[tuple[float, float]]  # its corners


class Side(NamedTuple):
    """From left to right, the encoder or the decoder."""

    left: float
    right: float
    stream: float  # the middle of its residual stream
    inner: tuple[float, float]  # the sub-layers beside the stream
    edge: float  # of the sub-layers, toward the stream
    label: float
    reads: str


class Layout(NamedTuple):
    """In pixels from the lower left corner."""

    width: float
    height: float
    tall: float  # of a box
    boxes: dict[str, tuple[float, float, float]]  # by the box's name: left edge, width, bottom
    frames: list[tuple[float, float, float, float, float, str]]  # left, width, bottom, height; x of its name
    streams: list[Line]
    arrows: list[Line]  # between the streams and the sub-layers
    memory: list[Line]  # arrows to every cross-attention


WIDTH, TALL, STEP, FOOT = 352, 24, 26, 26
SIDES = {
    "encoder": Side(18, 140, 30, (52, 140), 52, 7, "story"),
    "decoder": Side(164, 334, 322, (164, 300), 300, 346, "summary so far"),
}


def layout(columns: Columns) -> Layout:
    """Both sides, read upward: what a sub-layer computes is added to the stream by the "+" beside it."""
    made = Layout(WIDTH, 0, TALL, {}, [], [], [], [])
    for side, at in SIDES.items():
        y, before, layers = FOOT, columns[side][0], dict[str, Line]()
        for one in columns[side]:
            layer = layer_of(one)
            begins = layer != layer_of(before) or before.label.startswith("Add")  # a sub-layer, or what follows it
            if one.label != "Add" and one is not before:
                y += STEP + 6 * begins + 6 * (layer != layer_of(before))
            (left, right), middle = at.inner, y + TALL / 2
            if one.label == "Add":
                left, right = at.stream - TALL / 2, at.stream + TALL / 2
                end = min(left, right, key=lambda x: abs(x - at.edge))
                made.arrows.append([(at.edge, middle), (end, middle)])
            elif not layer or one.label == "Add & Norm":
                left, right = at.left, at.right
            elif begins:
                made.arrows.append([(at.stream, middle), (at.edge, middle)])
            made.boxes[one.name] = left, right - left, y
            layers.setdefault(layer, []).append((y, y + TALL))
            before = one
        made.streams.append([(at.stream, FOOT - 8), (at.stream, y)])
        for name, rows in layers.items():
            low, high = rows[0][0] - 4, rows[-1][1] + 4
            if name:
                made.frames.append((at.left - 4, at.right - at.left + 8, low, high - low, at.label, name))
    start, turn, end = SIDES["encoder"].right, 151, SIDES["decoder"].left
    low = made.boxes["encoder"][2] + TALL / 2
    for name, (_, _, bottom) in made.boxes.items():
        if name.endswith(".cross_attention"):
            high = bottom + TALL / 2
            made.memory.append([(start, low), (turn, low), (turn, high), (end, high)])
    return made._replace(height=max(bottom for _, _, bottom in made.boxes.values()) + TALL + 2)


def draw_boxes(axes: Axes, columns: Columns, opened: Box) -> None:
    """The model in its layout; the opened box has a thick frame."""
    made, inches = layout(columns), 0.01
    for left, wide, low, tall, x, name in made.frames:
        box(axes, inches * left, inches * low, inches * wide, inches * tall, "white", PALE, layer=1)
        write(axes, inches * x, inches * (low + tall / 2), name, 8, rotation=90, color=QUIET)
    for lines, color in ((made.arrows, QUIET), (made.memory, MEANING["encoder"].color)):
        for line in lines:
            arrow(axes, *((inches * x, inches * y) for x, y in line), color=color)
    for line in made.streams:
        (x, low), (_, high) = line
        axes.plot((inches * x, inches * x), (inches * low, inches * high), color=MEANING["norm"].color, lw=2, ls="-")
    for one in (one for column in columns.values() for one in column):
        left, wide, low = (inches * size for size in made.boxes[one.name])
        box(axes, left, low, wide, inches * TALL, MEANING[one.role].fill, INK if one is opened else None)
        text = "+" if one.label == "Add" else one.label
        write(axes, left + wide / 2, low + inches * TALL / 2 - 0.01, text, 8, zorder=4)
    for at in SIDES.values():
        write(axes, inches * (at.left + at.right) / 2, 0.08, f"↑ {at.reads}", 8, color=QUIET)
    axes.set(xlim=(0, inches * WIDTH), ylim=(0, inches * made.height))
    axes.axis("off")
