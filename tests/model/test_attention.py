"""Attention by hand and by loop, against torch's kernel and nn.MultiheadAttention."""

import re
from math import sqrt

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import tfm_lib.attention
from tests.model.references import copy_attention, randomize
from tfm_lib.attention import MultiHeadAttention, attention, attention_weights
from tfm_lib.masks import causal_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.cache import KeyValueCache
from tfm_lib.writing.tracing import record_attention

NAN = float("nan")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 3), max_size=3), *[st.integers(1, most) for most in (5, 6, 8, 8)], st.integers(0, 9999))
def test_formula_kernel_and_torch_agree_on_random_shapes(leading, queries, keys, width, value_width, seed):
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*leading, *shape, generator=generator, dtype=torch.float64)

    query, key, value = random(queries, width), random(keys, width), random(keys, value_width)
    mask = torch.rand(leading[:1] + [1] * len(leading[1:]) + [queries, keys], generator=generator) < 0.7
    reference = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    for ours in (attention(query, key, value, mask), attention_weights(query, key, mask) @ value):
        assert torch.allclose(ours, reference, atol=1e-12)


@pytest.mark.parametrize("padded", [False, True])
def test_multi_head_attention_is_torchs_whose_masks_mean_the_opposite(padded):
    ours = randomize(MultiHeadAttention(12, 3)).double()
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.double)
    copy_attention(ours, theirs)
    query, key, value = (torch.randn(2, n, 12, dtype=torch.double) for n in (4, 6, 6))
    keep = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]).bool() if padded else None
    mask, hidden = (keep[:, None, None], ~keep) if padded else (None, None)
    with record_attention(ours) as maps:
        recorded = ours(query, key, value, mask)
    reference, weights = theirs(query, key, value, key_padding_mask=hidden, average_attn_weights=False)
    for found, wanted in ((ours(query, key, value, mask), reference), (recorded, reference), (maps[""], weights)):
        assert torch.allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("queries", [1, 3, 5])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_causal_is_the_explicit_mask(queries, padded, recorded, cached):
    layer, x, past = randomize(MultiHeadAttention(8, 2)), torch.randn(2, 5, 8, requires_grad=True), 5 - queries
    keep = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]).bool()[:, None, None] if padded else None
    future = causal_mask(queries, past)
    layer.on_weights = (lambda weights: None) if recorded else None

    def attended(mask, causal):
        new, cache = x, None
        if cached and past:
            cache, new = KeyValueCache(5), x[:, past:]
            layer._keys_and_values(x[:, :past], x[:, :past], cache)
        out = layer(x[:, past:], new, new, mask, cache, causal=causal)
        return out, *torch.autograd.grad(out.square().sum(), x)

    wanted = attended(future if keep is None else future & keep, False)
    for found, expected in zip(attended(keep, True), wanted, strict=True):
        assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(attended(keep, False)[0], wanted[0], atol=1e-5) == (queries == 1)


def test_the_kernel_hides_the_future_itself_where_no_other_mask_and_no_past_is_there(monkeypatch):
    given, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: (given.append(k), kernel(*a, **k))[1])
    query, key = torch.randn(2, 1, 4, 6, 8)
    attention(query, key, key, causal=True)
    attention(query, key, key, causal_mask(6))
    attention(query[:, :, 1:], key, key, causal=True)
    attention(query, key, key, torch.ones(1, 1, 1, 6, dtype=torch.bool), causal=True)
    assert [call.get("is_causal", False) for call in given] == [True, False, False, False]


@pytest.mark.slow
def test_a_model_that_reads_long_texts_is_compiled_and_exported_whole():
    """Nothing looks at the values of a mask."""
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(TransformerConfig(vocab_size=9, max_length=1100, **sizes)).eval()
    src, tgt = torch.randint(3, 9, (1, 5)), torch.randint(3, 9, (1, 1100))
    with torch.no_grad():
        wanted = model(src, tgt)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        assert torch.allclose(compiled(src, tgt), wanted, atol=1e-5)
        assert torch.allclose(torch.export.export(model, (src, tgt)).module()(src, tgt), wanted, atol=1e-5)


def test_the_smallest_layer_has_one_head_of_width_one():
    layer, x = MultiHeadAttention(1, 1), torch.randn(2, 3, 1)
    assert layer(x, x, x).shape == (2, 3, 1)
    for d_model, num_heads in ((0, 1), (1, 0), (3, 2)):
        with pytest.raises(ValueError, match="num_heads must divide d_model"):
            MultiHeadAttention(d_model, num_heads)


