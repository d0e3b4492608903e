"""The control of the prefix shows the mask of lesson 16, wherever it is turned."""

import pytest
import torch

from benchmarks.families import prefix_mask
from tests.pages.browser.reader import pick, slide, words
from tfm_lib.show.prefix_control import ARTICLE, WORDS, prefix_control

pytestmark = pytest.mark.browser
COUNT = len(WORDS)


def test_every_prefix_shows_its_mask_and_a_row_is_read(show):
    root = show(prefix_control())
    for prefix in range(COUNT + 1):
        state = slide(root, prefix)
        assert torch.equal(torch.tensor(state["mask"]), prefix_mask(COUNT, torch.tensor([prefix]))[0, 0])
        assert state["asked"] == COUNT - max(1, prefix)
        assert ("GPT" in words(root), "BERT" in words(root)) == (prefix == 0, prefix == COUNT)
    pick(root, "the article")
    root.get_by_label("what “hit” sees").press("Enter")
    assert f"“hit”, at place 3, sees {ARTICLE} of {COUNT} tokens" in words(root)
    pick(root, "GPT")
    assert f"“hit”, at place 3, sees 3 of {COUNT} tokens" in words(root)
