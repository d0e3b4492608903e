"""docs/landscape.md is right: its pictures are what the code draws, and its numbers follow from code or from shapes."""

import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from docs import landscape
from tests.nbclaims.environment import why_not_compared
from tests.pages import links
from tests.pages.browser.test_cache import flops
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.layers import DecoderLayer, EncoderLayer
from tfm_lib.writing.cache import KeyValueCache

FLAT = links.flat("docs/landscape.md")
WAYS, MODELS, *_ = TABLES = [links.table("docs/landscape.md", f"{section} ") for section in (1, 2, 3, 4)]
SIZES, SINCE = ({re.sub(r"\[(.*?)\]\(.*", r"\1", row["model"]): row for row in rows} for rows in TABLES[2:])


# ----------------------------------------------------------------------------------------------------
# The pictures


@pytest.mark.parametrize(
    ("path", "draw"), [(landscape.PATHS, landscape.paths), (landscape.MASKS, landscape.long_inputs)]
)
def test_the_page_shows_each_picture_with_its_message_and_as_the_code_draws_it(path, draw):
    picture = draw()
    assert f"![{picture.alt}]({path.name}) *{picture.caption}*" in FLAT
    if not why_not_compared():  # pixels are compared in the locked environment only
        assert path.read_bytes() == picture.png(), f"run python -m docs.landscape to write {path.name} again"


# ----------------------------------------------------------------------------------------------------
# 1: paths and work


LONGEST = {  # in steps; and how the page writes it
    "recurrence": (lambda n, k: n - 1, "$n - 1$"),
    "convolution": (lambda n, k: math.ceil((n - 1) / (k - 1)), r"$\lceil (n-1)/(k-1) \rceil$ layers"),
    "dilated convolution": (lambda n, k: math.ceil(round(math.log(n, k), 9)), r"$\lceil \log_k n \rceil$ layers"),
    "attention": (lambda n, k: 1, "1"),
}


@pytest.mark.parametrize("name", LONGEST)
@pytest.mark.parametrize("words", [2, 3, 9, 10, 27, 28, 40])
def test_paths_are_as_long_as_the_formulas_of_the_page_say(name, words):
    longest, written = LONGEST[name]
    assert WAYS[[*LONGEST].index(name)]["longest path, in steps"] == written
    arrows = landscape.networks(words)[name]
    assert all(start[1] <= end[1] and start < end for start, end in arrows), "a connection looks back or stays"
    way = landscape.longest_path(arrows)
    layers = max(row for row, _ in way)
    assert landscape.steps(way) <= longest(words, landscape.KERNEL)
    assert longest(words, landscape.KERNEL) == (landscape.steps(way) if name == "recurrence" else layers)


def test_no_way_is_no_path():
    with pytest.raises(ValueError, match=r"no arrows lead from the first word, \(0, 0\), to .* \(1, 1\)"):
        landscape.longest_path([((0, 1), (1, 1))])


N, D, K = 24, 16, 3


def value(formula: str, **letters: int) -> int:
    """What a formula of the page comes to, such as $8nd^2 + 4n^2d$."""
    return eval(re.sub(r"(?<=\w)(?=[a-z])", "*", formula.strip("$").replace("^", "**")), {"d": D, "k": K, **letters})


