"""Every code name of docs/symbols.md is the right one: what is built, copied and called by it does what its row says.

A check reads its names from the page, so that a name of another row, or two that changed places, make it fail.
"""

import math
import re
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import tfm_lib
from tests.model.references import randomize
from tests.pages.test_symbols import LETTERS, LIBRARIES, NAMES, SHORT, code, library, names, step
from tfm_lib.attention import MultiHeadAttention, attention
from tfm_lib.data import newsroom
from tfm_lib.layers import DecoderLayer, EncoderLayer
from tfm_lib.masks import causal_mask, length_mask
from tfm_lib.model import Transformer, TransformerConfig

OURS, TORCH, BART, D2L = LIBRARIES
ROWS = {row.get("term") or row["letter"]: row for row in LETTERS + NAMES}
READ: set[tuple[str, str, str]] = set()  # row, column and name of what checks have read
CHECKS: list[Callable[[], None]] = []
UNHELD = {  # what no check builds or calls, and why
    "Seq2SeqTrainingArguments.label_smoothing_factor": "only the Trainer reads it, which wants a package more",
    "PreTrainedTokenizerBase": "has no vocabulary of its own, only its subclasses have",
    "EncoderDecoder.predict_step": "d2l's decoding is not correct, so that there is nothing to compare it with",
}
WIDTH = "feed-forward network, width"
SIZES = {"V": 31, "D": 24, "H": 4, WIDTH: 40, "encoder layer": 2, "decoder layer": 3}
IDS = {"padding": 3, "start sign": 4, "end sign": 5}
CONFIG = "model.TransformerConfig"
X, MEMORY = (torch.randn(2, length, 24, generator=torch.Generator().manual_seed(length)) for length in (5, 7))


