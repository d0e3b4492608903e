"""The mask builder of lesson 02 weighs as tfm_lib.masks does, whatever mask a reader builds."""

from collections.abc import Iterator

import pytest
import torch

from tests.show.controls import MASKED, opened
from tfm_lib import masks
from tfm_lib.show.mask_control import mask_control

pytestmark = pytest.mark.browser
WORDS = ["a", "b", "c", "d", "e", "f"]
CELL = "query “{}”, key “{}”: "


@pytest.fixture
def root(browser, tmp_path) -> Iterator:
    with opened(browser, tmp_path, mask_control(MASKED, WORDS)) as opened_root:
        yield opened_root


def shown(root) -> tuple[torch.Tensor, str]:
    """The mask and the words, once the weights have been found to be those of the mask."""
    found = root.evaluate("root => root.shown")
    mask = torch.tensor(found["mask"])
    assert torch.allclose(torch.tensor(found["weights"]).float(), masks.masked_softmax(MASKED, mask), atol=1e-5)
    cells = root.locator("[role=gridcell]").evaluate_all("cells => cells.map(e => e.getAttribute('aria-label'))")
    assert [name.endswith("allowed") for name in cells] == mask.flatten().tolist()
    return mask, root.locator(".tfm-words").inner_text()


def written(root) -> torch.Tensor:
    """The mask of the code that stands under it."""
    names = {"torch": torch} | {name: getattr(masks, name) for name in ("causal_mask", "length_mask")}
    exec(root.locator(".tfm-code").inner_text(), names)
    mask = names["mask"]
    return torch.ones(6, 6, dtype=torch.bool) if mask is None else mask.expand(1, 1, 6, 6)[0, 0]


def test_ready_made_masks_are_those_of_their_code(root):
    keys, queries = torch.arange(6), torch.arange(6)[:, None]
    by_hand = {
        "all": torch.ones(6, 6, dtype=torch.bool),
        "padding": (keys < 5).expand(6, 6),
        "causal": keys <= queries,
        "both": (keys < 5) & (keys <= queries),
        "window of 2": (keys <= queries) & (keys >= queries - 2),
    }
    for name, wanted in by_hand.items():
        root.get_by_role("radio", name=name).check(force=True)
        mask, _ = shown(root)
        assert mask.equal(wanted) and written(root).equal(wanted)


def test_the_knobs_make_the_mask_that_they_say_and_show_which_it_is(root):
    length, causal = root.locator("input[type=range]"), root.locator("input[type=checkbox]")
    for valid in (0, 2, 6):
        for hides_future, name in ((True, "both"), (False, "padding")):
            length.fill(str(valid))
            causal.set_checked(hides_future)
            wanted = masks.length_mask(torch.tensor([valid]), 6)[0, 0].expand(6, 6)
            if hides_future:
                wanted = wanted & masks.causal_mask(6)[0, 0]
            mask, words = shown(root)
            assert mask.equal(wanted) and written(root).equal(wanted)
            assert f"{int(wanted.sum())} of 36 pairs may attend." in words
            chosen = {"both": "causal", "padding": "all"}[name] if valid == 6 else name
            assert root.get_by_role("radio", name=chosen).is_checked()
    root.get_by_role("radio", name="window of 2").check(force=True)
    length.fill("4")
    assert shown(root)[0].equal(written(root)) and shown(root)[0].sum() == 3 * 4 - 3 + 2 + 1 + 0


def test_pressed_cells_are_allowed_or_hidden_and_the_mask_is_ones_own_until_they_are_turned_back(root):
    root.get_by_role("radio", name="causal").check(force=True)
    wanted = torch.ones(6, 6).tril().bool()
    for query, key in ((0, 5), (3, 1), (5, 0)):
        root.get_by_label(CELL.format(WORDS[query], WORDS[key])).click()
        wanted[query, key] = ~wanted[query, key]
        mask, words = shown(root)
        assert mask.equal(wanted) and words.startswith("Your own mask: ")
        assert root.locator(".tfm-code").inner_text() == "your own mask"
        assert root.locator("input[type=radio]:checked").count() == 0
    for query, key in ((0, 5), (3, 1), (5, 0)):
        root.get_by_label(CELL.format(WORDS[query], WORDS[key])).click()
    assert root.get_by_role("radio", name="causal").is_checked() and written(root).equal(shown(root)[0])


def test_arrows_move_over_the_cells_space_turns_them_and_tab_stops_once(root):
    root.get_by_role("radio", name="all").check(force=True)
    keyboard = root.page.keyboard
    keyboard.press("Tab")
    for key in ("ArrowUp", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "Space"):
        keyboard.press(key)
    assert (~shown(root)[0]).nonzero().tolist() == [[2, 1]]
    for key in [*["ArrowRight"] * 7, "Enter"]:
        keyboard.press(key)
    assert (~shown(root)[0]).nonzero().tolist() == [[2, 1], [2, 5]]
    assert root.locator("[role=gridcell][tabindex='0']").count() == 1
    keyboard.press("Tab")
    assert root.evaluate("root => !root.contains(document.activeElement)")


def test_the_words_say_what_the_last_query_sees_and_who_sees_nothing(root):
    length = root.locator("input[type=range]")
    words = shown(root)[1]
    last = masks.masked_softmax(MASKED, masks.length_mask(torch.tensor([5]), 6)[0, 0])[-1]
    assert f"The last query, “f”, sees 5 keys and looks most at “{WORDS[int(last.argmax())]}”, with weight" in words
    assert words.endswith(f"{last.max():.2f}. Hidden keys get exactly 0.")
    length.fill("1")
    assert "sees 1 key and looks at nothing but “a”, with weight 1.00." in shown(root)[1]
    for query in ("c", "f"):
        root.get_by_label(CELL.format(query, "a")).click()
    mask, words = shown(root)
    assert not mask[[2, 5]].any() and root.evaluate("root => root.shown.weights[5]") == [0] * 6
    assert words == (
        "Your own mask: 4 of 36 pairs may attend. The last query is “f”. “c” and “f” see no key: weights of 0, and a "
        "sum of 0."
    )
    length.fill("0")
    assert shown(root)[1].endswith("0 of 36 pairs may attend. No query sees a key, so every weight is 0.")
    root.get_by_role("radio", name="all").check(force=True)
    assert shown(root)[1].startswith("No mask: 36 of 36") and shown(root)[1].endswith("Nothing is hidden.")


@pytest.mark.parametrize("count", [1, 2, 8, 10])
def test_equal_scores_are_shared_alike_and_long_words_find_room(browser, tmp_path, count):
    live = mask_control(torch.zeros(count, count), [f"{'unpronounceable' * (i % 2)}{i}" for i in range(count)])
    with opened(browser, tmp_path, live, {"width": 390, "height": 844}) as root:
        assert root.locator(".tfm-words").inner_text() == live.data["text/plain"]
        root.get_by_role("radio", name="all").check(force=True)
        assert root.page.evaluate("document.documentElement.scrollWidth") <= 390
        sides = root.locator("[role=gridcell]").evaluate_all("cells => cells.map(e => e.getBoundingClientRect().width)")
        assert min(sides) + 2 >= 24  # a finger's room, with what is between two cells
        words = root.locator(".tfm-words").inner_text()
        alike = {1: "at nothing but “0”, with weight 1.00.", 8: "at all of them alike, with weight 0.13 each."}
        assert alike.get(count, f"alike, with weight {1 / count:.2f} each.") in words
