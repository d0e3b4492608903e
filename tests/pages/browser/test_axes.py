"""The numbers along the axes of charts: each is written where what is drawn has that value."""

from fractions import Fraction

import numpy as np
import pytest

from tests.pages.browser.test_curve import Run, as_on_a_page
from tests.show.controls import CONTROLS
from tfm_lib.show.live_curve import live_curve

pytestmark = pytest.mark.browser


def growing_curve():
    curve = live_curve(25)
    curve(Run(6.9, 3.5, 0.3))
    return as_on_a_page(curve)


BARS = """[...svg.querySelectorAll("rect")].map((bar, n) => [n + 1, VALUE, number(bar, "x") + number(bar, "width") / 2,
    number(bar, "y") + (VALUE < 0 ? number(bar, "height") : 0)])"""
# By control and chart: what is drawn, [value along x, value along y, x, y] each; no value where there is no such axis.
DRAWN = {
    ("softmax_temperature", "bars of the scores"): BARS.replace("VALUE", "Math.max(-6, Math.min(6, shown.scores[n]))"),
    ("softmax_temperature", "bars of the weights"): BARS.replace("VALUE", "shown.weights[n]"),
    ("query_among_keys", "the plane of query and keys"): (
        "[[...shown.query, ...place('[role=slider]')], [...shown.mixture, ...place('path[transform]')]]"
    ),
    ("sinusoid_control", "the table"): "[[null, shown.position, ...place('g')]]",
    ("sinusoid_control", "curve of the dot product"): (
        "line().map((at, n) => [n - 30, shown.products[n] / shown.width, ...at])"
    ),
    ("steps_control", "the learning curve"): (
        "[[shown.step, shown.loss, ...['cx', 'cy'].map((name) => number(svg.querySelector('circle'), name))]]"
    ),
    ("live_curve", "curve of the loss"): "line().map((at, n) => [...shown.points[n], ...at])",
    ("bits_control", "headlines that are right"): (
        "[[shown.bytes / 1000, 100 * shown.exact, ...place('circle:last-of-type')]]"
    ),
}
READ = """svg => {
    const {shown} = svg.closest(".tfm-control"), number = (e, name) => Number(e.getAttribute(name));
    const numbers = (text) => text.match(/-?[\\d.]+/g).map(Number);
    const place = (chosen) => numbers(svg.querySelector(chosen).getAttribute("transform"));
    const line = () => svg.querySelector("polyline").getAttribute("points").split(", ").map(numbers);
    return %s;
}"""
# The numbers under a chart, and left of it, where a line of letters is as high as 4 above its foot.
TICKS = """svg => {
    const texts = [...svg.querySelectorAll("text.tfm-quiet")].filter(
        (e) => e.getAttribute("visibility") !== "hidden" && /^\\u2212?(\\d[\\d.]*|d\\/\\d)$/.test(e.textContent));
    const ticks = (anchor, at) => texts.filter((e) => e.getAttribute("text-anchor") === anchor)
        .map((e) => [e.textContent, at(e)]);
    const [x, y] = ["x", "y"].map((name) => (e) => Number(e.getAttribute(name)));
    return [ticks("middle", x), ticks("end", (e) => (x(e) < 60 ? y(e) - 4 : NaN)).filter(([, at]) => at === at)];
}"""


@pytest.mark.parametrize(("control", "chart"), DRAWN)
def test_a_number_along_an_axis_is_where_what_is_drawn_has_that_value(show, control, chart):
    root, drawn = show((CONTROLS | {"live_curve": growing_curve})[control]()), []
    svg = root.get_by_label(chart)
    for key in ("Home", "End"):
        for knob in root.locator("input[type=range]").all():
            knob.press(key)
        drawn += svg.evaluate(READ % DRAWN[control, chart])
    for axis, ticks in enumerate(svg.evaluate(TICKS)):
        if drawn[0][axis] is not None:
            slope, start = np.polyfit([one[axis] for one in drawn], [one[axis + 2] for one in drawn], 1)
            values = [float(Fraction(text.replace("\N{MINUS SIGN}", "-").replace("d", "1"))) for text, _ in ticks]
            assert len(ticks) >= 2
            assert [start + slope * value for value in values] == pytest.approx([at for _, at in ticks], abs=0.5)
