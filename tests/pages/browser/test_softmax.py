"""The controls of lesson 01 compute what tfm_lib computes."""

import math

import pytest
import torch

from tests.show.controls import opened
from tfm_lib.show.softmax_controls import softmax_temperature

pytestmark = pytest.mark.browser


def test_temperature_and_width_of_the_softmax(browser, tmp_path):
    vectors = torch.randn(1024, 9, generator=torch.Generator().manual_seed(0)).T
    with opened(browser, tmp_path, softmax_temperature()) as root:
        temperature, width = root.locator("input[type=range]").all()
        for step, place, divide in ((0, 0, True), (40, 5, True), (20, 5, False), (3, 2, False)):
            temperature.fill(str(step))
            width.fill(str(place))
            root.locator("input[type=checkbox]").set_checked(divide)
            d, shown = (1, 4, 16, 64, 256, 1024)[place], root.evaluate("root => root.shown")
            scores = vectors[1:, :d] @ vectors[0, :d] / 10 ** ((step - 20) / 20) / (math.sqrt(d) if divide else 1)
            assert torch.allclose(torch.tensor(shown["scores"]), scores, rtol=1e-3, atol=1e-4)
            assert torch.allclose(torch.tensor(shown["weights"]), scores.softmax(0), atol=1e-3)
