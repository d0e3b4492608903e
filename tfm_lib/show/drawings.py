"""Drawings of the whole: the map of the course, the Transformer, and multi-head attention inside it."""

from collections.abc import Collection
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tfm_lib.lessons import FIRST_BEYOND, LESSONS, Lesson
from tfm_lib.show.boxes import arrow, box, canvas, write
from tfm_lib.show.figure import COLORS, INK, MEANING, QUIET, Figure, style
from tfm_lib.show.overview import PARTS, overview

# The colors of lessons: of the part that each is about.
ABOUT = {"blue": "attention", "orange": "positions", "yellow": "norm", "violet": "output", "gray": "aside"}


@style()
def course_map(current: int | None = None) -> Figure:
    """All lessons, an arrow from each to the lesson that builds on it, and the current one lit up.

    Raises ValueError for a lesson that is not on the map.
    """
    numbered = {int(lesson.number): lesson for lesson in LESSONS}
    if current is not None and current not in numbered:
        raise ValueError(f"current is {current!r}; wanted a lesson's number, {sorted(numbered)}, or None")
    first, beyond = ([x for x in LESSONS if (x.place[1] >= FIRST_BEYOND) is later] for later in (False, True))
    message = (
        f"The course: lessons {first[0].number} to {first[-1].number}, each arrow leads to a lesson that builds on the "
        "one before it. The full model (06) needs the layers (05) and the positions (04). Part two, beyond the paper: "
        f"{', '.join(lesson.number for lesson in beyond)}, each alone, after 08."
    )
    if current is not None:
        message += f" You are in lesson {current:02d}, {numbered[current].short}: thick frame."
    width, height, across, down = 2.06, 0.86, 2.5, 1.12  # of boxes that end on whole pixels
    last, heading = max(lesson.place[1] for lesson in LESSONS), 0.3  # row; inches between the parts
    figure, axes = canvas(message, 1.16 + last * down + heading)
    corners = {}
    for lesson in LESSONS:
        column, row = lesson.place
        corners[lesson.number] = 0.07 + column * across, 0.12 + (last - row) * down + heading * (row < FIRST_BEYOND)
    top = 0.12 + (last - FIRST_BEYOND) * down + height + 0.14
    axes.text(0.07, top, "Part two, beyond the paper: each lesson alone, after 08", va="bottom", color=QUIET)
    for lesson in LESSONS:
        to_x, to_y = corners[lesson.number]
        _lesson(axes, to_x, to_y, width, height, lesson, here=int(lesson.number) == current)
        for x, y in (corners[before] for before in lesson.builds_on):
            right, up = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
            start = (x + width / 2 * (1 + right), y + height / 2 * (1 + up))
            arrow(axes, start, (to_x + width / 2 * (1 - right), to_y + height / 2 * (1 - up)))
    return figure


def _lesson(axes: Axes, x: float, y: float, width: float, height: float, lesson: Lesson, here: bool) -> None:
    """The box of a lesson with its lower left corner at (x, y); where you are `here`, it says so on its frame."""
    look = MEANING[ABOUT[lesson.color]]
    box(axes, x, y, width, height, look.fill, look.color if here else None)
    text: dict[str, Any] = {"va": "top", "zorder": 4}
    axes.text(x + 0.1, y + height - 0.12, f"{lesson.number}  {lesson.short}", weight="bold", fontsize=9.5, **text)
    axes.text(x + 0.1, y + height - 0.38, lesson.question, color=QUIET, fontsize=9, linespacing=1.3, **text)
    if here:
        badge = {"boxstyle": "round,pad=0.25", "facecolor": QUIET, "edgecolor": "none"}
        text = {"ha": "right", "va": "center", "color": "white", "weight": "bold", "fontsize": 8, "zorder": 5}
        axes.text(x + width - 0.12, y, "you are here", bbox=badge, **text)


WIDE, TALL, LINE = 1.8, 0.3, 0.13  # inches: a part's size, and how much a second line of text adds
LEFT, RIGHT, MIDDLE = 1.75, 5.45, 3.6  # where the encoder, the decoder and what both share are centered
EMBED, PLUS, FLOOR = 0.4, 1.03, 1.75  # heights of the embedding, of the sum with the positions, of the first sub-layer
ROOM = 0.34  # inches between two sub-layers


