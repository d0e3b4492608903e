"""What lesson 17 writes in its cells, by hand, at its ends, and beside its benchmarks."""

import json
import re

import pytest
import torch
from torch import nn

from benchmarks import adapting, compressing, lessons
from tests import ROOT
from tests.lessons.same_code import assert_same
from tests.nbclaims import cells
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.pretrained import newsroom_model

LESSON = "17_adapt_and_compress"
TEXT = "\n".join(c.source for c in cells.read(ROOT / f"notebooks/{LESSON}.ipynb").cells if c.cell_type == "markdown")
SHARED = {
    adapting: ("tell", "make_shows", "LoRA", "with_lora", "Adapter", "Prefixed"),
    compressing: ("to_grid", "distillation_loss", "Expert", "MixtureOfExperts", "balance_loss"),
}


@pytest.fixture(scope="module")
def lesson():
    """What the lesson's cells import and define."""
    return vars(lessons.definitions(LESSON))


@pytest.mark.parametrize("script", SHARED, ids=["adapting", "compressing"])
def test_the_lesson_defines_what_its_benchmarks_measured(script):
    assert_same(LESSON, script, SHARED[script])


def test_the_lesson_tells_the_stories_of_its_benchmark():
    told: dict = {}
    for cell in cells.read(ROOT / f"notebooks/{LESSON}.ipynb").cells:
        if cell.id in ("kind", "tell"):
            exec(cell.source, told)
    assert told["SHOW"] == adapting.SHOW
    assert told["make_shows"](3, 20, True) == adapting.make_shows(3, 20, True)


# ----------------------------------------------------------------------------------------------------
# Adapting


def test_every_word_of_the_new_stories_is_known_and_the_test_has_names_and_a_phrasing_of_its_own():
    _, vocabulary = newsroom_model()
    learned, test = adapting.make_shows(0, 500), adapting.make_shows(0, 300, test=True)
    texts = [text for pair in [*learned, *test] for text in (pair.article, pair.summary)]
    assert not any(vocabulary.unknown_id in row for row in vocabulary.encode_all(texts))
    people, places = ({summary.split()[place] for _, summary in learned} for place in (3, 6))
    for _, summary in test:
        assert summary.split()[3] not in people and summary.split()[6] not in places
    assert any("crowds waited" in article for article, _ in test)
    assert not any("crowds waited" in article for article, _ in learned)


def test_lora_by_hand(lesson):
    layer = lesson["LoRA"](nn.Linear(2, 1, bias=False), rank=1, alpha=2)
    with torch.no_grad():
        layer.linear.weight.copy_(torch.tensor([[1.0, 1.0]]))
        layer.a.copy_(torch.tensor([[1.0, 2.0]]))
        layer.b.fill_(3.0)
    assert layer(torch.tensor([1.0, 1.0])).item() == 2 + 2 * 3 * 3
    with torch.no_grad():
        assert lesson["merged"](layer).weight.tolist() == [[1 + 6, 1 + 12]]


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


def test_a_rank_of_zero_is_refused(lesson):
    with pytest.raises(ZeroDivisionError):
        lesson["LoRA"](nn.Linear(2, 2), rank=0, alpha=8)


@torch.no_grad()
def test_a_merged_layer_gives_the_same_and_leaves_the_old_one(lesson):
    layer = lesson["LoRA"](nn.Linear(16, 12), rank=4, alpha=8).double()
    layer.b.normal_()
    before, x = layer.linear.weight.clone(), torch.randn(5, 16, dtype=torch.double)
    torch.testing.assert_close(lesson["merged"](layer)(x), layer(x), atol=1e-13, rtol=0)
    assert torch.equal(layer.linear.weight, before)


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
# Compressing


def test_a_grid_by_hand(lesson):
    whole, step = lesson["to_grid"](torch.tensor([0.9, -0.31, 0.12, 0.05, -0.6, 0.44]), 4, 6)
    assert whole.tolist() == [[7, -2, 1, 0, -5, 3]] and step.item() == pytest.approx(0.9 / 7)


def test_one_bit_is_refused(lesson):
    with pytest.raises(ValueError, match="1 bit leaves no number but 0; take 2 or more"):
        lesson["to_grid"](torch.ones(4), 1, 4)


def test_a_group_that_does_not_divide_is_refused(lesson):
    with pytest.raises(RuntimeError, match="invalid"):
        lesson["to_grid"](torch.ones(2, 5), 4, 4)


