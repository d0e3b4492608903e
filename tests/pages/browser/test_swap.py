"""Replaced attentions in the browser are those in torch: the same weights and headlines, with the same chance."""

import pytest
import torch

from tests.pages.browser.reader import near, pick, shown, slide, type_story
from tests.show.controls import INNS
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.newsdesk import greedy_with_attention
from tfm_lib.show.replacements import REPLACEMENTS, normals, random_numbers, swapped
from tfm_lib.show.summarizer_controls import MOST_TOKENS
from tfm_lib.show.swap_attention import CALLED, LABELS, WAY, new_words, swap_attention

pytestmark = pytest.mark.browser
NAMES = {"encoder": "encoder.layers.1.self_attention", "decoder": "decoder.layers.1.self_attention"}
LAYER, HEAD = 1, 3


def in_torch(story: str, place: str, name: str, size: int = 0, seed: int = 0) -> tuple[str, torch.Tensor]:
    """What the model writes in torch, and the weights of a head while it does, (T, S)."""
    model, vocabulary = newsroom_model()
    with swapped(model, place, name, size, seed):
        tokens, _, maps = greedy_with_attention(model, torch.tensor([vocabulary.encode(story)]), MOST_TOKENS)
    return vocabulary.decode(tokens[0]), maps[NAMES.get(place, "decoder.layers.1.cross_attention")][0, HEAD]


def offers(root):
    return root.get_by_role("combobox", name="by", exact=True)


def swap(root, place: str, name: str, step: int) -> dict:
    """Turn the knobs there, and read what is shown in the end."""
    pick(root, CALLED[place][0])
    offers(root).select_option(name)
    slide(root, step)
    return whole(root)


def whole(root) -> dict:
    """What is shown when all four headlines are, each a paint after the one before."""
    root.page.wait_for_function("document.querySelector('.tfm-control').shown.whole")
    return shown(root)


@pytest.mark.parametrize("place", CALLED)
def test_each_replacement_at_each_size_writes_and_weighs_as_in_torch(show, place):
    names, root = [name for name in LABELS if place in REPLACEMENTS[name].places], show(swap_attention(INNS))
    root.get_by_role("combobox", name="weights of").select_option(f"layer {LAYER + 1}, head {HEAD + 1}")
    for name in names:
        for step, size in enumerate(REPLACEMENTS[name].sizes):
            state, (text, weights) = swap(root, place, name, step), in_torch(INNS, place, name, size)
            assert (state["own"], state["size"]) == (text, size), (place, name)
            rows = [row + [0.0] * (weights.shape[1] - len(row)) for row in state["weights"]]
            near(rows, weights, about=f"{place}, {name}, {size}")
    alone = {way: in_torch(INNS, place, way)[0] for way in ("full", "none", "mean")}
    assert {way: state[way] for way in alone} == alone
    assert offers(root).locator("option").all_inner_texts() == names


def test_each_draw_is_different_and_the_same_as_in_torch(show):
    root = show(swap_attention(INNS))
    draw = root.get_by_role("button", name="draw anew")
    assert swap(root, "encoder", "window", 0) and draw.is_disabled()
    swap(root, "cross", "features", 4)
    for seed in (1, 2):
        draw.click()
        assert (whole(root)["own"], shown(root)["seed"]) == (in_torch(INNS, "cross", "features", 256, seed)[0], seed)
    drawn = "() => {const next = tfm.randomNumbers(3); return Array.from({length: 500}, () => next());}"
    assert root.page.evaluate(drawn) == random_numbers(3, 500).tolist()
    near(root.page.evaluate("() => tfm.normals(3, [5, 2, 7])"), normals(3, 5, 2, 7), 1e-12)


def test_other_stories_are_written_anew_with_words_marked_and_shares_beside(show):
    root = show(live := swap_attention())
    swap(root, "encoder", "window", 0)
    for story in make_newsroom(0).test[:6]:
        type_story(root, story.article)
        first = shown(root)["full"]
        ways = ("full",), ("window", 1), ("none",), ("mean",)
        full, text, *later = (in_torch(story.article, "encoder", *way)[0] for way in ways)
        assert first == full
        assert [whole(root)[way] for way in ("full", "own", "none", "mean")] == [full, text, *later]
        row, words = root.locator("tbody tr").nth(3), text.replace(",", " ,").split()
        new = [word for word, is_new in zip(words, new_words(text, full), strict=True) if is_new]
        assert row.locator("mark").all_inner_texts() == new and row.locator("td").nth(1).inner_text() == text
    shares = [row.locator("td").nth(2).inner_text() for row in root.locator("tbody tr").all()]
    measured = {tuple(row[:3]): f"{100 * row[3]:.1f} %" for row in live.widget.data["measured"]}
    assert shares == [measured["encoder", *row] for row in (("full", 0), ("none", 0), ("mean", 0), ("window", 1))]


def test_what_there_is_not_at_a_place_gives_way_to_what_there_is(show):
    root = show(swap_attention())
    assert swap(root, "encoder", "rank", 1)["name"] == "rank"
    pick(root, "cross")
    assert (whole(root)["name"], shown(root)["size"]) == ("top keys", 2)
    assert WAY not in offers(root).locator("option").all_inner_texts()
