"""The control of the whole model shows what PyTorch computes: every box, every number, and the way to its lesson."""

import pytest
import torch
from torch import Tensor

from tests.show.controls import PHONE, ROOT, opened, write_page
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.architecture_control import MOST_TOKENS, STORY, architecture_control
from tfm_lib.show.model_boxes import boxes
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.tracing import record_attention

pytestmark = pytest.mark.browser
UNKNOWN = "A zebra ran through Lima on Friday, said Omar Haddad. It rained!"
MODEL, VOCABULARY = newsroom_model()
NAMES = [box.name for column in boxes(MODEL.config).values() for box in column]
SHOWN = "root => root.shown"


def press(root, name: str) -> dict:
    """Press the box of that name; what it shows."""
    root.locator(".tfm-box").nth(NAMES.index(name)).click()
    return root.evaluate(SHOWN)


def hooked(story: str) -> dict[str, Tensor]:
    """What PyTorch's modules give while the model reads a story and its own summary, and the attention weights."""
    seen = {}
    src = torch.tensor([VOCABULARY.encode(story)])
    written = greedy(MODEL, src, MOST_TOKENS)
    tgt = torch.cat([torch.tensor([[MODEL.config.start_id]]), written[:, :-1]], dim=1)
    hooks = [
        part.register_forward_hook(lambda _, args, out, name=name: seen.update({name: out[0]}))
        for name, part in MODEL.named_modules()
    ]
    with torch.inference_mode(), record_attention(MODEL) as weights:
        MODEL(src, tgt)
    for hook in hooks:
        hook.remove()
    return seen | {name: of[0] for name, of in weights.items()} | {"softmax": seen["output"].softmax(-1)}


@pytest.mark.parametrize("story", [STORY, UNKNOWN])
def test_every_box_holds_what_pytorch_computes(browser, tmp_path, story):
    expected = hooked(story)
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY)) as root:
        root.locator("textarea").fill(story)
        for name in NAMES:
            shown = press(root, name)
            ours = expected[name]
            assert shown["box"] == name and tuple(shown["shape"]) == tuple(ours.shape)
            assert torch.allclose(torch.tensor(shown["tensor"]), ours, rtol=1e-4, atol=1e-3), name
            assert name == root.locator("code").inner_text()
            assert f"= {tuple(ours.shape)}" in root.locator(".tfm-inside").inner_text()


@pytest.mark.parametrize("name", [NAMES[place] for place in (0, 2, 5, 10, 13, 15, -2, -1)])  # one of each kind
def test_it_begins_with_any_box_as_its_stored_picture_does(browser, tmp_path, name):
    live = architecture_control(MODEL, VOCABULARY, opened=name)
    with opened(browser, tmp_path, live) as root:
        assert root.locator(".tfm-words").inner_text() == live.data["text/plain"]
        assert root.locator(".tfm-box[aria-pressed='true']").count() == 1


def test_a_number_is_found_by_arrow_keys_and_under_the_pointer(browser, tmp_path):
    name = "decoder.layers.1.cross_attention"
    weights = hooked(STORY)[name]  # (H, T, S)
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY, opened=name)) as root:
        canvas, keyboard, mouse = root.locator("canvas"), root.page.keyboard, root.page.mouse
        for label, of in (("mean", weights.mean(0)), ("0", weights[0]), ("7", weights[7])):
            root.locator(".tfm-choice label", has_text=label).click()
            shown = root.evaluate(SHOWN)
            for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):
                canvas.focus()
                keyboard.press(key)
                after = root.evaluate(SHOWN)
                assert (after["row"], after["column"]) != (shown["row"], shown["column"])
                shown = after
                assert shown["value"] == pytest.approx(of[shown["row"], shown["column"]].item(), abs=1e-3)
        box = canvas.bounding_box()
        mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
        shown = root.evaluate(SHOWN)
        assert (shown["row"], shown["column"]) == (weights.shape[1] - 1, weights.shape[2] - 1)
        words = root.locator(".tfm-words").inner_text()
        assert f"“{shown['target'][-1]}”, position {weights.shape[1] - 1}, head 7 gives “.”, position 19" in words
        assert canvas.get_attribute("aria-valuetext") in words


