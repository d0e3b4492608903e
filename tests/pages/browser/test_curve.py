"""The learning curve of lesson 07 grows while a real run sends its losses, as the widget of a notebook gets them."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.pages.browser.reader import shown, words
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
    const cell = document.createElement("section"), listeners = [];
    const model = {get: (name) => ({name: "liveCurve", data, weights: {}})[name], on: (_, act) => listeners.push(act)};
    tfm.inNotebook(tfm).render({model, el: cell});
    root.replaceWith(cell.firstChild);
    window.tell = (message) => {
        data = message;
        listeners.forEach((act) => act());
    };
}"""


class Run:
    """A state of a run with these losses."""

    def __init__(self, *losses: float) -> None:
        self.history = History()
        for loss in losses:
            self.history.add(loss, 0.0, 0)


def as_on_a_page(curve: LiveCurve) -> Live:
    """The curve as it is now, which no page shows, but a tab of a test."""
    about = {"name": "liveCurve", "data": json.dumps(curve.widget.data), "weights": []}
    return Live(curve.widget, {**curve.data, ON_PAGES: about})


@pytest.fixture
def watch(show):
    """Shows a curve that hears of each change that the kernel would send."""

    def watching(curve: LiveCurve) -> Any:
        root = show(as_on_a_page(curve))
        root.evaluate(WATCH, curve.widget.data)
        tell = "data => tell(data)"
        curve.widget.observe(lambda sent: root.page.evaluate(tell, json.loads(json.dumps(sent.new))), "data")
        return root

    return watching


def test_it_follows_a_real_run_in_words_and_points(watch):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(TransformerConfig(vocab_size=8, **sizes))
    examples = Examples([[4, 5], [6, 7]], [[4], [6]], 0, 0)
    curve, seen = live_curve(25), []
    root = watch(curve)

    def save(state) -> None:
        curve(state)
        seen.append((words(root), shown(root)))

    history = train(model, examples, Recipe(steps=25, warmup_steps=5), save=save, save_every=10, progress=False)
    sentence, state = seen.pop(0)
    assert sentence == "No step was taken yet: the curve grows while the training runs." and state["points"] == []
    for (sentence, state), step in zip(seen, (10, 20, 25), strict=True):
        losses = history.loss[:step]
        low = int(np.argmin(losses))
        assert sentence == (
            f"Step {step} of 25: the loss is {losses[-1]:.2f}. It was {losses[0]:.2f} in step 1, and its lowest so far "
            f"is {losses[low]:.2f}, in step {low + 1}."
        )
        steps, values = zip(*state["points"], strict=True)
        assert list(steps) == history.step[:step] and values == pytest.approx(losses, abs=1e-6)
        assert state["axis"][0] == 0 and max(losses) <= state["axis"][1] <= 1.5 * max(losses)


def test_its_axes_keep_still_while_the_loss_falls_and_make_room_where_it_rises(watch):
    curve, axes = live_curve(6), []
    root = watch(curve)
    for losses in ((6.9,), (6.9, 0.3), (6.9, 0.3, 31.0), (0.2,), (0.2, -1.5)):
        curve(Run(*losses))
        axes.append(shown(root)["axis"])
        points = [point.split() for point in root.locator("polyline").get_attribute("points").split(", ")]
        places = [float(x) for x, _ in points]
        assert places == pytest.approx([40 + 296 * step / 6 for step in range(1, len(losses) + 1)])
        assert all(12 <= float(y) <= 170 for _, y in points)
    assert axes == [[0, 8], [0, 8], [0, 40], [0, 40], [-10, 40]]
