"""What lesson 16 builds in its cells, beside transformers, and what it counts, beside models on the meta device."""

import copy
import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding

from benchmarks import lessons
from benchmarks.families_and_scale import noise, parts_replaced, scaling_law
from tests import ROOT
from tests.nbclaims import cells
from tfm_lib.model import TransformerConfig

LESSON = lessons.definitions("16_families_and_scale")
SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
SMALL["initializer_range"] = 0.3
TINY = {"embed_scale": 1.0, "positions": "learned", "activation": "gelu", "dropout": 0.0, "num_decoder_layers": 1}


PARTS = {
    "around_self_attention.norm": ("attention.output.LayerNorm", "ln_1"),
    "around_feed_forward.norm": ("output.LayerNorm", "ln_2"),
    "self_attention.query_proj": ("attention.self.query", "attn.query"),
    "self_attention.key_proj": ("attention.self.key", "attn.key"),
    "self_attention.value_proj": ("attention.self.value", "attn.value"),
    "self_attention.output_proj": ("attention.output.dense", "attn.c_proj"),
    "feed_forward.expand": ("intermediate.dense", "mlp.c_fc"),
    "feed_forward.contract": ("output.dense", "mlp.c_proj"),
}


def stack(weights: dict[str, torch.Tensor], family: int, layers: str, ends: dict[str, torch.Tensor], **sizes):
    """The lesson's stack with the weights of BERT (family 0) or GPT-2 (1); `ends`: of embeddings and the last norm."""
    shape = {"vocab_size": 50, "d_model": 32, "num_heads": 4, "max_length": 40, "num_encoder_layers": 3}
    model = LESSON.Stack(TransformerConfig(**TINY, **shape, **sizes)).double().eval()
    inner = {
        f"layers.{i}.{ours}.{end}": weights[f"{layers}.{i}.{names[family]}.{end}"]
        for i in range(3)
        for ours, names in PARTS.items()
        for end in ("weight", "bias")
    }
    model.encoder.load_state_dict(inner | ends)
    return model


def test_the_stack_is_bert():
    torch.manual_seed(0)
    config = hf.BertConfig(**SMALL, intermediate_size=88, max_position_embeddings=40)
    theirs = hf.BertForMaskedLM(config).double().eval()
    weights = theirs.bert.state_dict()
    positions, kinds = (weights[f"embeddings.{name}_embeddings.weight"] for name in ("position", "token_type"))
    ends = {
        "embedding.tokens.weight": weights["embeddings.word_embeddings.weight"],
        "embedding.positions.table": positions + kinds[0],
        **{f"embedding.norm.{end}": weights[f"embeddings.LayerNorm.{end}"] for end in ("weight", "bias")},
    }
    model = stack(weights, 0, "encoder.layer", ends, d_ff=88, embed_norm=True)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12
    ids = torch.randint(1, 50, (2, 12))
    ids[1, 8:] = 0
    with torch.inference_mode():
        wanted = theirs(ids, attention_mask=(ids > 0).long()).logits
        hidden = model.encoder(ids, (ids > 0)[:, None, None])
        assert (theirs.cls(hidden) - wanted).abs().max() < 1e-12
        assert (theirs.cls(model.encoder(ids)) - wanted).abs().max() > 0.1  # pads seen


def test_the_stack_is_gpt2():
    torch.manual_seed(0)
    theirs = hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL, n_positions=40, bos_token_id=1, eos_token_id=2)).double().eval()
    weights = {}
    for name, weight in theirs.transformer.state_dict().items():
        weight = weight.mT if ".c_" in name and weight.dim() == 2 else weight
        parts = zip(("query", "key", "value"), weight.chunk(3), strict=True) if "c_attn" in name else [("", weight)]
        weights |= {name.replace("c_attn", part): piece for part, piece in parts}
    ends = {"embedding.tokens.weight": weights["wte.weight"], "embedding.positions.table": weights["wpe.weight"]}
    ends |= {f"norm.{end}": weights[f"ln_f.{end}"] for end in ("weight", "bias")}
    model = stack(weights, 1, "h", ends, d_ff=128, norm_first=True)
    exact = copy.deepcopy(model)
    for layer in model.encoder.layers:
        layer.feed_forward.activation = nn.GELU("tanh")
    ids = torch.randint(1, 50, (2, 12))
    with torch.inference_mode():
        wanted = theirs(ids).logits
        assert (model(ids, torch.zeros(2)) - wanted).abs().max() < 1e-12
        assert (exact(ids, torch.zeros(2)) - wanted).abs().max() > 1e-4  # the exact GELU
        assert (model(ids, torch.full((2,), 12)) - wanted).abs().max() > 0.1  # the future seen


def t5_of(d: int, d_ff: int, layers: int, heads: int, head: int, **more) -> nn.Module:
    shape = {"d_model": d, "d_ff": d_ff, "num_layers": layers, "num_heads": heads, "d_kv": head}
    return hf.T5ForConditionalGeneration(hf.T5Config(**shape, **more))