def test_what_a_mask_hides_is_said_to_be_hidden(browser, tmp_path):
    name = "decoder.layers.0.self_attention"
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY, opened=name)) as root:
        root.locator("canvas").focus()
        root.page.keyboard.press("ArrowRight")
        words = root.locator(".tfm-words").inner_text()
        assert words.endswith("At “[start]”, position 0, “fire”, position 1, is still to come: it is masked.")
        box = root.locator("canvas").bounding_box()
        pixel = "canvas => canvas.getContext('2d').getImageData(canvas.width - 8, %d, 1, 1).data[3]"
        heights = [int(box["height"]) - 8, int(box["height"] / 2) - 40]
        alphas = [root.locator("canvas").evaluate(pixel % height) for height in heights]
        assert alphas[0] == 255 and alphas[1] == 0  # the lower right cell and one above the diagonal


def test_it_says_what_it_writes_which_words_it_lacks_and_which_stories_it_cannot_read(browser, tmp_path):
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY)) as root:
        story, note = root.locator("textarea"), root.locator(".tfm-note")
        assert note.inner_text() == "The model writes: “fire destroys 19 homes in bergen on wednesday, says mwangi”."
        story.fill(UNKNOWN)
        assert note.inner_text().endswith("Its vocabulary lacks “zebra”, “ran”, “rained”, “!”; it reads [unk].")
        for text, count in (("", 0), ("fire " * 73, 73)):
            story.fill(text)
            assert note.inner_text() == f"The model reads 1 to 72 words and marks; here are {count}."
        story.fill("fire " * 72)
        assert press(root, "encoder")["shape"] == [72, 128]


@pytest.mark.parametrize(("folder", "ending"), [("notebooks/", ".html"), ("", ".ipynb")], ids=["page", "notebook"])
def test_every_box_leads_to_its_lesson_on_a_page_and_in_a_notebook(browser, tmp_path, folder, ending):
    file = write_page(tmp_path, architecture_control(MODEL, VOCABULARY))
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_function("document.querySelector('.tfm-control').shown")
        if folder:  # pages say where they stand
            page.evaluate("document.documentElement.dataset.content_root = ''")
        for box in [box for column in boxes(MODEL.config).values() for box in column]:
            press(page.locator(".tfm-control"), box.name)
            link = page.get_by_role("link")
            assert link.get_attribute("href") == f"{folder}{box.lesson}{ending}"
            assert link.inner_text() == f"explained in lesson {box.lesson[:2]}"
            assert (ROOT / "notebooks" / f"{box.lesson}.ipynb").is_file()
            assert (link.get_attribute("target") == "_blank") == (ending == ".ipynb")  # no kernel is left by a click


def test_boxes_are_pressed_by_a_finger_on_a_phone(browser, tmp_path):
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY), PHONE) as root:
        for number, name in enumerate(NAMES):
            box = root.locator(".tfm-box").nth(number).bounding_box()
            assert box["height"] >= 24 and box["width"] >= 24
            assert press(root, name)["box"] == name


def test_colors_follow_the_scheme(browser, tmp_path):
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY)) as root:
        light = root.locator("canvas").evaluate("canvas => canvas.toDataURL()")
        root.page.emulate_media(color_scheme="dark")
        assert root.locator("canvas").evaluate("canvas => canvas.toDataURL()") != light


def test_the_encoder_stands_on_the_left_above_the_story(browser, tmp_path):
    with opened(browser, tmp_path, architecture_control(MODEL, VOCABULARY)) as root:
        places = {}
        for label in ("Memory", "Softmax", "↑ story", "↑ summary so far"):
            box = root.locator("svg text", has_text=label).first.bounding_box()
            places[label] = box["x"] + box["width"] / 2
    left, right = places["↑ story"], places["↑ summary so far"]
    assert left < right and abs(places["Memory"] - left) < 5 and abs(places["Softmax"] - right) < 5
