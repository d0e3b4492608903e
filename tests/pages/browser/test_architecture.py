"""The control of the whole model shows what PyTorch computes: every box, every number, and the way to its lesson."""

import pytest
import torch
from torch import Tensor

from tests.pages.browser.reader import NOT_READ, near, note, shown, type_story, words
from tests.show.controls import PHONE, ROOT
from tfm_lib.data.batches import shifted
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.architecture_control import MOST_TOKENS, STORY, architecture_control, computed
from tfm_lib.show.model_boxes import boxes
from tfm_lib.writing.decoding import greedy

pytestmark = pytest.mark.browser
UNKNOWN = "A zebra ran through Lima on Friday, said Omar Haddad. It rained!"
MODEL, VOCABULARY = newsroom_model()
BOXES = [box for column in boxes(MODEL.config).values() for box in column]
NAMES = [box.name for box in BOXES]


def control(**options):
    return architecture_control(MODEL, VOCABULARY, **options)


def press(root, name: str) -> dict:
    """Press the box of that name; what it shows."""
    root.locator(".tfm-box").nth(NAMES.index(name)).click()
    return shown(root)


def outputs_in_torch(story: str) -> dict[str, Tensor]:
    """What PyTorch's modules give while the model reads a story and its own summary, and the attention weights."""
    src = torch.tensor([VOCABULARY.encode(story)])
    return computed(MODEL, src, shifted(greedy(MODEL, src, MOST_TOKENS), MODEL.config.start_id))


@pytest.mark.parametrize("story", [STORY, UNKNOWN])
def test_every_box_holds_what_pytorch_computes(show, story):
    expected, root = outputs_in_torch(story), show(control())
    type_story(root, story)
    for name in NAMES:
        state = press(root, name)
        assert state["box"] == name == root.locator("code").inner_text()
        near(state["tensor"], expected[name], 1e-3, name)
        assert f"= {tuple(expected[name].shape)}" in root.locator(".tfm-inside").inner_text()
        assert state["shape"] == [*expected[name].shape]


@pytest.mark.parametrize("name", [NAMES[place] for place in (0, 1, 2, 3, 4, 6, 14, -3, -2, -1)])  # one of each kind
def test_it_begins_with_any_box_as_its_stored_picture_does(show, name):
    live = control(opened=name)
    root = show(live)
    assert words(root) == live.data["text/plain"]
    assert root.locator(".tfm-box[aria-pressed='true']").count() == 1


def test_a_number_is_found_by_arrow_keys_and_under_the_pointer(show):
    name = "decoder.layers.1.cross_attention"
    weights, root = outputs_in_torch(STORY)[name], show(control(opened=name))  # (H, T, S)
    canvas = root.locator("canvas")
    for label, head in (("mean", weights.mean(0)), ("0", weights[0]), ("7", weights[7])):
        root.locator(".tfm-choice label", has_text=label).click()
        before = shown(root)
        for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):
            canvas.press(key)
            state = shown(root)
            place = state["row"], state["column"]
            assert place != (before["row"], before["column"])
            assert state["value"] == pytest.approx(head[place].item(), abs=1e-3)
            before = state
    box = canvas.bounding_box()
    root.page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    state, last = shown(root), weights.shape[1] - 1
    assert (state["row"], state["column"]) == (last, weights.shape[2] - 1)
    assert f"“{state['target'][-1]}” (position {last}), “.” (position 19) has a weight of" in words(root)
    assert words(root).endswith("in head 7.")
    assert canvas.get_attribute("aria-valuetext") in words(root)


def test_what_a_mask_hides_is_said_to_be_hidden_and_colors_follow_the_scheme(show):
    root = show(control(opened="decoder.layers.0.self_attention"))
    canvas = root.locator("canvas")
    canvas.press("ArrowRight")
    assert words(root).endswith("At “[start]” (position 0), “fire” (position 1) is hidden by the causal mask.")
    height = int(canvas.bounding_box()["height"])
    pixel = "(canvas, y) => canvas.getContext('2d').getImageData(canvas.width - 8, y, 1, 1).data[3]"
    assert [canvas.evaluate(pixel, y) for y in (height - 8, height // 2 - 40)] == [255, 0]  # below, above the diagonal
    light = canvas.evaluate("canvas => canvas.toDataURL()")
    root.page.emulate_media(color_scheme="dark")
    changed = "([canvas, light]) => canvas.toDataURL() != light"
    root.page.wait_for_function(changed, arg=[canvas.element_handle(), light])


def test_it_says_what_it_writes_which_words_it_lacks_and_which_stories_it_cannot_read(show):
    root = show(control())
    assert note(root) == "The model writes: “fire destroys 19 homes in bergen on wednesday, says mwangi”."
    type_story(root, UNKNOWN)
    assert note(root).endswith("Its vocabulary lacks “zebra”, “ran”, “rained”, “!”; it reads [unk].")
    for text, count in NOT_READ:
        type_story(root, text)
        assert note(root) == f"The model reads 1 to 72 words and punctuation marks; this story has {count}."
    type_story(root, "fire " * 72)
    assert press(root, "encoder")["shape"] == [72, 128]


@pytest.mark.parametrize(("folder", "ending"), [("notebooks/", ".html"), ("", ".ipynb")], ids=["page", "notebook"])
def test_every_box_is_pressed_by_a_finger_and_leads_to_its_lesson(show, folder, ending):
    root = show(control(), PHONE)
    if folder:  # pages say where they are
        root.page.evaluate("document.documentElement.dataset.content_root = ''")
    for number, box in enumerate(BOXES):
        size = root.locator(".tfm-box").nth(number).bounding_box()
        assert min(size["height"], size["width"]) >= 24 and press(root, box.name)["box"] == box.name
        bounds = root.locator(".tfm-inside").bounding_box()
        assert bounds["y"] >= 0 and bounds["y"] + bounds["height"] <= PHONE["height"] + 1, "its numbers are in sight"
        link = root.page.get_by_role("link")
        assert link.get_attribute("href") == f"{folder}{box.lesson}{ending}"
        assert link.inner_text() == f"explained in lesson {box.lesson[:2]}"
        assert (ROOT / f"notebooks/{box.lesson}.ipynb").is_file()
        assert (link.get_attribute("target") == "_blank") == (ending == ".ipynb")  # no kernel is left by a click
