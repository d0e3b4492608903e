"""Decoding over the cache writes what plain decoding writes."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.references import randomize
from tests.model.test_model import random_ids, small
from tfm_lib.masks import padding_mask
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.decoding import (
    DecoderCache,
    KeyValueCache,
    Writer,
    after_the_end,
    evaluating,
    greedy,
    sample,
    token_log_probs,
)
from tfm_lib.writing.next_token import Rules, next_token_probs


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
    for seed in range(4):
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
        parts.append(model.decode(tgt[:, at : at + step], memory, src_mask=mask, cache=cache))
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
    assert rows == [5] and steps > 1


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


def test_each_module_has_its_own_mode_again():
    model = small(dropout=0.5).train()
    model.encoder.eval()
    modes = [module.training for module in model.modules()]
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == modes and 0 < sum(modes) < len(modes)


def test_true_hides_nothing_and_where_nothing_is_padded_no_mask_is_made():
    model, src, tgt = lively(0, norm_first=True), random_ids(3, 5, high=8), random_ids(3, 4, high=8)
    src[src == 0] = 1
    memory = model.encode(src)
    without = model.decode(tgt, memory, src_mask=None)
    assert torch.allclose(without, model.decode(tgt, memory, src_mask=padding_mask(src, 0)), atol=1e-12)
    assert Writer(model, src, 4).src_mask is None
    src[1, 3:] = 0
    assert torch.equal(Writer(model, src, 4).src_mask, padding_mask(src, 0))


@pytest.mark.slow
def test_a_compiled_decoder_writes_the_same():
    """Texts of several lengths and sizes of the batch, ragged ones too, over one compilation."""
    model = lively(0, norm_first=True)
    plain = copy.deepcopy(model)
    model.decoder.compile(dynamic=True)
    for rows, length in ((1, 7), (3, 5), (5, 9), (1, 4)):
        src = random_ids(rows, length, high=8)
        assert torch.equal(greedy(model, src, 12), greedy(plain, src, 12))
        assert torch.equal(beam_search(model, src, 8, num_beams=3), beam_search(plain, src, 8, num_beams=3))


def test_a_finished_row_holds_the_end_and_then_padding():
    rows = [
        row
        for seed in range(16)
        for row in greedy(lively(seed, norm_first=True), random_ids(5, 7, high=8), 12).tolist()
    ]
    ended = [row[row.index(2) + 1 :] for row in rows if 2 in row]
    assert len({len(rest) for rest in ended}) > 3  # rows that ended at several steps were seen
    assert all(set(rest) <= {0} for rest in ended)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.05), (torch.float16, 0.005)])
def test_half_precision_writes_the_same_where_the_best_two_differ(dtype, tolerance):
    """The logits are within the tolerance, in standard deviations, of float32's from the same weights."""
    checked = 0
    for seed in range(4):
        half = randomize(small(vocab_size=8), seed).to(dtype)
        single = copy.deepcopy(half).float()
        torch.manual_seed(seed)
        src = random_ids(9, 7, high=8)
        tokens = greedy(half, src, 8)
        before = torch.cat([torch.full_like(tokens[:, :1], 1), tokens[:, :-1]], dim=1)
        writer = Writer(half, src, 8)
        logits = torch.stack([writer.next_logits(token) for token in before.unbind(1)], dim=1).float()
        exact = single(src, before)
        bound = tolerance * exact.std()
        assert (logits - exact).abs().max() < bound
        best, second = exact.topk(2).values.unbind(-1)
        clear = (best - second > 2 * bound) & ~after_the_end(tokens, eos_id=2)
        assert torch.equal(tokens[clear], exact.argmax(-1)[clear])
        checked += clear.sum()
    assert checked > 20


def test_a_source_and_a_text_of_one_token():
    model, src = lively(0), torch.tensor([[3], [4]])
    assert torch.equal(greedy(model, src, 1), plain_greedy(model, src, 1))
    assert torch.equal(greedy(model, src, 9), plain_greedy(model, src, 9))


def test_one_layer_is_enough():
    model, src = lively(0, num_encoder_layers=1, num_decoder_layers=1), random_ids(3, 5, high=8)
    assert torch.equal(greedy(model, src, 9), plain_greedy(model, src, 9))


