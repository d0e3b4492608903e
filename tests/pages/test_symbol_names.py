"""Names of docs/symbols.md that one could mistake for others are right: called by them, things do what their row says.

A check reads its names from the page, so that two that changed places make it fail. That all names exist, and that ours
are where they are defined, is in test_symbols.py.
"""

import math
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from tests.model.references import randomize
from tests.pages.test_symbols import LETTERS, LIBRARIES, NAMES, SHORT, code, library, step
from tfm_lib.attention import MultiHeadAttention, attention
from tfm_lib.layers import DecoderLayer, EncoderLayer
from tfm_lib.masks import causal_mask, length_mask
from tfm_lib.pretrained import names as pretrained

OURS, TORCH, BART, D2L = LIBRARIES
ROWS = {row.get("term") or row["letter"]: row for row in LETTERS + NAMES}
CHECKS: list[Callable[[], None]] = []
WIDTH = "feed-forward network, width"
HEAD_WIDTH = next(row["letter"] for row in LETTERS if "one head" in row["counts"])
SIZES = {"V": 31, "D": 24, "H": 4, WIDTH: 40, "encoder layer": 2, "decoder layer": 3}
SIZES |= {"padding": 3, "start sign": 4, "end sign": 5}
X, MEMORY = (torch.randn(2, length, 24, generator=torch.Generator().manual_seed(length)) for length in (5, 7))


