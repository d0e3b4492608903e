"""Decoding writes what `generate` of transformers writes, from the same weights."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig
from transformers.generation import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from tfm_lib.model import Transformer
from tfm_lib.pretrained.names import our_config
from tfm_lib.pretrained.names import theirs as called
from tfm_lib.pretrained.small import small_config
from tfm_lib.writing.beam import beam_hypotheses, beam_search
from tfm_lib.writing.next_token import Rules, next_token_probs

VOCAB, LONGEST = 40, 16
DTYPES = (torch.float32, torch.float64)
KINDS = ("bart", "marian")  # BART starts with the end, Marian with padding


def twins(kind, seed, end_bias, dtype):
    """A random model of transformers, and ours with its weights; end_bias makes the end more likely."""
    torch.manual_seed(seed)
    sizes = small_config(kind, VOCAB) | {"max_position_embeddings": 32, "forced_eos_token_id": None}
    theirs = AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model(kind, **sizes))
    with torch.no_grad():
        for name, p in theirs.named_parameters():  # loud positions, for texts that end at many lengths
            if p.requires_grad:  # not the sinusoids
                std = 0.6 if "shared" in name else 3.0 if "positions" in name else 0.3
                p.normal_(mean=float(name.endswith("norm.weight")), std=std)
    theirs.to(dtype).eval()
    theirs.generation_config = GenerationConfig(**{name: i for name, i in sizes.items() if name.endswith("token_id")})
    theirs.final_logits_bias.normal_()[0, sizes["eos_token_id"]] += end_bias
    ours = Transformer(our_config(theirs.config.to_dict())).to(dtype).eval()
    ours.load_state_dict({name: theirs.state_dict()[called(name)].squeeze(0) for name in ours.state_dict()})
    return ours, theirs


def sources(model, lengths=(9, 1, 4, 7, 2)):
    src = torch.randint(3, VOCAB - 1, (len(lengths), max(lengths)))
    for row, length in zip(src, lengths, strict=True):
        row[length:] = model.config.pad_id
    return src


def assert_equal_to_the_end(ours, theirs, model):
    """Equal up to each row's end: what transformers puts after it has changed between its versions."""
    ends = set()
    for mine, other in zip(ours.tolist(), theirs[:, 1:].tolist(), strict=True):
        end = mine.index(model.config.eos_id) + 1 if model.config.eos_id in mine else len(mine)
        assert mine[:end] == other[:end]
        assert set(mine[end:]) <= {model.config.pad_id}
        ends.add(end)
    return ends


BEAMS = [
    (dict(num_beams=4), {}),
    (dict(num_beams=4, early_stopping=True, length_penalty=2.0), dict(no_repeat_ngram_size=3, min_new_tokens=8)),
    (dict(num_beams=6, length_penalty=0.6), dict(no_repeat_ngram_size=2)),
    (dict(num_beams=2, length_penalty=0.0), {}),
    (dict(num_beams=3, length_penalty=-1.0, early_stopping=True), {}),
]


@pytest.mark.parametrize(("settings", "rules"), BEAMS)
def test_every_beam_is_theirs(settings, rules):
    ends, options = set(), {**settings, "rules": Rules(**rules)}
    for seed in range(1, 7):
        ours, theirs = twins(KINDS[seed % 2], seed, end_bias=seed % 3 + 1.0, dtype=DTYPES[seed // 2 % 2])
        src, beams = sources(ours), settings["num_beams"]
        asked = dict(do_sample=False, return_dict_in_generate=True, output_scores=True, max_new_tokens=LONGEST)
        mask = (src != ours.config.pad_id).long()
        their = theirs.generate(src, attention_mask=mask, num_return_sequences=beams, **asked, **settings, **rules)
        tokens, scores = beam_hypotheses(ours, src, LONGEST, **options)
        ends |= assert_equal_to_the_end(tokens.flatten(0, 1), their.sequences, ours)
        assert torch.allclose(scores.flatten().float(), their.sequences_scores, atol=1e-4)
        assert_equal_to_the_end(beam_search(ours, src, LONGEST, **options), their.sequences[::beams], ours)
    assert len(ends) > 3


def test_what_sample_draws_from_is_theirs():
    logits = torch.randn(50, 30) * 2
    for temperature, top_k, top_p in ((0.7, 5, 0.9), (1.5, 10, 0.5), (1.0, 40, 0.05), (1.0, 3, 0.999)):
        theirs = TemperatureLogitsWarper(temperature)(None, logits)
        theirs = TopPLogitsWarper(top_p)(None, TopKLogitsWarper(top_k)(None, theirs))
        assert torch.allclose(next_token_probs(logits, temperature, top_k, top_p), theirs.softmax(-1), atol=1e-6)
