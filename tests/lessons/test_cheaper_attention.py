"""The attentions of lesson 15 where its own cells do not compare them with masks, the formula or transformers."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as formula
from torch.testing import assert_close
from transformers import ReformerConfig
from transformers.models.reformer.modeling_reformer import LSHSelfAttention

from benchmarks import lessons


@pytest.fixture(scope="module")
def lesson():
    """What the lesson's cells import and define."""
    return vars(lessons.definitions("15_cheaper_attention"))


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def test_the_online_softmax_survives_large_scores(lesson):
    inputs = 1000 * draw(3, 1, 1, 50, 4)
    assert_close(lesson["online_attention"](*inputs, 8), formula(*inputs))


@pytest.mark.parametrize("length", [1, 64, 100])
@pytest.mark.parametrize("window", [1, 3, 16, 200])
@pytest.mark.parametrize("causal", [False, True])
def test_a_window_in_blocks_is_the_window_by_mask(lesson, length, window, causal):
    inputs = draw(3, 2, length, 2, 8).transpose(2, 3)  # as heads are split
    mask = lesson["window_mask"](length, window, causal)
    ours = lesson["window_attention"](*inputs, window, causal)
    assert_close(ours, formula(*inputs, mask))


def test_bigbirds_rows_have_neighbors_ends_and_drawn_blocks(lesson):
    pattern = lesson["bigbird_pattern"](16, 2, torch.Generator().manual_seed(0))
    assert pattern.sum(1).tolist() == [16, 6, *[7] * 12, 6, 16]
    inputs = draw(3, 2, 2, 64, 8)
    mask = pattern.repeat_interleave(4, 0).repeat_interleave(4, 1)
    assert_close(lesson["block_sparse"](*inputs, pattern), formula(*inputs, mask))


def test_the_heads_of_a_sparse_transformer_look_nearby_and_in_strides(lesson):
    inputs, t = draw(3, 2, 4, 64, 8), torch.arange(64)
    back = t[:, None] - t
    ours = lesson["sparse_attention"](*inputs, 8)
    assert_close(ours[:, :2], formula(*inputs, (back >= 0) & (back <= 8))[:, :2])
    assert_close(ours[:, 2:], formula(*inputs, (back >= 0) & (back % 8 == 0))[:, 2:])


def test_a_compressed_memory_holds_means_of_what_left_the_memory(lesson):
    query, key, value = draw(3, 2, 2, 64, 8)

    def squeezed(x: Tensor) -> Tensor:
        return torch.cat([x[:, :, :8].unflatten(2, (2, 4)).mean(3), x[:, :, 8:24]], dim=2)

    ours = lesson["compressive_attention"](query, key, value, 8, 8, 4)
    mask = torch.ones(8, 18, dtype=torch.bool).tril(10)
    wanted = formula(query[:, :, 16:24], squeezed(key), squeezed(value), mask)
    assert_close(ours[:, :, 16:24], wanted)


def test_an_unshortened_linformer_is_full_attention(lesson):
    inputs, same = draw(3, 2, 2, 64, 8), torch.eye(64, dtype=torch.double)
    assert_close(lesson["linformer"](*inputs, same, same), formula(*inputs))


def test_many_features_come_near_and_survive_large_inputs(lesson):
    inputs, many = draw(3, 1, 1, 32, 4) / 2, draw(100_000, 4)
    wanted = formula(*inputs)
    assert (lesson["performer"](*inputs, many) - wanted).norm() < 0.05 * wanted.norm()
    assert lesson["performer"](*200 * inputs, many[:64]).isfinite().all()


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (4, -1)).transpose(1, 2)


@torch.no_grad()
@pytest.mark.parametrize("rounds", [1, 3])
def test_lsh_attention_is_transformers_reformer(lesson, rounds):
    config = ReformerConfig(
        hidden_size=32, num_attention_heads=4, attention_head_size=8, lsh_attn_chunk_length=8, num_hashes=rounds,
        num_buckets=4, is_decoder=False, hash_seed=7, lsh_attention_probs_dropout_prob=0.0, axial_pos_shape=(8, 8),
    )  # fmt: skip
    theirs, x = LSHSelfAttention(config).eval(), draw(1, 64, 32).float()
    drawn = torch.randn(4, 8, rounds, 2, generator=torch.Generator().manual_seed(7))  # as it draws them itself
    ours = lesson["lsh_attention"](heads(theirs.query_key(x)), heads(theirs.value(x)), drawn.permute(2, 0, 1, 3), 8)
    assert_close(ours.transpose(1, 2).flatten(2), theirs(x).hidden_states, atol=1e-4, rtol=1e-4)
