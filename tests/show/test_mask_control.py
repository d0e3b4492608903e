"""The mask builder before a browser has it: its words, its stored form, and what it refuses."""

import pytest
import torch

from tfm_lib.ask.quiz import filled_in
from tfm_lib.masks import causal_mask
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.mask_control import mask_control

SCORES = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))


def test_its_words_say_who_is_seen():
    # Both masks at first, so that the stored picture shows what they do: rows see 1, 2, 3, 3 keys.
    assert repr(mask_control(torch.zeros(4, 4), list("abcd"))) == (
        "Valid length 3, causal: 9 of 16 pairs may attend. The last query, “d”, sees 3 keys and looks at all of them "
        "alike, with weight 0.33 each. Hidden keys get exactly 0."
    )
    assert repr(mask_control(torch.zeros(2, 2), list("ab"))).endswith(
        "“b”, sees 1 key and looks at nothing but “a”, with weight 1.00. Hidden keys get exactly 0."
    )
    assert repr(mask_control(torch.zeros(1, 1), ["a"])).startswith("Causal: 1 of 1 pairs may attend.")
    two_alike = torch.tensor([0.0, 1, 0, 1, 9]).expand(5, 5)
    assert "looks most at “b” and “d”, with weight 0.37 each." in repr(mask_control(two_alike, list("abcde")))


def test_it_weighs_what_is_left_as_the_lesson_does():
    words = ["heavy", "rain", "flooded", "the", "old", "bridge"]
    weights = SCORES.masked_fill(~(causal_mask(6)[0, 0] & (torch.arange(6) < 5)), -torch.inf).softmax(-1)[-1]
    said = repr(mask_control(SCORES, words))
    assert f"looks most at “{words[int(weights.argmax())]}”, with weight {weights.max():.2f}" in said


def test_pages_get_the_scores_and_the_words_as_they_are_called():
    live = mask_control(SCORES, ["rain", "rain", "on", "the", "old", "bridge"])
    about = filled_in(live.data[ON_PAGES])
    assert about["name"] == "maskControl" and about["weights"] == [] and about["data"]["length"] == 5
    assert torch.allclose(torch.tensor(about["data"]["scores"]), SCORES, atol=1e-6)
    assert about["data"]["labels"][:2] == ["rain", "rain"] and about["data"]["names"][:2] == [
        "“rain” (0)",
        "“rain” (1)",
    ]
    assert live.data["image/png"] == mask_control(SCORES, about["data"]["labels"]).data["image/png"]


@pytest.mark.parametrize(
    ("shape", "words", "message"),
    [
        ((2, 3), ["a", "b"], r"scores have shape \(2, 3\); wanted \(T, S\) with T = S"),
        ((11, 11), list("abcdefghijk"), "at most 10 words"),
        ((1, 2, 2), ["a", "b"], r"scores has shape \(1, 2, 2\)"),
        ((2, 2), ["a"], "words has 1 labels; wanted a list of 2"),
    ],
)
def test_what_cannot_be_shown_is_refused(shape, words, message):
    with pytest.raises(ValueError, match=message):
        mask_control(torch.zeros(shape), words)


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="scores holds nan or infinite values"):
        mask_control(torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]), ["a", "b"])
