"""The clocks of lesson 04 under control: width, position and offset of the sinusoids."""

import math
from functools import cache
from typing import Any

import numpy as np
from ipywidgets import IntSlider, SelectionSlider
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from tfm_lib.positions import sinusoidal_table
from tfm_lib.show.figure import COLORS, DIVERGING, PALE, QUIET, Figure, style
from tfm_lib.show.live import Live
from tfm_lib.show.screen import KNOB, Layout, control

REACH, POSITIONS = 30, 101  # so far does an offset go to both sides; rows of the table


@style()
def sinusoid_control() -> Live:
    """Turn width, position and offset of the sinusoids: the table, its hands, and the dot product by offset.

    Source of the table: Vaswani et al. 2017, section 3.5.
    """
    width = SelectionSlider(options=(4, 8, 16, 32, 64, 128), value=64, description="width d", **KNOB)
    position = IntSlider(40, min=REACH, max=POSITIONS - 1 - REACH, description="position", **KNOB)
    offset = IntSlider(3, min=-REACH, max=REACH, description="offset", **KNOB)
    table = cache(lambda d: sinusoidal_table(POSITIONS, d).numpy())

    def look() -> tuple[tuple, str]:
        d, place, further = width.value, position.value, offset.value
        rows = table(d)  # (P, D)
        products = rows[place - REACH : place + REACH + 1] @ rows[place]  # (2 REACH + 1,)
        hands = sorted({pair * (d // 2 - 1) // 3 for pair in range(4)})  # the fastest, the slowest, two between
        turns = [math.degrees(further * 10000 ** (-2 * hand / d)) for hand in hands]
        turned = ", ".join(f"{turn:.1f}° (hand {hand})" for turn, hand in zip(turns, hands, strict=True))
        message = (
            f"Width {d}. From position {place} (solid) to position {place + further} (dashed), an offset of {further}, "
            f"the hands turn by {turned}. The dot product of the two rows is {products[REACH + further]:.2f}, of at "
            f"most {d // 2}. Both depend on the offset alone, and the dot product not even on its sign."
        )
        return (rows, hands, place, further, products), message

    def lay_out(figure: Figure) -> Layout:
        parts = figure.add_gridspec(2, 4, width_ratios=(1.5, 0.6, 0.6, 1.5))
        heat, clocks = figure.add_subplot(parts[:, 0]), [figure.add_subplot(parts[i // 2, 1 + i % 2]) for i in range(4)]
        curve = figure.add_subplot(parts[:, 3])
        image = heat.imshow(table(4), DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
        heat.set(xlabel="column", ylabel="position", title="table")
        kinds: list[dict[str, Any]] = [{"color": COLORS[0], "ls": "-"}, {"color": COLORS[1], "ls": "--"}]
        edge = [withStroke(linewidth=4, foreground="white")]  # apart from the stripes in gray, too
        marks = [heat.axhline(0, linewidth=2, path_effects=edge, **kind) for kind in kinds]
        circle = np.exp(2j * np.pi * np.arange(61) / 60)
        faces: list[tuple[Text, Line2D]] = []
        tips = []
        for axes in clocks:
            axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])
            axes.set_title("hand", fontsize=8.5, weight="normal", pad=2)
            axes.spines[:].set_visible(False)
            faces.append((axes.title, axes.plot(circle.real, circle.imag, "-", color=PALE, linewidth=1)[0]))
            # The solid one is broad, so that it shows on both sides of a dashed one that lies on it.
            widths = zip(kinds, (4.5, 1.6), "os", (7, 3.5), strict=True)
            tips.append([axes.plot([], [], linewidth=w, marker=m, ms=size, **kind)[0] for kind, w, m, size in widths])
        (line,) = curve.plot(range(-REACH, REACH + 1), np.zeros(2 * REACH + 1), "-", color=QUIET)
        here = [curve.plot([], [], sign, ms=9, color=COLORS[i])[0] for i, sign in enumerate("os")]
        curve.set(xlabel="offset", title="dot product", xlim=(-REACH - 2, REACH + 2))  # room for the marks

        def update(rows: np.ndarray, hands: list[int], place: int, further: int, products: np.ndarray) -> None:
            d = rows.shape[1]
            if image.get_extent()[1] != d - 0.5:
                image.set(data=rows, extent=(-0.5, d - 0.5, POSITIONS - 0.5, -0.5))
                for number, (title, face) in enumerate(faces):
                    title.set_text(f"hand {hands[number]}" if number < len(hands) else "")
                    face.set_visible(number < len(hands))
                curve.set_ylim(min(products.min().item(), 0) - 0.05 * d, 0.55 * d)
            for hand, lines in zip(hands, tips, strict=False):
                for tip, row in zip(lines, (place, place + further), strict=True):
                    sine, cosine = rows[row, 2 * hand : 2 * hand + 2].tolist()
                    tip.set_data([0, sine], [0, cosine])
            for tip in (tip for lines in tips[len(hands) :] for tip in lines):
                tip.set_data([], [])
            for mark, row in zip(marks, (place, place + further), strict=True):
                mark.set_ydata([row, row])
            line.set_ydata(products)
            here[0].set_data([0], [products[REACH]])
            here[1].set_data([further], [products[REACH + further]])

        seldom = [heat.xaxis, image, curve.yaxis, *(part for face in faces for part in face)]
        return Layout([*marks, *(tip for clock in tips for tip in clock), line, *here], update, seldom)

    return control(3.0, look, lay_out, width, position, offset)
