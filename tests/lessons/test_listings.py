"""A listing is pasted into other projects: it runs alone, needs only torch, and computes what the package does."""

import ast
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from rouge_score.rouge_scorer import RougeScorer
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as fused
from torch.testing import assert_close
from torch.utils.data import TensorDataset
from transformers.models.llama import modeling_llama
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.vit.configuration_vit import ViTConfig
from transformers.models.vit.modeling_vit import ViTEmbeddings

from tests import ROOT
from tests.model.references import copy_attention, copy_layer
from tests.nbclaims.cells import read, tags
from tfm_lib.ask.exercises import pictures_and_text
from tfm_lib.attention import AdditiveAttention, MultiHeadAttention, attention
from tfm_lib.checkup import checkup
from tfm_lib.data.batches import Batch
from tfm_lib.layers import DecoderLayer, EncoderLayer
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import make_optimizer, sequence_loss, train_step
from tfm_lib.masks import causal_mask, padding_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.positions import SinusoidalPositions
from tfm_lib.practice.own_transformer import OwnTransformer
from tfm_lib.practice.patients import changed
from tfm_lib.pretrained import newsroom_model
from tfm_lib.pretrained.pictures import pictures_model
from tfm_lib.writing.beam import beam_hypotheses
from tfm_lib.writing.cache import KeyValueCache
from tfm_lib.writing.decoding import greedy, sample
from tfm_lib.writing.next_token import next_token_probs