def holds(check: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(check)
    return check


def word(term: str, column: str, owner: str, place: int = 0) -> str:
    """What the row of a term calls it in an owner, as an attribute or an argument; of several the one at a place."""
    found = [(n, m[1]) for n in code(ROWS[term][column]) if (m := re.fullmatch(rf"{re.escape(owner)}[.(](\w+)\)?", n))]
    assert len(found) > place, f"the row of {term} has no name of {owner} in the column {column}"
    READ.add((term, column, found[place][0]))
    return found[place][1]


def words(column: str, owner: str, values: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a call, by the names of the page."""
    return {word(term, column, owner): value for term, value in values.items()}


def thing(term: str, column: str, place: int = 0) -> Any:
    """The class or function itself that a row names; of several names the one at a place."""
    name = code(ROWS[term][column])[place]
    assert "(" not in name, f"the row of {term} should name it, not an argument: {name}"
    READ.add((term, column, name))
    for short, long in SHORT.items():
        name = long + name.removeprefix(short) if name.startswith(short) else name
    first, *rest = name.split(".")
    found: Any = next(step(module, first) for module in library(column) if hasattr(step(module, first), "__name__"))
    for part_of_name in rest:
        look = step if isinstance(found, ModuleType) else getattr  # not what only the instances of a class have
        found = look(found, part_of_name)
    return found


def part(module: nn.Module, term: str, column: str, place: int = 0) -> Any:
    """What a row names inside a module of the class that it says."""
    prefix = {OURS: f"{type(module).__module__.removeprefix('tfm_lib.')}.", TORCH: "nn."}.get(column, "")
    return getattr(module, word(term, column, prefix + type(module).__name__, place))


def our_model(more: dict[str, Any] | None = None) -> Transformer:
    options = words(OURS, CONFIG, SIZES | IDS | {"dropout": 0.0} | (more or {}))
    return randomize(Transformer(TransformerConfig(**options, logits_bias=True))).eval()  # type: ignore[return-value]


def bart_config(more: dict[str, Any] | None = None, **rest: Any) -> Any:
    values = SIZES | IDS | {"dropout": 0.0} | (more or {})
    options = dict(bos_token_id=0, forced_eos_token_id=None, activation_function="relu", max_position_embeddings=32)
    options |= dict(decoder_attention_heads=4, decoder_ffn_dim=40, attn_implementation="eager") | rest
    return library(BART)[0].BartConfig(**words(BART, "BartConfig", values), **options)


# ----------------------------------------------------------------------------------------------------
# Sizes and ids


@holds
def sizes_of_our_model() -> None:
    model = our_model({"pre-norm": True, "embedding, scale": 3.0, "weight tying": False, "dropout": 0.25})
    encoder, decoder = model.encoder, model.decoder
    assert (len(encoder.layers), len(decoder.layers)) == (2, 3)
    assert (type(encoder), type(decoder)) == (thing("encoder", OURS), thing("decoder", OURS))
    assert type(encoder.layers[0]) is thing("encoder layer", OURS)
    assert type(decoder.layers[0]) is thing("decoder layer", OURS)
    assert type(encoder.layers[0].feed_forward) is thing("feed-forward network", OURS)
    own = part(encoder.layers[0], "self-attention", OURS)
    assert type(own) is thing("multi-head attention", OURS) and own is encoder.layers[0].self_attention
    assert own.num_heads == 4 and encoder.layers[0].feed_forward.expand.weight.shape == (40, 24)
    assert part(encoder.embedding, "embedding", OURS).weight.shape == (31, 24)
    assert part(model, "logits", OURS).weight.shape == (31, 24)
    assert isinstance(encoder.norm, nn.LayerNorm) and encoder.embedding.scale == 3.0
    assert encoder.layers[0].around_feed_forward.dropout.p == 0.25
    assert model.output.weight is not encoder.embedding.tokens.weight
    tied = our_model({"weight tying": True})
    assert tied.output.weight is tied.encoder.embedding.tokens.weight


@holds
def sizes_of_torch() -> None:
    terms = ("D", WIDTH, "encoder layer", "decoder layer")
    options = words(TORCH, "nn.Transformer", {term: SIZES[term] for term in terms} | {"pre-norm": True})
    with warnings.catch_warnings():  # with norm_first it says that its fast path is off
        warnings.simplefilter("ignore", UserWarning)
        model = nn.Transformer(nhead=4, **options)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (2, 3)
    layer = model.encoder.layers[0]
    assert layer.norm_first and layer.linear1.weight.shape == (40, 24)
    assert (type(model.encoder), type(model.decoder)) == (thing("encoder", TORCH), thing("decoder", TORCH))
    assert (type(layer), type(model.decoder.layers[0])) == (
        thing("encoder layer", TORCH),
        thing("decoder layer", TORCH),
    )
    heads = thing("multi-head attention", TORCH)(24, **words(TORCH, "nn.MultiheadAttention", {"H": 4}))
    assert (heads.num_heads, part(heads, "K", TORCH)) == (4, 6)
    table = thing("embedding", TORCH)(embedding_dim=24, **words(TORCH, "nn.Embedding", {"V": 31, "padding": 3}))
    assert table.weight.shape == (31, 24) and not table.weight[3].any() and table.weight[4].any()
    dropped = nn.Dropout(**words(TORCH, "nn.Dropout", {"dropout": 1.0}))(torch.ones(9))
    assert not dropped.any()
    assert isinstance(layer.norm1, thing("LayerNorm", TORCH))


@holds
def sizes_of_bart() -> None:
    config = bart_config({"dropout": 0.25, "embedding, scale": True}, decoder_attention_heads=3, decoder_ffn_dim=48)
    model = library(BART)[0].BartModel(config)
    encoder, decoder = part(model, "encoder", BART), part(model, "decoder", BART)
    assert (len(encoder.layers), len(decoder.layers)) == (2, 3)
    layer = encoder.layers[0]
    assert (type(layer), type(decoder.layers[0])) == (thing("encoder layer", BART), thing("decoder layer", BART))
    own = part(layer, "self-attention", BART)
    assert type(own) is thing("multi-head attention", BART) and own is layer.self_attn
    assert (own.num_heads, part(own, "K", BART), layer.fc1.out_features) == (4, 6, 40)
    assert (layer.dropout, encoder.dropout) == (0.25, 0.25) and encoder.embed_tokens.embed_scale == math.sqrt(24)
    assert part(model, "embedding", BART).weight.shape == (31, 24) and model.shared.padding_idx == 3
    assert isinstance(encoder.embed_positions, thing("learned positions", BART))
    causal = word("causal mask", BART, "BartAttention")
    layer = decoder.layers[0]
    assert getattr(layer.self_attn, causal) and not getattr(layer.encoder_attn, causal)
    for tied in (True, False):
        whole = library(BART)[0].BartForConditionalGeneration(bart_config({"weight tying": tied}))
        assert (whole.lm_head.weight is whole.model.shared.weight) == tied


@holds
def sizes_of_d2l() -> None:
    names = {"V": 31, "D": 24, "encoder layer": 2}
    encoder_class = thing("encoder", D2L)
    options = {word(term, D2L, "TransformerEncoder"): value for term, value in names.items()}
    encoder = encoder_class(ffn_num_hiddens=40, num_heads=4, dropout=0.0, **options)
    assert len(encoder.blks) == 2 and type(encoder.blks[0]) is thing("encoder layer", D2L)
    assert part(encoder, "embedding", D2L).weight.shape == (31, 24)
    own = part(encoder.blks[0], "self-attention", D2L)
    assert type(own) is thing("multi-head attention", D2L)
    heads = thing("multi-head attention", D2L)(24, dropout=0.0, **words(D2L, "MultiHeadAttention", {"H": 4}))
    assert heads.num_heads == 4
    ffn = library(D2L)[0].PositionWiseFFN(ffn_num_outputs=24, **words(D2L, "PositionWiseFFN", {WIDTH: 40}))
    ffn(X)
    assert ffn.dense1.weight.shape == (40, 24)


@holds
def ids_mean_padding_start_and_end() -> None:
    """The first thing that is read is the start, the end ends the text, and padding is not read."""
    ours, theirs = our_model(), library(BART)[0].BartForConditionalGeneration(bart_config()).eval()
    src = torch.tensor([[7, 8, 9], [7, 8, 3]])
    assert torch.equal(ours.encode(src), ours.encode(src, (src != 3)[:, None, None]))
    assert not torch.equal(ours.encode(src), ours.encode(src, torch.ones(2, 1, 1, 3, dtype=torch.bool)))
    seen: list[torch.Tensor] = []
    ours.decoder.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        ours.output.bias[5], theirs.final_logits_bias[0, 5] = 1e4, 1e4
    assert thing("greedy decoding", OURS)(ours, src, 6).tolist() == [[5], [5]] and seen[0].tolist() == [[4], [4]]
    written = theirs.generate(src, attention_mask=(src != 3).long(), do_sample=False, num_beams=1, max_new_tokens=6)
    assert written.tolist() == [[4, 5], [4, 5]]


# ----------------------------------------------------------------------------------------------------
# Weights, copied by their names


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.Module, column: str) -> None:
    for which in ("queries", "keys", "values", "output"):
        term = f"projection, {which}"
        mine = part(ours, term, OURS)
        there = part(theirs, term, column)
        if isinstance(there, nn.Module):
            there.load_state_dict(mine.state_dict())
        else:
            begin, end = re.findall(r"\(rows (.+) to (.+)\)", ROWS[term][column])[0]
            rows = slice(*(24 * int(place.replace("D", "") or 1) if "D" in place else 0 for place in (begin, end)))
            there[rows], theirs.in_proj_bias[rows] = mine.weight, mine.bias


def copy_feed_forward(ours: EncoderLayer | DecoderLayer, theirs: nn.Module, column: str) -> None:
    for place in (0, 1):
        mine = part(ours.feed_forward, "feed-forward network", OURS, place)
        part(theirs, "feed-forward network", column, place).load_state_dict(mine.state_dict())


def copy_norms(ours: nn.Module, theirs: list[nn.Module]) -> None:
    around = [module for name, module in ours.named_children() if name.startswith("around")]
    for residual, norm in zip(around, theirs, strict=True):
        norm.load_state_dict(part(residual, "LayerNorm", OURS).state_dict())


def our_layers() -> tuple[EncoderLayer, DecoderLayer]:
    encoder, decoder = (
        randomize(kind(24, 4, 40), seed).eval() for seed, kind in enumerate((EncoderLayer, DecoderLayer))
    )
    return encoder, decoder  # type: ignore[return-value]


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.allclose(ours, theirs, atol=1e-4)


@holds
def layers_of_torch() -> None:
    ours, our_decoder = our_layers()
    theirs = thing("encoder layer", TORCH)(24, 4, 40, dropout=0.0, batch_first=True)
    copy_attention(ours.self_attention, part(theirs, "self-attention", TORCH), TORCH)
    copy_feed_forward(ours, theirs, TORCH)
    copy_norms(ours, [theirs.norm1, theirs.norm2])
    assert same(ours(X), theirs(X))
    stack = thing("decoder", TORCH)(thing("decoder layer", TORCH)(24, 4, 40, dropout=0.0, batch_first=True), 1)
    [layer] = stack.layers
    copy_attention(our_decoder.self_attention, layer.self_attn, TORCH)
    copy_attention(part(our_decoder, "cross-attention", OURS), part(layer, "cross-attention", TORCH), TORCH)
    layer.linear1.load_state_dict(our_decoder.feed_forward.expand.state_dict())
    layer.linear2.load_state_dict(our_decoder.feed_forward.contract.state_dict())
    copy_norms(our_decoder, [layer.norm1, layer.norm2, layer.norm3])
    future = thing("causal mask", TORCH, 1)(5)
    memory = words(TORCH, "nn.TransformerDecoder.forward", {"memory": MEMORY})
    assert same(our_decoder(X, MEMORY, mask=thing("causal mask", OURS)(5)), stack(X, tgt_mask=future, **memory))


@holds
def layers_of_bart() -> None:
    ours, our_decoder = our_layers()
    theirs = thing("encoder layer", BART)(bart_config()).eval()
    copy_attention(ours.self_attention, part(theirs, "self-attention", BART), BART)
    copy_feed_forward(ours, theirs, BART)
    copy_norms(ours, [theirs.self_attn_layer_norm, part(theirs, "LayerNorm", BART)])
    assert same(ours(X), first(theirs(X, attention_mask=None)))
    layer = thing("decoder layer", BART)(bart_config(), layer_idx=0).eval()
    copy_attention(our_decoder.self_attention, layer.self_attn, BART)
    copy_attention(our_decoder.cross_attention, part(layer, "cross-attention", BART), BART)
    layer.fc1.load_state_dict(our_decoder.feed_forward.expand.state_dict())
    layer.fc2.load_state_dict(our_decoder.feed_forward.contract.state_dict())
    copy_norms(our_decoder, [layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm])
    future = torch.zeros(1, 1, 5, 5).masked_fill(~causal_mask(5), -math.inf)
    memory = words(BART, "BartDecoderLayer.forward", {"memory": MEMORY})
    assert same(our_decoder(X, MEMORY, mask=causal_mask(5)), first(layer(X, attention_mask=future, **memory)))
    masked = words(BART, "BartAttention.forward", {"mask": future.expand(2, 1, 5, 5)})
    assert same(our_decoder.self_attention(X, X, X, causal_mask(5)), layer.self_attn(X, **masked)[0])


def first(out: Any) -> torch.Tensor:
    return out[0] if isinstance(out, tuple) else out


@holds
def layers_of_d2l() -> None:
    ours = our_layers()[0]
    theirs = thing("encoder layer", D2L)(24, 40, 4, 0.0, use_bias=True)
    theirs(X, None)  # its lazy layers get their sizes
    copy_attention(ours.self_attention, part(theirs, "self-attention", D2L), D2L)
    copy_feed_forward(ours, theirs.ffn, D2L)
    copy_norms(ours, [part(norm, "LayerNorm", D2L) for norm in (theirs.addnorm1, theirs.addnorm2)])
    assert same(ours(X), theirs(X, None))
    residual = thing("residual connection", OURS)(24).eval()
    added = thing("residual connection", D2L)(24, **words(D2L, "AddNorm", {"dropout": 1.0}))
    assert same(residual(X, torch.zeros_like), added(X, X)) and same(added.eval()(X, X), residual(X, lambda x: x))


# ----------------------------------------------------------------------------------------------------
# Calls, with the arguments by their names


@holds
def functions_of_attention() -> None:
    query, key, value = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    mask = torch.tensor([[True, True, False, False]])
    three = {"query": query, "key": key, "value": value}
    ours = thing("attention", OURS)(**words(OURS, "attention.attention", three | {"mask": mask}))
    sdpa = "F.scaled_dot_product_attention"
    assert same(ours, attention(query, key, value, mask))
    assert same(ours, thing("attention", TORCH)(**words(TORCH, sdpa, three | {"mask": mask})))
    future = thing("attention", TORCH)(**words(TORCH, sdpa, three | {"causal mask": True}))
    assert same(future, attention(query, key, value, causal_mask(4)[0, :, :3]))
    scores = query @ key.mT / math.sqrt(8)
    weights = thing("masked softmax", OURS)(**words(OURS, "masks.masked_softmax", {"score": scores}))
    assert same(thing("weight", OURS)(query, key), weights) and same(scores.softmax(-1), weights)
    heads = nn.MultiheadAttention(8, 2, batch_first=True)
    hidden = words(TORCH, "nn.MultiheadAttention.forward", {"padding mask": ~mask.expand(2, 4), "weight": False})
    assert heads(query, key, value, **hidden)[1] is None
    key[:, 2:] = value[:, 2:] = 5.0
    assert same(heads(three["query"], key, value, **hidden)[0], heads(query, key[:, :2], value[:, :2])[0])


@holds
def functions_of_d2l() -> None:
    query, key, value = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    theirs = thing("attention", D2L)(dropout=0.0)
    three = {"query": query, "key": key, "value": value}
    mixed = theirs(**words(D2L, "DotProductAttention.forward", three))
    assert same(attention(query, key, value), mixed)
    assert same(thing("weight", OURS)(query, key), part(theirs, "weight", D2L))
    lengths, scores = torch.tensor([2, 3]), torch.randn(2, 3, 4)
    hidden = words(OURS, "masks.length_mask", {"lengths": lengths})
    mask = length_mask(**hidden, max_length=4).squeeze(1)
    softmax = thing("masked softmax", D2L)(scores.clone(), **words(D2L, "masked_softmax", {"lengths": lengths}))
    assert same(thing("masked softmax", OURS)(scores, mask), softmax)
    ours = thing("additive attention", OURS)(8, 8, 5)
    added = thing("additive attention", D2L)(num_hiddens=5, dropout=0.0)
    added(query, key, value, None)
    for mine, other in ((ours.query_proj, added.W_q), (ours.key_proj, added.W_k), (ours.score, added.w_v)):
        other.load_state_dict(mine.state_dict())
    assert same(ours(query, key, value), added(query, key, value, None))
    both = words(D2L, "EncoderDecoder.forward", {"token": 1}), word("token", D2L, "EncoderDecoder.forward", 1)
    halves = nn.Identity(), nn.Identity()
    halves[1].init_state, halves[1].forward = (lambda read: read), (lambda tgt, read: [(tgt, read)])
    assert library(D2L)[0].EncoderDecoder(*halves)(**both[0], **{both[1]: 2}) == (2, 1)
    assert len(thing("vocabulary", D2L)(["a", "b", "a"])) == 3  # and one unknown


@holds
def positions() -> None:
    table = thing("positional encoding", OURS)(60, 12)
    module = thing("positional encoding", OURS, 1)(12, 60)
    assert same(module(torch.zeros(1, 60, 12))[0], table)
    theirs = thing("positional encoding", BART)(60, 12)
    halves = torch.as_tensor(theirs.create_weight())
    assert same(table[:, 0::2], halves[:, :6]) and same(table[:, 1::2], halves[:, 6:])
    learned = step(library(OURS)[0], "positions").LearnedPositions(12, 60)
    assert part(learned, "learned positions", OURS).shape == (60, 12)
    assert [name for name, _ in learned.named_parameters()] == [
        word("learned positions", OURS, "positions.LearnedPositions")
    ]


@holds
def positions_of_d2l() -> None:
    theirs = library(D2L)[0].PositionalEncoding(12, 0.0)
    assert same(thing("positional encoding", OURS)(60, 12), part(theirs, "positional encoding", D2L)[0, :60])


@holds
def losses() -> None:
    logits, labels = torch.randn(2, 3, 9), torch.tensor([[1, 2, 3], [4, 0, 0]])
    smooth = words(OURS, "learning.training.sequence_loss", {"label smoothing": 0.2})
    ours = thing("loss", OURS)(logits, labels, 0, **smooth)
    values = {"logits": logits.flatten(0, 1), "labels": labels.flatten(), "label smoothing": 0.2}
    theirs = thing("loss", TORCH)(**words(TORCH, "F.cross_entropy", values), ignore_index=0)
    assert same(ours, theirs) and not same(ours, thing("loss", OURS)(logits, labels, 0))


@holds
def losses_of_d2l() -> None:
    logits, labels = torch.randn(2, 3, 9), torch.tensor([[1, 2, 3], [4, 5, 6]])
    theirs = library(D2L)[0].Seq2Seq(None, None, lr=0.1, **words(D2L, "Seq2Seq", {"padding": 0}))
    assert theirs.tgt_pad == 0
    assert same(thing("loss", OURS)(logits, labels, 0), part(theirs, "loss", D2L)(logits, labels))
    labels[1, 1:] = 0
    counts = not same(thing("loss", OURS)(logits, labels, 0), part(theirs, "loss", D2L)(logits, labels))
    assert counts == ("counts padding, too" in ROWS["loss"][D2L])


@holds
def what_is_read_and_what_is_named() -> None:
    batches = import_module("tfm_lib.data.batches")
    batch = batches.Batch.of([[7, 8]], [[9, 10]], 3, 4, 5)
    read, labels = (getattr(batch, word(term, OURS, "data.batches.Batch")) for term in ("shift", "labels"))
    assert (read.tolist(), labels.tolist()) == ([[4, 9, 10]], [[9, 10, 5]])
    assert torch.equal(thing("shift", BART)(labels, 3, 4), read)
    mask = thing("padding mask", OURS)(torch.tensor([[7, 3]]), 3)
    assert mask.tolist() == [[[[True, False]]]]


@holds
def the_whole_model_beside_bart() -> None:
    from tests.pretrained.test_generate import sources, twins

    ours, theirs = twins("bart", seed=0, dtype=torch.float64)
    src = sources(ours)
    tgt = torch.randint(3, 39, (5, 6))
    mine = {word("token", OURS, "model.Transformer.forward", place): ids for place, ids in enumerate((src, tgt))}
    asked = {word("token", BART, "BartModel.forward", place): ids for place, ids in enumerate((src, tgt))}
    asked |= words(BART, "BartModel.forward", {"padding mask": (src != ours.config.pad_id).long()})
    hidden = theirs.model(**asked).last_hidden_state
    logits = part(theirs, "logits", BART)(hidden) + theirs.final_logits_bias
    assert same(ours(**mine), logits)
    seen = thing("padding mask", OURS)(src, ours.config.pad_id)
    memory = words(OURS, "model.Transformer.decode", {"memory": thing("encoder", OURS, 1)(ours, src)})
    assert same(thing("decoder", OURS, 1)(ours, tgt, **memory, src_mask=seen), logits)
    taught = {name: value for name, value in asked.items() if not torch.equal(value, tgt)}
    labels = words(BART, "BartForConditionalGeneration.forward", {"labels": tgt})
    assert labels == words(BART, "BartForConditionalGeneration.forward", {"loss": tgt})
    shifted = thing("shift", BART)(tgt, ours.config.pad_id, ours.config.start_id)
    assert same(thing("loss", OURS)(ours(src, shifted), tgt, ours.config.pad_id), theirs(**taught, **labels).loss)

    theirs.set_attn_implementation("eager")
    out = theirs(**asked, output_attentions=True, use_cache=True)
    with thing("weight", OURS, 1)(ours) as maps:
        ours(src, tgt)
    cross = getattr(out, word("weight", BART, "Seq2SeqLMOutput"))
    assert same(maps["decoder.layers.0.cross_attention"], cross[0])
    assert type(out.past_key_values) is thing("cache", BART)
    assert type(out.past_key_values.self_attention_cache) is thing("cache", BART, 1)
    [(own, cross_cache)] = thing("cache", OURS)(1, 6, 9).layers
    assert type(own) is type(cross_cache) is thing("cache", OURS, 1)


@holds
def writing() -> None:
    from tests.pretrained.test_generate import LONGEST, sources, twins

    differs: dict[str, int] = {"sampling": 0, "length penalty": 0}
    for seed in range(1, 5):
        ours, theirs = twins("bart", seed, end_bias=2.0, dtype=torch.float64)
        src = sources(ours, (9,))

        def write(theirs=theirs, src=src, **settings: Any) -> list[int]:
            torch.manual_seed(0)
            return thing("greedy decoding", BART)(theirs, src, max_new_tokens=LONGEST, **settings)[0, 1:].tolist()

        def sample(settings: dict[str, Any], ours=ours, src=src) -> list[int]:
            generator = torch.Generator().manual_seed(0)
            options = words(OURS, "writing.decoding.sample", settings)
            return thing("sampling", OURS)(ours, src, LONGEST, generator=generator, **options)[0].tolist()

        likeliest = thing("greedy decoding", OURS)(ours, src, LONGEST)[0].tolist()
        drawn = words(BART, "GenerationConfig", {"sampling": True})
        assert write(do_sample=False, num_beams=1) == likeliest
        differs["sampling"] += (
            write(**drawn, temperature=3.0) != likeliest and sample({"temperature": 3.0}) != likeliest
        )
        for only in ({"top-k": 1}, {"top-p": 1e-6}, {"temperature": 1e-6}):
            assert sample(only) == write(**drawn, **words(BART, "GenerationConfig", only)) == likeliest
        for term, said in {"top-k": "top_k", "top-p": "top_p", "temperature": "temperature"}.items():
            with pytest.raises(ValueError, match=said):
                sample({term: -1.0})
            with pytest.raises(ValueError, match=said):
                write(**drawn, **words(BART, "GenerationConfig", {term: -1.0}))
        found = []
        for power in (-3.0, 3.0):
            beams = words(BART, "GenerationConfig", {"beam search": 4, "length penalty": power})
            penalty = words(OURS, "writing.beam.beam_search", {"length penalty": power})
            found.append(thing("beam search", OURS)(ours, src, LONGEST, **penalty)[0].tolist())
            assert found[-1] == write(do_sample=False, **beams)[: len(found[-1])]
            assert (
                thing("beam search", OURS, 1)(ours, src, LONGEST, **penalty).tokens[0, 0].tolist()[: len(found[-1])]
                == found[-1]
            )
        differs["length penalty"] += found[0] != found[1]
    assert all(differs.values()), differs
    assert thing("sampling", TORCH)(torch.tensor([0.0, 0.0, 1.0]), 1).tolist() == [2]


@holds
def steps_of_training() -> None:
    parameter = nn.Linear(1, 1)
    adam = thing("Adam", OURS)(parameter)
    assert type(adam) is thing("Adam", TORCH)
    paper, linear = thing("learning rate", OURS), thing("learning rate", OURS, 1)
    recipe_class = import_module("tfm_lib.learning.recipes").Recipe
    recipe = recipe_class(steps=20, **words(OURS, "learning.recipes.Recipe", {"warm-up": 5}), peak_rate=1.0)
    rates = [recipe.rate(step) for step in range(1, 21)]
    assert max(rates) == rates[4] and rates[7] == pytest.approx(paper(8, 1, 5, 5**0.5))
    plain = torch.optim.SGD(parameter.parameters(), lr=1.0)
    warm = words(BART, "get_linear_schedule_with_warmup", {"warm-up": 5})
    theirs = thing("learning rate", BART)(plain, **warm, num_training_steps=21)
    assert type(theirs) is thing("learning rate", TORCH)
    for step_ in range(1, 21):
        plain.step()
        theirs.step()
        assert theirs.get_last_lr() == [pytest.approx(linear(step_, 1.0, 5, 20))]


@holds
def scores_and_words() -> None:
    assert thing("exact match", OURS)(["a b", "a c"], ["a b", "a b"]) == 0.5
    assert (thing("ROUGE", OURS)(["a b"], ["a c"]).rouge1) == 0.5
    event, there = next(iter(newsroom.EVENTS)), newsroom.PLACES[0]
    what = next(iter(newsroom.EVENTS[event].things))
    stories = [newsroom.compose(event, what, newsroom.PEOPLE[0], there, day, 2) for day in newsroom.DAYS[:2]]
    right = thing("slot", OURS)([stories[0].summary], [stories[1]])
    assert {name for name, share in right.items() if not share} == {"when"}
    vocabulary = thing("vocabulary", OURS).of_words(["a b"])
    assert vocabulary.decode(vocabulary.encode("b a")) == "b a"


# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_names_mean_what_their_row_says(check):
    torch.manual_seed(0)
    check()


def test_every_name_is_read_by_a_check_or_says_why_not():
    READ.clear()
    for check in CHECKS:
        check()
    wanted = {(t, column, n) for t, row in ROWS.items() for column in LIBRARIES for n in code(row[column])}
    assert sorted(name for name in wanted - READ if name[2] not in UNHELD) == []
    assert sorted(set(UNHELD) - {name for _, _, name in wanted - READ}) == []


def test_our_names_stand_where_they_are_defined():
    """Not where they are only imported: a reader opens that file."""
    for name in names(OURS):
        parts = name.partition("(")[0].split(".")
        found: Any = tfm_lib
        while isinstance(found, ModuleType):
            home, part = found, parts.pop(0)
            found = getattr(home, part, None) or import_module(f"{home.__name__}.{part}")
        assert found.__module__ == home.__name__, f"{name} is defined elsewhere"
