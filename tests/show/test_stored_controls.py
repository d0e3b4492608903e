"""What a notebook stores of its controls, what they refuse, and when widgets load."""

import base64
import subprocess
import sys

import pytest

from tests.ask.test_quiz import bundles
from tests.nbclaims import outputs
from tests.pages.browser.test_curve import Run
from tests.show.controls import CONTROLS
from tfm_lib.show.live import ON_PAGES, VIEW, caption
from tfm_lib.show.live_curve import MOST_POINTS, live_curve
from tfm_lib.show.softmax_controls import query_among_keys, softmax_temperature


@pytest.mark.parametrize("make", CONTROLS.values(), ids=list(CONTROLS))
def test_the_stored_form_is_the_picture_with_its_words_and_no_view(make):
    live = make()
    [shown] = bundles(live)
    assert set(shown.data) == {"image/png", "text/plain", ON_PAGES, VIEW}
    stored, words = outputs.clean([shown])
    assert set(stored.data) == {"image/png", "text/plain", ON_PAGES}
    assert words.data == {"text/html": caption(repr(live))}
    assert stored.metadata["image/png"]["alt"] == stored.data["text/plain"] == repr(live)
    assert base64.b64decode(stored.data["image/png"]) == make().data["image/png"]  # the same in every run


def test_the_stored_form_of_a_curve_is_a_line_of_text():
    curve = live_curve(25)
    curve(Run(2.0, 1.0))
    [shown] = bundles(curve)
    [stored] = outputs.clean([shown])
    assert stored.data == {
        "text/plain": "The learning curve of 25 steps. Run this cell and the training to watch it grow."
    }


@pytest.mark.parametrize("steps", [1, MOST_POINTS, MOST_POINTS + 1, 3 * MOST_POINTS + 7])
def test_a_long_run_sends_few_points_and_always_first_lowest_and_last(steps):
    curve = live_curve(steps)
    losses = [1 / (1 + step) for step in range(steps)]
    losses[steps // 2] = -1.0
    curve(Run(*losses))
    data = curve.widget.data
    assert steps / 2 <= len(data["points"]) <= steps if steps <= MOST_POINTS else len(data["points"]) <= MOST_POINTS
    assert data["points"][-1] == (steps, pytest.approx(losses[-1], abs=1e-6))
    assert data["lowest"] == (steps // 2 + 1, -1.0) and data["first"][0] == 1
    assert data["steps"] == steps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: softmax_temperature(num_keys=1), r"num_keys must lie in 2\.\.16.*got 1"),
        (lambda: softmax_temperature(num_keys=17), "got 17"),
        (lambda: query_among_keys({"a": (1, 2)}), "keys must be 2 to 10 names"),
        (lambda: query_among_keys({str(n): (1, 2) for n in range(11)}), "keys must be 2 to 10 names"),
        (lambda: query_among_keys({"a": (1, 2), "b": (5, 0)}), "two numbers from -4 to 4"),
        (lambda: query_among_keys({"a": (1, 2), "b": (float("nan"), 0)}), "two numbers from -4 to 4"),
        (lambda: query_among_keys({"a": (1, 2, 3), "b": (1, 2, 3)}), "two numbers"),
        (lambda: live_curve(0), "steps must be at least 1, got 0; give those of the recipe"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_widgets_load_only_with_the_controls():
    code = "import sys, tfm_lib.show.live, tfm_lib.positions, tfm_lib.masks; "
    code += "before = {'matplotlib', 'anywidget'} & set(sys.modules); import tfm_lib.show.softmax_controls; "
    code += "print(before, sorted({'matplotlib', 'anywidget', 'matplotlib.pyplot'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "set() ['anywidget', 'matplotlib']\n", ran.stderr


def test_the_query_says_its_numbers_by_hand():
    # Dot products with (1, 1.5) over the root of 2: 1 and -1 in the ratio of e^(2 / 1.41) to 1.
    live = query_among_keys({"a": (1, 0), "b": (-1, 0)})
    assert repr(live) == (
        "The query (1.00, 1.50) gives the weight 0.80 to “a” and 0.20 to “b”; the least goes to “b”, 0.20. The mixture "
        "of all keys lies at (0.61, 0.00). The score is the dot product / √2."
    )
