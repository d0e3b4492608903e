"""The control of lesson 04 computes and draws the sinusoids of tfm_lib."""

from typing import Any

import numpy as np
import pytest

from tests.pages.browser.reader import drag, near, on_both_screens, shown, slide, words
from tfm_lib.positions import sinusoidal_table
from tfm_lib.show.figure import DIVERGING
from tfm_lib.show.sinusoid_control import POSITIONS, REACH, WIDTHS, sinusoid_control

pytestmark = pytest.mark.browser
MINUS = "\N{MINUS SIGN}"
TURNS = ((0, 171.9), (2, 17.2), (4, 1.7), (7, 0.1))  # of hands, by 3 radians: hand 7 is 10000^(-7/8) times as fast as 0
# The tips of the hands that are seen, (sine, cosine) at the position and at the offset.
TIPS = """root => [...root.querySelectorAll("[aria-label='four hands as clocks'] > g")]
    .filter(clock => clock.checkVisibility({visibilityProperty: true}))
    .map(clock => [...clock.querySelectorAll("line")].map(e => [e.getAttribute("x2") / 34, e.getAttribute("y2") / -34]))
"""
PIXELS = """canvas => [canvas.width, canvas.height,
    [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]]"""
MIDDLES = """root => [...root.querySelectorAll("[transform] > circle + *, [transform] > rect")].filter(
        e => e.previousSibling?.matches?.("circle[style*=transparent]"))
    .map(e => e.getBoundingClientRect()).map(({x, y, width, height}) => [x + width / 2, y + height / 2])"""


def turn_to(root: Any, width: int, position: int, offset: int) -> dict:
    """Set all three sliders; what is shown then."""
    state = slide(root, WIDTHS.index(width), position - REACH, offset + REACH)
    assert (state["width"], state["position"], state["offset"]) == (width, position, offset)
    return state


@pytest.mark.parametrize("width", WIDTHS)
def test_hands_products_and_pixels_are_those_of_the_table(show, width):
    table, root = sinusoidal_table(POSITIONS, width), show(sinusoid_control())
    for position, offset in ((40, 3), (REACH, -REACH), (POSITIONS - 1 - REACH, REACH)):
        state = turn_to(root, width, position, offset)
        products = table[position - REACH : position + REACH + 1] @ table[position]
        near(state["products"], products, 3e-4)
        hands = state["hands"]
        assert hands == sorted({*hands}) and hands[0] == 0 and hands[-1] == width // 2 - 1
        rows = table[[position, position + offset]].unflatten(1, (-1, 2))[:, hands].transpose(0, 1)  # (hands, 2, 2)
        near(root.evaluate(TIPS), rows, 1e-5)
    across, down, pixels = root.locator("canvas").evaluate(PIXELS)
    colors = 255 * DIVERGING(table.numpy() / 2 + 0.5)
    assert (down, across) == table.shape and np.abs(np.reshape(pixels, colors.shape) - colors).max() <= 3


def test_it_says_how_far_the_hands_turn_and_that_the_position_does_not_matter(show):
    root, table = show(sinusoid_control()), sinusoidal_table(POSITIONS, 16)
    product = (table[40] @ table[43]).item()
    for position, offset, sign in ((40, 3, ""), (70, 3, ""), (30, -3, MINUS)):
        turn_to(root, 16, position, offset)
        degrees = ", ".join(f"{sign}{turn}° (hand {hand})" for hand, turn in TURNS)
        assert words(root).startswith(
            f"Width 16. From position {position} (solid) to position {position + offset} (dashed), an offset of "
            f"{sign}3, the hands turn by {degrees}. The dot product of the two rows is {product:.2f}; it cannot "
            "exceed 8."
        )
    turn_to(root, 4, 30, 0)
    assert "rows is 2.00; it cannot exceed 2. " in words(root)


@on_both_screens
def test_rows_and_offset_can_be_dragged_as_far_as_they_go(show, viewport):
    root = show(sinusoid_control(), viewport)

    def drag_handle(handle: int, right: float, down: float) -> tuple[int, int]:
        root.locator(".tfm-held").nth(handle).scroll_into_view_if_needed()
        x, y = root.evaluate(MIDDLES)[handle]
        drag(root, (x, y), (x + right, y + down))
        state = shown(root)
        position, offset = (root.locator("input[type=range]").nth(knob).input_value() for knob in (1, 2))
        assert (int(position) + REACH, int(offset) - REACH) == (state["position"], state["offset"])
        return state["position"], state["offset"]

    row = root.locator("canvas").bounding_box()["height"] / POSITIONS
    column = root.get_by_label("curve of the dot product").bounding_box()["width"] * 304 / 360 / (2 * REACH)
    drags = (0, 0, 10 * row), (1, 0, -20 * row), (2, 20 * column, 0), (0, 0, 500 * row), (1, 0, -500 * row)
    assert [drag_handle(*way) for way in drags] == [(50, 3), (50, -17), (50, 3), (70, 3), (70, -30)]
    assert drag_handle(2, 500 * column, 0) == (70, 30)
