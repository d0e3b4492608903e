"""What lesson 17 writes in its cells, by hand, at its ends, and beside its benchmarks."""

import json
import re
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import lessons
from benchmarks.adapt_and_compress import adapting, compressing
from tests import ROOT
from tests.nbclaims import cells
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model

LESSON = "17_adapt_and_compress"
BOOK = cells.read(ROOT / f"notebooks/{LESSON}.ipynb")
TEXT = "\n".join(cell.source for cell in cells.markdown_cells(BOOK))


@pytest.fixture(scope="module")
def lesson():
    """What the lesson's cells import and define."""
    return vars(lessons.definitions(LESSON))


# ----------------------------------------------------------------------------------------------------
# Adapting


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


def test_a_fresh_lora_changes_nothing_and_trains_only_its_own(lesson):
    base, _ = newsroom_model()
    changed = lesson["with_lora"](base, rank=2)
    ids = torch.arange(4, 24).view(2, 10)
    assert torch.equal(changed(ids, ids), base(ids, ids))
    assert lesson["trained"](changed) == 12 * 2 * (128 + 128)
    assert lesson["trained"](base) == sum(p.numel() for p in base.parameters()), "the base is left alone"


def test_the_matrix_that_the_text_calls_zero_starts_so_and_the_other_does_not(lesson):
    [(zero, drawn)] = re.findall(r"\$(\w)\$ is zero and \$(\w)\$ is random", TEXT)
    layer = lesson["LoRA"](nn.Linear(3, 5), rank=2, alpha=8)
    assert not getattr(layer, zero.lower()).any() and getattr(layer, drawn.lower()).all()


def test_an_adapter_starts_as_nothing_and_freezes_what_it_stands_behind(lesson):
    inner = nn.Linear(6, 6)
    adapter, x = lesson["Adapter"](inner, 6, 2), torch.randn(3, 6)
    assert torch.equal(adapter(x), inner(x))
    assert lesson["trained"](adapter) == 6 * 2 + 2 + 2 * 6 + 6


@torch.no_grad()
def test_a_prefix_is_keys_and_values_that_every_query_sees(lesson):
    attention, x = MultiHeadAttention(8, 2), torch.randn(2, 5, 8)
    prefixed = lesson["Prefixed"].of(attention, 3)
    query, key, value = torch.randn(3, 2, 2, 5, 4)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    keys, values = (part.expand(2, -1, -1, -1) for part in prefixed.prefix[:, None])
    seen = torch.cat([torch.ones(1, 1, 5, 3, dtype=torch.bool), mask], dim=-1)
    wanted = attention.attend(query, torch.cat([keys, key], 2), torch.cat([values, value], 2), seen, None, causal=False)
    torch.testing.assert_close(prefixed.attend(query, key, value, mask, None, causal=False), wanted)
    torch.testing.assert_close(prefixed.attend(query, key, value, None, None, causal=True), wanted)
    assert torch.equal(lesson["Prefixed"].of(attention, 0)(x, x, x), attention(x, x, x)), "no prefix, no change"
    assert not hasattr(attention, "prefix")


# ----------------------------------------------------------------------------------------------------
# LoRA as `peft` computes it: numbers, what is trained, gradients, merged weights

SIZES = dict(vocab_size=30, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0)
RANK, ALPHA = 3, 6
IDS = torch.arange(4, 24).view(2, 10)


def changed(model: nn.Module, lesson: dict) -> dict[str, nn.Module]:
    """The layers with LoRA, by name: queries and values of five attentions."""
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, lesson["LoRA"])}
    assert len(layers) == 10
    return layers


@pytest.fixture
def both(lesson):
    """The same model with both, whose B is no longer zero, in double precision."""
    peft = pytest.importorskip("peft", reason="peft is missing")
    torch.manual_seed(0)
    base = Transformer(TransformerConfig(**SIZES)).double()
    ours = lesson["with_lora"](base, RANK, ALPHA).double()
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["query_proj", "value_proj"])
    theirs = peft.get_peft_model(deepcopy(base), config)
    layers = dict(theirs.base_model.model.named_modules())
    with torch.no_grad():
        for name, layer in changed(ours, lesson).items():
            layer.b.normal_()
            layers[name].lora_A["default"].weight.data = layer.a.detach().clone()
            layers[name].lora_B["default"].weight.data = layer.b.detach().clone()
    return base, ours, theirs


def test_the_same_numbers_and_as_many_that_are_trained(both, lesson):
    base, ours, theirs = both
    wanted = theirs(IDS, IDS)
    torch.testing.assert_close(ours(IDS, IDS), wanted, rtol=0, atol=1e-12)
    assert (wanted - base(IDS, IDS)).abs().max() > 0.1
    attentions = sum(isinstance(module, MultiHeadAttention) for module in base.modules())
    count, _ = theirs.get_nb_trainable_parameters()
    assert lesson["trained"](ours) == count == 2 * attentions * RANK * (16 + 16)


