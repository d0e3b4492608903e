"""A listing is pasted into other projects: it runs alone, needs only torch, and computes what the package does."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests import ROOT
from tests.nbclaims.cells import read, tags
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.masks import causal_mask
from tfm_lib.writing.cache import KeyValueCache

Names = dict[str, Any]
BOOKS = {path.stem: read(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
LISTINGS = {name: cell.source for name, book in BOOKS.items() for cell in book.cells if "listing" in tags(cell)}


def run(source: str) -> Names:
    names: Names = {"__name__": "pasted"}
    exec(compile(source, "listing", "exec"), names)
    return names


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


# What each listing computes, compared with the package or with torch.
COMPARISONS: dict[str, Callable[[Names], None]] = {"03_multi_head_attention": heads, "09_speed": kv_cache}


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
