"""A listing is pasted into other projects: it runs alone, needs only torch, and computes what the package does."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import ROOT
from tests.nbclaims.cells import read, tags
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.masks import causal_mask
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.beam import beam_hypotheses
from tfm_lib.writing.decoding import greedy, sample
from tfm_lib.writing.next_token import next_token_probs

Names = dict[str, Any]
BOOKS = {path.stem: read(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
LISTINGS = {name: cell.source for name, book in BOOKS.items() for cell in book.cells if "listing" in tags(cell)}


def run(source: str) -> Names:
    names: Names = {"__name__": "pasted"}
    exec(compile(source, "listing", "exec"), names)
    return names


def heads(listing: Names) -> None:
    theirs, ours = listing["GroupedQueryAttention"](24, 6), MultiHeadAttention(24, 6)
    for letter, name in {"q": "query", "k": "key", "v": "value", "o": "output"}.items():
        getattr(ours, f"{name}_proj").load_state_dict(getattr(theirs, f"{letter}_proj").state_dict())
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


# What each listing computes, compared with the package or with torch.
COMPARISONS: dict[str, Callable[[Names], None]] = {"03_multi_head_attention": heads, "08_decoding": decoding}


def test_each_listing_is_compared():
    assert {*LISTINGS} == {*COMPARISONS}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_needs_torch_only_and_computes_what_the_package_does(name):
    nodes = [*ast.walk(ast.parse(LISTINGS[name]))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} == {"torch"}
    torch.manual_seed(0)
    COMPARISONS[name](run(LISTINGS[name]))