def test_dropout_acts_on_the_weights_in_training_only_and_recorded_ones_are_taken_before_it():
    layer, x = MultiHeadAttention(8, 2, dropout=0.5), torch.randn(2, 5, 8)
    assert not torch.allclose(layer(x, x, x), layer(x, x, x))
    with record_attention(layer) as maps:
        assert not torch.allclose(layer(x, x, x), layer(x, x, x))
    assert torch.allclose(maps[""].sum(-1), torch.ones(2, 2, 5))
    layer.eval()
    assert torch.equal(layer(x, x, x), layer(x, x, x))
    assert MultiHeadAttention(8, 2).dropout == 0.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: MultiHeadAttention(10, 3), ValueError, "d_model=10 and num_heads=3.*d_model=12 and num_heads=3"),
        (lambda: MultiHeadAttention(8, 0), ValueError, "num_heads=0"),
        *((lambda p=p: MultiHeadAttention(8, 2, p), ValueError, r"dropout .* in \[0, 1\)") for p in (-0.1, 1.0, NAN)),
        (lambda: attention_weights(torch.zeros(2, 3), torch.zeros(2, 4)), ValueError, "width 3.*width 4"),
        (lambda: attention(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(5, 3)), ValueError, "4 keys and 5 values"),
        (lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, mask=torch.zeros(3, 3)), TypeError, "boolean.*float32"),
        (
            lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, mask=torch.ones(1, 1, 3, 5, dtype=torch.bool)),
            ValueError,
            r"\(1, 1, 3, 5\).*\(1, 2, 3, 3\)",
        ),
    ],
)
def test_wrong_input_is_refused_with_both_numbers(call, error, words):
    with pytest.raises(error, match=words):
        call()


def emptied(dtype: torch.dtype) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Query, key, value, and a mask in which one query of each head and a whole example may attend to nothing."""
    torch.manual_seed(0)
    tensors = [torch.randn(2, 3, length, 8, dtype=dtype, requires_grad=True) for length in (5, 7, 7)]
    mask = torch.rand(2, 1, 5, 7) < 0.6
    mask[0, :, 2], mask[1] = False, False
    return tensors, mask


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(backend, dtype):
    """By each of torch's kernels for the CPU, which does not document it; for the formula, test_masks.py shows it."""
    tensors, mask = emptied(dtype)
    with sdpa_kernel(backend):
        out = attention(*tensors, mask)
        assert (out[0, :, 2] == 0).all() and (out[1] == 0).all() and (out[0, :, 0] != 0).any()
        with torch.no_grad():
            assert torch.equal(attention(*tensors, mask), out)
        out.float().square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in tensors)
    assert (tensors[0].grad[0, :, 2] == 0).all() and (tensors[1].grad[1] == 0).all()


def plain_kernel(query, key, value, attn_mask, dropout_p):
    """As kernels did before torch 2.5, and some still do: a row of -inf is NaN, and so is its gradient."""
    scores = query @ key.transpose(-2, -1) / sqrt(query.shape[-1])
    return scores.masked_fill(~attn_mask, -torch.inf).softmax(-1) @ value


def test_a_query_that_sees_nothing_gets_zeros_whatever_the_kernel_does(monkeypatch):
    tensors, mask = emptied(torch.float64)
    expected = attention(*tensors, mask)
    expected.square().sum().backward()
    gradients = [tensor.grad for tensor in tensors]
    monkeypatch.setattr(F, "scaled_dot_product_attention", plain_kernel)
    assert attention(*tensors, mask).isnan().any()  # what the guard is against
    tensors, mask = emptied(torch.float64)
    out = tfm_lib.attention._attention_by_any_kernel(*tensors, mask, 0.0)
    assert torch.allclose(out, expected, atol=1e-12) and (out[1] == 0).all()
    out.square().sum().backward()
    assert all(torch.allclose(t.grad, g, atol=1e-12) for t, g in zip(tensors, gradients, strict=True))
    for hidden in (torch.zeros(5, 1), torch.zeros(1, 1, 1, 7)):  # masks of two axes and of one query work, too
        assert (tfm_lib.attention._attention_by_any_kernel(*tensors, hidden.bool(), 0.0) == 0).all()


def test_other_devices_are_guarded():
    tensors, mask = emptied(torch.float32)
    with pytest.raises(ZeroDivisionError), pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfm_lib.attention._attention_by_any_kernel", lambda *arguments: 1 / 0)
        attention(*[tensor.to("meta") for tensor in tensors], mask.to("meta"))


@given(st.integers(-3, 40), st.integers(-2, 9))
def test_the_width_that_an_error_names_fits_everywhere(d_model, num_heads):
    try:
        MultiHeadAttention(d_model, num_heads)
    except ValueError as error:
        named = dict(re.findall(r"(d_model|num_heads)=(\d+)", str(error).partition("choose")[2]))
        sizes = {name: int(value) for name, value in named.items()}
        MultiHeadAttention(**sizes)
        TransformerConfig(vocab_size=5, **sizes)
    else:
        assert d_model > 0 and num_heads > 0 and d_model % num_heads == 0
