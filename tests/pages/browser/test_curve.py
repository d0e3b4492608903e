"""The learning curve of lesson 07 grows while a real run sends its losses, as the widget of a notebook gets them."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.show.controls import LAPTOP, PHONE, STATE, opened
from tfm_lib.data.batches import Examples
from tfm_lib.learning.checkpoints import History
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import train
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.show.live import ON_PAGES, Live
from tfm_lib.show.live_curve import LiveCurve, live_curve

pytestmark = pytest.mark.browser
# Put the control's widget in its place; `tell(data)` is a message of the kernel.
WATCH = """(root, data) => {
    const cell = document.createElement("section"), told = [];
    const model = {get: (name) => ({name: "liveCurve", data, weights: {}})[name], on: (_, act) => told.push(act)};
    tfm.inNotebook(tfm).render({model, el: cell});
    root.replaceWith(cell.firstChild);
    window.tell = (sent) => {
        data = sent;
        told.forEach((act) => act());
    };
}"""


def as_on_a_page(curve: LiveCurve) -> Live:
    """The curve as it stands, which no page shows, but a tab of a test."""
    about = {"name": "liveCurve", "data": json.dumps(curve.widget.data), "weights": []}
    return Live(curve.widget, {**curve.data, ON_PAGES: about})


def watch(root: Any, curve: LiveCurve) -> None:
    """Let the control hear of each change that the kernel would send."""
    root.evaluate(WATCH, curve.widget.data)
    curve.widget.observe(
        lambda sent: root.page.evaluate("data => tell(data)", json.loads(json.dumps(sent.new))), "data"
    )


class Run:
    """A state of a run with these losses."""

    def __init__(self, *losses: float) -> None:
        self.history = History()
        for loss in losses:
            self.history.add(loss, 0.0, 0)


def test_it_follows_a_real_run_in_words_and_points(browser, tmp_path):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(TransformerConfig(vocab_size=8, **sizes))
    examples = Examples([[4, 5], [6, 7]], [[4], [6]], 0, 0)
    curve, seen = live_curve(25), []
    with opened(browser, tmp_path, as_on_a_page(curve)) as root:
        watch(root, curve)

        def save(state) -> None:
            curve(state)
            seen.append((root.locator(".tfm-words").inner_text(), root.evaluate("root => root.shown")))

        history = train(model, examples, Recipe(steps=25, warmup_steps=5), save=save, save_every=10, progress=False)
    words, shown = seen.pop(0)
    assert words == "No step was taken yet: the curve grows while the training runs." and shown["points"] == []
    for (words, shown), step in zip(seen, (10, 20, 25), strict=True):
        losses = history.loss[:step]
        low = int(np.argmin(losses))
        assert words == (
            f"Step {step} of 25: the loss is {losses[-1]:.2f}. It was {losses[0]:.2f} in step 1, and its lowest so far "
            f"is {losses[low]:.2f}, in step {low + 1}."
        )
        steps, values = zip(*shown["points"], strict=True)
        assert list(steps) == history.step[:step] and values == pytest.approx(losses, abs=1e-6)
        assert shown["axis"][0] == 0 and max(losses) <= shown["axis"][1] <= 1.5 * max(losses)


def test_its_axes_keep_still_while_the_loss_falls_and_make_room_where_it_rises(browser, tmp_path):
    curve, axes = live_curve(6), []
    with opened(browser, tmp_path, as_on_a_page(curve)) as root:
        watch(root, curve)
        for losses in ((6.9,), (6.9, 0.3), (6.9, 0.3, 31.0), (0.2,), (0.2, -1.5)):
            curve(Run(*losses))
            axes.append(root.evaluate("root => root.shown.axis"))
            drawn = root.locator("polyline").get_attribute("points").split(", ")
            places = [float(point.split()[0]) for point in drawn]
            assert places == pytest.approx([40 + 296 * step / 6 for step in range(1, len(losses) + 1)])
            assert all(12 <= float(point.split()[1]) <= 170 for point in drawn)
    assert axes == [[0, 8], [0, 8], [0, 40], [0, 40], [-10, 40]]


@pytest.mark.parametrize(("viewport", "scheme"), [(LAPTOP, "light"), (PHONE, "dark")], ids=["laptop", "phone"])
def test_it_fits_its_screen_and_all_can_read_it(browser, tmp_path, viewport, scheme):
    from axe_playwright_python.sync_playwright import Axe

    curve = live_curve(20_000)
    curve(Run(*(7 / (1 + step / 500) + np.sin(step) / 9 for step in range(16_000))))
    with opened(browser, tmp_path, as_on_a_page(curve), viewport, scheme) as root:
        assert root.bounding_box()["height"] <= 400
        assert root.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        found = Axe().run(root.page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
        assert [f"{one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"]] == []


def test_a_view_that_opens_late_shows_the_run_as_it_stands(browser, tmp_path):
    curve = live_curve(3)
    curve(Run(2.0, 1.5))
    with opened(browser, tmp_path, as_on_a_page(curve)) as root:
        assert root.evaluate(STATE).count("Step 2 of 3: the loss is 1.50.") == 1
