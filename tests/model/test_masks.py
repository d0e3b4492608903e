"""Masks by hand, and masked_softmax against the plain softmax of what may be seen."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_lib.masks import causal_mask, check_mask, explicit_mask, length_mask, masked_softmax, padding_mask


def test_masks_by_hand():
    mask = padding_mask(torch.tensor([[5, 3, 0], [0, 7, 2]]), pad_id=0)
    assert mask.tolist() == [[[[True, True, False]]], [[[False, True, True]]]]
    assert causal_mask(3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert torch.equal(causal_mask(2, past=3), causal_mask(5)[:, :, 3:])
    assert causal_mask(0, past=3).shape == (1, 1, 0, 3) and causal_mask(0).shape == (1, 1, 0, 0)
    assert length_mask(torch.tensor([2, 0]), 3).int().tolist() == [[[[1, 1, 0]]], [[[0, 0, 0]]]]
    assert length_mask(torch.tensor([[1, 3]]), 3).int().tolist() == [[[[1, 0, 0], [1, 1, 1]]]]
    assert length_mask(torch.ones(0, dtype=torch.long), 3).shape == (0, 1, 1, 3)


def test_an_explicit_mask_hides_the_future_of_the_last_queries_and_what_the_mask_hides():
    query, key = torch.zeros(2, 4, 3, 8), torch.zeros(2, 4, 5, 8)
    padding = padding_mask(torch.tensor([[5, 3, 7, 2, 0], [0, 7, 2, 4, 4]]), pad_id=0)
    assert explicit_mask(query, key, None, causal=False) is None
    assert explicit_mask(query, key, padding, causal=False) is padding
    assert torch.equal(explicit_mask(query, key, None, causal=True), causal_mask(3, past=2))
    assert torch.equal(explicit_mask(query, key, padding, causal=True), causal_mask(3, past=2) & padding)
    assert explicit_mask(query[:, :, :1], key, None, causal=True) is None  # the last position has no future
    assert torch.equal(explicit_mask(query[0, 0], key[0, 0], None, causal=True), causal_mask(3, past=2)[0, 0])


def test_masked_softmax_leaves_its_input_alone_and_hides_keys_from_any_scores():
    scores = torch.tensor([[0.0, 1.0, 5.0]])
    masked_softmax(scores, torch.tensor([[True, True, False]]))
    assert scores.tolist() == [[0.0, 1.0, 5.0]], "the input is left as it is"
    # A fill of -1e6 or -1e9 loses to scores of -2e9: all the weight goes to the hidden keys.
    scores = torch.tensor([[[-2e9, -2e9, 0.0, 0.0]]])
    assert masked_softmax(scores, torch.tensor([2])).tolist() == [[[0.5, 0.5, 0.0, 0.0]]]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(dtype):
    scores = torch.randn(2, 3, 4, dtype=dtype, requires_grad=True)
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[0, 1] = False
    with torch.autograd.detect_anomaly(check_nan=True):  # no NaN on the way either, for whoever hunts one
        weights = masked_softmax(scores, mask)
        (weights * torch.arange(4.0, dtype=dtype)).sum().backward()
    assert (weights[0, 1] == 0).all() and weights.isfinite().all()
    assert scores.grad.isfinite().all() and (scores.grad[0, 1] == 0).all()
    assert scores.grad[0, 0].abs().sum() > 0


@pytest.mark.parametrize(
    ("mask", "fixes"),
    [
        (torch.rand(2, 4, 4) < 0.9, ["mask[:, None]"]),  # of examples; read from the right it would be one of heads
        (torch.rand(4, 4) < 0.9, ["mask[:, None, None]", "mask[None, None]"]),
        (torch.rand(4) < 0.9, ["mask.view(1, 1, 1, -1)"]),
        (torch.tensor(True), ["mask.view(1, 1, 1, -1)"]),
    ],
)
def test_scores_with_heads_want_a_mask_of_four_axes_and_every_fix_works(mask, fixes):
    scores = torch.randn(4 if mask.dim() == 2 else 2, 2, 4, 4)
    with pytest.raises(ValueError, match="need a mask of four axes") as caught:
        masked_softmax(scores, mask)
    for fix in fixes:
        assert f"{fix} for" in str(caught.value) or str(caught.value).endswith(fix)
        assert masked_softmax(scores, eval(fix)).shape == scores.shape


def test_scores_may_have_any_rank_with_a_mask_of_as_many_or_fewer_axes_or_nothing():
    assert masked_softmax(torch.zeros(4)).tolist() == [0.25] * 4
    assert masked_softmax(torch.zeros(3), torch.tensor([True, False, True])).tolist() == [0.5, 0, 0.5]
    assert masked_softmax(torch.zeros(1, 1, 1, 2, 2)).tolist() == [[[[[0.5, 0.5]] * 2]]]
    scores = torch.randn(3, 4, 4)
    for mask in (causal_mask(4)[0, 0], torch.tensor(True)):
        assert torch.equal(masked_softmax(scores, mask), masked_softmax(scores, mask.expand(3, 4, 4)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(0, 10_000))
def test_masked_softmax_is_the_softmax_of_the_visible_keys_and_lengths_are_masks(batch, queries, keys, seed):
    torch.manual_seed(seed)
    scores = torch.randn(batch, 2, queries, keys, dtype=torch.float64) * 5
    for lengths in (torch.randint(0, keys + 1, (batch, queries)), torch.randint(0, keys + 1, (batch,))):
        weights = masked_softmax(scores, lengths)
        assert torch.equal(weights, masked_softmax(scores, length_mask(lengths, keys)))
        assert torch.equal(masked_softmax(scores[:, 0], lengths), weights[:, 0])
        for b, t in torch.cartesian_prod(torch.arange(batch), torch.arange(queries)).tolist():
            visible = int(lengths[b] if lengths.dim() == 1 else lengths[b, t])
            assert torch.allclose(weights[b, :, t, :visible], scores[b, :, t, :visible].softmax(-1))
            assert (weights[b, :, t, visible:] == 0).all()


SCORES = torch.zeros(2, 3, 4)


def ones(*shape, **options):
    return torch.ones(shape, dtype=torch.bool, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: masked_softmax(SCORES, [2, 2]), TypeError, "torch.tensor"),
        (lambda: masked_softmax(SCORES.long(), None), TypeError, "torch.int64.*float"),
        (lambda: masked_softmax(torch.tensor(1.0), None), ValueError, "at least one axis"),
        (lambda: masked_softmax(SCORES, torch.tensor([2.0, 2.0])), TypeError, "torch.float32.*long"),
        (lambda: masked_softmax(SCORES, torch.tensor([2, 2, 2])), ValueError, r"\(3,\).*\(2, 3, 4\).*\(2,\)"),
        (lambda: masked_softmax(SCORES, torch.ones(3, 2).long()), ValueError, r"\(3, 2\).*\(2, 3\)"),
        (lambda: masked_softmax(SCORES, torch.tensor([[[1]]])), ValueError, r"\(1, 1, 1\)"),
        (lambda: masked_softmax(SCORES, torch.tensor([2, 5])), ValueError, "0..4.*2 to 5"),
        (lambda: masked_softmax(SCORES, torch.tensor([-1, 2])), ValueError, "0..4.*-1 to 2"),
        (lambda: masked_softmax(SCORES[0], torch.tensor([2, 2, 2])), ValueError, r"\(3, 4\).*axes"),
        (lambda: masked_softmax(SCORES, ones(3, 3, 4)), ValueError, r"\(3, 3, 4\).*broadcast.*\(2, 3, 4\)"),
        (lambda: masked_softmax(SCORES, ones(1, 2, 3, 4)), ValueError, "broadcast"),
        (lambda: masked_softmax(SCORES, ones(3, 4, device="meta")), ValueError, r"meta.*cpu.*mask.to"),
        (lambda: check_mask(torch.zeros(3, 4), (2, 3, 4), torch.device("cpu")), TypeError, "boolean.*torch.float32"),
        (lambda: explicit_mask(torch.zeros(5, 8), torch.zeros(3, 8), None, True), ValueError, "5 queries and 3 keys"),
        (lambda: padding_mask(torch.tensor([1, 2, 0]), 0), ValueError, r"\(3,\).*ids\[None\]"),
        (lambda: padding_mask([[1, 2, 0]], 0), TypeError, "got list; use torch.tensor"),
        (lambda: causal_mask(-1), ValueError, "negative, got -1 and 0"),
        (lambda: causal_mask(2, past=-1), ValueError, "negative, got 2 and -1"),
        (lambda: length_mask([2, 3], 4), TypeError, r"got list; use torch\.tensor\(lengths\)"),
        (lambda: length_mask(torch.ones(2).cfloat(), 3), TypeError, "lengths must be integers, got torch.complex64"),
        (lambda: length_mask(torch.ones(2).bool(), 3), TypeError, "lengths must be integers, got torch.bool"),
    ],
)
def test_wrong_input_is_refused_with_what_came_and_what_was_wanted(call, error, words):
    with pytest.raises(error, match=words):
        call()
