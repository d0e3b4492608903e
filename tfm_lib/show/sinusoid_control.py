"""The clocks of lesson 04 under control: width, position and offset of the sinusoids."""

import math
from typing import Any

from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke

from tfm_lib.positions import sinusoidal_table
from tfm_lib.show.control import Live, control, sentence
from tfm_lib.show.figure import COLORS, DIVERGING, PALE, QUIET, Figure, style

REACH, POSITIONS = 30, 101  # so far does an offset go to both sides; rows of the table
WIDTHS = (4, 8, 16, 32, 64, 128)
WIDTH, POSITION, OFFSET = 64, 40, 3  # to begin with


@style()
def sinusoid_control() -> Live:
    """Turn width, position and offset of the sinusoids: the table, its hands, and the dot product by offset.

    Source of the table: Vaswani et al. 2017, section 3.5.
    """
    places, table = (POSITION, POSITION + OFFSET), sinusoidal_table(POSITIONS, WIDTH).numpy()  # (P, D)
    products = table[POSITION - REACH : POSITION + REACH + 1] @ table[POSITION]  # (2 REACH + 1,)
    hands = [pair * (WIDTH // 2 - 1) // 3 for pair in range(4)]  # the fastest, the slowest, two between
    turned = ", ".join(f"{math.degrees(OFFSET * 10000 ** (-2 * hand / WIDTH)):.1f}° (hand {hand})" for hand in hands)
    product = f"{products[REACH + OFFSET]:.2f}"
    figure = Figure(sentence("sinusoids", WIDTH, *places, OFFSET, turned, product, WIDTH // 2), 3.0)
    parts = figure.add_gridspec(2, 4, width_ratios=(1.5, 0.6, 0.6, 1.5))
    heat, curve = figure.add_subplot(parts[:, 0]), figure.add_subplot(parts[:, 3])
    heat.imshow(table, DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    heat.set(xlabel="column", ylabel="position", title="table")
    lines: tuple[dict[str, Any], ...] = ({"color": COLORS[0], "ls": "-"}, {"color": COLORS[1], "ls": "--"})
    edge = [withStroke(linewidth=4, foreground="white")]  # apart from the stripes in gray, too
    for place, line in zip(places, lines, strict=True):
        heat.axhline(place, linewidth=2, path_effects=edge, **line)
    for number, hand in enumerate(hands):
        clock = figure.add_subplot(parts[number // 2, 1 + number % 2], aspect="equal", xticks=[], yticks=[])
        clock.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
        clock.set_title(f"hand {hand}", fontsize=8.5, weight="normal", pad=2)
        clock.spines[:].set_visible(False)
        clock.add_patch(Circle((0, 0), 1, fill=False, color=PALE))
        # The solid one is broad, so that it shows on both sides of a dashed one that lies on it.
        for place, line, width, mark, size in zip(places, lines, (4.5, 1.6), "os", (7, 3.5), strict=True):
            sine, cosine = table[place, 2 * hand : 2 * hand + 2].tolist()
            clock.plot([0, sine], [0, cosine], linewidth=width, marker=mark, ms=size, **line)
    curve.plot(range(-REACH, REACH + 1), products, "-", color=QUIET)
    curve.plot(0, products[REACH], "o", ms=9, color=COLORS[0])
    curve.plot(OFFSET, products[REACH + OFFSET], "s", ms=9, color=COLORS[1])
    ticks = {"yticks": (0, WIDTH / 4, WIDTH / 2), "yticklabels": ("0", "d/4", "d/2")}  # as for every width
    curve.set(xlabel="offset", title="dot product", xlim=(-REACH - 2, REACH + 2), ylim=(-1, 0.55 * WIDTH), **ticks)
    data = {"widths": WIDTHS, "positions": POSITIONS, "reach": REACH, "width": WIDTH}
    return control("sinusoidControl", data | {"position": POSITION, "offset": OFFSET}, figure)
