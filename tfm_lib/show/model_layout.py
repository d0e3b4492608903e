"""Where the parts of a model are drawn, in the control and in its picture: beside the residual stream of each side."""

from typing import NamedTuple

from matplotlib.axes import Axes

from tfm_lib.show.boxes import arrow, box, write
from tfm_lib.show.figure import INK, MEANING, PALE, QUIET
from tfm_lib.show.model_boxes import Box, Columns, layer_of

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
