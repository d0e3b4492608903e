"""Decoding over the cache writes what plain decoding writes."""

import copy

import pytest
import torch

from tests.model.test_model import random_ids, small
from tfm_lib.masks import padding_mask
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.cache import KeyValueCache
from tfm_lib.writing.decoding import Writer, after_the_end, evaluating, greedy, sample, token_log_probs
from tfm_lib.writing.next_token import Rules, next_token_probs


def plain_greedy(model, src, max_new_tokens):
    """The whole model again for every token and every row alone: too simple to be wrong."""
    config, rows = model.config, []
    for row in src:
        row, tokens = row[row != config.pad_id][None], [config.start_id]
        while len(tokens) <= max_new_tokens and config.eos_id not in tokens[1:]:
            tokens.append(model(row, torch.tensor([tokens]))[0, -1].argmax().item())
        rows.append(torch.tensor(tokens[1:]))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_id)


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


def with_output_bias(token, bias, **changes):
    """A model that always writes this token next, or never."""
    model = small(logits_bias=True, **changes).eval()
    with torch.no_grad():
        model.output.bias[token] = bias
    return model


def ragged(pad_id=0, seed=0, low=3, high=8):
    """Five sources of 7, 1, 4, 6 and 2 tokens."""
    torch.manual_seed(seed)
    src = random_ids(5, 7, low=low, high=high)
    for i, length in enumerate((7, 1, 4, 6, 2)):
        src[i, length:] = pad_id
    return src


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_first": True},
        {"start_id": 0},  # which is the padding, as Marian has it
        {"pad_id": 1, "start_id": 2},  # the start is the end, as in BART
        {"start_id": 3, "eos_id": 0},
        {"max_length": 7, "num_decoder_layers": 1},  # a text as long as the model has positions
    ],
)
def test_greedy_is_plain_greedy(changes):
    for seed in range(2):
        model = lively(seed, **changes)
        for src in (ragged(model.config.pad_id, seed), random_ids(2, 1, high=8)):
            for longest in (1, 7):
                assert torch.equal(greedy(model, src, longest), plain_greedy(model, src, longest))


def counted():
    """A model that never ends a text, and what it is asked: to encode, to project the source's keys, to decode."""
    model, calls = with_output_bias(29, -100.0, eos_id=29), []
    model.encoder.register_forward_hook(lambda *_: calls.append("encoder"))
    model.decoder.register_forward_pre_hook(lambda _, args: calls.append(tuple(args[0].shape)))
    key_proj = model.decoder.layers[0].cross_attention.key_proj
    key_proj.register_forward_hook(lambda m, args, out: calls.append(f"keys of {out.shape[:2].numel()}"))
    return model, calls


def test_the_source_is_encoded_and_projected_once_and_the_decoder_sees_one_token_a_step():
    model, calls = counted()
    greedy(model, random_ids(2, 5), 6)
    assert calls == ["encoder", (2, 1), "keys of 10"] + [(2, 1)] * 5


def test_rows_that_have_ended_hold_padding_and_leave_the_batch():
    model, rows = lively(3, norm_first=True), []
    model.decoder.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    tokens = greedy(model, random_ids(9, 7, high=8), 12)
    ended = after_the_end(tokens, eos_id=2)
    assert rows == (~ended).sum(0).tolist() and len(set(rows)) > 2
    assert (tokens[ended] == 0).all()
    assert greedy(with_output_bias(2, 100.0), random_ids(3, 4), 10).tolist() == [[2]] * 3, "stops when all have ended"


@pytest.mark.parametrize("write", [greedy, beam_search])
def test_each_module_has_its_own_mode_again_after_decoding_as_in_eval(write):
    model, src = lively(0, norm_first=True, dropout=0.5), random_ids(5, 7, high=8)
    quiet = write(model.eval(), src, 8)
    model.train().encoder.eval()
    modes = [module.training for module in model.modules()]
    assert torch.equal(write(model, src, 8), quiet)
    with pytest.raises(ValueError):
        write(model, src + 100, 8)
    assert [module.training for module in model.modules()] == modes and 0 < sum(modes) < len(modes)
    with evaluating(model):
        assert not any(module.training for module in model.modules())


def test_where_nothing_is_padded_no_mask_is_made():
    model, src = lively(0, norm_first=True), random_ids(3, 5, high=8)
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