def _part(axes: Axes, x: float, y: float, part: str, text: str, wide: float = WIDE) -> float:
    """A named part centered at x with its bottom at y; returns its top."""
    tall = TALL + LINE * text.count("\n")
    box(axes, x - wide / 2, y, wide, tall, MEANING[PARTS[part].role].fill)
    write(axes, x, y + tall / 2, text, 8.8, linespacing=1.2, zorder=4)
    return y + tall


def _layer(axes: Axes, x: float, side: int, sublayers: Collection[tuple[str, str]]) -> float:
    """One layer, post-norm: each sub-layer with a way around it, on the given side, into its Add & Norm."""
    y, below = FLOOR, PLUS + 0.1
    for part, text in sublayers:
        arrow(axes, (x, below), (x, y))
        top = _part(axes, x, y, part, text)
        arrow(axes, (x, top), (x, top + 0.12))
        edge, around, fork = x + side * WIDE / 2, x + side * (WIDE / 2 + 0.16), y - 0.17
        arrow(axes, (x, fork), (around, fork), (around, top + 0.27), (edge, top + 0.27))
        below = _part(axes, x, top + 0.12, "add_norm", "Add & Norm")
        y = below + ROOM
    return below


def _side(axes: Axes, x: float, side: int, name: str, sublayers: Collection[tuple[str, str]]) -> float:
    """Everything from the tokens to the top of one stack, with the residual ways on its outer side."""
    source = name == "encoder"
    ids = "source token ids (B, S)" if source else "target token ids so far (B, T)"
    write(axes, x, 0.1, ids, 8.8, color=QUIET)
    arrow(axes, (x, 0.2), (x, EMBED))
    arrow(axes, (x, _part(axes, x, EMBED, "embedding", "Embedding · √d_model")), (x, PLUS - 0.1))
    axes.plot(x, PLUS, "o", ms=14, mfc="white", mec=QUIET, zorder=2)
    write(axes, x, PLUS, "+", 12, zorder=4)
    arrow(axes, (MIDDLE + side * 0.45, PLUS), (x - side * 0.1, PLUS))
    top = _layer(axes, x, side, sublayers)
    for shift in (0.12, 0.06, 0.0):  # the other layers of the stack look out behind the first
        corner = (x - WIDE / 2 - 0.28 + shift, FLOOR - 0.36 + shift)
        box(axes, *corner, WIDE + 0.56, top + 0.12 - FLOOR + 0.36, "white", layer=1 - shift)
    write(axes, x + side * 1.42, (FLOOR + top) / 2, f"{name}: N layers", 9, rotation=90, weight="bold")
    return top + 0.12


@style()
def architecture(lit: Collection[str] = ()) -> Figure:
    """The whole encoder-decoder Transformer, post-norm; or where in it the parts are that `lit` names, small.

    Raises ValueError for a part that the drawing does not have. Source: Vaswani et al. 2017, figure 1.
    """
    if lit:
        return overview(lit)
    message = (
        "The encoder-decoder Transformer, read upward. Left, the encoder turns the source into memory. Right, the "
        "decoder reads the target so far and, by cross-attention, the memory, and predicts each next token."
    )
    figure, axes = canvas(message, 6.45)
    feed = ("feed_forward", "Feed-forward")
    masked = ("masked_self_attention", "Masked self-attention\nquery, key, value")
    cross = ("cross_attention", "Cross-attention\nquery ↑    key, value →")
    encoder = [("self_attention", "Self-attention\nquery, key, value"), feed]
    top = _side(axes, LEFT, -1, "encoder", encoder)
    _part(axes, MIDDLE, PLUS - TALL / 2, "positions", "Positions", 0.9)
    arrow(axes, (LEFT, top), (LEFT, top + 0.3))
    _part(axes, LEFT, top + 0.3, "memory", "memory (B, S, D)", 1.4)
    into = FLOOR + 2 * TALL + LINE + 0.12 + ROOM + (TALL + LINE) / 2  # the middle of the cross-attention
    arrow(axes, (LEFT + 0.7, top + 0.45), (MIDDLE, top + 0.45), (MIDDLE, into), (RIGHT - WIDE / 2, into))
    axes.text(MIDDLE - 0.25, top + 0.52, "to every decoder layer", ha="center", va="bottom", fontsize=8.8, color=QUIET)
    top = _side(axes, RIGHT, 1, "decoder", [masked, cross, feed])
    for way, part in ((0.27, "linear"), (0.14, "softmax")):
        arrow(axes, (RIGHT, top), (RIGHT, top + way))
        top = _part(axes, RIGHT, top + way, part, part.capitalize())
    arrow(axes, (RIGHT, top), (RIGHT, top + 0.18))
    write(axes, RIGHT, top + 0.28, "probabilities of each next token (B, T, V)", 8.8, color=QUIET)
    return figure


