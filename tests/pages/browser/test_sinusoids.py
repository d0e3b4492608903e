"""The control of lesson 04 computes and draws the sinusoids of tfm_lib."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.show.controls import LAPTOP, PHONE, opened
from tfm_lib.positions import sinusoidal_table
from tfm_lib.show.figure import DIVERGING
from tfm_lib.show.sinusoid_control import POSITIONS, REACH, WIDTHS, sinusoid_control

pytestmark = pytest.mark.browser
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
    places = WIDTHS.index(width), position - REACH, offset + REACH
    for knob, place in zip(root.locator("input[type=range]").all(), places, strict=True):
        knob.fill(str(place))
    shown = root.evaluate("root => root.shown")
    assert (shown["width"], shown["position"], shown["offset"]) == (width, position, offset)
    return shown


def words(root: Any) -> str:
    return root.locator(".tfm-words").inner_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_hands_products_and_pixels_are_those_of_the_table(browser, tmp_path, width):
    table = sinusoidal_table(POSITIONS, width)
    with opened(browser, tmp_path, sinusoid_control()) as root:
        for position, offset in ((40, 3), (REACH, -REACH), (POSITIONS - 1 - REACH, REACH)):
            shown = turn_to(root, width, position, offset)
            products = table[position - REACH : position + REACH + 1] @ table[position]
            assert torch.allclose(torch.tensor(shown["products"]), products, atol=1e-4)
            hands = shown["hands"]
            assert hands == sorted({*hands}) and hands[0] == 0 and hands[-1] == width // 2 - 1
            rows = table[[position, position + offset]].unflatten(1, (-1, 2))[:, hands].transpose(0, 1)  # (hands, 2, 2)
            assert torch.allclose(torch.tensor(root.evaluate(TIPS)), rows, atol=1e-5)
        across, down, pixels = root.locator("canvas").evaluate(PIXELS)
        assert (down, across) == table.shape
        wanted = 255 * DIVERGING(table.numpy() / 2 + 0.5)
        assert np.abs(np.reshape(pixels, wanted.shape) - wanted).max() <= 3


def test_it_says_how_far_the_hands_turn_and_that_the_position_does_not_matter(browser, tmp_path):
    with opened(browser, tmp_path, sinusoid_control()) as root:
        turn_to(root, 16, 40, 3)
        table = sinusoidal_table(POSITIONS, 16)
        product = (table[40] @ table[43]).item()
        assert words(root).startswith("Width 16. From position 40 (solid) to position 43 (dashed), an offset of 3, ")
        # 3 radians are 171.9 degrees; hand 7, the slowest, is 10000^(-7/8) times as fast.
        assert "the hands turn by 171.9° (hand 0), 17.2° (hand 2), 1.7° (hand 4), 0.1° (hand 7)." in words(root)
        assert f"The dot product of the two rows is {product:.2f}, of at most 8." in words(root)
        for position, offset in ((70, 3), (30, -3)):
            turn_to(root, 16, position, offset)
            assert f"The dot product of the two rows is {product:.2f}," in words(root)
        assert "an offset of \N{MINUS SIGN}3, the hands turn by \N{MINUS SIGN}171.9°" in words(root)
        turn_to(root, 4, 30, 3)
        assert "(hand 0), 1.7° (hand 1). " in words(root)
        turn_to(root, 4, 30, 0)
        assert "rows is 2.00, of at most 2. " in words(root)


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_rows_and_offset_can_be_dragged_as_far_as_they_go(browser, tmp_path, viewport):
    with opened(browser, tmp_path, sinusoid_control(), viewport) as root:
        mouse = root.page.mouse

        def drag(handle: int, right: float, down: float) -> tuple[int, int]:
            root.locator(".tfm-held").nth(handle).scroll_into_view_if_needed()
            x, y = root.evaluate(MIDDLES)[handle]
            mouse.move(x, y)
            mouse.down()
            mouse.move(x + right, y + down, steps=3)
            mouse.up()
            shown = root.evaluate("root => root.shown")
            position, offset = (root.locator("input[type=range]").nth(knob).input_value() for knob in (1, 2))
            assert (int(position) + REACH, int(offset) - REACH) == (shown["position"], shown["offset"])
            return shown["position"], shown["offset"]

        row = root.locator("canvas").bounding_box()["height"] / POSITIONS
        column = root.get_by_label("curve of the dot product").bounding_box()["width"] * 304 / 360 / (2 * REACH)
        assert drag(0, 0, 10 * row) == (50, 3)
        assert drag(1, 0, -20 * row) == (50, -17)
        assert drag(2, 20 * column, 0) == (50, 3)
        assert drag(0, 0, 500 * row) == (70, 3)
        assert drag(1, 0, -500 * row) == (70, -30)
        assert drag(2, 500 * column, 0) == (70, 30)


def test_no_axis_moves(browser, tmp_path):
    """The share of the product, not the product, is drawn: its axis holds for all widths."""
    texts = "root => [...root.querySelectorAll('text.tfm-quiet')].map(e => e.textContent).filter(e => !/hand/.test(e))"
    with opened(browser, tmp_path, sinusoid_control()) as root:
        seen = []
        for width in (16, 128):
            shown = turn_to(root, width, 40, 5)
            seen.append([text for text in root.evaluate(texts) if text != str(width - 1)])
            points = root.locator("polyline").get_attribute("points").split(", ")
            heights = [float(point.split()[1]) for point in points]
            share = (heights[0] - 144) / (14 - 144)
            assert share == pytest.approx(shown["products"][0] / (width / 2), abs=1e-9)
            assert math.isclose(heights[REACH], 14)
        assert seen[0] == seen[1]
