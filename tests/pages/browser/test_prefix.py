"""The control of the prefix shows the mask of lesson 16, wherever it is turned."""

import pytest
import torch

from benchmarks.families_and_scale.families import prefix_mask
from tests.show.controls import opened
from tfm_lib.show.prefix_control import ARTICLE, WORDS, prefix_control

pytestmark = pytest.mark.browser
COUNT = len(WORDS)


def test_every_prefix_shows_its_mask(browser, tmp_path):
    with opened(browser, tmp_path, prefix_control()) as root:
        for prefix in range(COUNT + 1):
            root.locator("input[type=range]").fill(str(prefix))
            shown, words = root.evaluate("root => root.shown"), root.locator(".tfm-words").inner_text()
            assert torch.equal(torch.tensor(shown["mask"]), prefix_mask(COUNT, torch.tensor([prefix]))[0, 0])
            assert shown["asked"] == COUNT - max(1, prefix)
            assert ("GPT" in words, "BERT" in words) == (prefix == 0, prefix == COUNT)


def test_a_row_is_read_and_the_stops_stop(browser, tmp_path):
    with opened(browser, tmp_path, prefix_control()) as root:
        root.get_by_label("what “hit” sees").press("Enter")
        assert f"“hit”, at place 3, sees {ARTICLE} of {COUNT} tokens" in root.locator(".tfm-words").inner_text()
        root.get_by_label("GPT", exact=True).check(force=True)
        assert f"“hit”, at place 3, sees 3 of {COUNT} tokens" in root.locator(".tfm-words").inner_text()