def run(layer: str, words: int, before: int = 0) -> None:
    """Let a layer read so many words, after others whose states, inputs or keys are still there."""
    x = torch.randn(1, words, D)
    if layer == "LSTM":
        nn.LSTMCell(D, D)(x[:, 0])
    elif layer == "recurrence":
        cell, state = nn.RNNCell(D, D), torch.randn(1, D)
        for word in x.unbind(1):
            state = cell(word, state)
    elif layer == "self-attention":
        cache = KeyValueCache(before + words)
        if before:
            cache.update(*torch.randn(2, 1, 2, before, D // 2))
        MultiHeadAttention(D, 2).eval()(x, x, x, cache=cache)
    else:
        gap = K if layer.startswith("dilated") else 1
        earlier = torch.randn(1, gap * (K - 1), D)  # or zeros, in front of the first word
        nn.Conv1d(D, D, K, dilation=gap)(torch.cat([earlier, x], dim=1).mT)


@pytest.mark.parametrize("row", WAYS, ids=lambda row: row["layer"])
def test_the_work_is_what_torch_counts(row):
    assert flops(run, row["layer"], N) == value(row["FLOPs on *n* words"], n=N)
    for place in (1, 2, N):
        counted = flops(run, row["layer"], 1, before=place - 1)
        assert counted == value(row["FLOPs for the *t*-th word, writing"], t=place)


def test_work_beside_that_of_a_recurrence():
    # At n = d the part with the square is one recurrence, and the projections are two.
    assert flops(run, "self-attention", D) == 3 * flops(run, "recurrence", D)
    attention = [flops(run, "self-attention", n) for n in (1, 2, 3)]
    square = (attention[2] - 2 * attention[1] + attention[0]) // 2
    assert square * D**2 == flops(run, "recurrence", D)
    assert "they take twice as much as the recurrence. At *n* = *d* the part with the square takes as much" in FLAT
    assert flops(run, "LSTM", 1) == 4 * flops(run, "recurrence", 1) and "an LSTM takes four times the work" in FLAT


# ----------------------------------------------------------------------------------------------------
# 2: masks

MASKS = landscape.masks()
WHOLE = {name: np.logical_or.reduce(list(parts.values())) for name, parts in MASKS.items()}
BACK = ["full, looking back", "Sparse Transformer", "Transformer-XL", "Reformer"]


def test_the_pairs_of_the_table_are_those_of_the_masks():
    counts = {re.sub(r"\[(.*?)\].*", r"\1", row["model"]): row["pairs"] for row in MODELS if row["pairs"][0].isdigit()}
    full = [f"{WHOLE[name].sum():,}" for name in ("full, both ways", "full, looking back")]
    assert counts.pop("full attention") == " or ".join(full)
    assert counts == {name: f"{WHOLE[name].sum():,}" for name in WHOLE if not name.startswith(("full", "window"))}


def test_pairs_that_can_be_counted_by_hand():
    n = landscape.POSITIONS
    assert WHOLE["full, looking back"].sum() == n * (n + 1) // 2
    assert WHOLE["window"].sum() == 556 == n * 9 - 2 * (4 + 3 + 2 + 1)
    assert WHOLE["window"].sum(axis=1).max() == 9
    # Two rows and two columns of 64, which meet in 4 pairs; the window has 18 of them already.
    assert WHOLE["Longformer"].sum() == 556 + 4 * n - 4 - 18
    # Four triangles of 16, and three whole squares.
    assert WHOLE["Transformer-XL"].sum() == 4 * (16 * 17 // 2) + 3 * 16**2
    assert f"The window alone allows {WHOLE['window'].sum()} pairs, at most 9 for a query" in FLAT


def test_masks_attend_to_what_their_papers_say():
    for name, mask in WHOLE.items():
        assert mask.any(axis=1).all() and np.triu(mask, k=1).any() != (name in BACK), name
    sparse, back = WHOLE["Sparse Transformer"].astype(int), WHOLE["full, looking back"]
    assert ((sparse @ sparse > 0) == back).all() and not (sparse == back).all(), "two layers connect all"
    assert (MASKS["BigBird"]["random"].sum(axis=1) == landscape.RANDOM).all()


def test_a_reformer_attends_within_buckets_and_to_itself_only_if_alone():
    mask = WHOLE["Reformer"]
    alone = mask.diagonal()
    assert (mask[alone].sum(axis=1) == 1).all() and alone.any() and not alone.all()
    linked = mask | mask.T
    for query in range(len(mask)):
        earlier = [key for key in np.flatnonzero(mask[query]) if key != query]
        assert all(linked[a, b] for a in earlier for b in earlier if a != b)  # all of one bucket
    turned = landscape.buckets(np.array([[3.0, 1.0], [1.0, 3.0], [-3.0, 1.0], [1.0, -3.0]]), np.eye(2))
    assert turned.tolist() == [0, 1, 2, 3], "the nearest of the axes and their opposites"


# ----------------------------------------------------------------------------------------------------
# 3: sizes

HEADS = "heads \N{MULTIPLICATION SIGN} width"


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def sizes(name: str) -> tuple[int, int, int, int]:
    """The widths of a model: of its vectors, of its feed-forward network, how many heads, and how wide."""
    row = SIZES[name]
    heads, width = map(number, re.findall(r"[\d,]+", row[HEADS]))
    return number(row["*d*"]), number(row[r"$d_\text{ff}$"]), heads, width


def pencil(name: str) -> int:
    """The weights by the formulas of the page, PaLM's by what the page says of it."""
    row, (d, d_ff, heads, width) = SIZES[name], sizes(name)
    a, (layers, *more) = heads * width, [number(stack) for stack in row["layers"].split(" + ")]
    layer = 2 * d * a + 2 * d * width + 3 * d * d_ff if name == "PaLM" else 4 * d * a + 2 * d * d_ff
    return layers * layer + sum(more) * (8 * d * a + 2 * d * d_ff) + (number(row["*V*"]) + number(row["*P*"])) * d


def amount(cell: str) -> float:
    value, unit = cell.split()
    return float(value.replace(",", "")) * {"M": 1e6, "B": 1e9}[unit]


@pytest.mark.parametrize("name", SIZES)
def test_the_pencil_gives_what_the_table_says(name):
    cell = SIZES[name]["by pencil"]
    digits = len(cell.split()[0].partition(".")[2])
    unit = amount(f"1 {cell.split()[1]}")
    assert f"{pencil(name) / unit:,.{digits}f}" == cell.split()[0]
    assert amount(SIZES[name]["published"]) == pytest.approx(pencil(name), rel=0.03)


def test_the_short_formulas_are_those_of_our_layers():
    d = 64
    with torch.device("meta"):
        layers = EncoderLayer(d, 4, 4 * d), DecoderLayer(d, 4, 4 * d)
    matrices = [sum(p.numel() for p in layer.parameters() if p.dim() == 2) for layer in layers]
    assert matrices == [12 * d**2, 16 * d**2]
    assert "where *a* = *d* and $d_\\text{ff} = 4d$, these are $12d^2$ and $16d^2$" in FLAT


def test_how_much_wider_t5_is_inside_than_its_vectors():
    d, d_ff, heads, width = sizes("T5-11B")
    assert f"together are {heads * width // d} times, and its feed-forward networks {d_ff // d} times as wide" in FLAT


def test_biases_and_norms_are_less_than_half_a_percent():
    """Of the first four models, as transformers builds them, without weights."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed here")
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    t5 = {"d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128}
    with torch.device("meta"):
        models = [
            transformers.BertModel(transformers.BertConfig(**large)),
            transformers.GPT2Model(transformers.GPT2Config(n_embd=1600, n_layer=48, n_head=25)),
            transformers.BartModel(transformers.BartConfig()),
            transformers.T5Model(transformers.T5Config(**t5)),
        ]
    counts = {name: sum(p.numel() for p in model.parameters()) for name, model in zip(SIZES, models, strict=False)}
    millions = "{:,.0f}, {:,.0f}, {:,.0f} and {:,.0f}".format(*(count / 1e6 for count in counts.values()))
    assert f"contain {millions} million parameters: less than half a percent more" in FLAT
    for name, count in counts.items():
        assert 0 < count / pencil(name) - 1 < 0.005


def test_the_growth_in_the_prose_is_that_of_the_table():
    growth = amount(SIZES["PaLM"]["published"]) / amount(SIZES["BERT-large"]["published"])
    years = number(SIZES["PaLM"]["year"]) - number(SIZES["BERT-large"]["year"])
    assert (round(growth, -2), years) == (1600, 4)
    assert "From BERT-large to PaLM that is about 1,600 times in four years" in FLAT


# ----------------------------------------------------------------------------------------------------
# 4: what was built since

NONE = "\N{EN DASH}"
FAMILIES = "Mistral Mixtral Jamba ModernBert DeepseekV3 GptOss Qwen3Next GlmMoeDsa DeepseekV4"  # in transformers
CONFIGS = dict(zip(SINCE, FAMILIES.split(), strict=True))


def config(name: str) -> Any:
    transformers, kind = pytest.importorskip("transformers", reason="transformers is not installed"), f"{name}Config"
    if reasons := why_not_compared():  # other versions miss some of the models, or have other defaults for them
        pytest.skip("; ".join(reasons))
    return getattr(transformers, kind)()


def numbers_cached(model: Any) -> tuple[int, int]:
    """The numbers of a token that an attention layer keeps, and those that it would keep with a pair for each head."""
    heads = model.num_attention_heads
    if rank := getattr(model, "kv_lora_rank", None):  # one vector for all heads, and a key that has the positions
        key = model.qk_nope_head_dim + model.qk_rope_head_dim
        return rank + model.qk_rope_head_dim, heads * (key + model.v_head_dim)
    width = getattr(model, "head_dim", None) or model.hidden_size // heads
    return 2 * model.num_key_value_heads * width, 2 * heads * width


def cached_cell(name: str, model: Any) -> str:
    """The cell of the table: one number, and where keys are chosen, what the choice needs beside it."""
    if name == "ModernBERT-base":  # does not write
        return NONE
    if rates := getattr(model, "compress_rates", None):  # one vector that is key and value, for several tokens
        few, many = rates["compressed_sparse_attention"], rates["heavily_compressed_attention"]
        assert model.num_key_value_heads == 1
        return f"{model.head_dim // few} + {model.index_head_dim // few}, or {model.head_dim // many}"
    choice = getattr(model, "index_head_dim", None)
    return f"{numbers_cached(model)[0]:,}" + (f" + {choice}" if choice else "")


@pytest.mark.parametrize("name", SINCE)
def test_what_was_built_since_is_what_its_configuration_says(name):
    model, row = config(CONFIGS[name]), SINCE[name]
    assert number(row["layers"]) == model.num_hidden_layers

    def first(*names: str, otherwise: Any = None) -> Any:
        """The first of these settings that the model has; each family has names of its own."""
        return next(filter(None, (getattr(model, name, None) for name in names)), otherwise)

    window = first("local_attention", "sliding_window", otherwise=0)
    kinds = Counter(first("layers_block_type", "layer_types", otherwise=[]))
    kinds = kinds or Counter({"sliding_attention" if window else "full_attention": model.num_hidden_layers})
    assert number(row["that see all"]) == kinds["full_attention"] + kinds["attention"]
    rates = first("compress_rates", otherwise={})
    words = {
        "mamba": "Mamba",
        "sliding_attention": f"a window of {window:,}",
        "linear_attention": "linear attention",
        "indexed_attention": f"{first('index_topk', otherwise=0):,} keys, chosen",
        "compressed_sparse_attention": f"every {rates.get('compressed_sparse_attention')} tokens made one",
        "heavily_compressed_attention": f"every {rates.get('heavily_compressed_attention')}",
    }
    others = sorted({*kinds} - {"full_attention", "attention"})
    assert row["what the others do"] == (", or ".join(words[kind] for kind in others) or NONE)
    assert row["kept of a token"] == cached_cell(name, model)
    experts = first("num_experts", "num_local_experts", "n_routed_experts")
    assert row["experts picked"] == (f"{model.num_experts_per_tok} of {experts}" if experts else NONE)


def test_what_all_heads_would_keep():
    writing = [name for name in SINCE if name != "ModernBERT-base"]
    all_heads = {name: numbers_cached(config(CONFIGS[name]))[1] for name in writing}
    assert all_heads["DeepSeek-V3"] == 40_960 and "for its 128 heads it would be 40,960" in FLAT
    assert (list(all_heads.values()).count(8_192), len(writing)) == (5, 8)
    assert "five of the eight that write would keep 8,192 numbers of a token" in FLAT
    latent = config("DeepseekV3")
    assert (latent.kv_lora_rank, latent.qk_rope_head_dim, latent.num_attention_heads) == (512, 64, 128)


def test_one_layer_after_each_five_and_the_best_keys():
    kinds = config("Gemma3Text").layer_types
    assert [n % 6 for n, kind in enumerate(kinds, 1) if kind == "full_attention"] == [0] * (len(kinds) // 6)
    chosen = config("DeepseekV32").index_topk
    assert chosen == config("GlmMoeDsa").index_topk and f"the best {chosen:,}." in FLAT
    squeezed = config("DeepseekV4")
    assert f"a query attends to the best {squeezed.index_topk}, or" in FLAT
    few, many = squeezed.compress_rates.values()
    assert f"one vector for every {few} tokens" in FLAT and f"or in other layers one for every {many} tokens" in FLAT
    assert f"the last {squeezed.sliding_window} tokens it also sees one by one" in FLAT
    kept_of_one, choice = squeezed.head_dim // few, squeezed.index_head_dim // few
    assert f"{squeezed.head_dim} / {few} = {kept_of_one}, with {choice} more for the small network" in FLAT
    assert f"or {squeezed.head_dim} / {many} = {squeezed.head_dim // many}." in FLAT
    assert f"writes {config('DiffusionGemma').canvas_length} tokens at once" in FLAT


# ----------------------------------------------------------------------------------------------------
# Papers, and what the course has


def test_the_year_beside_a_paper_is_that_of_its_number():
    found = re.findall(r"(20\d\d)\]\(https://arxiv\.org/abs/(\d\d)\d\d\.\d+", FLAT)
    rows = [row for row in [*SIZES.values(), *SINCE.values()] if "arxiv" in row["model"]]
    found += [(row["year"], row["model"].split("abs/")[1][:2]) for row in rows]
    assert len(found) > 20 and [(year, number) for year, number in found if year[2:] != number] == []
    assert f"The map ends in {max(year for year, _ in found)}" in FLAT