def test_zeros_stay_zeros_and_each_part_has_its_own_step(lesson):
    whole, step = lesson["to_grid"](torch.tensor([[0.0, 0.0], [1.0, -4.0]]), 3, 2)
    assert whole.tolist() == [[0, 0], [1, -3]] and step.flatten().tolist() == pytest.approx([1, 4 / 3])


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_no_weight_is_off_by_more_than_half_a_step(lesson, bits):
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    whole, step = lesson["to_grid"](weight, bits, 16)
    assert ((whole * step) - weight.view(-1, 16)).abs().le(step / 2 + 1e-6).all()
    assert whole.abs().max() == 2 ** (bits - 1) - 1


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


def test_the_formula_of_the_divergence_is_torchs():
    [formula] = re.findall(r"\*Kullback-Leibler divergence\*, \$\\sum_w (.+?)\$", TEXT)
    written = re.sub(r"\\ln (\w)_w", r"\1.log()", formula).replace("_w (", " * (")  # p * (p.log() - q.log())
    p, q = torch.randn(2, 9).softmax(-1)
    ours = eval(written, {"p": p, "q": q}).sum()
    torch.testing.assert_close(ours, nn.functional.kl_div(q.log(), p, reduction="sum"))


@torch.no_grad()
def test_experts_that_all_work_are_a_weighted_sum(lesson):
    torch.manual_seed(0)
    mixture, x = lesson["MixtureOfExperts"](8, 16, experts=4, k=4), torch.randn(10, 8)
    chances = mixture.router(x).softmax(-1)
    wanted = sum(chances[:, [e]] * expert(x) for e, expert in enumerate(mixture.experts))
    torch.testing.assert_close(mixture(x), wanted)


@torch.no_grad()
def test_one_expert_per_word_is_that_expert(lesson):
    torch.manual_seed(0)
    mixture, x = lesson["MixtureOfExperts"](8, 16, experts=4, k=1), torch.randn(10, 8)
    for row, best in zip(x, mixture.router(x).argmax(-1), strict=True):
        torch.testing.assert_close(mixture(row[None])[0], mixture.experts[best](row))


@pytest.mark.parametrize(("experts", "k"), [(4, 1), (4, 2), (8, 2), (8, 8)])
def test_balance_is_k(lesson, experts, k):
    chances = torch.stack([torch.full((experts,), 0.1).scatter(0, (torch.arange(k) + e) % experts, 1.0)
                           for e in range(experts)])  # fmt: skip
    chances = chances / chances.sum(-1, keepdim=True)
    assert lesson["balance_loss"](chances, k).item() == pytest.approx(k)
    alone = torch.zeros(5, experts).index_fill(1, torch.arange(k), 1 / k)
    assert lesson["balance_loss"](alone, k).item() == pytest.approx(experts)


def test_the_balance_loss_is_transformers(lesson):
    mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral", reason="transformers is missing")
    logits = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    theirs = mixtral.load_balancing_loss_func((logits,), 8, 2)
    torch.testing.assert_close(lesson["balance_loss"](logits.softmax(-1), 2), theirs)


# ----------------------------------------------------------------------------------------------------
# The records


def test_the_records_are_those_of_their_scripts():
    told = {script: script.HERE / f"{script.__name__.rpartition('.')[2]}.json" for script in SHARED}
    for script, path in told.items():
        recorded = json.loads(path.read_text(encoding="utf-8"))
        assert recorded["command"] == script.COMMAND and recorded["seeds"] == [*range(script.SEEDS)]
        assert recorded["stories"] == script.STORIES
    rows = json.loads(told[adapting].read_text(encoding="utf-8"))["rows"]
    assert [row["way"] for row in rows] == [*adapting.WAYS]


def test_a_row_of_the_record_comes_out_again():
    """One of the cells of compressing.json, without training."""
    recorded = json.loads((compressing.HERE / "compressing.json").read_text(encoding="utf-8"))
    test = compressing.Test()
    model, _ = newsroom_model()
    with torch.no_grad():
        for weight in compressing.matrices(model):
            whole, step = compressing.to_grid(weight, 2, weight.numel())
            weight.copy_((whole * step).view_as(weight))
    [row] = [row for row in recorded["bits"] if (row["per"], row["bits"]) == ("tensor", 2)]
    assert test.of(model) == {"exact": row["exact"], "headline": row["headline"]}
