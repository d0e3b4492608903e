"""The mask builder of lesson 02 weighs as tfm_lib.masks does; the prefix of lesson 16 shows the mask of its lesson."""

from itertools import product

import pytest
import torch

from benchmarks.lessons import definitions
from tests.pages.browser.reader import near, pick, shown, slide, too_wide, words
from tests.show.controls import MASKED, PHONE
from tfm_lib import masks
from tfm_lib.show.mask_control import ARTICLE, mask_control, prefix_control
from tfm_lib.show.mask_control import WORDS as TOKENS

pytestmark = pytest.mark.browser
WORDS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture
def root(show):
    return show(mask_control(MASKED, WORDS))


def press(root, query: int, key: int) -> None:
    root.get_by_label(f"query “{WORDS[query]}”, key “{WORDS[key]}”: ").click()


def mask_of(root) -> torch.Tensor:
    """The mask, once its weights, the names of its cells and the code under it have been found to be the mask's."""
    state = shown(root)
    mask = torch.tensor(state["mask"])
    near(state["weights"], masks.masked_softmax(MASKED, mask), 1e-5)
    cells = root.locator("[role=gridcell]").evaluate_all("cells => cells.map(e => e.getAttribute('aria-label'))")
    assert [name.endswith("allowed") for name in cells] == mask.flatten().tolist()
    if (code := root.locator(".tfm-code").inner_text()) != "your own mask":
        names = {"torch": torch, "causal_mask": masks.causal_mask, "length_mask": masks.length_mask}
        exec(code, names)
        everything = torch.ones(1, 1, 6, 6, dtype=torch.bool)
        assert mask.equal((everything if names["mask"] is None else everything & names["mask"])[0, 0])
    return mask


def test_ready_made_masks_and_those_of_the_knobs_are_what_their_names_say(root):
    length, causal = root.locator("input[type=range]"), root.locator("input[type=checkbox]")
    keys, queries = torch.arange(6), torch.arange(6)[:, None]

    def by_hand(valid: int, hides_future: bool) -> torch.Tensor:
        return (keys < valid) & ((keys <= queries) if hides_future else (queries >= 0))

    for name, setting in {"all": (6, False), "padding": (5, False), "causal": (6, True), "both": (5, True)}.items():
        pick(root, name, "mask")
        assert mask_of(root).equal(by_hand(*setting))
    for setting in product((0, 2, 6), (True, False)):
        length.fill(str(setting[0]))
        causal.set_checked(setting[1])
        expected = by_hand(*setting)
        assert mask_of(root).equal(expected) and f"{int(expected.sum())} of 36 pairs may attend." in words(root)
        name = {(6, True): "causal", (6, False): "all"}.get(setting, "both" if setting[1] else "padding")
        assert root.get_by_role("radio", name=name).is_checked()
    pick(root, "window of 2", "mask")
    assert mask_of(root).equal((keys <= queries) & (keys >= queries - 2))
    length.fill("4")
    assert mask_of(root).sum() == 3 * 4 - 3 + 2 + 1 + 0


def test_pressed_cells_are_allowed_or_hidden_and_the_mask_is_ones_own_until_they_are_turned_back(root):
    pick(root, "causal", "mask")
    expected, pairs = torch.ones(6, 6).tril().bool(), ((0, 5), (3, 1), (5, 0))
    for query, key in pairs:
        press(root, query, key)
        expected[query, key] = ~expected[query, key]
        assert mask_of(root).equal(expected) and words(root).startswith("Your own mask: ")
        assert root.locator(".tfm-code").inner_text() == "your own mask"
        assert root.locator("input[type=radio]:checked").count() == 0
    for query, key in pairs:
        press(root, query, key)
    assert root.get_by_role("radio", name="causal").is_checked() and mask_of(root).equal(torch.ones(6, 6).tril().bool())


def test_arrows_move_over_the_cells_space_turns_them_and_tab_stops_once(root):
    pick(root, "all", "mask")
    keyboard = root.page.keyboard
    for key in ("Tab", "ArrowUp", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "Space"):
        keyboard.press(key)
    assert (~mask_of(root)).nonzero().tolist() == [[2, 1]]
    for key in [*["ArrowRight"] * 7, "Enter"]:
        keyboard.press(key)
    assert (~mask_of(root)).nonzero().tolist() == [[2, 1], [2, 5]]
    assert root.locator("[role=gridcell][tabindex='0']").count() == 1
    keyboard.press("Tab")
    assert root.evaluate("root => !root.contains(document.activeElement)")


def test_the_words_say_what_the_last_query_sees_and_who_sees_nothing(root):
    length = root.locator("input[type=range]")
    length.fill("1")
    assert "sees 1 key and looks at nothing but “a”, with a weight of 1.00." in words(root)
    for query in (2, 5):
        press(root, query, 0)
    assert not mask_of(root)[[2, 5]].any() and shown(root)["weights"][5] == [0] * 6
    assert words(root) == (
        "Your own mask: 4 of 36 pairs may attend. The last query is “f”. “c” and “f” see no key, so "
        "all their weights are 0."
    )
    length.fill("0")
    assert words(root).endswith("0 of 36 pairs may attend. No query sees a key, so every weight is 0.")
    pick(root, "all", "mask")
    assert words(root).startswith("No mask: 36 of 36") and words(root).endswith("Nothing is hidden.")


@pytest.mark.parametrize("count", [1, 8, 10])
def test_equal_scores_are_shared_equally_and_long_words_find_room(show, count):
    live = mask_control(torch.zeros(count, count), [f"{'unpronounceable' * (i % 2)}{i}" for i in range(count)])
    root = show(live, PHONE)
    assert words(root) == live.data["text/plain"]
    pick(root, "all", "mask")
    assert not too_wide(root.page, PHONE)
    sides = root.locator("[role=gridcell]").evaluate_all("cells => cells.map(e => e.getBoundingClientRect().width)")
    assert min(sides) + 2 >= 24  # a finger's room, with what is between two cells
    shares = {1: "but “0”, with a weight of 1.00.", 8: "equally, with a weight of 0.13 each.", 10: "of 0.10 each."}
    assert shares[count] in words(root)


def test_every_prefix_shows_its_mask_and_a_row_is_read(show):
    root, mask_of_lesson = show(prefix_control()), definitions("16_families_and_scale").prefix_mask
    for prefix in range(len(TOKENS) + 1):
        state = slide(root, prefix)
        assert torch.equal(torch.tensor(state["mask"]), mask_of_lesson(len(TOKENS), torch.tensor([prefix]))[0, 0])
        assert state["asked"] == len(TOKENS) - max(1, prefix)
        assert ("GPT" in words(root), "BERT" in words(root)) == (prefix == 0, prefix == len(TOKENS))
    pick(root, "the article")
    root.get_by_label("what “hit” sees").press("Enter")
    assert f"“hit”, at place 3, sees {ARTICLE} of {len(TOKENS)} tokens" in words(root)
    pick(root, "GPT")
    assert f"“hit”, at place 3, sees 3 of {len(TOKENS)} tokens" in words(root)
