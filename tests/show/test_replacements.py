"""Other ways to attend are what they are called, and do in the trained summarizer what the benchmark has measured."""

import json

import pytest
import torch

from benchmarks.cheaper_attention import swapped_attention
from tfm_lib.attention import attention_weights
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.lessons import course_file
from tfm_lib.masks import causal_mask
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.replacements import PLACES, REPLACEMENTS, Heads, normals, swapped
from tfm_lib.show.swap_attention import LABELS, RECORD, new_words
from tfm_lib.writing.decoding import greedy

RECORDED = json.loads(course_file(RECORD).read_text(encoding="utf-8"))


def heads(length: int = 6, causal: bool = False, scale: float = 1.0) -> Heads:
    """One text, two heads of width 4."""
    query, key = scale * normals(1, 2, 1, 2, length, 4).float()
    seen = causal_mask(length) if causal else torch.ones(1, 1, length, length, dtype=torch.bool)
    return Heads(query, key, seen.expand(1, 2, -1, -1))


def weigh(name: str, of: Heads, size: int = 0, seed: int = 0) -> torch.Tensor:
    return REPLACEMENTS[name].weigh(of, size, seed)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", REPLACEMENTS)
def test_weights_sum_to_one_or_none_and_never_see_what_is_hidden(name, causal):
    of = heads(causal=causal)
    for size in REPLACEMENTS[name].sizes:
        weights = weigh(name, of, size)
        assert weights.shape == of.seen.shape
        if name != "rank":  # whose table is only near one of weights
            assert not weights[~of.seen].any()
            sums = weights.sum(-1)
            assert torch.all(((sums - 1).abs() < 1e-5) | (sums == 0))


def test_the_plain_mean_is_that_of_what_may_be_seen():
    assert torch.allclose(
        weigh("mean", heads(3, causal=True))[0, 0],
        torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]]) / torch.tensor([[1], [2], [3]]),
    )
    assert not weigh("none", heads()).any()


def test_a_window_reaches_so_far_on_each_side_and_of_a_new_word_to_the_last_keys():
    of = heads(6)
    assert (weigh("window", of, 1)[0, 0] > 0).sum(-1).tolist() == [2, 3, 3, 3, 3, 2]
    last = Heads(of.query[:, :, -1:], of.key, of.seen[:, :, -1:])  # as decoding with a cache asks
    assert torch.allclose(weigh("window", last, 2), weigh("window", of, 2)[:, :, -1:])
    assert torch.allclose(weigh("window", of, 6), attention_weights(of.query, of.key))


def test_the_top_keys_are_those_with_the_highest_scores():
    of = heads()
    full, two = attention_weights(of.query, of.key), weigh("top keys", of, 2)
    assert torch.equal(two.topk(2).indices, full.topk(2).indices) and ((two > 0).sum(-1) == 2).all()
    assert torch.allclose(weigh("top keys", of, 99), full)


def test_the_best_rank_has_that_rank_and_padding_has_no_part_in_it():
    of = heads(6)
    table = weigh("rank", of, 2)
    assert (torch.linalg.matrix_rank(table, atol=1e-5) == 2).all()
    lost = torch.linalg.matrix_norm(table - attention_weights(of.query, of.key))
    values = torch.linalg.svdvals(attention_weights(of.query, of.key))
    assert torch.allclose(lost, values[..., 2:].square().sum(-1).sqrt(), atol=1e-5)
    padded = Heads(of.query, of.key, (torch.arange(6) < 4).expand(1, 2, 6, 6))
    short = Heads(of.query[:, :, :4], of.key[:, :, :4], of.seen[:, :, :4, :4])
    assert torch.allclose(weigh("rank", padded, 2)[:, :, :4, :4], weigh("rank", short, 2), atol=1e-5)


def test_many_random_features_come_near_softmax_and_few_do_not():
    of = heads()
    full = attention_weights(of.query, of.key)
    far = [(weigh("features", of, size) - full).abs().mean() for size in (4, 20_000)]
    assert far[1] < 0.01 < far[0]
    assert not torch.equal(weigh("features", of, 4, seed=0), weigh("features", of, 4, seed=1))


def test_hashing_keeps_what_lies_alike_and_more_rounds_find_more():
    of = heads(scale=3)
    alike = Heads(of.query, of.query, of.seen)  # each word is its own nearest key
    for name in ("hashing, 1 round", "hashing, 4 rounds"):
        assert (weigh(name, alike, 32).diagonal(dim1=-2, dim2=-1) > 0).all()
    found = [(weigh(name, of, 8) > 0).sum() for name in ("hashing, 1 round", "hashing, 4 rounds")]
    assert found[0] < found[1] < of.seen.sum()


@pytest.mark.parametrize("place", PLACES)
def test_full_attention_in_the_place_of_itself_changes_nothing_and_all_is_put_back(place):
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(make_newsroom(0, train=1).test[0].article)])
    before = greedy(model, src, 24)
    with swapped(model, place, "full"):
        assert torch.equal(greedy(model, src, 24), before)
    with swapped(model, place, "none"):
        memory = model.encode(src)
        assert torch.equal(memory, model.encode(src))
    assert not any("attend" in vars(module) for module in model.modules())
    assert torch.equal(greedy(model, src, 24), before)


def test_what_there_is_not_is_refused_with_what_there_is():
    model, _ = newsroom_model()
    for place, name in (("cross", "rank"), ("encoder", "flash"), ("heads", "mean"), ("decoder", "rank")):
        offered = ", mean" * (place != "heads")  # what there is where there is such a place
        message = rf"no replacement '{name}' at '{place}'; at encoder, decoder, cross there are: .*{offered}"
        with pytest.raises(ValueError, match=message), swapped(model, place, name):
            pass


def test_the_record_has_every_size_of_every_replacement_where_there_is_one():
    ways = [(place, *way) for place in PLACES for way in REPLACEMENTS.items() if place in way[1].places]
    wanted = [(place, name, size) for place, name, way in ways for size in way.sizes]
    assert [(row["place"], row["name"], row["size"]) for row in RECORDED["rows"]] == wanted
    assert RECORDED["seeds"] == [0, 1, 2]
    assert (RECORDED["draws"], RECORDED["stories"]) == (swapped_attention.DRAWS, swapped_attention.STORIES)
    assert [*LABELS] == [name for name in REPLACEMENTS if name not in ("full", "none", "mean")]
    assert {len(REPLACEMENTS[name].sizes) for name in LABELS} == {5}, "one slider stands for all of them"


@pytest.mark.slow
@pytest.mark.parametrize(("place", "name", "size"), [("encoder", "none", 0), ("cross", "hashing, 4 rounds", 2)])
def test_a_point_of_the_record_can_be_measured_again(place, name, size):
    [row] = [row for row in RECORDED["rows"] if (row["place"], row["name"], row["size"]) == (place, name, size)]
    second = swapped_attention.Batch(make_newsroom(0).test[200:400])
    with swapped(second.model, place, name, size, seed=1):
        shares = second.shares()
    assert {share: pytest.approx(row[share]["draws"][1], abs=0.006) for share in shares} == shares


def test_a_word_is_new_where_the_other_text_has_it_not_so_often():
    assert new_words("a fire, a fire", "a fire in oslo") == [False, False, True, True, True]
    assert new_words("", "a") == []