def test_sampling_repeats_and_leaves_the_global_random_state_alone():
    model, src, state = lively(0), random_ids(5, 7, high=8), torch.get_rng_state()
    first, again, other = (sample(model, src, 12, generator=torch.Generator().manual_seed(n)) for n in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("settings", [dict(top_k=1), dict(top_p=1e-6), dict(temperature=1e-4)])
@pytest.mark.parametrize("rules", [Rules(), Rules(min_new_tokens=3, no_repeat_ngram_size=2)])
def test_sampling_from_the_best_alone_is_greedy(settings, rules):
    model, src = lively(1, norm_first=True), random_ids(5, 7, high=8)
    drawn = sample(model, src, 12, generator=torch.Generator(), rules=rules, **settings)
    assert torch.equal(drawn, greedy(model, src, 12, rules=rules))


@pytest.mark.parametrize("shape", [{}, dict(temperature=2.0), dict(top_k=3), dict(top_p=0.7)])
def test_tokens_are_drawn_as_often_as_is_likely(shape):
    model, row = lively(2), random_ids(1, 5, high=8)
    probs = next_token_probs(model(row, torch.tensor([[1]]))[0, -1], **shape)
    drawn = sample(model, row.expand(4000, -1), 1, generator=torch.Generator(), **shape).flatten()
    share = drawn.bincount(minlength=8) / 4000
    assert (share - probs).abs().max() < 4 * 0.5 / 4000**0.5  # four standard errors at most
    assert (share[probs == 0] == 0).all()


def test_log_probabilities_are_those_of_each_step():
    model, src = lively(0, norm_first=True), random_ids(5, 7, high=8)
    src[0, 3:] = 0
    tokens = greedy(model, src, 12).clone()
    ended = after_the_end(tokens, eos_id=2)
    read = torch.cat([torch.ones(5, 1).long(), tokens[:, :-1]], dim=1)  # what the decoder has read: the start first
    expected = model(src, read).log_softmax(-1).gather(2, tokens[:, :, None]).squeeze(2)
    log_probs = token_log_probs(model.train(), src, tokens)
    assert model.training and ended.any()
    assert torch.allclose(log_probs, expected.masked_fill(ended, 0.0))


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
    assert torch.equal(tokens, greedy(model, src, 8, keep[:1])), "one for all"
    assert not torch.equal(tokens, greedy(model, src, 8))
    calls = ((src, 8, keep), (shown, 8, nothing_hidden))
    assert torch.equal(*(sample(model, *call, generator=torch.Generator()) for call in calls))
    log_probs = token_log_probs(model, src, tokens, keep)
    assert torch.allclose(log_probs, token_log_probs(model, shown, tokens, nothing_hidden))
    assert not torch.allclose(log_probs, token_log_probs(model, src, tokens))


def test_a_mask_that_does_not_fit_is_refused():
    """The last two are of one head or one query each, which the encoder could take."""
    for shape in ((2, 2), (3, 1, 1, 2), (2, 1, 1, 3), (2, 2, 1, 2), (2, 1, 2, 2)):
        with pytest.raises(ValueError, match="does not broadcast|mask of four axes"):
            greedy(small(num_heads=2), random_ids(2, 2), 4, src_mask=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(TypeError, match="a mask must be a boolean tensor .* got str"):
        greedy(small(), random_ids(2, 2), 4, src_mask="causal")


def test_buffers_are_allocated_once_and_rows_are_selected_from_them():
    cache, key = KeyValueCache(capacity=3), torch.randn(2, 1, 1, 4)
    cache.update(key, -key)
    place = cache.key.data_ptr()
    key = torch.cat([key, key], dim=2)
    assert torch.equal(cache.update(key[:, :, 1:], -key[:, :, 1:])[0], key) and cache.key.data_ptr() == place
    for rows in ([1, 0], [1, 1, 0], [2]):
        cache.select(torch.tensor(rows))
        key = key[rows]
        assert torch.equal(cache.all()[0], key) and torch.equal(cache.all()[1], -key)
    new = torch.randn(1, 1, 1, 4)
    assert torch.equal(cache.update(new, new)[0], torch.cat([key, new], dim=2))
    with pytest.raises(ValueError, match="got 4; build it with capacity=4, or a DecoderCache with max_length=4"):
        cache.update(new, new)


@pytest.mark.parametrize("wrong", [0, 513])
def test_wrong_lengths_are_refused(wrong):
    with pytest.raises(ValueError, match=f"1..512, the model's max_length, got {wrong}"):
        greedy(small(), random_ids(1, 3), wrong)