def holds(check: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(check)
    return check


def word(term: str, column: str, owner: str, place: int = 0) -> str:
    """What the row of a term calls it in an owner, as an attribute or an argument; of several the one at a place."""
    found = [m[1] for name in code(ROWS[term][column]) if (m := re.fullmatch(rf"{re.escape(owner)}[.(](\w+)\)?", name))]
    assert len(found) > place, f"the row of {term} has no name of {owner} in the column {column}"
    return found[place]


def words(column: str, owner: str, values: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a call, by the names of the page."""
    return {word(term, column, owner): value for term, value in values.items()}


def thing(term: str, column: str, place: int = 0) -> Any:
    """The class or function itself that a row names; of several names the one at a place."""
    name = code(ROWS[term][column])[place]
    assert "(" not in name, f"the row of {term} should name it, not an argument: {name}"
    for short, long in SHORT.items():
        name = long + name.removeprefix(short) if name.startswith(short) else name
    first_part, *rest = name.split(".")
    found: Any = next(
        step(module, first_part) for module in library(column) if hasattr(step(module, first_part), "__name__")
    )
    for attribute in rest:
        look = step if isinstance(found, ModuleType) else getattr  # not what only the instances of a class have
        found = look(found, attribute)
    return found


def part(module: nn.Module, term: str, column: str, place: int = 0) -> Any:
    """What a row names inside a module of the class that it says."""
    prefix = {OURS: f"{type(module).__module__.removeprefix('tfm_lib.')}.", TORCH: "nn."}.get(column, "")
    return getattr(module, word(term, column, prefix + type(module).__name__, place))


def bart_config(**options: Any) -> Any:
    sizes = words(BART, "BartConfig", SIZES | {"dropout": 0.0})
    fixed = dict(bos_token_id=0, forced_eos_token_id=None, activation_function="relu", max_position_embeddings=32)
    fixed |= dict(decoder_attention_heads=4, decoder_ffn_dim=40, attn_implementation="eager")
    return library(BART)[0].BartConfig(**sizes, **fixed, **options)


def first(out: Any) -> torch.Tensor:
    return out[0] if isinstance(out, tuple) else out


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.allclose(ours, theirs, atol=1e-4)


# ----------------------------------------------------------------------------------------------------
# Sizes and ids


@holds
def sizes_of_bart_are_those_that_our_loading_of_published_weights_reads() -> None:
    for term in (*SIZES, "dropout"):
        ours = word(term, OURS, "model.TransformerConfig")
        assert word(term, BART, "BartConfig") in pretrained.SIZES[ours], term
    attention_of_bart = thing("multi-head attention", BART)(24, 4)
    assert part(attention_of_bart, HEAD_WIDTH, BART) == 6
    for tied in (True, False):
        config = bart_config(**words(BART, "BartConfig", {"weight tying": tied, "embedding, scale": tied}))
        model = library(BART)[0].BartForConditionalGeneration(config)
        assert (model.lm_head.weight is part(model.model, "embedding", BART).weight) == tied
        assert model.model.encoder.embed_tokens.embed_scale == (math.sqrt(24) if tied else 1)
    causal = word("causal mask", BART, "BartAttention")
    layer = part(model.model, "decoder", BART).layers[0]
    assert getattr(layer.self_attn, causal) and not getattr(layer.encoder_attn, causal)


# ----------------------------------------------------------------------------------------------------
# Weights, copied by their names


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.Module, column: str) -> None:
    for which in ("queries", "keys", "values", "output"):
        term = f"projection, {which}"
        source, target = part(ours, term, OURS), part(theirs, term, column)
        if isinstance(target, nn.Module):
            target.load_state_dict(source.state_dict())
        else:
            begin, end = re.findall(r"\(rows (.+) to (.+)\)", ROWS[term][column])[0]
            rows = slice(*(24 * int(place.replace("D", "") or 1) if "D" in place else 0 for place in (begin, end)))
            target[rows], theirs.in_proj_bias[rows] = source.weight, source.bias


LAYERS = {TORCH: "nn.TransformerEncoderLayer", BART: "BartEncoderLayer", D2L: "TransformerEncoderBlock"}


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module, column: str, norms: list[Any]) -> None:
    """All weights of a layer, by the names that the page has; those of an encoder layer are the decoder's, too."""
    copy_attention(ours.self_attention, getattr(theirs, word("self-attention", column, LAYERS[column])), column)
    if isinstance(ours, DecoderLayer):
        copy_attention(part(ours, "cross-attention", OURS), part(theirs, "cross-attention", column), column)
    network, owner = (theirs.ffn, "PositionWiseFFN") if column == D2L else (theirs, LAYERS[column])
    for place in (0, 1):
        source = part(ours.feed_forward, "feed-forward network", OURS, place)
        target: Any = getattr(network, word("feed-forward network", column, owner, place))
        target.load_state_dict(source.state_dict())
    around = [module for name, module in ours.named_children() if name.startswith("around")]
    for residual, norm in zip(around, norms, strict=True):
        norm.load_state_dict(part(residual, "LayerNorm", OURS).state_dict())


def our_layers() -> list[Any]:
    return [randomize(kind(24, 4, 40), seed).eval() for seed, kind in enumerate((EncoderLayer, DecoderLayer))]


@holds
def layers_of_torch() -> None:
    encoder, decoder = our_layers()
    layer = thing("encoder layer", TORCH)(24, 4, 40, dropout=0.0, batch_first=True)
    copy_layer(encoder, layer, TORCH, [layer.norm1, layer.norm2])
    assert same(encoder(X), layer(X)) and isinstance(layer.norm1, thing("LayerNorm", TORCH))
    stack = thing("decoder", TORCH)(thing("decoder layer", TORCH)(24, 4, 40, dropout=0.0, batch_first=True), 1)
    [layer] = stack.layers
    copy_layer(decoder, layer, TORCH, [layer.norm1, layer.norm2, layer.norm3])
    future = thing("causal mask", TORCH, 1)(5)
    memory = words(TORCH, "nn.TransformerDecoder.forward", {"memory": MEMORY})
    assert same(decoder(X, MEMORY, mask=thing("causal mask", OURS)(5)), stack(X, tgt_mask=future, **memory))


@holds
def layers_of_bart() -> None:
    encoder, decoder = our_layers()
    layer = thing("encoder layer", BART)(bart_config()).eval()
    copy_layer(encoder, layer, BART, [layer.self_attn_layer_norm, part(layer, "LayerNorm", BART)])
    assert same(encoder(X), first(layer(X, attention_mask=None)))
    layer = thing("decoder layer", BART)(bart_config(), layer_idx=0).eval()
    copy_layer(
        decoder, layer, BART, [layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm]
    )
    future = torch.zeros(1, 1, 5, 5).masked_fill(~causal_mask(5), -math.inf)
    memory = words(BART, "BartDecoderLayer.forward", {"memory": MEMORY})
    assert same(decoder(X, MEMORY, mask=causal_mask(5)), first(layer(X, attention_mask=future, **memory)))
    mask = words(BART, "BartAttention.forward", {"mask": future.expand(2, 1, 5, 5)})
    assert same(decoder.self_attention(X, X, X, causal_mask(5)), layer.self_attn(X, **mask)[0])


@holds
def layers_of_d2l() -> None:
    encoder, _ = our_layers()
    block = thing("encoder layer", D2L)(24, 40, 4, 0.0, use_bias=True)
    block(X, None)  # its lazy layers get their sizes
    copy_layer(encoder, block, D2L, [part(norm, "LayerNorm", D2L) for norm in (block.addnorm1, block.addnorm2)])
    assert same(encoder(X), block(X, None))
    residual = thing("residual connection", OURS)(24).eval()
    added = thing("residual connection", D2L)(24, **words(D2L, "AddNorm", {"dropout": 1.0}))
    assert same(residual(X, torch.zeros_like), added(X, X)) and same(added.eval()(X, X), residual(X, lambda x: x))


# ----------------------------------------------------------------------------------------------------
# Calls, with the arguments by their names


def query_key_value() -> dict[str, torch.Tensor]:
    return {"query": torch.randn(2, 3, 8), "key": torch.randn(2, 4, 8), "value": torch.randn(2, 4, 8)}


@holds
def functions_of_attention() -> None:
    inputs, mask = query_key_value(), torch.tensor([[True, True, False, False]])
    query, key, value = inputs.values()
    ours = thing("attention", OURS)(**words(OURS, "attention.attention", inputs | {"mask": mask}))
    sdpa = "F.scaled_dot_product_attention"
    assert same(ours, attention(query, key, value, mask))
    assert same(ours, thing("attention", TORCH)(**words(TORCH, sdpa, inputs | {"mask": mask})))
    future = thing("attention", TORCH)(**words(TORCH, sdpa, inputs | {"causal mask": True}))
    assert same(future, attention(query, key, value, causal_mask(4)[0, :, :3]))
    scores = words(OURS, "masks.masked_softmax", {"score": query @ key.mT / math.sqrt(8)})
    assert same(thing("weight", OURS)(query, key), thing("masked softmax", OURS)(**scores))
    heads = nn.MultiheadAttention(8, 2, batch_first=True)
    hidden = words(TORCH, "nn.MultiheadAttention.forward", {"padding mask": ~mask.expand(2, 4), "weight": False})
    output, no_weights = heads(query, key, value, **hidden)
    assert no_weights is None and same(output, heads(query, key[:, :2], value[:, :2])[0])


@holds
def functions_of_d2l() -> None:
    inputs, theirs = query_key_value(), thing("attention", D2L)(dropout=0.0)
    query, key, value = inputs.values()
    assert same(attention(query, key, value), theirs(**words(D2L, "DotProductAttention.forward", inputs)))
    assert same(thing("weight", OURS)(query, key), part(theirs, "weight", D2L))
    lengths, scores = torch.tensor([2, 3]), torch.randn(2, 3, 4)
    mask = length_mask(**words(OURS, "masks.length_mask", {"lengths": lengths}), max_length=4).squeeze(1)
    softmax = thing("masked softmax", D2L)(scores.clone(), **words(D2L, "masked_softmax", {"lengths": lengths}))
    assert same(thing("masked softmax", OURS)(scores, mask), softmax)
    table = thing("positional encoding", OURS)(60, 12)
    assert same(table, part(library(D2L)[0].PositionalEncoding(12, 0.0), "positional encoding", D2L)[0, :60])
    batch = {word("token", D2L, "EncoderDecoder.forward", place): ids for place, ids in enumerate((1, 2))}
    encoder, decoder = nn.Identity(), nn.Identity()
    decoder.init_state, decoder.forward = (lambda memory: memory), (lambda tgt, memory: [(tgt, memory)])
    assert library(D2L)[0].EncoderDecoder(encoder, decoder)(**batch) == (2, 1)


@holds
def decoding() -> None:
    from tests.pretrained.test_generate import LONGEST, sources, twins

    ours, theirs = twins("bart", 2, end_bias=2.0, dtype=torch.float64)
    src = sources(ours, (9,))

    def write(**settings: Any) -> list[int]:
        return thing("greedy decoding", BART)(theirs, src, max_new_tokens=LONGEST, **settings)[0, 1:].tolist()

    def sample(settings: dict[str, Any]) -> list[int]:
        options = words(OURS, "writing.decoding.sample", settings)
        return thing("sampling", OURS)(ours, src, LONGEST, generator=torch.Generator(), **options)[0].tolist()

    most_probable = thing("greedy decoding", OURS)(ours, src, LONGEST)[0].tolist()
    drawn = words(BART, "GenerationConfig", {"sampling": True})
    assert write(do_sample=False, num_beams=1) == most_probable
    for only in ({"top-k": 1}, {"top-p": 1e-6}, {"temperature": 1e-6}):
        assert sample(only) == write(**drawn, **words(BART, "GenerationConfig", only)) == most_probable
    for term in ("top-k", "top-p", "temperature"):  # each is named where it is wrong
        with pytest.raises(ValueError, match=term.replace("-", "_")):
            sample({term: -1.0})
        with pytest.raises(ValueError, match=term.replace("-", "_")):
            write(**drawn, **words(BART, "GenerationConfig", {term: -1.0}))
    texts = []
    for power in (-3.0, 3.0):
        beams = words(BART, "GenerationConfig", {"beam search": 4, "length penalty": power})
        penalty = words(OURS, "writing.beam.beam_search", {"length penalty": power})
        texts.append(thing("beam search", OURS)(ours, src, LONGEST, **penalty)[0].tolist())
        assert texts[-1] == write(do_sample=False, **beams)[: len(texts[-1])]
        best = thing("beam search", OURS, 1)(ours, src, LONGEST, **penalty).tokens[0, 0]
        assert best[: len(texts[-1])].tolist() == texts[-1]
    assert texts[0] != texts[1]


# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_names_mean_what_their_row_says(check):
    torch.manual_seed(0)
    check()