# The arrows in it: from, to, what it does, and how far that stands aside.
STEPS = [
    ((0.82, 1.25), (1.48, 2.0), "$W_q$", -0.1),
    ((0.82, 1.2), (1.48, 1.2), "$W_k$", 0.05),
    ((0.82, 1.15), (1.48, 0.4), "$W_v$", 0.15),
    ((2.3, 1.2), (2.68, 1.65), "split", -0.13),
    ((2.3, 1.2), (2.68, 0.75), "", 0),
    ((3.82, 1.7), (4.23, 1.7), "attend", 0),
    ((3.82, 0.7), (4.23, 0.7), "attend", 0),
    ((4.63, 1.65), (5.17, 1.3), "join", 0.09),
    ((4.63, 0.75), (5.17, 1.1), "", 0),
    ((5.83, 1.2), (6.38, 1.2), "$W_o$", 0),
]


@style()
def multi_head_attention() -> Figure:
    """Multi-head self-attention with two heads: tables of words, the color says of what, the shade of which head.

    Source: Vaswani et al. 2017, figure 2.
    """
    figure, axes = canvas(
        "Multi-head self-attention with two heads, from left to right; each row is a word. Three matrices compute "
        "queries, keys and values, and their columns are split between head 0 (pale) and head 1 (dark). Each head "
        "attends on its own. The results are concatenated, and the output projection mixes them.",
        2.8,
    )
    pale, dark, plain = [0.3] * 2, [0.75] * 2, [0.15] * 4  # a shade for each column: head 0, head 1, neither
    tables = [(0.25, 1.2, INK, plain, "words\n(B, T, D)"), (6.45, 1.2, INK, plain, "output\n(B, T, D)")]
    for row, (color, name) in enumerate(zip(COLORS, ("queries", "keys", "values"), strict=False)):
        tables.append((1.55, 2.05 - 0.85 * row, color, pale + dark, name))
        tables += [(2.75 + 0.36 * row, y, color, head, "") for y, head in ((1.7, pale), (0.7, dark))]
    answers = COLORS[2]  # mixtures of values
    tables += [(4.3, 1.7, answers, pale, "head 0\n(B, T, Dh)"), (4.3, 0.7, answers, dark, "head 1\n(B, T, Dh)")]
    tables.append((5.24, 1.2, answers, pale + dark, "(B, T, D)"))
    for left, middle, color, shades, name in tables:
        for word, (column, shade) in product(range(3), enumerate(shades)):
            corner = (left + 0.13 * column, middle - 0.26 + 0.52 / 3 * word)
            axes.add_patch(Rectangle(corner, 0.13, 0.52 / 3, facecolor=color, alpha=shade, edgecolor="white"))
        axes.text(left + 0.065 * len(shades), middle + 0.3, name, ha="center", va="bottom")
    axes.plot([2.12, 2.2, 2.2, 2.12], [2.3, 2.3, 0.1, 0.1], "-", color=QUIET, linewidth=1.1)  # all three are split
    axes.plot([2.2, 2.3], [1.2, 1.2], "-", color=QUIET, linewidth=1.1)
    for start, end, name, aside in STEPS:
        arrow(axes, start, end)
        between = ((start[0] + end[0]) / 2 + aside, (start[1] + end[1]) / 2 + 0.05)
        axes.text(*between, name, ha="center", va="bottom")
    return figure
