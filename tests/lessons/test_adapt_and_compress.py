"""What lesson 17 defines, where its own cells do not compare it: by hand, with peft and torch, and its records."""

import json
import re
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from benchmarks import lessons
from benchmarks.adapt_and_compress import adapting, compressing
from tests import ROOT
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model

LESSON = "17_adapt_and_compress"


@pytest.fixture(scope="module")
def lesson():
    """What the lesson's cells import and define."""
    return vars(lessons.definitions(LESSON))


def test_every_word_of_the_new_stories_is_known_and_the_test_has_names_and_a_phrasing_of_its_own(lesson):
    _, vocabulary = newsroom_model()
    learned, test = lesson["make_shows"](0, 500), lesson["make_shows"](0, 300, test=True)
    texts = [text for pair in [*learned, *test] for text in (pair.article, pair.summary)]
    assert not any(vocabulary.unknown_id in row for row in vocabulary.encode_all(texts))
    people, places = ({summary.split()[place] for _, summary in learned} for place in (3, 6))
    for _, summary in test:
        assert summary.split()[3] not in people and summary.split()[6] not in places
    assert any("crowds waited" in article for article, _ in test)
    assert not any("crowds waited" in article for article, _ in learned)


def test_the_matrix_that_the_text_calls_zero_starts_so_and_the_other_does_not(lesson):
    text = (ROOT / f"notebooks/{LESSON}.ipynb").read_text(encoding="utf-8")
    [(zero, drawn)] = re.findall(r"\$(\w)\$ is zero and \$(\w)\$ is random", text)
    layer = lesson["LoRA"](nn.Linear(3, 5), rank=2, alpha=8)
    assert not getattr(layer, zero.lower()).any() and getattr(layer, drawn.lower()).all()


@torch.no_grad()
def test_a_prefix_is_keys_and_values_that_every_query_sees(lesson):
    attention, x = MultiHeadAttention(8, 2), torch.randn(2, 5, 8)
    prefixed = lesson["Prefixed"].of(attention, 3)
    query, key, value = torch.randn(3, 2, 2, 5, 4)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    keys, values = (part.expand(2, -1, -1, -1) for part in prefixed.prefix[:, None])
    seen = torch.cat([torch.ones(1, 1, 5, 3, dtype=torch.bool), mask], dim=-1)
    wanted = attention.attend(query, torch.cat([keys, key], 2), torch.cat([values, value], 2), seen, None, causal=False)
    assert_close(prefixed.attend(query, key, value, mask, None, causal=False), wanted)
    assert_close(prefixed.attend(query, key, value, None, None, causal=True), wanted)
    assert torch.equal(lesson["Prefixed"].of(attention, 0)(x, x, x), attention(x, x, x)), "no prefix, no change"
    assert not hasattr(attention, "prefix")


def test_lora_computes_and_trains_what_peft_does(lesson):
    peft = pytest.importorskip("peft", reason="peft is missing")
    torch.manual_seed(0)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "d_model": 16, "num_heads": 2, "d_ff": 32}
    base = Transformer(TransformerConfig(vocab_size=30, dropout=0.0, **sizes)).double()
    ours, ids = lesson["with_lora"](base, 3, 6).double(), torch.arange(4, 24).view(2, 10)
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["query_proj", "value_proj"])
    theirs = peft.get_peft_model(deepcopy(base), config)
    layers = dict(theirs.base_model.model.named_modules())
    changed = {name: layer for name, layer in ours.named_modules() if isinstance(layer, lesson["LoRA"])}
    assert len(changed) == 2 * 5, "queries and values of five attentions"
    with torch.no_grad():
        for name, layer in changed.items():
            layer.b.normal_()  # no longer zero
            layers[name].lora_A["default"].weight.data = layer.a.detach().clone()
            layers[name].lora_B["default"].weight.data = layer.b.detach().clone()
    assert_close(ours(ids, ids), theirs(ids, ids), rtol=0, atol=1e-12)
    assert (ours(ids, ids) - base(ids, ids)).abs().max() > 0.1
    assert lesson["trained"](ours) == theirs.get_nb_trainable_parameters()[0] == 10 * 3 * (16 + 16)


def test_a_grid_by_hand_keeps_zeros_and_gives_each_part_its_step(lesson):
    numbers, step = lesson["to_grid"](torch.tensor([[0.0, 0.0], [1.0, -4.0]]), 3, 2)
    assert numbers.tolist() == [[0, 0], [1, -3]] and step.flatten().tolist() == pytest.approx([1, 4 / 3])
    with pytest.raises(ValueError, match="1 bit leaves no number but 0; take 2 or more"):
        lesson["to_grid"](torch.ones(4), 1, 4)


def test_the_loss_of_distillation_is_torchs(lesson):
    student, teacher = torch.randn(2, 7, 11, generator=torch.Generator().manual_seed(0))
    for T in (1.0, 3.0):
        theirs = nn.functional.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="batchmean")
        assert_close(lesson["distillation_loss"](student, teacher, T), T**2 * theirs)
    assert_close(lesson["distillation_loss"](student, student, 2), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_the_balance_loss_is_transformers(lesson):
    mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral", reason="transformers is missing")
    logits = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    theirs = mixtral.load_balancing_loss_func((logits,), 8, 2)
    assert_close(lesson["balance_loss"](logits.softmax(-1), 2), theirs)


def test_the_records_are_those_of_their_scripts():
    records = [json.loads(Path(script.__file__).with_suffix(".json").read_text()) for script in (adapting, compressing)]
    for script, record in zip((adapting, compressing), records, strict=True):
        assert (record["seeds"], record["stories"]) == ([*range(script.SEEDS)], script.STORIES)
    assert [row["way"] for row in records[0]["rows"]] == [*adapting.WAYS]
