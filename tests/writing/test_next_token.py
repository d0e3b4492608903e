"""What may come next, and with what probability."""

import pytest
import torch

from tfm_lib.writing.next_token import Rules, log_softmax, next_token_probs

LOGITS = torch.tensor([0.5, 0.1, 0.3, 0.1]).log()
NGRAMS = [[1, 3, 4, 5, 3, 4], [1, 3, 4, 3, 5, 3], [1, 4, 4, 4, 4, 4]]


@pytest.mark.parametrize(
    ("written", "rules", "expected"),
    [
        ([[1, 5]], dict(min_new_tokens=2), [[2]]),
        ([[1, 5, 5]], dict(min_new_tokens=2), [[]]),
        ([[1, 3, 3], [2, 2, 2]], {}, [[], []]),
        (NGRAMS, dict(no_repeat_ngram_size=3), [[5], [], [4]]),
        (NGRAMS, dict(no_repeat_ngram_size=2), [[5], [4, 5], [4]]),
        (NGRAMS, dict(no_repeat_ngram_size=1), [[1, 3, 4, 5], [1, 3, 4, 5], [1, 4]]),
        (NGRAMS, dict(no_repeat_ngram_size=7), [[], [], []]),
        ([[4, 4, 4], [4, 4, 5]], dict(no_repeat_ngram_size=3), [[4], []]),  # the second would overlap the first
        ([[1, 3, 5, 1]], dict(no_repeat_ngram_size=2), [[3]]),  # the start token is part of an n-gram
        ([[1, 3, 1]], dict(no_repeat_ngram_size=2, min_new_tokens=9), [[2, 3]]),
        ([[0, 1, 2, 3, 4, 5]], dict(no_repeat_ngram_size=1, min_new_tokens=9), [[0, 1, 3, 4, 5]]),  # nothing else left
    ],
)
def test_what_may_not_follow_by_hand(written, rules, expected):
    logits = torch.randn(len(written), 6)
    original = logits.clone()
    out = Rules(**rules).forbid(logits, torch.tensor(written), 2)
    free = out > -torch.inf
    assert [(~row).nonzero().flatten().tolist() for row in free] == expected
    assert torch.equal(out[free], logits[free]) and torch.equal(logits, original)


def test_a_first_token_a_last_one_and_banned_ones():
    rules, logits = Rules(first=4, last=2, banned=[0, 3]), torch.tensor([[0.3, 0.1, 0.5, 0.9, 0.2]])
    no, one, two = -torch.inf, torch.tensor([[1]]), torch.tensor([[1, 4]])
    assert rules.forbid(logits, one, eos_id=2).tolist() == [[no, no, no, no, 0]]
    for written in (one, two):
        assert rules.forbid(logits, written, eos_id=2, full=True).tolist() == [[no, no, 0, no, no]]
    free = torch.tensor([[no, 0.1, 0.5, no, 0.2]])
    assert torch.equal(rules.forbid(logits, two, eos_id=2), free)
    shared = Rules(banned=[0, 3], renormalized=True).forbid(logits, two, eos_id=2)
    assert torch.allclose(shared, free.log_softmax(-1)), "what is left sums to 1"
    assert torch.equal(Rules(last=2).forbid(logits, one, eos_id=2), logits), "not before the end"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (dict(temperature=0.5), (25 / 36, 1 / 36, 9 / 36, 1 / 36)),
        (dict(top_k=2), (0.625, 0, 0.375, 0)),
        (dict(top_k=9), (0.5, 0.1, 0.3, 0.1)),
        (dict(top_k=1), (1, 0, 0, 0)),
        (dict(top_p=0.49), (1, 0, 0, 0)),
        (dict(top_p=0.51), (0.625, 0, 0.375, 0)),
        (dict(top_p=0.85), (5 / 9, 1 / 9, 3 / 9, 0)),  # of two equal ones, the first
        (dict(top_p=1e-9), (1, 0, 0, 0)),
        (dict(top_p=1), (0.5, 0.1, 0.3, 0.1)),
        (dict(top_k=2, top_p=0.6), (1, 0, 0, 0)),  # top-k comes first: 0.625 is enough
        (dict(temperature=0.5, top_p=0.6), (1, 0, 0, 0)),  # and temperature before both
    ],
)
def test_probabilities_by_hand(settings, expected):
    assert torch.allclose(next_token_probs(LOGITS, **settings), torch.tensor(expected).float(), atol=1e-6)
    assert next_token_probs(torch.zeros(2), top_p=0.5).tolist() == [1.0, 0.0], "what just reaches top_p is enough"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype):
    logits = torch.randn(3, 500).to(dtype)
    assert next_token_probs(logits, top_p=0.9).dtype == log_softmax(logits).dtype == torch.float32
    assert torch.allclose(next_token_probs(logits, top_p=0.9).sum(-1), torch.ones(3))
    assert log_softmax(logits.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: next_token_probs(LOGITS, temperature=0.0), "temperature must be positive, got 0.0"),
        (lambda: next_token_probs(LOGITS, top_k=0), "at least 1, got 0; use None"),
        (lambda: next_token_probs(LOGITS, top_p=0.0), r"in \(0, 1\], got 0.0"),
        (lambda: next_token_probs(LOGITS, top_p=1.1), "got 1.1"),
        (lambda: Rules(min_new_tokens=-1), "min_new_tokens can't be negative, got -1"),
        (lambda: Rules(no_repeat_ngram_size=2.5), "no_repeat_ngram_size must be a whole number, got 2.5; round it"),
        (lambda: Rules(first=2.5), "id 2.5 must be a whole number, got 2.5"),
        (lambda: Rules(last=-1), "id -1 can't be negative, got -1"),
        (lambda: Rules(banned=(3, -1)), "id -1 can't be negative, got -1"),
        (lambda: Rules(min_new_tokens=6).check(5), r"0..5, max_new_tokens, got 6"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rules_within_their_limits_are_taken_and_ids_beyond_the_vocabulary_are_not():
    Rules(min_new_tokens=5).check(5)
    start, full = torch.zeros(1, 1, dtype=torch.int64), {"eos_id": 2, "full": True}
    for place in ({"first": 7}, {"last": 7}, {"banned": [7]}):
        Rules(**place).forbid(torch.zeros(1, 8), start, **full)
        with pytest.raises(ValueError, match=r"ids of the vocabulary, 0\.\.6, got 7"):
            Rules(**place).forbid(torch.zeros(1, 7), start, **full)
