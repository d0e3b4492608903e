"""Replaced attentions in the browser are those in torch: the same weights and headlines, with the same chance."""

import pytest
import torch

from tests.show.controls import INNS, opened
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.replacements import REPLACEMENTS, normals, random_numbers, swapped
from tfm_lib.show.summarizer_controls import MOST_TOKENS
from tfm_lib.show.swap_attention import CALLED, LABELS, WAY, new_words, swap_attention
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.tracing import record_attention

pytestmark = pytest.mark.browser
NAMES = {"encoder": "encoder.layers.1.self_attention", "decoder": "decoder.layers.1.self_attention"}
LAYER, HEAD = 1, 3


def written(story: str, place: str, name: str, size: int = 0, seed: int = 0) -> tuple[str, torch.Tensor]:
    """What the model writes in torch, and the weights of a head while it does, (T, S)."""
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])
    with torch.inference_mode(), swapped(model, place, name, size, seed):
        tokens = greedy(model, src, MOST_TOKENS)
        before = torch.cat([torch.full_like(tokens[:, :1], model.config.start_id), tokens[:, :-1]], dim=1)
        with record_attention(model) as maps:
            model(src, before)
    weights = maps[NAMES.get(place, "decoder.layers.1.cross_attention")][0, HEAD]
    return vocabulary.decode(tokens[0]), weights


def pick(root, place: str, name: str, step: int) -> dict:
    """Turn the knobs there, and read what is shown."""
    root.get_by_label(CALLED[place][0], exact=True).check(force=True)
    root.get_by_role("combobox", name="by", exact=True).select_option(name)
    root.locator("input[type=range]").fill(str(step))
    return root.evaluate("root => root.shown")


@pytest.mark.parametrize("place", CALLED)
def test_each_replacement_at_each_size_writes_and_weighs_as_in_torch(browser, tmp_path, place):
    offered = [name for name in LABELS if place in REPLACEMENTS[name].places]
    with opened(browser, tmp_path, swap_attention(INNS)) as root:
        root.get_by_role("combobox", name="weights of").select_option(f"layer {LAYER + 1}, head {HEAD + 1}")
        for name in offered:
            for step, size in enumerate(REPLACEMENTS[name].sizes):
                shown = pick(root, place, name, step)
                text, weights = written(INNS, place, name, size)
                about = f"{place}, {name}, {size}"
                assert shown["own"] == text, about
                assert shown["size"] == size
                theirs = [row + [0.0] * (weights.shape[1] - len(row)) for row in shown["weights"]]
                assert torch.allclose(torch.tensor(theirs, dtype=torch.float), weights, atol=1e-4), about
        alone = {way: written(INNS, place, way)[0] for way in ("full", "none", "mean")}
        assert {way: shown[way] for way in alone} == alone
        assert root.get_by_role("combobox", name="by", exact=True).locator("option").all_inner_texts() == offered


def test_each_draw_is_another_and_the_same_as_in_torch(browser, tmp_path):
    with opened(browser, tmp_path, swap_attention(INNS)) as root:
        draw = root.get_by_role("button", name="draw anew")
        assert pick(root, "encoder", "window", 0) and draw.is_disabled()
        pick(root, "cross", "features", 4)
        for seed in (1, 2):
            draw.click()
            shown = root.evaluate("root => root.shown")
            assert shown["own"] == written(INNS, "cross", "features", 256, seed)[0]
            assert shown["seed"] == seed


def test_the_seeded_numbers_are_the_same(browser, tmp_path):
    with opened(browser, tmp_path, swap_attention()) as root:
        drawn = "() => {const next = tfm.randomNumbers(3); return Array.from({length: 500}, () => next());}"
        assert root.page.evaluate(drawn) == random_numbers(3, 500).tolist()
        theirs = torch.tensor(root.page.evaluate("() => tfm.normals(3, [5, 2, 7])"), dtype=torch.float64)
    assert torch.allclose(theirs, normals(3, 5, 2, 7), atol=1e-12)


def test_other_stories_are_written_anew_with_words_marked_and_shares_beside(browser, tmp_path):
    live, stories = swap_attention(), make_newsroom(0).test[:6]
    data = live.widget.data
    with opened(browser, tmp_path, live) as root:
        shown = pick(root, "encoder", "window", 0)
        for story in stories:
            root.locator("textarea").fill(story.article)
            shown = root.evaluate("root => root.shown")
            full, own = (written(story.article, "encoder", *way)[0] for way in (("full",), ("window", 1)))
            assert (shown["full"], shown["own"]) == (full, own)
            marks = root.locator("tbody tr").nth(3).locator("mark").all_inner_texts()
            words = own.replace(",", " ,").split()
            assert marks == [word for word, new in zip(words, new_words(own, full), strict=True) if new]
            cells = root.locator("tbody tr").nth(3).locator("td").all_inner_texts()
            assert cells[1] == own
        shares = [cells[2] for cells in map(_cells, root.locator("tbody tr").all())]
    measured = {tuple(row[:3]): row[3] for row in data["measured"]}
    rows = [("full", 0), ("none", 0), ("mean", 0), ("window", 1)]
    assert shares == [f"{100 * measured['encoder', *row]:.1f} %" for row in rows]


def _cells(row) -> list[str]:
    return row.locator("td").all_inner_texts()


def test_what_there_is_not_at_a_place_gives_way_to_what_there_is(browser, tmp_path):
    with opened(browser, tmp_path, swap_attention()) as root:
        assert pick(root, "encoder", "rank", 1)["name"] == "rank"
        root.get_by_label("cross", exact=True).check(force=True)
        shown = root.evaluate("root => root.shown")
        assert (shown["name"], shown["size"]) == ("top keys", 2)
        assert WAY not in root.get_by_role("combobox", name="by", exact=True).locator("option").all_inner_texts()
