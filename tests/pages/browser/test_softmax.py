"""The softmax of lesson 01 computes what torch computes, at each temperature and width."""

import math

import pytest
import torch

from tests.pages.browser.reader import slide
from tfm_lib.show.softmax_controls import softmax_temperature


@pytest.mark.browser
def test_temperature_and_width_of_the_softmax(show):
    vectors, root = torch.randn(1024, 9, generator=torch.Generator().manual_seed(0)).T, show(softmax_temperature())
    for step, place, divide in ((0, 0, True), (40, 5, True), (20, 5, False), (3, 2, False)):
        root.locator("input[type=checkbox]").set_checked(divide)
        d, state = (1, 4, 16, 64, 256, 1024)[place], slide(root, step, place)
        scores = vectors[1:, :d] @ vectors[0, :d] / 10 ** ((step - 20) / 20) / (math.sqrt(d) if divide else 1)
        assert torch.allclose(torch.tensor(state["scores"]), scores, rtol=1e-3, atol=1e-4)
        assert torch.allclose(torch.tensor(state["weights"]), scores.softmax(0), atol=1e-3)
