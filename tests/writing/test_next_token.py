"""What may come next, and with what probability."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from tfm_lib.writing.next_token import Rules, log_softmax, next_token_probs

LOGITS = torch.tensor([0.5, 0.1, 0.3, 0.1]).log()


def forbidden(written, size=6, eos_id=2, **rules):
    out = Rules(**rules).forbid(torch.zeros(len(written), size), torch.tensor(written), eos_id)
    assert set(out.flatten().tolist()) <= {0.0, -torch.inf}
    return [[i for i, value in enumerate(row) if value == -torch.inf] for row in out.tolist()]


def test_the_end_waits_for_the_minimum():
    assert forbidden([[1]], min_new_tokens=2) == [[2]]
    assert forbidden([[1, 5]], min_new_tokens=2) == [[2]]
    assert forbidden([[1, 5, 5]], min_new_tokens=2) == [[]]


def test_without_a_rule_nothing_is_forbidden():
    assert forbidden([[1], [2]]) == [[], []]
    assert forbidden([[1, 3, 3]]) == [[]]


def test_no_ngram_comes_twice():
    written = [[1, 3, 4, 5, 3, 4], [1, 3, 4, 3, 5, 3], [1, 4, 4, 4, 4, 4]]
    assert forbidden(written, no_repeat_ngram_size=3) == [[5], [], [4]]
    assert forbidden(written, no_repeat_ngram_size=2) == [[5], [4, 5], [4]]
    assert forbidden(written, no_repeat_ngram_size=1) == [[1, 3, 4, 5], [1, 3, 4, 5], [1, 4]]
    assert forbidden(written, no_repeat_ngram_size=7) == [[], [], []]
    assert forbidden([[4, 4, 4], [4, 4, 5]], no_repeat_ngram_size=3) == [[4], []]  # the second would overlap the first


def test_the_start_token_is_part_of_an_ngram():
    assert forbidden([[1, 3, 5, 1]], no_repeat_ngram_size=2) == [[3]]


def test_both_rules_at_once_and_the_end_where_nothing_else_is_left():
    assert forbidden([[1, 3, 1]], no_repeat_ngram_size=2, min_new_tokens=9) == [[2, 3]]
    assert forbidden([[0, 1, 2]], size=3, no_repeat_ngram_size=1, min_new_tokens=9) == [[0, 1]]


def test_a_first_token_a_last_one_and_banned_ones():
    rules = Rules(first=4, last=2, banned=[0, 3])
    logits = torch.tensor([[0.3, 0.1, 0.5, 0.9, 0.2]])
    nothing = -torch.inf
    one, two = torch.tensor([[1]]), torch.tensor([[1, 4]])
    assert rules.forbid(logits, one, eos_id=2).tolist() == [[nothing, nothing, nothing, nothing, 0]]
    assert rules.forbid(logits, one, eos_id=2, full=True).tolist() == [[nothing, nothing, 0, nothing, nothing]]
    assert rules.forbid(logits, two, eos_id=2, full=True).tolist() == [[nothing, nothing, 0, nothing, nothing]]
    free = torch.tensor([[nothing, 0.1, 0.5, nothing, 0.2]])
    assert torch.equal(rules.forbid(logits, two, eos_id=2), free)
    again = Rules(banned=[0, 3], renormalized=True).forbid(logits, two, eos_id=2)
    torch.testing.assert_close(again, free.log_softmax(-1), msg=lambda why: f"what is left does not sum to 1: {why}")
    assert torch.equal(Rules(last=2).forbid(logits, one, eos_id=2), logits), "not before the end"


def test_logits_are_left_as_they_are():
    logits = torch.randn(2, 6)
    before = logits.clone()
    out = Rules(min_new_tokens=5, no_repeat_ngram_size=1).forbid(logits, torch.tensor([[1, 3], [1, 4]]), 2)
    assert torch.equal(logits, before)
    assert torch.equal(out[out > -torch.inf], before[out > -torch.inf])


def test_probabilities_by_hand():
    def close(probs, *expected):
        return torch.allclose(probs, torch.tensor(expected, dtype=torch.float32), atol=1e-6)

    assert close(next_token_probs(LOGITS), 0.5, 0.1, 0.3, 0.1)
    assert close(next_token_probs(LOGITS, temperature=0.5), 25 / 36, 1 / 36, 9 / 36, 1 / 36)
    assert close(next_token_probs(LOGITS, top_k=2), 0.625, 0, 0.375, 0)
    assert close(next_token_probs(LOGITS, top_k=9), 0.5, 0.1, 0.3, 0.1)
    assert close(next_token_probs(LOGITS, top_p=0.49), 1, 0, 0, 0)
    assert close(next_token_probs(LOGITS, top_p=0.51), 0.625, 0, 0.375, 0)
    assert close(next_token_probs(LOGITS, top_p=0.85), 5 / 9, 1 / 9, 3 / 9, 0)  # of two equal ones, the first
    assert close(next_token_probs(LOGITS, top_p=1e-9), 1, 0, 0, 0)
    assert close(next_token_probs(LOGITS, top_p=1), 0.5, 0.1, 0.3, 0.1)
    assert close(next_token_probs(LOGITS, top_k=1), 1, 0, 0, 0)
    assert close(next_token_probs(LOGITS, top_k=2, top_p=0.6), 1, 0, 0, 0)  # top-k comes first: 0.625 is enough
    assert close(next_token_probs(LOGITS, temperature=0.5, top_p=0.6), 1, 0, 0, 0)  # and temperature before both


def test_leading_axes_are_rows_each_on_its_own():
    logits, settings = torch.randn(2, 3, 5), dict(temperature=0.7, top_k=4, top_p=0.8)
    for together, probs, logs in zip(logits, next_token_probs(logits, **settings), log_softmax(logits), strict=True):
        for row, alone, log_alone in zip(together, probs, logs, strict=True):
            assert torch.allclose(next_token_probs(row, **settings), alone)
            assert torch.allclose(log_softmax(row), log_alone)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype):
    logits = torch.randn(3, 500).to(dtype)
    assert next_token_probs(logits, top_p=0.9).dtype == log_softmax(logits).dtype == torch.float32
    assert torch.allclose(next_token_probs(logits, top_p=0.9).sum(-1), torch.ones(3))
    assert log_softmax(logits.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(temperature=0.0), "temperature must be positive, got 0.0"),
        (dict(top_k=0), "at least 1, got 0; use None"),
        (dict(top_p=0.0), r"in \(0, 1\], got 0.0"),
        (dict(top_p=1.1), "got 1.1"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        next_token_probs(LOGITS, **wrong)


def test_the_tokens_that_just_reach_top_p_are_enough():
    assert next_token_probs(torch.zeros(2), top_p=0.5).tolist() == [1.0, 0.0]


def test_rules_are_given_by_name_and_stay_as_they_are():
    with pytest.raises(TypeError):
        Rules(5)
    with pytest.raises(FrozenInstanceError):
        Rules().min_new_tokens = 5


def test_rules_that_cannot_be_are_refused():
    Rules(min_new_tokens=5).check(5)
    with pytest.raises(ValueError, match=r"0..5, max_new_tokens, got 6"):
        Rules(min_new_tokens=6).check(5)
    for wrong in (dict(min_new_tokens=-1), dict(no_repeat_ngram_size=-2)):
        with pytest.raises(ValueError, match=rf"{next(iter(wrong))}.*got -"):
            Rules(**wrong)


@pytest.mark.parametrize("place", ["first", "last", "banned"])
def test_rules_name_ids_that_a_vocabulary_can_have(place):
    def rules(i):
        return Rules(**{place: (i,) if place == "banned" else i})

    for wrong, words in [(-1, "can't be negative, got -1"), (2.5, "must be a whole number, got 2.5")]:
        with pytest.raises(ValueError, match=words):
            rules(wrong)
    written = torch.zeros(1, 1, dtype=torch.int64)
    rules(7).forbid(torch.zeros(1, 8), written, eos_id=2, full=True)
    with pytest.raises(ValueError, match=r"ids of the vocabulary, 0\.\.7, got 8"):
        rules(8).forbid(torch.zeros(1, 8), written, eos_id=2, full=True)


@pytest.mark.parametrize("name", ["min_new_tokens", "no_repeat_ngram_size"])
def test_rules_count_whole_tokens(name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number, got 2.5; round it"):
        Rules(**{name: 2.5})
