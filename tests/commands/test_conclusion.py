"""The last lines of a run on somebody's pairs say what it has shown, and what to do next."""

import pytest

from tfm_lib.commands.results import conclusion


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [
        ((0.05, 0.01, 0.09), "The model is better than what needs no model, by 5.0 ROUGE-L."),
        ((-0.43, -0.5, -0.3), "The model is worse than what needs no model, by 43.0 ROUGE-L: don't use it yet."),
        ((0.05, -0.01, 0.11), "The test pairs don't tell the model from what needs no model."),
    ],
)
def test_a_lead_is_one_where_its_interval_says_so(lead, verdict):
    assert conclusion(20_000, 1000, lead)[0] == verdict


def test_few_pairs_are_said_to_be_few():
    _, measure, help = conclusion(54, 6, (0.0, -0.1, 0.1))
    assert measure == "6 test pairs: each moves a score by up to 16.7, so that they say little."
    assert help == "54 pairs teach little language; --model facebook/bart-base has learned English."
    verdict, measure, _ = conclusion(1, 1, (0.1, 0.1, 0.1))
    assert verdict.startswith("The test pairs don't tell") and measure.startswith("1 test pair: each"), "once: better"
    _, measure, help = conclusion(10_000, 100, (0.0, -0.1, 0.1))
    assert measure == "100 test pairs: each moves a score by up to 1.0."
    assert help == "It learned from 10,000 pairs; more of them, or more time, may help."
    assert conclusion(54, 6, (0.0, -0.1, 0.1), published=True)[2].startswith("It learned from 54 pairs")
