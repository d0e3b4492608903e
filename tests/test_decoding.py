"""Greedy decoding over the cache writes what plain decoding writes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.references import randomize
from tests.test_model import random_ids, small
from tfm_lib.decoding import DecoderCache, KeyValueCache, greedy
from tfm_lib.masks import padding_mask


def plain_greedy(model, src, max_new_tokens):
    """The whole model again for every token and every row alone: slow, and too simple to be wrong."""
    rows = []
    for row in src:
        row = row[row != model.config.pad_id][None]
        tgt = torch.tensor([[model.config.start_id]])
        for _ in range(max_new_tokens):
            tgt = torch.cat([tgt, model(row, tgt)[:, -1].argmax(-1, keepdim=True)], dim=1)
            if tgt[0, -1] == model.config.eos_id:
                break
        rows.append(tgt[0, 1:])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=model.config.pad_id)


def lively(seed, **changes):
    """A random model whose rows end at different steps: few tokens, and loud positions."""
    model = small(vocab_size=8, tied=False, positions="learned", embed_scale=1.0, **changes)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.normal_(std=0.7, generator=generator)
        model.decoder.embedding.positions.table.mul_(4)
    return model.double().eval()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("ids", [(0, 1, 2), (0, 0, 2), (1, 2, 2), (0, 3, 0)])
def test_greedy_is_plain_greedy_on_ragged_batches(norm_first, ids):
    pad_id, start_id, eos_id = ids
    for seed in range(8):
        model = lively(seed, norm_first=norm_first, pad_id=pad_id, start_id=start_id, eos_id=eos_id)
        torch.manual_seed(seed)
        src = random_ids(5, 7, high=8)
        for i, length in enumerate((7, 1, 4, 6, 2)):
            src[i, length:] = pad_id
        assert torch.equal(greedy(model, src, 12), plain_greedy(model, src, 12))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.data())
def test_the_cache_gives_the_logits_of_the_whole_however_the_target_is_cut(length, data):
    model = randomize(small()).double().eval()
    src, tgt = random_ids(2, 5), random_ids(2, length)
    src[0, 3:] = 0
    mask = padding_mask(src, 0)
    memory = model.encode(src)
    cache, parts, at = DecoderCache(2, length, 5), [], 0
    while at < length:
        step = data.draw(st.integers(1, length - at))
        parts.append(model.decode(tgt[:, at : at + step], memory, mask, cache=cache))
        at += step
    assert cache.length == length
    assert torch.allclose(torch.cat(parts, dim=1), model(src, tgt), atol=1e-12)


def test_the_encoder_runs_once_and_the_decoder_sees_one_token_a_step():
    model = small(eos_id=29).eval()
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append("encoder"))
    model.decoder.register_forward_pre_hook(lambda _, args: calls.append(tuple(args[0].shape)))
    steps = greedy(model, random_ids(2, 5), 6).shape[1]
    assert calls == ["encoder"] + [(2, 1)] * steps


def test_cross_attention_projects_the_memory_once():
    model, rows = small().eval(), []
    model.decoder.layers[0].cross_attention.key_proj.register_forward_hook(
        lambda m, args, out: rows.append(out.shape[1])
    )
    steps = greedy(model, random_ids(2, 5), 6).shape[1]
    assert rows == [5] + [0] * (steps - 1)


def test_decoding_stops_when_every_row_has_ended():
    model = small(logits_bias=True)
    with torch.no_grad():
        model.output.bias[2] = 100.0
    assert greedy(model, random_ids(3, 4), 10).tolist() == [[2]] * 3


def test_greedy_decodes_as_in_eval_and_keeps_the_mode():
    for seed in range(4):
        model = lively(seed, norm_first=True, dropout=0.5)
        src = random_ids(5, 7, high=8)
        quiet = greedy(model.eval(), src, 8)
        assert torch.equal(greedy(model.train(), src, 8), quiet)
        assert model.training
    with pytest.raises(ValueError):
        greedy(model, src + 100, 8)
    assert model.training


def test_a_finished_row_holds_the_end_and_then_padding():
    rows = [
        row
        for seed in range(16)
        for row in greedy(lively(seed, norm_first=True), random_ids(5, 7, high=8), 12).tolist()
    ]
    ended = [row[row.index(2) + 1 :] for row in rows if 2 in row]
    assert len({len(rest) for rest in ended}) > 3  # rows that ended at several steps were seen
    assert all(set(rest) <= {0} for rest in ended)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_greedy_runs_in_half_precision(dtype):
    tokens = greedy(small().to(dtype), random_ids(2, 5), 6)
    assert tokens.shape[0] == 2 and tokens.dtype == torch.int64


def test_buffers_are_allocated_once():
    cache = KeyValueCache(capacity=4)
    key = torch.randn(1, 2, 1, 3)
    cache.update(key, key)
    where = cache.key.data_ptr()
    key, _ = cache.update(key, key)
    assert cache.key.data_ptr() == where and key.shape == (1, 2, 2, 3)


def test_a_full_cache_and_wrong_lengths_are_refused():
    cache, key = KeyValueCache(capacity=2), torch.randn(1, 2, 3, 4)
    with pytest.raises(ValueError, match="room for 2 positions, got 3.*max_length=3"):
        cache.update(key, key)
    for wrong in (0, 513):
        with pytest.raises(ValueError, match=f"1..512.*got {wrong}"):
            greedy(small(), random_ids(1, 3), wrong)