Names = dict[str, Any]
BOOKS = {path.stem: read(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
LISTINGS = {name: cell.source for name, book in BOOKS.items() for cell in book.cells if "listing" in tags(cell)}


def run(source: str) -> Names:
    names: Names = {"__name__": "pasted"}
    exec(compile(source, "listing", "exec"), names)
    return names


def attention_with_masks(listing: Names) -> None:
    text, other = torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    is_token = torch.arange(7) < torch.tensor([[7], [4]])  # (B, S)
    mask = is_token[:, None]  # (B, 1, S)
    layer = listing["Attention"](8, d_k=6, dropout=0.5)
    assert not torch.equal(layer(text, other, other), layer(text, other, other))
    layer.eval()
    q, k, v = layer.q_proj(text), layer.k_proj(other), layer.v_proj(other)
    for shown, causal in itertools.product((None, mask), (False, True)):
        assert_close(layer(text, other, other, shown, is_causal=causal), attention(q, k, v, shown, causal=causal))

    nothing = listing["attention_matrix"](q, k, torch.zeros(3, 7, dtype=torch.bool))
    nothing.sum().backward()
    assert not nothing.any() and layer.q_proj.weight.grad.isfinite().all()


def with_weights_of(theirs: torch.nn.Module) -> MultiHeadAttention:
    ours = MultiHeadAttention(24, 6)
    for letter, name in {"q": "query", "k": "key", "v": "value", "o": "output"}.items():
        getattr(ours, f"{name}_proj").load_state_dict(getattr(theirs, f"{letter}_proj").state_dict())
    return ours


def heads(listing: Names) -> None:
    theirs = listing["GroupedQueryAttention"](24, 6)
    ours = with_weights_of(theirs)
    text, other = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    assert_close(theirs(text, other, other), ours(text, other, other))
    mask = causal_mask(5)
    assert_close(theirs(text, text, text, mask), ours(text, text, text, mask))

    shared = listing["GroupedQueryAttention"](24, 6, num_kv_heads=2, dropout=0.5)
    assert not torch.equal(shared(text, text, text), shared(text, text, text))
    shared.eval()
    q, k, v = (shared.split(layer(text)) for layer in (shared.q_proj, shared.k_proj, shared.v_proj))
    mixed = fused(q, k, v, is_causal=True, enable_gqa=True)
    expected = shared.o_proj(mixed.transpose(1, 2).flatten(2))
    assert_close(shared(text, text, text, mask), expected)


def positions(listing: Names) -> None:
    text, tables = torch.randn(2, 5, 24), (listing["PositionalEncoding"](24, 9), SinusoidalPositions(24, 9))
    assert_close(tables[0](text, past=4), tables[1](text, past=4))
    assert not tables[0].state_dict()

    scaling = {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, rope_parameters=scaling)
    query, places = torch.randn(2, 4, 5, 16), torch.tensor([[0, 0, 1, 2, 3], [7, 8, 9, 10, 11]])
    cosine, sine = modeling_llama.LlamaRotaryEmbedding(config)(query, places)
    theirs, _ = modeling_llama.apply_rotary_pos_emb(query, query, cosine, sine)
    ours = listing["RotaryEmbedding"](16, base=500.0, factor=4.0)
    assert_close(ours(query, places), theirs)
    assert_close(ours(query[1:], places[1]), theirs[1:])
    same = torch.ones(1, 1, 5, 16, dtype=torch.bfloat16)  # bfloat16 would take position 257 for 256
    assert ours(same, torch.arange(256, 261)).unique(dim=2).shape[2] == 5


def blocks(listing: Names) -> None:
    x, memory, mask = torch.randn(2, 5, 24), torch.randn(2, 7, 24), causal_mask(5)
    for first, activation in itertools.product((False, True), ("relu", "gelu")):
        options: Names = {"norm_first": first, "activation": activation, "dropout": 0.0}
        theirs = listing["Block"](24, 6, 48, **options, cross_attention=True)
        ours = DecoderLayer(24, 6, 48, **options)
        parts = (ours.self_attention, ours.cross_attention)
        norms = (ours.around_self_attention, ours.around_cross_attention, ours.around_feed_forward)
        for mine, attention_of in zip(parts, theirs.attentions, strict=True):
            mine.load_state_dict(with_weights_of(attention_of).state_dict())
        for wrapped, norm in zip(norms, theirs.norms, strict=True):
            torch.nn.init.normal_(norm.weight)
            wrapped.norm.load_state_dict(norm.state_dict())
        ours.feed_forward.expand.load_state_dict(theirs.mlp.up_proj.state_dict())
        ours.feed_forward.contract.load_state_dict(theirs.mlp.down_proj.state_dict())
        assert_close(theirs(x, mask, memory), ours(x, memory, mask=mask))
        encoder = listing["Block"](24, 6, 48, **options)
        encoder.attentions[0], encoder.mlp, encoder.norms = theirs.attentions[0], theirs.mlp, theirs.norms[::2]
        plain = EncoderLayer(24, 6, 48, **options)
        plain.load_state_dict({k: v for k, v in ours.state_dict().items() if "cross" not in k})
        assert_close(encoder(x, mask), plain(x, mask))

    llama = listing["Block"](24, 6, 48, norm=torch.nn.RMSNorm, activation="swiglu", bias=False)
    config = LlamaConfig(hidden_size=24, intermediate_size=48, num_attention_heads=6)
    mlp, norm = modeling_llama.LlamaMLP(config), modeling_llama.LlamaRMSNorm(24, eps=1e-5)
    mlp.load_state_dict(llama.mlp.state_dict())
    assert_close(llama.mlp(llama.norms[0](x)), mlp(norm(x)))
    assert not torch.equal(llama(x), llama(x)) and torch.equal(llama.eval()(x), llama(x))  # dropout

    stack = torch.nn.ModuleList(listing["Block"](64, 4, 256) for _ in range(8))
    listing["init_weights"](stack)
    read, write = stack[0].mlp.up_proj.weight.std(), stack[0].mlp.down_proj.weight.std()
    assert read.item() == pytest.approx(0.02, rel=0.05) and (read / write).item() == pytest.approx(4, rel=0.05)


def ignoring(batch: Batch) -> tuple[torch.Tensor, ...]:
    """The batch as a listing takes it: labels that do not count are -100."""
    return batch.src, batch.decoder_input, batch.labels.masked_fill(batch.labels == batch.pad_id, -100)


def training(listing: Names) -> None:
    def model() -> Transformer:
        torch.manual_seed(1)
        return Transformer(TransformerConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=16, dropout=0.0))

    texts = [([4, 5, 6, 7], [4, 8]), ([5], [6, 6, 4]), ([7, 8, 4], [8]), ([6, 5], [7, 7, 7])]
    ours = [Batch.of([source], [target]) for source, target in texts]
    theirs = [ignoring(batch) for batch in ours]
    recipe = Recipe(steps=4, warmup_steps=2, peak_rate=0.01, fall="linear", label_smoothing=0.0)
    by_package, by_listing = model(), model()
    optimizer = make_optimizer(by_package)
    for step, batch in enumerate(ours, start=1):
        rate = listing["learning_rate"](step, steps=4, warmup_steps=2, peak_rate=0.01)
        assert rate == pytest.approx(recipe.rate(step))
        train_step(by_package, batch, optimizer, recipe, rate)
    plain = {"steps": 4, "peak_rate": 0.01, "warmup_steps": 2, "weight_decay": 0.0, "max_norm": torch.inf}
    history = listing["train_model"](by_listing, iter(theirs), theirs, **plain, check_every=4)
    joined = Batch.of([source for source, _ in texts], [target for _, target in texts])
    logits = by_listing(joined.src, joined.decoder_input)  # not the weights: Adam turns the zero gradient of key biases
    assert_close(by_package(joined.src, joined.decoder_input), logits, rtol=1e-4, atol=1e-5)
    assert history[-1][2] == pytest.approx(sequence_loss(logits, joined.labels, joined.pad_id).item(), rel=1e-5)

    pieces = [tuple(part[i : i + 1] for part in ignoring(joined)) for i in range(4)]
    in_parts = listing["train_model"](model(), iter(pieces * 4), theirs, **plain, accumulate=4)
    at_once = listing["train_model"](model(), iter([ignoring(joined)] * 4), theirs, **plain)
    assert in_parts[-1] == pytest.approx(at_once[-1], rel=1e-4)
    clipped = listing["train_model"](model(), iter(theirs), theirs, **plain | {"max_norm": 0.0}, check_every=2)
    assert clipped[0][2] == clipped[1][2]

    decay, exempt = listing["parameter_groups"](by_package, 0.1)
    names = {id(parameter): name for name, parameter in by_package.named_parameters()}
    spared = {name for name in names.values() if re.search("bias|norm|embedding", name)}
    assert {names[id(p)] for p in exempt["params"]} == spared and exempt["weight_decay"] == 0
    assert {names[id(p)] for p in decay["params"]} == {*names.values()} - spared and decay["weight_decay"] == 0.1

    learner, rushed = model(), {"steps": 30, "peak_rate": 9.0, "warmup_steps": 1, "check_every": 1}
    losses = [loss for *_, loss in listing["train_model"](learner, iter(theirs * 9), theirs[:1], **rushed)]
    assert len(losses) == losses.index(min(losses)) + 1 + 3 < 30
    assert listing["validation_loss"](learner, theirs[:1]) == pytest.approx(min(losses))

    seen, chosen = [], model()

    def metric(one: Transformer) -> int:  # its best model is the second, whatever the loss says
        assert not (one.training or torch.is_grad_enabled())
        seen.append(one.output.weight.clone())
        return -abs(len(seen) - 2)

    listing["train_model"](chosen, iter(theirs), theirs, **plain | {"steps": 3}, check_every=1, metric=metric)
    assert chosen.training and [chosen.output.weight.equal(weight) for weight in seen] == [False, True, False]


def masks(listing: Names) -> None:
    ids = torch.tensor([[5, 6, 7, 8], [0, 0, 5, 6]])
    mask = listing["hide_padding"](ids, 0) & listing["hide_future"](4, 4)
    assert torch.equal(mask, padding_mask(ids, 0) & causal_mask(4))
    assert torch.equal(listing["hide_future"](2, 5), causal_mask(2, past=3))
    assert listing["position_ids_of"](ids, 0).tolist() == [[0, 1, 2, 3], [0, 0, 0, 1]]
    x = torch.randn(2, 3, 4, 8, requires_grad=True)
    result = listing["masked_attention"](x, x, x, mask)
    assert_close(result, attention(x, x, x, mask))
    assert not result[1, :, :2].any() and torch.autograd.grad(result.sum(), x)[0].isfinite().all()

    def leaks(shown: torch.Tensor) -> list[tuple[int, int]]:
        return listing["find_leaks"](lambda y: attention(y[:, None], y[:, None], y[:, None], shown)[:, 0], x[:, 0])

    assert leaks(causal_mask(4)) == [] and leaks(causal_mask(4).mT) == [(t, s) for s in range(4) for t in range(s)]


def decoding(listing: Names) -> None:
    model, vocabulary = newsroom_model()
    ids = {"eos_id": vocabulary.eos_id}
    src = torch.tensor([vocabulary.encode("rain")])  # of which the model is so unsure that early_stopping matters

    def next_logits(written: Tensor) -> Tensor:
        return model(src.expand(len(written), -1), written)[:, -1]

    start, generate = torch.full((3, 1), vocabulary.start_id), listing["generate"]
    assert torch.equal(generate(next_logits, start, 16, **ids), greedy(model, src.expand(3, -1), 16))
    dice = {"temperature": 1.5, "top_k": 9, "top_p": 0.9}
    theirs, ours = (torch.Generator().manual_seed(0) for _ in range(2))
    drawn = generate(next_logits, start[:1], 16, **ids, do_sample=True, generator=theirs, **dice)
    assert torch.equal(drawn, sample(model, src, 16, generator=ours, **dice))
    for alpha, stopping in ((0.0, False), (1.0, False), (1.0, True)):
        settings: Names = {"num_beams": 3, "length_penalty": alpha, "early_stopping": stopping}
        expected = beam_hypotheses(model, src, 16, **settings)
        found = listing["generate_with_beams"](next_logits, start[:1], 16, **ids, **settings)
        assert_close(torch.tensor([score for score, _ in found]), expected.scores[0])
        assert [vocabulary.decode(text) for _, text in found] == [*map(vocabulary.decode, expected.tokens[0])]

    logits, probs_of = torch.randn(2, 3, 50), listing["sampling_probs"]
    for knobs in ({"temperature": 0.5}, {"top_k": 7}, {"top_p": 0.6}, dice):
        assert_close(probs_of(logits, **knobs), next_token_probs(logits, **knobs))
    bar = logits.amax(-1, keepdim=True) + torch.tensor(0.2).log()
    assert_close(probs_of(logits, min_p=0.2), logits.masked_fill(logits < bar, -torch.inf).softmax(-1))


def kv_cache(listing: Names) -> None:
    theirs, cache, text = listing["CachedSelfAttention"](24, 6), listing["KVCache"](9), torch.randn(2, 9, 24)
    full = with_weights_of(theirs)(text, text, text, causal_mask(9))
    assert_close(theirs(text), full)
    with torch.no_grad():  # prefill, decode, and several new tokens at once
        parts = [theirs(new, cache) for new in text.split([4, 1, 3, 1], dim=1)]
    assert_close(torch.cat(parts, dim=1), full)

    buffer = KeyValueCache(9)
    buffer.update(theirs.split(theirs.k_proj(text)), theirs.split(theirs.v_proj(text)))
    assert_close((cache.key, cache.value), buffer.all())


def data_parallel(listing: Names) -> None:
    """One worker learns as the package does; two are started as the lesson says."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9))
    ids = torch.randint(9, (6, 5))
    labels = ids.masked_fill(torch.rand(6, 5) < 0.4, listing["IGNORED"])
    expected = sequence_loss(model(ids), labels, listing["IGNORED"]).item()
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        _, losses = listing["train"](model, TensorDataset(ids, labels), epochs=30, rows=6, rate=0.1)
    finally:
        dist.destroy_process_group()
    assert losses[0] == pytest.approx(expected) and len(losses) == 30 and losses[-1] < expected / 2
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(LISTINGS["10_scale"], encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        first, last = map(float, re.findall(r"\d\.\d+", done.stdout))
        assert last < first and next(iter(torch.load(Path(folder, "model.pt")))) == "0.weight", done.stderr


def recurrent(listing: Names) -> None:
    """Attention is the package's, and no padding changes what is written."""
    model, lengths = listing["Seq2Seq"](9, 6), torch.tensor([5, 3])
    src, tgt = torch.randint(9, (2, 5)), torch.randint(9, (2, 4))
    alone = model(src[1:, :3], lengths[1:], tgt[1:])
    assert_close(model(src, lengths, tgt)[1:], alone)

    ours, query, states = AdditiveAttention(6, 6, 6), torch.randn(2, 6), torch.randn(2, 5, 6)
    theirs = model.decoder.attention
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.copy_(other.view_as(mine))
    weights = ours.weights(query[:, None], states, lengths).squeeze(1)
    assert_close(theirs(query, states, lengths), weights)


def part_by_part(listing: Names) -> None:
    config = TransformerConfig(vocab_size=20, d_model=8, num_heads=2, d_ff=16, num_decoder_layers=1)
    ours, theirs = Transformer(config).eval(), Transformer(replace(config, activation="gelu")).eval()
    theirs.load_state_dict(ours.state_dict())
    layer = "encoder.layers.0"
    parts = ["encoder.embedding", f"{layer}.self_attention", f"{layer}.feed_forward", "output"]
    ids = torch.randint(3, 20, (2, 5))
    a, b = (listing["recorded"](model, parts, ids, ids) for model in (ours, theirs))
    assert_close((a[parts[0]], a["output"]), (ours.encoder.embedding(ids), ours(ids, ids)))
    first = listing["first_difference"]
    assert first(a, b) == parts[2] and first(a, a) is None
    for wrong in (b[parts[1]] * torch.nan, b[parts[1]][None]):
        assert first(a, {**b, parts[1]: wrong}) == parts[1]
    with pytest.raises(RuntimeError, match="did not run"):
        listing["recorded"](ours, ["encoder.layers"], ids, ids)
    assert not any(module._forward_hooks for module in ours.modules())


def llama(listing: Names) -> None:
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}
    rope = {"rope_type": "default", "rope_theta": 500.0}
    theirs = modeling_llama.LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=rope)).eval()
    ours = listing["CausalLM"](50, 32, num_heads=4, num_kv_heads=2, d_ff=88, num_layers=2, base=500.0)
    ours.load_state_dict(theirs.state_dict())
    ids = torch.randint(50, (2, 9))
    start, end = torch.tensor([5, 4]), torch.tensor([9, 7])
    place = torch.arange(9)
    is_answer = (place >= start[:, None]) & (place < end[:, None])
    with torch.no_grad():
        expected = theirs(ids, labels=ids.masked_fill(~is_answer, -100))
        assert_close(ours(ids), expected.logits)
        assert_close(listing["answer_loss"](ours(ids), ids, start, end), expected.loss)
        assert_close(ours(ids, torch.zeros(2)), ours(ids))
        changed = ids.clone()
        changed[:, 4] = (changed[:, 4] + 1) % 50
        moved = (ours(ids, start) - ours(changed, start)).abs().amax(-1) > 1e-4
    assert moved.tolist() == [[True] * 9, [False] * 4 + [True] * 5]  # in the prefix of text 0 only


