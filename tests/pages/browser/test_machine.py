"""The machine of the first page in the browser is that of torch, whole and broken; and its weights wait for a touch."""

from pathlib import Path

import pytest
import torch

from benchmarks.start_here.breakages import breaking, write_broken
from tests.pages.browser.reader import (
    NOT_READ,
    is_wider_than,
    near,
    note,
    on_both_screens,
    pick,
    shown,
    type_story,
    words,
)
from tests.pages.browser.test_site import SITE
from tests.show.controls import LAPTOP, PHONE, TAMPA
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.machine import NOBODY, PARTS, layer_names, machine
from tfm_lib.show.summarizer_controls import MOST_TOKENS
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.next_token import log_softmax
from tfm_lib.writing.tracing import copied_from, record_attention

pytestmark = pytest.mark.browser
STORIES = [*(story.article for story in make_newsroom(0).test[:2]), TAMPA]
HEADS = (
    "encoder.layers.0.self_attention.6",
    "decoder.layers.0.self_attention",
    "decoder.layers.1.cross_attention.7",
    "decoder.layers.1.cross_attention",
)
EVERY = ("", *PARTS, *layer_names(newsroom_model()[0]), *HEADS)
READY = "number => document.querySelector('.tfm-control').shown.steps"
# In one go: the model may have come before a second question reaches the page.
TOUCH = "box => { box.click(); return box.closest('.tfm-control').querySelector('.tfm-words').innerText; }"
# What the machine writes without a part, every probability of each step (T, V), and the weights (T, S).
BREAK = """async ([story, off]) => {
    loaded ??= await weightsOf("newsroom");
    const all = {story, chosen: [], temperature: 0, beams: 1, off, seed: 0};
    const {tokens, steps} = tfm.headlineRun(loaded, all, {most: 24, choices: 604});
    const probs = steps.map(({best, probs}) => best.reduce((row, id, i) => (row[id] = probs[i], row), []));
    return {tokens, probs, weights: steps.map(({weights}) => weights)};
}"""


@pytest.fixture
def root(show):
    return show(machine())


def wait(root) -> dict:
    root.page.wait_for_function(READY)
    return shown(root)


def write(root, text: str) -> dict:
    """What it writes of a story."""
    type_story(root, text)
    return wait(root)


@torch.inference_mode()
def in_torch(story: str, off: str) -> tuple[list[int], torch.Tensor, torch.Tensor]:
    """The same by a torch model whose part is switched off, every prefix read by itself."""
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])
    names = [off] if off else []
    [tokens] = write_broken(model, names, src, MOST_TOKENS).tolist()
    tokens = tokens[: tokens.index(model.config.eos_id) + 1] if model.config.eos_id in tokens else tokens
    name = f"decoder.layers.{0 if off == 'decoder.layers.1' else 1}.cross_attention"
    probs, weights = [], []
    with breaking(model, names):
        for length in range(len(tokens)):
            with record_attention(model) as maps:
                logits = model(src, torch.tensor([[model.config.start_id, *tokens[:length]]]))[0, -1]
            probs.append(log_softmax(logits).exp())
            rows = maps[name][0, :, -1].clone()  # (H, S)
            if off.startswith(name):  # all heads, or one
                rows[slice(None) if off == name else int(off.rsplit(".", 1)[1])] = 0.0
            weights.append(rows.mean(0))
    return tokens, torch.stack(probs), torch.stack(weights)


def test_each_breakage_writes_and_weighs_as_in_torch(root):
    root.page.evaluate("globalThis.loaded = undefined")
    for off in EVERY:
        for story in STORIES:
            tokens, probs, weights = in_torch(story, off)
            found, about = root.page.evaluate(BREAK, [story, off]), f"{off or 'whole'}: {story}"
            assert found["tokens"] == tokens, about
            near(found["probs"], probs, 1e-3, about)
            near(found["weights"], weights, 1e-3, about)


def test_nothing_is_loaded_before_the_first_touch_and_one_model_after_it(root):
    asked: list[str] = []
    root.page.on("request", lambda request: asked.append(Path(request.url).name))
    assert root.page.locator("script[src*=newsroom]").count() == 0
    stored = shown(root)
    assert stored["text"].startswith("fire destroys 19")
    assert root.locator("path").count() > 10, "its ribbons"
    assert "on its way" in root.get_by_label("positions", exact=True).evaluate(TOUCH)
    wait(root)
    assert asked == ["newsroom.js"]
    pick(root, "copying")
    wait(root)
    assert asked == ["newsroom.js", "newsroom_copying.js"]
    root.page.evaluate("globalThis.loaded = undefined")
    found = root.page.evaluate(BREAK, [stored["story"], ""])
    assert found["tokens"] == stored["tokens"], "the stored run is what it computes"
    for probs, weights, step in zip(found["probs"], found["weights"], stored["steps"], strict=True):
        near([probs[token] for token in step["best"]], torch.tensor(step["probs"]))
        near(weights, torch.tensor(step["weights"]))


