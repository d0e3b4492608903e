"""A listing is pasted into other projects: it runs alone, needs only torch, and computes what the package does."""

import ast
import itertools
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer
from torch import Tensor
from transformers.models.llama import modeling_llama
from transformers.models.llama.configuration_llama import LlamaConfig

from tests import ROOT
from tests.nbclaims.cells import read, tags
from tfm_lib.attention import MultiHeadAttention, attention
from tfm_lib.data.batches import Batch
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import make_optimizer, sequence_loss, train_step
from tfm_lib.masks import causal_mask, padding_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.positions import SinusoidalPositions
from tfm_lib.pretrained import newsroom_model
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
        torch.testing.assert_close(
            layer(text, other, other, shown, is_causal=causal), attention(q, k, v, shown, causal=causal)
        )
    fused = torch.nn.functional.scaled_dot_product_attention
    torch.testing.assert_close(layer(text, other, other, mask), fused(q, k, v, mask))
    q, k, v = layer.q_proj(text), layer.k_proj(text), layer.v_proj(text)
    torch.testing.assert_close(layer(text, text, text, is_causal=True), fused(q, k, v, is_causal=True))

    nothing = listing["attention_matrix"](q, k, torch.zeros(3, 3, dtype=torch.bool))
    nothing.sum().backward()
    assert not nothing.any() and layer.q_proj.weight.grad.isfinite().all()
    with pytest.raises(TypeError, match=r"use mask\.bool"):
        listing["attention_matrix"](q, k, torch.ones(3, 3))
    with pytest.raises(ValueError, match="queries are 6 wide and keys 8"):
        listing["attention_matrix"](q, v)


def with_weights_of(theirs: torch.nn.Module) -> MultiHeadAttention:
    ours = MultiHeadAttention(24, 6)
    for letter, name in {"q": "query", "k": "key", "v": "value", "o": "output"}.items():
        getattr(ours, f"{name}_proj").load_state_dict(getattr(theirs, f"{letter}_proj").state_dict())
    return ours


def heads(listing: Names) -> None:
    theirs = listing["GroupedQueryAttention"](24, 6)
    ours = with_weights_of(theirs)
    text, other = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    torch.testing.assert_close(theirs(text, other, other), ours(text, other, other))
    mask = causal_mask(5)
    torch.testing.assert_close(theirs(text, text, text, mask), ours(text, text, text, mask))

    shared = listing["GroupedQueryAttention"](24, 6, num_kv_heads=2, dropout=0.5)
    assert not torch.equal(shared(text, text, text), shared(text, text, text))
    shared.eval()
    q, k, v = (shared.split(layer(text)) for layer in (shared.q_proj, shared.k_proj, shared.v_proj))
    fused = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected = shared.o_proj(fused.transpose(1, 2).flatten(2))
    torch.testing.assert_close(shared(text, text, text, mask), expected)
    with pytest.raises(ValueError, match="num_kv_heads=4 must divide num_heads"):
        listing["GroupedQueryAttention"](24, 6, num_kv_heads=4)


def positions(listing: Names) -> None:
    text, tables = torch.randn(2, 5, 24), (listing["PositionalEncoding"](24, 9), SinusoidalPositions(24, 9))
    torch.testing.assert_close(tables[0](text, past=4), tables[1](text, past=4))
    assert not tables[0].state_dict()
    with pytest.raises(ValueError, match="max_length is 9, but x needs 10"):
        tables[0](text, past=5)

    scaling = {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, rope_parameters=scaling)
    query, places = torch.randn(2, 4, 5, 16), torch.tensor([[0, 0, 1, 2, 3], [7, 8, 9, 10, 11]])
    cosine, sine = modeling_llama.LlamaRotaryEmbedding(config)(query, places)
    theirs, _ = modeling_llama.apply_rotary_pos_emb(query, query, cosine, sine)
    ours = listing["RotaryEmbedding"](16, base=500.0, factor=4.0)
    torch.testing.assert_close(ours(query, places), theirs)
    torch.testing.assert_close(ours(query[1:], places[1]), theirs[1:])
    same = torch.ones(1, 1, 5, 16, dtype=torch.bfloat16)  # bfloat16 would take position 257 for 256
    assert ours(same, torch.arange(256, 261)).unique(dim=2).shape[2] == 5


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
    torch.testing.assert_close(by_package(joined.src, joined.decoder_input), logits, rtol=1e-4, atol=1e-5)
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