def bart_of(kind: type, config: type, d: int, layers: int, words: int) -> nn.Module:
    """Of the family of BART; sinusoids, which the library keeps as parameters, are taken out."""
    shape = {f"{side}_{name}": value for side in ("encoder", "decoder")
             for name, value in (("layers", layers), ("ffn_dim", 4 * d), ("attention_heads", d // 64))}  # fmt: skip
    model = kind(config(vocab_size=words, d_model=d, pad_token_id=0, decoder_start_token_id=0, **shape))
    for side in (model.model.encoder, model.model.decoder):
        if not isinstance(side.embed_positions, BartLearnedPositionalEmbedding):
            side.embed_positions = nn.Identity()
    return model


LLAMA = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32}
LLAMA |= {"num_key_value_heads": 8, "vocab_size": 128256}
# What the cell of BERT-base, GPT-2, T5-small, CLIP B/32 and Llama 3 does not compare: other parts, and a size of each.
MORE: dict[str, Callable[[], nn.Module]] = {
    "BERT-large": lambda: hf.BertModel(
        hf.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    ),
    "GPT-2 XL": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=1600, n_layer=48, n_head=25)),
    "T5 11B": lambda: t5_of(1024, 65536, 24, 128, 128),
    "T5 v1.1 XXL": lambda: t5_of(4096, 10240, 24, 64, 64, feed_forward_proj="gated-gelu"),
    "CLIP B/16": lambda: hf.CLIPModel(hf.CLIPConfig(vision_config={"patch_size": 16})),
    "Llama 3.2 1B": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, tie_word_embeddings=True)),
    "BART-large": lambda: bart_of(hf.BartForConditionalGeneration, hf.BartConfig, 1024, 12, 50265),
    "Marian en-de": lambda: bart_of(hf.MarianMTModel, hf.MarianConfig, 512, 6, 58101),
    "Pegasus-large": lambda: bart_of(hf.PegasusForConditionalGeneration, hf.PegasusConfig, 1024, 16, 96103),
}


def test_more_sizes_to_the_unit():
    book = cells.read(ROOT / "notebooks/16_families_and_scale.ipynb")
    [source] = [cell.source for cell in book.cells if cell.id == "more-sizes"]
    names = dict(vars(LESSON))
    exec(source.partition("for name")[0], names)
    with torch.device("meta"):
        counted = {name: sum(parameter.numel() for parameter in build().parameters()) for name, build in MORE.items()}
    assert {name: names["more"][name] for name in MORE} == counted


@given(st.lists(st.integers(3, 600), min_size=2, max_size=80), st.randoms(use_true_random=False))
def test_spans_come_back(tokens, random):
    source, target = LESSON.cut_spans(tokens, range(605, 620), random)
    assert LESSON.restore(source, target, range(605, 620)) == tokens
    assert len(source) < len(tokens) + 15 and len(target) > 1


@pytest.mark.slow
def test_the_law_is_that_of_its_runs_which_are_of_all_widths_and_stories(monkeypatch):
    record = json.loads((ROOT / "benchmarks/families_and_scale/scaling_law.json").read_text(encoding="utf-8"))
    keys = ("seed", "width", "stories")
    wanted = [(s, w, n) for s in scaling_law.SEEDS for w in scaling_law.WIDTHS for n in scaling_law.SIZES]
    assert [tuple(row[key] for key in keys) for row in record["rows"]] == wanted
    assert record["frontier"] == scaling_law.frontier(record["rows"])
    assert record["parameters"] == {str(width): scaling_law.counted(width) for width in scaling_law.WIDTHS}
    monkeypatch.setattr(scaling_law, "RESAMPLED", 1)
    for way, law in scaling_law.fits(record["rows"]).items():
        recorded_law = record["fits"][way]
        assert law.keys() == recorded_law.keys() and law["residuals"].keys() == recorded_law["residuals"].keys()
        for key in ("E", "alpha", "beta", "typical error", "largest error"):
            assert recorded_law[key] == pytest.approx(law[key], rel=0.01), (way, key)
        for key in ("E", "alpha", "beta"):
            low, high = recorded_law[f"{key} 95 %"]
            assert low <= recorded_law[key] <= high, (way, key)


def test_a_known_law_is_found():
    n, d = (x.flatten() for x in np.meshgrid(np.geomspace(1e3, 1e5, 8), np.geomspace(1e4, 1e6, 4)))
    found = scaling_law.fit(n, d, 0.7 + 500 / n**0.9 + 3000 / d**0.8)
    assert [found[name] for name in ("E", "alpha", "beta")] == pytest.approx([0.7, 0.9, 0.8], rel=0.02)
    assert found["largest error"] < 1e-3


@pytest.mark.slow
def test_runs_of_a_few_steps_fill_their_rows():
    row = parts_replaced.run("as in Llama", 0, steps=2, tested=8)
    assert row["cache"] == 768 and 5 < row["nats"] < 8
    row = scaling_law.run(8, 100, 0, steps=3, dev=8)
    assert 4 < row["loss"] < 8 and row["tokens"] > 1000


@pytest.mark.slow
def test_a_measurement_of_noise_comes_out_again():
    quiet, loud = (noise.measured(size, 0, 20) for size in (0.0, 0.6))
    assert quiet["exact"] > 0.9 > 0.2 > loud["exact"] and loud["nats"] > 1
