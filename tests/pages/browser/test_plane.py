"""The controls of lesson 01: a query among keys is weighed as in tfm_lib, and a softmax as in torch."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from tests.pages.browser.reader import drag, middle, near, on_both_screens, shown, slide, words
from tfm_lib.attention import attention_weights
from tfm_lib.show.softmax_controls import TWO_COLUMNS, query_among_keys, softmax_temperature

pytestmark = pytest.mark.browser
PRODUCT, DISTANCE = "dot product / √2", "minus distance² / 2"
CROWDS: dict[str, Mapping[str, tuple[float, float]]] = {
    "the lesson's": TWO_COLUMNS,
    "a heap": {f"word-{n}": (3 + n % 4 / 4, 3 + n % 3 / 3) for n in range(10)},
    "all the same": {f"twin {n}": (0, 0) for n in range(10)},
    "the corners": {"Constantinople": (4, 4), "desert": (-4, -4), "a long name": (-4, 4), "x": (4, -4)},
}
PRESS = """(knob, [key, times]) => {
    for (let n = 0; n < times; n += 1) knob.dispatchEvent(new KeyboardEvent("keydown", {key}));
}"""
# What the labels of keys cover: each other, a disc, the star or the diamond; or that they leave the drawing.
COVERED = """root => {
    const box = (e) => e.getBoundingClientRect(), all = (kind) => [...root.querySelectorAll(kind)];
    const labels = all(".tfm-over"), drawn = box(root.querySelector("svg")), found = [];
    const meet = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 0.5
        && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 0.5;
    const inDisc = (one, {x, y, width, height}) => Math.hypot(
        Math.max(one.left - x - width / 2, 0, x + width / 2 - one.right),
        Math.max(one.top - y - height / 2, 0, y + height / 2 - one.bottom)) < width / 2 - 1;
    labels.forEach((label, place) => {
        const own = box(label);
        const tell = (covers) => covers && found.push(`${label.textContent} covers ${covers}`);
        labels.slice(place + 1).forEach((other) => tell(meet(own, box(other)) && other.textContent));
        all("circle[cx]").forEach((disc, key) => tell(inDisc(own, box(disc)) && `the disc of key ${key}`));
        all("path").forEach((mark) => tell(meet(own, box(mark)) && "a mark"));
        tell((own.left < drawn.left || own.right > drawn.right || own.top < drawn.top) && "the edge");
    });
    return found;
}"""


def move_to(root: Any, x: float, y: float) -> dict:
    """Bring the query there by arrow keys, from wherever it is; what is shown then."""
    for axis, (less, more, to) in enumerate((("ArrowLeft", "ArrowRight", x), ("ArrowDown", "ArrowUp", y))):
        steps = round((to - shown(root)["query"][axis]) * 4)
        root.get_by_role("slider").evaluate(PRESS, [more if steps > 0 else less, abs(steps)])
    state = shown(root)
    assert state["query"] == [x, y]
    return state


def test_the_weights_are_those_of_attention_and_of_a_softmax_over_distances(show):
    points, root = torch.tensor(list(TWO_COLUMNS.values()), dtype=torch.float64), show(query_among_keys())
    for kind in (PRODUCT, DISTANCE):
        root.get_by_label(kind).check()
        for place in ((1.0, 1.5), (-4.0, 0.25), (4.0, 4.0)):
            state, query = move_to(root, *place), torch.tensor([place], dtype=torch.float64)
            distances = (-(torch.cdist(query, points)[0] ** 2) / 2).softmax(0)
            weights = attention_weights(query, points)[0] if kind == PRODUCT else distances
            near(state["weights"], weights, 1e-12)
            near(state["mixture"], weights @ points, 1e-12)
        assert words(root).endswith("minus half of the squared distance." if kind == DISTANCE else "product / √2.")


@on_both_screens
def test_the_query_follows_the_pointer_and_stays_in_the_plane(show, viewport):
    root = show(query_among_keys(), viewport)
    query, mouse = root.get_by_role("slider"), root.page.mouse
    # Keys at water -3 and 3 tell how many pixels a unit takes.
    (left, _), (right, _) = (middle(root.locator("circle[cx]").nth(key)) for key in (5, 3))
    unit = (right - left) / 6
    x, y = middle(query)
    drag(root, (x, y), (x - 3 * unit, y + 2 * unit))
    assert shown(root)["query"] == pytest.approx([-2, -0.5], abs=0.06)
    assert query.evaluate("e => document.activeElement === e")
    drag(root, (x - 3 * unit, y + 2 * unit), (x + 40 * unit, y + 40 * unit))
    mouse.move(x, y)
    for key in ("ArrowRight", "ArrowDown"):
        assert shown(root)["query"] == [4, -4], "it was let go in the corner"
        query.press(key)
    assert query.get_attribute("aria-valuetext") == "water 4.00, building \N{MINUS SIGN}4.00"


@pytest.mark.parametrize("crowd", CROWDS)
def test_no_label_covers_another_or_a_disc_or_a_mark(show, crowd):
    root = show(query_among_keys(CROWDS[crowd]))
    for kind in (DISTANCE, PRODUCT):
        root.get_by_label(kind).check()
        for place in ((1, 1.5), (3.5, 2.5), (2, 0), (0, 0), (-3, 0.5), (-4, -4), (3, 4)):
            move_to(root, *place)
            assert root.evaluate(COVERED) == [], f"query at {place}"


def test_temperature_and_width_of_the_softmax(show):
    vectors, root = torch.randn(1024, 9, generator=torch.Generator().manual_seed(0)).T, show(softmax_temperature())
    for step, place, divide in ((0, 0, True), (40, 5, True), (20, 5, False), (3, 2, False)):
        root.locator("input[type=checkbox]").set_checked(divide)
        d, state = (1, 4, 16, 64, 256, 1024)[place], slide(root, step, place)
        scores = vectors[1:, :d] @ vectors[0, :d] / 10 ** ((step - 20) / 20) / (math.sqrt(d) if divide else 1)
        assert torch.allclose(torch.tensor(state["scores"]), scores, rtol=1e-3, atol=1e-4)
        near(state["weights"], scores.softmax(0), 1e-3)