@torch.no_grad()
def lora(listing: Names) -> None:
    torch.manual_seed(0)
    sizes: Names = {"vocab_size": 30, "d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0}
    base, ids = Transformer(TransformerConfig(**sizes)).double().eval(), torch.arange(4, 24).view(2, 10)
    targets, before = ["query_proj", "value_proj"], base(ids, ids)
    ours = deepcopy(base)
    names = listing["add_lora"](ours, targets, rank=3, alpha=6.0)
    assert torch.equal(ours(ids, ids), before)
    trained = [name for name, parameter in ours.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * len(names) and all(name.endswith(("lora_a", "lora_b")) for name in trained)
    peft = pytest.importorskip("peft", reason="peft is missing")
    theirs = peft.get_peft_model(deepcopy(base), peft.LoraConfig(r=3, lora_alpha=6, target_modules=targets)).eval()
    assert theirs.get_nb_trainable_parameters()[0] == sum(p.numel() for p in ours.parameters() if p.requires_grad)
    layers = dict(theirs.base_model.model.named_modules())
    for name, layer in listing["lora_layers"](ours).items():
        layer.lora_b.normal_()
        layers[name].lora_A["default"].weight.data = layer.lora_a.clone()
        layers[name].lora_B["default"].weight.data = layer.lora_b.clone()
    changed = theirs(ids, ids)
    assert_close(ours(ids, ids), changed)

    state, again = listing["lora_state"](ours), deepcopy(base)
    listing["add_lora"](again, targets, rank=3, alpha=1.0)
    listing["load_lora"](again, state)
    assert torch.equal(again(ids, ids), ours(ids, ids)) and (changed - before).abs().max() > 0.1
    listing["enable_lora"](again, False)
    assert torch.equal(again(ids, ids), before)
    listing["merge_lora"](ours)
    assert_close(ours(ids, ids), changed)
    assert ours.state_dict().keys() == base.state_dict().keys()


def pictures(listing: Names) -> None:
    shipped, shown = pictures_model()[0], torch.rand(3, 3, 24, 24)
    ours, gated = shipped.eye, shipped.describer.looks[0]
    sizes = {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128}
    theirs = listing["ViTEncoder"](24, 6, **sizes, activation="relu")
    with torch.no_grad():
        theirs.patch_embedding.weight.copy_(ours.project.weight.view(64, 3, 6, 6))
        theirs.patch_embedding.bias.copy_(ours.project.bias)
        theirs.class_token.copy_(ours.first)
        theirs.positions.copy_(ours.places)
    theirs.norm.load_state_dict(ours.norm.state_dict())
    for layer, our in zip(theirs.layers, ours.layers, strict=True):
        copy_layer(our, layer)
    assert_close(theirs(shown), ours(shown), rtol=1e-4, atol=1e-5)

    config = ViTConfig(hidden_size=64, image_size=24, patch_size=6)
    embeddings = ViTEmbeddings(config)
    embeddings.position_embeddings.data.copy_(theirs.positions)
    for rows, columns in ((4, 4), (6, 6), (8, 5)):
        expected = embeddings.interpolate_pos_encoding(torch.zeros(1, 1 + rows * columns, 64), 6 * rows, 6 * columns)
        assert_close(theirs.positions_for(rows, columns), expected)

    texts, scale = torch.randn(3, 8), torch.tensor(5.0)
    expected = pictures_and_text.contrast.reference(texts + 1, texts, 5.0)
    assert_close(listing["clip_loss"](texts + 1, texts, scale.log()), expected)

    block, text, memory = listing["GatedCrossAttentionBlock"](64, 4, 128), torch.randn(3, 5, 64), ours(shown)
    assert torch.equal(block(text, memory), text)
    copy_attention(gated.cross_attention, block.attention)
    for their, our in {
        "attention_norm": gated.attention_norm,
        "network_norm": gated.network_norm,
        "network.0": gated.feed_forward.expand,
        "network.2": gated.feed_forward.contract,
    }.items():
        block.get_submodule(their).load_state_dict(our.state_dict())
    block.gates.data.copy_(gated.gates)
    assert_close(block(text, memory), gated(text, memory), rtol=1e-4, atol=1e-5)
    joined = listing["PatchProjector"](64, 96)(memory[:, 1:], words := torch.randn(3, 5, 96))
    assert joined.shape == (3, 16 + 5, 96) and torch.equal(joined[:, 16:], words)


def five_mistakes(listing: Names) -> None:
    ids = {"vocab_size": 24, "pad_id": 0, "start_id": 1, "eos_id": 2}

    def found(*lines: tuple[str, str]) -> list[str]:
        torch.manual_seed(0)
        model = (changed(lines) if lines else OwnTransformer)(24, 0, 1, 2, d=32)
        findings = listing["find_mistakes"](model, model.loss, **ids)
        assert model.training
        return [mistake.partition(":")[0] for mistake in findings]

    assert found() == []
    seen = changed(((".tril()", ".tril(1)"),))(24, 0, 1, 2, d=32)
    assert checkup(seen, **ids, parts="causality").codes == ["causality.off_by_one"]
    assert found((".tril()", ".tril(1)"))[0] == found((".tril()", ".fill_(True)"))[0] == "future leak"
    assert found(("(src != self.pad_id)", "(src == src)")) == ["padding leak"]
    assert found(("return self.out(x)", "return self.out(x + x.mean(0, keepdim=True))")) == ["mixed batch"]
    assert found((", ignore_index=self.pad_id", "")) == ["loss on padding"]
    for given in ("tgt", "tgt[:, :-1]"):  # whole rows, or all but the last token
        lines = ("self(src, tgt[:, :-1])", f"self(src, {given})"), ("labels = tgt[:, 1:]", f"labels = {given}")
        assert found(*lines)[-1] == "no shift"
    for lines, wrong in (
        (("return self.out(x)", "return self.out(torch.dropout(x, 0.1, True))"), "does dropout stay on"),
        (("self.other(x, memory, seen)", "self.other(x, x, mask)"), "change nothing"),
        (("return self.out(x)", "return self.out(x) / 0"), "nan or infinite"),
        (("return self.out(x)", "return x"), r"got \(4, 7, 32\)"),
    ):
        with pytest.raises(ValueError, match=wrong):
            found(lines)
    model, vocabulary = newsroom_model()
    ids["vocab_size"] = len(vocabulary)

    def loss(src: Tensor, tgt: Tensor) -> Tensor:
        return sequence_loss(model(src, tgt[:, :-1]), tgt[:, 1:], vocabulary.pad_id)

    assert listing["find_mistakes"](model, loss, **ids) == []


def sliding_window(listing: Names) -> None:
    for length, window, sinks in itertools.product((1, 5, 16, 33), (1, 4, 50), (0, 3)):
        inputs, at = torch.randn(3, 2, 6, length, 8), torch.arange(length)
        back = at[:, None] - at
        mask = (back >= 0) & ((back < window) | (at < sinks))
        assert_close(listing["sliding_window"](*inputs, window, sinks), fused(*inputs, mask))

    text, mask = torch.randn(2, 20, 24), causal_mask(20).tril() & ~causal_mask(20).tril(-4)
    mask[..., :2] = causal_mask(20)[..., :2]
    theirs = listing["SlidingWindowAttention"](24, 6, window=4, sinks=2)
    full = with_weights_of(theirs)(text, text, text, mask)
    assert_close(theirs(text), full)
    cache = theirs.new_cache()
    with torch.no_grad():  # prefill, decode, and several new tokens at once
        parts = [theirs(new, cache) for new in text.split([9, 1, 7, 1, 2], dim=1)]
    assert_close(torch.cat(parts, dim=1), full)
    assert cache.key_at.tolist() == [0, 1, 17, 18, 19]


def evaluation(listing: Names) -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"])
    texts = ["", "the nodes of the graph", "A graph's nodes!\nThe edges, and nodes.", "the the\n\nof nodes of the the"]
    words = ["a", "b", "a b", "c", "b.\n", "c\n"]
    texts += [" ".join(words[i] for i in torch.randint(6, (n,))) for n in (3, 8, 12, 12)]
    for text, reference in itertools.product(texts, repeat=2):
        ours = [listing["rouge_n"](text, reference, n) for n in (1, 2)]
        ours += [listing[name](text, reference) for name in ("rouge_l", "rouge_lsum")]
        assert ours == pytest.approx([result.fmeasure for result in scorer.score(reference, text).values()])

    interval, a = listing["paired_bootstrap"], torch.rand(200, dtype=torch.float64)
    b = a + 0.1 + torch.randn(200) / 9
    mean, error = (b - a).mean().item(), (b - a).std().item() / 200**0.5
    assert interval(a.tolist(), b.tolist()) == pytest.approx((mean, mean - 1.96 * error, mean + 1.96 * error), rel=0.03)
    alone = interval(a.tolist(), b.tolist(), groups=list(range(200)))
    assert alone == interval(a.tolist(), b.tolist())
    twice = interval(a.repeat(4).tolist(), b.repeat(4).tolist(), groups=[*range(200)] * 4)
    assert twice == pytest.approx(alone)  # copies in one group tell nothing new
    few, small = torch.tensor([0.0] * 9 + [1.0]), [0.0] * 10  # groups of different sizes: means of pairs, not of groups
    drawn = interval(small, few.tolist(), groups=["x"] * 9 + ["y"])
    assert drawn == pytest.approx((0.1, 0.0, 1.0))
    training = ["a b c", "d e f g", "a b x"]
    assert listing["nearest"]("G, e d", training) == (1, 3 / 4) and listing["nearest"]("a b c", training) == (0, 1)


# What each listing computes, compared with the package or with torch.
COMPARISONS: dict[str, Callable[[Names], None]] = {
    "01_attention": attention_with_masks,
    "02_masked_softmax": masks,
    "03_multi_head_attention": heads,
    "04_positional_encoding": positions,
    "05_layers": blocks,
    "07_training_on_toy_summaries": training,
    "08_decoding": decoding,
    "09_speed": kv_cache,
    "10_scale": data_parallel,
    "14_before_and_beside": recurrent,
    "12_pretrained": part_by_part,
    "16_families_and_scale": llama,
    "17_adapt_and_compress": lora,
    "18_pictures_and_text": pictures,
    "13_your_own": five_mistakes,
    "15_cheaper_attention": sliding_window,
    "11_real_text": evaluation,
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_needs_torch_only_and_computes_what_the_package_does(name):
    nodes = [*ast.walk(ast.parse(LISTINGS[name]))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} - sys.stdlib_module_names == {"torch"}
    torch.manual_seed(0)
    COMPARISONS[name](run(LISTINGS[name]))


LAYERS = "nn.ModuleDict({'query': nn.Linear(16, 16), 'value': nn.Linear(16, 16)})"


@pytest.mark.parametrize(
    ("lesson", "call", "message"),
    [
        ("01", "attention_matrix(torch.ones(3, 6), torch.ones(3, 6), torch.ones(3, 3))", r"use mask\.bool"),
        ("01", "attention_matrix(torch.ones(3, 6), torch.ones(3, 8))", "queries are 6 wide and keys 8"),
        ("02", "masked_attention(*torch.ones(3, 2, 3, 4, 8), torch.ones(2, 4, 4).bool())", "boolean with four axes"),
        ("02", "hide_future(3, 2)", "3 queries need as many keys"),
        ("03", "GroupedQueryAttention(24, 6, num_kv_heads=4)", "num_kv_heads=4 must divide num_heads"),
        ("04", "PositionalEncoding(24, 9)(torch.ones(2, 5, 24), past=5)", "max_length is 9, but x needs 10"),
        ("05", "Block(24, 6, 48)(*torch.ones(3, 1, 5, 24))", "pass memory if, and only if, cross_attention=True"),
        ("05", "MLP(24, 48, 'silu')", "activation must be in"),
        ("08", "generate(None, torch.ones(1, 1), 16, eos_id=2, top_k=9)", "top_k need do_sample=True"),
        ("09", "CachedSelfAttention(24, 6)(torch.ones(1, 10, 24), KVCache(9))", "room for 9 tokens, got 10"),
        ("11", "paired_bootstrap([1.0], [1.0, 2.0])", "1 and 2 scores, 1 groups"),
        ("12", "first_difference({'x': torch.ones(1)}, {})", "ours has 1 parts and theirs 0"),
        ("15", "SlidingWindowAttention(24, 6, window=0)", "window=0"),
        ("16", "CausalLM(50, 32, 4, 3, 88, 1)", "num_kv_heads=3 must divide num_heads"),
        ("17", f"add_lora({LAYERS}, ['query', 'key'])", "no linear layer is called"),
        ("17", f"add_lora({LAYERS}, ['query'], rank=17)", "rank=17 must be from 1 to 16"),
        ("17", f"load_lora({LAYERS}, {{'model.query.lora_a': torch.ones(3, 16)}})", "only one of model and file has"),
        ("18", "ViTEncoder(24, 6, 64, 1, 4, 128)(torch.ones(1, 3, 24, 25))", "pictures of 24 by 25, but patches of 6"),
    ],
)
def test_a_listing_refuses_in_words_what_it_cannot_compute(lesson, call, message):
    [source] = [source for name, source in LISTINGS.items() if name.startswith(lesson)]
    with pytest.raises((TypeError, ValueError), match=message):
        eval(call, run(source))
