"""A listing is pasted into other projects: it runs alone, needs only torch, and computes what the package does."""

import ast
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers.models.llama import modeling_llama
from transformers.models.llama.configuration_llama import LlamaConfig

from tests import ROOT
from tests.nbclaims.cells import read, tags
from tfm_lib.attention import MultiHeadAttention, attention
from tfm_lib.masks import causal_mask
from tfm_lib.positions import SinusoidalPositions

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


# What each listing computes, compared with the package or with torch.
COMPARISONS: dict[str, Callable[[Names], None]] = {
    "01_attention": attention_with_masks,
    "03_multi_head_attention": heads,
    "04_positional_encoding": positions,
}


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