def test_another_word_goes_on_from_there_and_beams_are_those_of_torch(root):
    model, vocabulary = newsroom_model()
    write(root, TAMPA)
    root.locator(".tfm-word-row button").first.click()
    token = shown(root)["steps"][0]["best"][2]
    root.locator(".tfm-bar").nth(2).click()
    assert wait(root)["tokens"][0] == token and shown(root)["chosen"] == [token]
    pick(root, 4)
    src = torch.tensor([vocabulary.encode(TAMPA)])
    assert wait(root)["tokens"] == beam_search(model, src, MOST_TOKENS, num_beams=4)[0].tolist()
    assert root.get_by_role("slider").is_disabled()
    pick(root, 1)
    root.get_by_role("slider").fill("4")
    assert len({root.get_by_role("button", name="write it").click() or wait(root)["text"] for _ in range(4)}) > 1


def test_a_name_that_nobody_has_is_copied_by_one_of_the_two(root):
    model, vocabulary = newsroom_model(copying=True)
    src = torch.tensor([vocabulary.encode(NOBODY, vocabulary.slot_words(NOBODY))])
    root.get_by_role("button", name="a name that nobody has").click()
    plain = wait(root)["text"].split()
    assert not {"zwack", "ulm"} & {*plain} and "The story has no" in words(root)
    pick(root, "copying")
    copying = wait(root)
    shares = copied_from(model, src, torch.tensor([copying["tokens"]])).share[0]
    assert [step["copied"] for step in copying["steps"]] == (shares > 0.5).tolist()
    assert {"zwack", "ulm"} <= {*copying["text"].split()}


def test_what_cannot_be_read_is_named_and_leaves_the_last_answer(show):
    root = show(machine(), PHONE)
    for text, count in (*NOT_READ, ("fire " * 500, 500)):
        type_story(root, text)
        assert note(root) == f"{count} tokens: from 1 to 72 can be read. The last answer stands."
        assert root.locator("path").count() == 0 and not is_wider_than(root.page, PHONE)
    write(root, TAMPA)
    assert root.locator("mark").all_inner_texts() == ["Tampa"] == root.locator("[data-kind=unknown]").all_inner_texts()
    assert root.locator("path").count() > 10


@on_both_screens
def test_a_story_is_whole_and_its_marks_lie_under_its_words(show, viewport):
    """Once the box was lower than a long story, which then slid away from its marks."""
    root = show(machine(), viewport)
    for text in (STORIES[0], NOBODY + " " + NOBODY):
        type_story(root, text)
        box = root.locator("textarea")
        assert box.evaluate("box => box.scrollHeight - box.clientHeight") <= 1, text
        sheet = root.locator(".tfm-under").bounding_box()
        assert sheet["height"] == pytest.approx(box.bounding_box()["height"], abs=2), text


def test_what_a_missing_part_changed_is_marked(root):
    intact = wait(root)["texts"]
    pick(root, "residuals")
    broken = wait(root)
    texts = broken["texts"]
    kinds = root.locator(".tfm-word-row button:visible").evaluate_all("all => all.map(word => word.dataset.kind)")
    more = [t for t, text in enumerate(texts) if texts[: t + 1].count(text) > intact.count(text)]
    other = [t for t in more if t != broken["place"]]
    assert other and [t for t, kind in enumerate(kinds) if kind == "other"] == other
    assert "Without residuals it writes" in words(root)


def test_it_writes_before_the_readers_eyes_unless_they_want_no_motion(root):
    tokens, press = root.locator(".tfm-word-row button:visible"), root.get_by_role("button", name="write it")
    count = tokens.count()
    press.click()
    wait(root)
    assert tokens.count() == count
    root.page.emulate_media(reduced_motion="no-preference")
    press.click()
    assert tokens.count() < count
    root.page.wait_for_function(f"document.querySelector('.tfm-control').shown.place === {count - 1}")
    assert tokens.count() == count


def test_a_model_that_does_not_come_is_said(root):
    root.page.evaluate("() => { (loading.newsroom = Promise.reject(Error('no such file'))).catch(() => 0); }")
    pick(root, "scaling")
    root.page.wait_for_function("document.querySelector('.tfm-words').textContent.includes('no such file')")


@on_both_screens
def test_on_the_first_page_it_is_on_one_screen(browser, viewport):
    with browser.new_context(viewport=viewport, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto((SITE / "index.html").as_uri())
        page.wait_for_function("document.querySelector('.tfm-machine')?.shown")
        last = ".tfm-words" if viewport is LAPTOP else "button:text-is('write it')"
        for part in ("textarea", ".tfm-word-row", "button:text-is('write it')", last):
            box = page.locator(f".tfm-machine {part}").bounding_box()
            assert box["y"] + box["height"] <= viewport["height"], part
        links = page.locator(".tfm-machine a").evaluate_all("links => links.map(link => link.href)")
        assert len(links) == 4 and all(Path(link.removeprefix("file://")).is_file() for link in links)