def test_the_same_gradients(both, lesson):
    _, ours, theirs = both
    upstream = torch.randn(2, 10, 30, dtype=torch.double)
    for model in (ours, theirs):
        model(IDS, IDS).backward(upstream)
    layers = dict(theirs.base_model.model.named_modules())
    for name, layer in changed(ours, lesson).items():
        torch.testing.assert_close(layer.a.grad, layers[name].lora_A["default"].weight.grad)
        torch.testing.assert_close(layer.b.grad, layers[name].lora_B["default"].weight.grad)


@torch.no_grad()
def test_merged_it_is_the_same_and_of_no_higher_rank(both, lesson):
    base, ours, theirs = both
    merged = theirs.merge_and_unload()
    torch.testing.assert_close(merged(IDS, IDS), ours(IDS, IDS), rtol=0, atol=1e-12)
    for name, layer in changed(ours, lesson).items():
        weight = merged.get_submodule(name).weight
        torch.testing.assert_close(lesson["merged"](layer).weight, weight, rtol=0, atol=1e-14)
        assert torch.linalg.matrix_rank(weight - base.get_submodule(name).weight) == RANK


@torch.no_grad()
def test_in_half_precision_merging_loses_a_part_of_the_change(both, lesson):
    """What is lost is not nothing, and of the size of the rounding of the weights."""
    _, ours, _ = both
    layer, losses = ours.decoder.layers[0].cross_attention.value_proj, {}
    x = torch.randn(500, 16, dtype=torch.double)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        one = deepcopy(layer).to(dtype)
        change = layer(x) - layer.linear(x)
        losses[dtype] = ((lesson["merged"](one)(x.to(dtype)) - layer(x)).norm() / change.norm()).item()
    assert losses[torch.float64] < 1e-13 < losses[torch.float32] < 1e-5 < 1e-3 < losses[torch.bfloat16] < 0.5


# ----------------------------------------------------------------------------------------------------
# Compressing


@pytest.mark.parametrize(
    ("weight", "bits", "group", "grid", "steps"),
    [
        ([0.9, -0.31, 0.12, 0.05, -0.6, 0.44], 4, 6, [[7, -2, 1, 0, -5, 3]], [0.9 / 7]),
        ([[0.0, 0.0], [1.0, -4.0]], 3, 2, [[0, 0], [1, -3]], [1, 4 / 3]),  # zeros stay zeros; each part has its step
    ],
)
def test_a_grid_by_hand(lesson, weight, bits, group, grid, steps):
    numbers, step = lesson["to_grid"](torch.tensor(weight), bits, group)
    assert numbers.tolist() == grid and step.flatten().tolist() == pytest.approx(steps)


def test_one_bit_is_refused(lesson):
    with pytest.raises(ValueError, match="1 bit leaves no number but 0; take 2 or more"):
        lesson["to_grid"](torch.ones(4), 1, 4)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_no_weight_is_off_by_more_than_half_a_step(lesson, bits):
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    numbers, step = lesson["to_grid"](weight, bits, 16)
    assert ((numbers * step) - weight.view(-1, 16)).abs().le(step / 2 + 1e-6).all()
    assert numbers.abs().max() == 2 ** (bits - 1) - 1


def test_all_pairs_of_four_bit_numbers_come_back(lesson):
    numbers = torch.cartesian_prod(torch.arange(-7.0, 8), torch.arange(-7.0, 8)).flatten()
    packed = lesson["pack"](numbers)
    assert packed.dtype == torch.uint8 and packed.numel() == numbers.numel() // 2
    assert torch.equal(lesson["unpack"](packed), numbers)


def test_the_loss_of_distillation_is_torchs(lesson):
    student, teacher = torch.randn(2, 7, 11, generator=torch.Generator().manual_seed(0))
    for T in (1.0, 3.0):
        theirs = nn.functional.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="batchmean")
        torch.testing.assert_close(lesson["distillation_loss"](student, teacher, T), T**2 * theirs)
    torch.testing.assert_close(lesson["distillation_loss"](student, student, 2), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_the_balance_loss_is_transformers(lesson):
    mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral", reason="transformers is missing")
    logits = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    theirs = mixtral.load_balancing_loss_func((logits,), 8, 2)
    torch.testing.assert_close(lesson["balance_loss"](logits.softmax(-1), 2), theirs)


# ----------------------------------------------------------------------------------------------------
# The records


def recorded(script) -> dict:
    return json.loads(Path(script.__file__).with_suffix(".json").read_text(encoding="utf-8"))


def test_the_records_are_those_of_their_scripts_and_a_row_that_needs_no_training_comes_out_again(lesson):
    for script in (adapting, compressing):
        record = recorded(script)
        assert (record["seeds"], record["stories"]) == ([*range(script.SEEDS)], script.STORIES)
    assert [row["way"] for row in recorded(adapting)["rows"]] == [*adapting.WAYS]
    test = compressing.Test()
    model, _ = newsroom_model()
    with torch.no_grad():
        for weight in compressing.matrices(model):
            numbers, step = lesson["to_grid"](weight, 2, weight.numel())
            weight.copy_((numbers * step).view_as(weight))
    [row] = [row for row in recorded(compressing)["bits"] if (row["per"], row["bits"]) == ("tensor", 2)]
    assert test.of(model) == {"exact": row["exact"], "headline": row["headline"]}
