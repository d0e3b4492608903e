"""Beam search over the cache finds what the plain one finds: one source at a time, the whole model for each token."""

import pytest
import torch

from tests.model.test_model import random_ids, small
from tests.writing.test_decoding import counted, lively, ragged
from tfm_lib.writing.beam import BeamWriter, beam_hypotheses, beam_search
from tfm_lib.writing.beam import search as search_over_logits
from tfm_lib.writing.decoding import Writer, token_log_probs
from tfm_lib.writing.next_token import NO_RULES, Rules, log_softmax


@torch.no_grad()
def plain_beam_search(model, src, longest, num_beams=4, length_penalty=1.0, early_stopping=False, rules=NO_RULES):
    """The best texts for src (S,), as (score, tokens): too simple to be wrong, without a cache or batches."""
    config = model.config
    beams, finished = [(0.0, [config.start_id])], []  # the total log p, at the end the score, and the tokens
    for length in range(1, longest + 1):
        tgt = torch.tensor([tokens for _, tokens in beams], device=src.device)  # (beams, length)
        log_probs = log_softmax(model(src.expand(len(beams), -1), tgt)[:, -1])  # (beams, V)
        log_probs = rules.forbid(log_probs, tgt, config.eos_id, full=length == longest)
        longer = []
        for (total, tokens), row in zip(beams, log_probs.tolist(), strict=True):
            longer += [(total + log_p, [*tokens, token]) for token, log_p in enumerate(row) if log_p > -torch.inf]
        best = sorted(longer, reverse=True)[: 2 * num_beams]  # one of each beam may end, and num_beams go on
        for total, tokens in best[:num_beams]:
            if tokens[-1] == config.eos_id or length == longest:
                finished.append((total / length**length_penalty, tokens[1:]))
        finished = sorted(finished, reverse=True)[:num_beams]
        beams = [beam for beam in best if beam[1][-1] != config.eos_id][:num_beams]
        if not beams:
            break
        as_if_it_ended = beams[0][0] / length**length_penalty
        if len(finished) == num_beams and (early_stopping or as_if_it_ended <= finished[-1][0]):
            break
    return finished


def to_lists(tokens, scores, config):
    """The texts that were found, without what follows their ends, each with its score."""
    texts = []
    for row in tokens.tolist():
        end = row.index(config.eos_id) + 1 if config.eos_id in row else len(row)
        assert set(row[end:]) <= {config.pad_id}
        texts.append(row[:end])
    return [(score, text) for score, text in zip(scores.tolist(), texts, strict=True) if score > -torch.inf]


def assert_plain(model, src, longest, **settings):
    """Every beam of every source is the plain search's; returns the beams."""
    tokens, scores = beam_hypotheses(model, src, longest, **settings)
    found = [to_lists(*of, model.config) for of in zip(tokens, scores, strict=True)]
    for texts, row in zip(found, src, strict=True):
        plain = plain_beam_search(model, row[row != model.config.pad_id], longest, **settings)
        assert [text for _, text in texts] == [text for _, text in plain]
        assert [score for score, _ in texts] == pytest.approx([score for score, _ in plain], abs=1e-4)
    assert tokens.shape[2] == max(len(text) for texts in found for _, text in texts)
    best = beam_search(model, src, longest, **settings)
    assert to_lists(best, scores[:, 0], model.config) == [texts[0] for texts in found]
    return found


SETTINGS = [
    dict(num_beams=1, early_stopping=True),
    dict(num_beams=3),
    dict(num_beams=4, early_stopping=True, length_penalty=2.0, rules=Rules(no_repeat_ngram_size=3, min_new_tokens=2)),
    dict(num_beams=5, length_penalty=0.6, rules=Rules(no_repeat_ngram_size=2, first=4, banned=[5])),
    dict(num_beams=2, length_penalty=-0.5),
    dict(num_beams=3, rules=Rules(last=6)),
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    "ids", [(0, 1, 2), (0, 3, 0), *(pytest.param(ids, marks=pytest.mark.slow) for ids in ((0, 0, 2), (1, 2, 2)))]
)
def test_every_beam_is_the_plain_one_on_ragged_batches(ids, settings):
    lengths = set()
    for seed in range(3):
        model = lively(seed, norm_first=seed % 2 == 0, **dict(zip(("pad_id", "start_id", "eos_id"), ids, strict=True)))
        model.to((torch.float64, torch.float32)[seed % 2])
        found = assert_plain(model, ragged(ids[0], seed)[:4], 8, **settings)
        lengths |= {len(text) for texts in found for _, text in texts}
    assert len(lengths) > 2


def test_rows_that_follow_their_caches_find_the_same_as_beams_side_by_side():
    """The way of lesson 09 before its improvement."""
    for seed in range(4):
        model, src = lively(seed), ragged(seed=seed)
        by_rows = search_over_logits(Writer(model, src, 8), 8, num_beams=3)
        for mine, other in zip(by_rows, beam_hypotheses(model, src, 8, num_beams=3), strict=True):
            assert torch.allclose(mine, other)


def test_the_source_is_encoded_and_projected_once_and_nothing_that_the_caches_hold_is_ever_moved():
    """Where no source leaves the batch, each buffer keeps its place, and what was written into it."""
    (model, calls), caches = counted(), []
    writer = BeamWriter(model, random_ids(2, 5), 6, None, num_beams=3)
    model.decoder.register_forward_hook(
        lambda *_: caches.append([cache.all()[0] for pair in writer.cache.layers for cache in pair])
    )
    search_over_logits(writer, 6, num_beams=3)
    assert calls == ["encoder", (2, 1), "keys of 10"] + [(2, 3)] * 5
    assert [keys[0].shape[2] for keys in caches] == [1, 4, 7, 10, 13, 16]
    for keys in caches:
        assert keys[1].shape[2] == 5
        for before, last in zip(keys, caches[-1], strict=True):
            assert before.data_ptr() == last.data_ptr() and torch.equal(before, last[:, :, : before.shape[2]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_are_summed_in_single_precision(dtype):
    model, src = small().to(dtype), random_ids(3, 5)
    tokens, scores = beam_hypotheses(model, src, 6)
    log_probs = token_log_probs(model, src, tokens[:, 0])
    assert scores.dtype == log_probs.dtype == torch.float32
    assert torch.allclose(scores[:, 0], log_probs.sum(1) / (log_probs < 0).sum(1), atol=0.02)


@pytest.mark.parametrize(
    ("longest", "settings", "message"),
    [
        (4, dict(num_beams=0), "num_beams must be at least 1, got 0"),
        (513, {}, "1..512.*got 513"),
        (4, dict(rules=Rules(min_new_tokens=5)), "min_new_tokens must lie in 0..4"),
    ],
)
def test_wrong_numbers_are_refused(longest, settings, message):
    with pytest.raises(ValueError, match=message):
        beam_search(small(), random_ids(1, 3), longest, **settings)