def test_rows_that_have_ended_leave_the_batch():
    model, rows = lively(3, norm_first=True), []
    model.decoder.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    tokens = greedy(model, random_ids(9, 7, high=8), 12)
    ends = after_the_end(tokens, eos_id=2)
    assert rows == (~ends).sum(0).tolist()
    assert len(set(rows)) > 2


def plain_rules(model, src, longest, min_new_tokens, n):
    """Greedy again for each row alone, with the rules in sets."""
    config, rows = model.config, []
    for row in src:
        row, tokens = row[row != config.pad_id][None], [config.start_id]
        while len(tokens) <= longest and config.eos_id not in tokens[1:]:
            logits = model(row, torch.tensor([tokens]))[0, -1].tolist()
            ngrams = {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}
            free = [t for t in range(config.vocab_size) if (*tokens[len(tokens) - n + 1 :], t) not in ngrams]
            if len(tokens) <= min_new_tokens:
                free = [token for token in free if token != config.eos_id]
            tokens.append(max(free, key=logits.__getitem__))
        rows.append(torch.tensor(tokens[1:]))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_id)


@pytest.mark.parametrize(("min_new_tokens", "n"), [(0, 2), (5, 3), (12, 2)])
def test_the_rules_hold_in_greedy(min_new_tokens, n):
    for seed in range(4):
        model, src = lively(seed, norm_first=True), random_ids(5, 7, high=8)
        tokens = greedy(model, src, 12, rules=Rules(min_new_tokens=min_new_tokens, no_repeat_ngram_size=n))
        assert torch.equal(tokens, plain_rules(model, src, 12, min_new_tokens, n))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_sampling_repeats_and_leaves_the_global_random_state_alone():
    model, src = lively(0), random_ids(5, 7, high=8)
    before = torch.get_rng_state()
    first = sample(model, src, 12, generator=seeded())
    assert torch.equal(first, sample(model, src, 12, generator=seeded()))
    assert not torch.equal(first, sample(model, src, 12, generator=seeded(1)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("settings", [dict(top_k=1), dict(top_p=1e-6), dict(temperature=1e-4)])
def test_sampling_from_the_best_alone_is_greedy(settings):
    model, src = lively(1, norm_first=True), random_ids(5, 7, high=8)
    rules = dict(rules=Rules(min_new_tokens=3, no_repeat_ngram_size=2))
    for chosen in ({}, rules):
        wanted = greedy(model, src, 12, **chosen)
        assert torch.equal(sample(model, src, 12, generator=seeded(), **settings, **chosen), wanted)


def test_tokens_are_drawn_as_often_as_is_likely():
    model, row = lively(2), random_ids(1, 5, high=8)
    src = row.expand(4000, -1)
    start = torch.full((1, 1), 1)
    for shape in ({}, dict(temperature=2.0), dict(top_k=3), dict(top_p=0.7)):
        probs = next_token_probs(model(row, start)[0, -1], **shape)
        drawn = sample(model, src, 1, generator=seeded(), **shape).flatten()
        share = drawn.bincount(minlength=8) / 4000
        assert (share - probs).abs().max() < 4 * 0.5 / 4000**0.5  # four standard errors at most
        assert (share[probs == 0] == 0).all()


def test_log_probabilities_are_those_of_each_step():
    model, src = lively(0, norm_first=True), random_ids(5, 7, high=8)
    src[0, 3:] = 0
    tokens = greedy(model, src, 12)
    out = token_log_probs(model.train(), src, tokens)
    assert model.training and (~(out < 0)).any()
    for row, written, log_probs in zip(src, tokens, out, strict=True):
        row, so_far = row[row != 0][None], [1]
        for token, log_prob in zip(written.tolist(), log_probs.tolist(), strict=True):
            if 2 in so_far:
                assert log_prob == 0
            else:
                expected = model.eval()(row, torch.tensor([so_far]))[0, -1].log_softmax(-1)[token].item()
                assert log_prob == pytest.approx(expected)
            so_far.append(token)


def test_a_text_may_be_as_long_as_the_model_has_positions():
    model, src = lively(2, max_length=7), random_ids(3, 7, high=8)
    assert torch.equal(greedy(model, src, 7), plain_greedy(model, src, 7))
    with pytest.raises(ValueError, match="1..7, the model's max_length, got 8"):
        greedy(model, src, 8)


@pytest.mark.parametrize("pad_id", [0, 5])
def test_a_mask_that_is_given_decides_alone_what_is_hidden(pad_id):
    """It hides tokens that are no padding, and shows padding; so a row reads as if it had only what is shown."""
    model, src = lively(0, norm_first=True, pad_id=pad_id), random_ids(3, 6, high=8)
    src[:, 1] = pad_id
    keep = torch.tensor([[1, 1, 1, 1, 0, 0]] * 3).bool()[:, None, None]
    shown = src[:, :4]
    nothing_hidden = torch.ones(3, 1, 1, 4, dtype=torch.bool)
    tokens = greedy(model, src, 8, keep)
    assert torch.equal(tokens, greedy(model, shown, 8, nothing_hidden))
    assert not torch.equal(tokens, greedy(model, src, 8))
    drawn = [sample(model, *call, generator=seeded()) for call in ((src, 8, keep), (shown, 8, nothing_hidden))]
    assert torch.equal(*drawn)
    log_probs = token_log_probs(model, src, tokens, keep)
    assert torch.allclose(log_probs, token_log_probs(model, shown, tokens, nothing_hidden))
    assert not torch.allclose(log_probs, token_log_probs(model, src, tokens))
    one_for_all = keep[:1]
    assert torch.equal(greedy(model, src, 8, one_for_all), tokens)


@pytest.mark.parametrize("rows", [[1, 0, 2], [2, 2, 0], [1]])
def test_a_writer_goes_on_with_any_of_its_rows_in_any_order(rows):
    """As beam search asks it to: the source, its mask and what is written move along, be the rows as many as before."""
    model, src, tgt = lively(0, norm_first=True), random_ids(3, 6, high=8), random_ids(3, 3, high=8)
    src[0, 2:] = src[1, 4:] = 0
    writer, rows = Writer(model, src, 5), torch.tensor(rows)
    for token in tgt[:, :2].unbind(1):
        writer.next_logits(token)
    writer.select(rows)
    assert torch.equal(writer.source, rows)
    assert torch.allclose(writer.next_logits(tgt[rows, 2]), model(src[rows], tgt[rows])[:, -1])


def test_a_cache_goes_on_with_any_of_its_rows():
    cache, key = KeyValueCache(capacity=3), torch.randn(2, 1, 2, 4)
    cache.update(key, -key)
    for rows in ([1, 0], [1, 1, 0], [2]):
        cache.select(torch.tensor(rows))
        key = key[rows]
        assert torch.equal(cache.key[:, :, :2], key) and torch.equal(cache.value[:, :, :2], -key)
    new = torch.randn(1, 1, 1, 4)
    assert torch.equal(cache.update(new, new)[0], torch.cat([key, new], dim=2))


def test_a_mask_that_does_not_fit_is_refused():
    for shape in ((2, 3), (2, 2, 1, 3), (2, 1, 2, 3), (3, 1, 1, 3), (2, 1, 1, 2)):
        with pytest.raises(ValueError, match="does not broadcast|mask of four axes"):
            greedy(small(), random_ids(2, 3), 4, src_mask=torch.ones(shape, dtype=torch.bool))
    for shape in ((2, 2, 1, 2), (2, 1, 2, 2)):  # one a head or a query, which the encoder could take
        with pytest.raises(ValueError, match="does not broadcast"):
            greedy(small(num_heads=2), random_ids(2, 2), 4, src_mask=torch.ones(shape, dtype=torch.bool))


def test_buffers_are_allocated_once():
    cache = KeyValueCache(capacity=4)
    key = torch.randn(1, 2, 1, 3)
    cache.update(key, key)
    where = cache.key.data_ptr()
    key, _ = cache.update(key, key)
    assert cache.key.data_ptr() == where and key.shape == (1, 2, 2, 3)


def test_a_full_cache_and_wrong_lengths_are_refused():
    cache, key = KeyValueCache(capacity=2), torch.randn(1, 2, 3, 4)
    with pytest.raises(ValueError, match="got 3; build it with capacity=3, or a DecoderCache with max_length=3"):
        cache.update(key, key)
    for wrong in (0, 513):
        with pytest.raises(ValueError, match=f"1..512.*got {wrong}"):
            greedy(small(), random_ids(1, 3), wrong)