def masks(listing: Names) -> None:
    ids = torch.tensor([[5, 6, 7, 8], [0, 0, 5, 6]])
    mask = listing["hide_padding"](ids, 0) & listing["hide_future"](4, 4)
    assert torch.equal(mask, padding_mask(ids, 0) & causal_mask(4))
    assert torch.equal(listing["hide_future"](2, 5), causal_mask(2, past=3))
    assert listing["position_ids_of"](ids, 0).tolist() == [[0, 1, 2, 3], [0, 0, 0, 1]]
    x = torch.randn(2, 3, 4, 8, requires_grad=True)
    result = listing["masked_attention"](x, x, x, mask)
    torch.testing.assert_close(result, attention(x, x, x, mask))
    torch.testing.assert_close(result, torch.nn.functional.scaled_dot_product_attention(x, x, x, mask))
    assert not result[1, :, :2].any() and torch.autograd.grad(result.sum(), x)[0].isfinite().all()
    with pytest.raises(ValueError, match="boolean with four axes"):
        listing["masked_attention"](x, x, x, mask[:, 0])
    with pytest.raises(ValueError, match="3 queries need as many keys"):
        listing["hide_future"](3, 2)

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
    with pytest.raises(ValueError, match="top_k need do_sample=True"):
        generate(next_logits, start, 16, **ids, top_k=9)
    for alpha, stopping in ((0.0, False), (1.0, False), (1.0, True)):
        settings: Names = {"num_beams": 3, "length_penalty": alpha, "early_stopping": stopping}
        expected = beam_hypotheses(model, src, 16, **settings)
        found = listing["generate_with_beams"](next_logits, start[:1], 16, **ids, **settings)
        torch.testing.assert_close(torch.tensor([score for score, _ in found]), expected.scores[0])
        assert [vocabulary.decode(text) for _, text in found] == [*map(vocabulary.decode, expected.tokens[0])]

    logits, probs_of = torch.randn(2, 3, 50), listing["sampling_probs"]
    for knobs in ({"temperature": 0.5}, {"top_k": 7}, {"top_p": 0.6}, dice):
        torch.testing.assert_close(probs_of(logits, **knobs), next_token_probs(logits, **knobs))
    bar = logits.amax(-1, keepdim=True) + torch.tensor(0.2).log()
    torch.testing.assert_close(probs_of(logits, min_p=0.2), logits.masked_fill(logits < bar, -torch.inf).softmax(-1))


def kv_cache(listing: Names) -> None:
    theirs, cache, text = listing["CachedSelfAttention"](24, 6), listing["KVCache"](9), torch.randn(2, 9, 24)
    whole = with_weights_of(theirs)(text, text, text, causal_mask(9))
    torch.testing.assert_close(theirs(text), whole)
    with torch.no_grad():  # prefill, decode, and several new tokens at once
        parts = [theirs(new, cache) for new in text.split([4, 1, 3, 1], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)

    kept = KeyValueCache(9)
    kept.update(theirs.split(theirs.k_proj(text)), theirs.split(theirs.v_proj(text)))
    torch.testing.assert_close((cache.key, cache.value), kept.all())
    with pytest.raises(ValueError, match="room for 9 tokens, got 10"):
        theirs(text[:, :1], cache)


def evaluation(listing: Names) -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"])
    texts = [
        "",
        "the nodes of the graph",
        "A graph's nodes!\nThe edges, and the nodes.",
        "the the\n\nof nodes of the the",
    ]
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
    with pytest.raises(ValueError, match="1 and 2 scores, 1 groups"):
        interval([1.0], [1.0, 2.0])
    training = ["a b c", "d e f g", "a b x"]
    assert listing["nearest"]("G, e d", training) == (1, 3 / 4) and listing["nearest"]("a b c", training) == (0, 1)


# What each listing computes, compared with the package or with torch.
COMPARISONS: dict[str, Callable[[Names], None]] = {
    "01_attention": attention_with_masks,
    "02_masked_softmax": masks,
    "03_multi_head_attention": heads,
    "04_positional_encoding": positions,
    "07_training_on_toy_summaries": training,
    "08_decoding": decoding,
    "09_speed": kv_cache,
    "11_real_text": evaluation,
}


def test_each_listing_is_compared():
    assert {*LISTINGS} == {*COMPARISONS}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_needs_torch_only_and_computes_what_the_package_does(name):
    nodes = [*ast.walk(ast.parse(LISTINGS[name]))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} - sys.stdlib_module_names == {"torch"}
    torch.manual_seed(0)
    COMPARISONS[name](run(LISTINGS[name]))
