"""The machine of the first page in the browser is that of torch, whole and broken; and it waits in words."""

from pathlib import Path

import pytest
import torch

from benchmarks.start_here.breakages import breaking, write_broken
from tests.pages.browser.reader import NOT_READ, near, note, on_both_screens, pick, shown, too_wide, type_story, words
from tests.pages.browser.test_site import SITE
from tests.show.controls import PHONE, TAMPA
from tests.show.test_weights import read_int8
from tfm_lib.data.batches import shifted
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import SHIPPED, newsroom_model
from tfm_lib.show.machine import BREAKABLE, NOBODY, PARTS, layer_names, machine
from tfm_lib.show.scripts import CSS
from tfm_lib.show.summarizer_controls import MOST_TOKENS
from tfm_lib.show.weights import int8_weights
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.tracing import copied_from, record_attention

pytestmark = pytest.mark.browser
STORIES = [*(story.article for story in make_newsroom(0, train=1).test[:2]), TAMPA]
CROSS = "decoder.layers.1.cross_attention"
HEADS = ("encoder.layers.0.self_attention.6", "decoder.layers.0.self_attention", f"{CROSS}.7", CROSS)
EVERY = ("", *PARTS, *layer_names(newsroom_model()[0]), *HEADS)
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
    root.page.wait_for_function("document.querySelector('.tfm-control').shown.steps")
    return shown(root)


def switch(root, name: str) -> None:
    """Switches a part off."""
    root.locator(".tfm-shares label", has_text=name).locator("input").check(force=True)


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
            probs.append(logits.softmax(-1))
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


def test_one_model_is_fetched_ahead_and_the_other_when_it_is_asked_for(root):
    models, stored = root.page.locator("script[src*=newsroom]"), shown(root)
    assert stored["text"].startswith("lima gets 7")
    assert root.locator("path").count() > 10, "its ribbons"
    root.page.wait_for_function("loading.newsroom")
    assert models.count() == 1
    switch(root, "positions")
    wait(root)
    assert models.count() == 1
    pick(root, "copying")
    wait(root)
    assert models.count() == 2
    root.page.evaluate("globalThis.loaded = undefined")
    found = root.page.evaluate(BREAK, [stored["story"], ""])
    assert found["tokens"] == stored["tokens"], "the stored run is what it computes"
    for probs, weights, step in zip(found["probs"], found["weights"], stored["steps"], strict=True):
        near([probs[token] for token in step["best"]], torch.tensor(step["probs"]))
        near(weights, torch.tensor(step["weights"]))


def test_while_a_model_comes_nothing_of_another_story_stands_there(root):
    root.page.evaluate("() => { loading.newsroom = new Promise(() => 0); }")
    type_story(root, TAMPA)
    assert root.locator(".tfm-waiting").inner_text() == "The model is loading: 1.1 MB, once."
    root.page.evaluate("hearers.forEach(hear => hear('newsroom', 440_000))")
    assert root.locator("progress").evaluate("bar => bar.value") == pytest.approx(0.4)
    assert root.locator(".tfm-waiting span").inner_text() == "40 %"
    assert root.locator(".tfm-word-row button:visible, path").count() == 0
    assert not root.locator(".tfm-bars").inner_text().strip() and words(root) == "" and "texts" not in shown(root)
    type_story(root, BREAKABLE)  # whose answer is stored
    assert wait(root)["text"].startswith("lima gets 7") and root.locator(".tfm-waiting").inner_text() == ""


@torch.inference_mode()
def test_a_page_computes_as_torch_does_with_the_same_int8_weights(browser):
    whole, vocabulary = newsroom_model()
    model = read_int8(int8_weights(SHIPPED), whole)
    assert (SITE / "_static/newsroom.bin").read_bytes() == int8_weights(SHIPPED)
    assert (SITE / "_static/newsroom.bin").stat().st_size < 1_100_000
    with browser.new_page() as page:
        page.goto((SITE / "index.html").as_uri())
        page.evaluate("globalThis.loaded = undefined")
        for story in STORIES:
            src = torch.tensor([vocabulary.encode(story)])
            tokens = greedy(model, src, MOST_TOKENS)
            found = page.evaluate(BREAK, [story, ""])
            assert found["tokens"] == tokens[0].tolist()
            near(found["probs"], model(src, shifted(tokens, model.config.start_id))[0].softmax(-1), 1e-4, story)


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
    root.page.evaluate("globalThis.loaded = undefined")
    found = root.page.evaluate(BREAK.replace("temperature: 0", "temperature: 2"), [TAMPA, "residuals"])
    assert {(pad, start) for pad, start, *_ in found["probs"]} == {(0, 0)}, "they are no words"


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
        assert root.locator("path").count() == 0 and not too_wide(root.page, PHONE)
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
    switch(root, "residuals")
    broken = wait(root)
    texts = broken["texts"]
    kinds = root.locator(".tfm-word-row button:visible").evaluate_all("all => all.map(word => word.dataset.kind)")
    more = [t for t, text in enumerate(texts) if texts[: t + 1].count(text) > intact.count(text)]
    other = [t for t in more if t != broken["place"]]
    assert other and [t for t, kind in enumerate(kinds) if kind == "other"] == other
    assert "Without residuals it writes" in words(root)


def test_on_a_phone_the_headline_stays_in_sight_and_nothing_below_it_moves(show):
    root = show(machine(), PHONE)
    shares = root.locator(".tfm-shares")
    top, bar = shares.bounding_box()["y"], "e => getComputedStyle(e).backgroundImage"
    for label in ("positions", "residuals"):
        switch(root, label)
        wait(root)
        assert shares.bounding_box()["y"] == top
        chosen, other = (shares.locator(f"input:{kind}checked) + span").first for kind in ("is(:", "not(:"))
        assert chosen.evaluate(bar) == other.evaluate(bar) != "none"
        assert "On orange: what the whole model does not write." in words(root)
    root.page.add_style_tag(content="body { padding-bottom: 900px }")
    row = root.locator(".tfm-bar").nth(2)
    row.evaluate("row => row.scrollIntoView({block: 'center'})")
    row.click()
    assert wait(root)["chosen"] and 0 <= root.locator(".tfm-word-row").bounding_box()["y"] < 60
    unbroken = root.locator(".tfm-words").evaluate("p => !/[<>] | %/.test(p.textContent)")
    assert unbroken and "%" in words(root)


def test_a_finger_leaves_no_look_of_a_mouse_behind(root):
    root.page.add_style_tag(path=CSS)  # one whose rules can be read
    rules = root.page.evaluate("[...[...document.styleSheets].at(-1).cssRules].map(rule => rule.selectorText ?? '')")
    assert len(rules) > 99 and not [rule for rule in rules if ":hover" in rule], "outside of @media (hover: hover)"


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
    root.page.wait_for_function("loading.newsroom")  # or what is fetched ahead would take this away
    root.page.evaluate("() => { (loading.newsroom = Promise.reject(Error('no such file'))).catch(() => 0); }")
    switch(root, "scaling")
    root.page.wait_for_function("document.querySelector('.tfm-waiting').textContent.includes('no such file')")
    assert root.locator(".tfm-word-row button:visible, path").count() == 0


@on_both_screens
def test_on_the_first_page_it_is_on_one_screen(browser, viewport):
    with browser.new_page(viewport=viewport, reduced_motion="reduce") as page:
        page.goto((SITE / "index.html").as_uri())
        page.wait_for_function("document.querySelector('.tfm-machine')?.shown")
        assert page.locator(".start").is_visible()
        for part in ("textarea", ".tfm-word-row", "button:text-is('write it')", ".tfm-shares", ".tfm-why"):
            box = page.locator(f".tfm-machine {part}").bounding_box()
            assert box["y"] + box["height"] <= viewport["height"], part
        links = page.locator(".tfm-machine a").evaluate_all("links => links.map(link => link.href)")
        assert len(links) == 4 and all(Path(link.removeprefix("file://")).is_file() for link in links)


def test_the_first_page_writes_once_by_itself(browser):
    with browser.new_page(reduced_motion="no-preference") as page:
        page.goto((SITE / "index.html").as_uri())
        tokens, root = page.locator(".tfm-word-row button:visible"), page.locator(".tfm-machine")
        root.and_(page.locator("[data-writing]")).wait_for()
        assert tokens.count() < 9 and not page.locator(".tfm-words").is_visible()
        root.and_(page.locator(":not([data-writing])")).wait_for()
        assert tokens.count() == 9 and words(root).startswith("It writes “lima gets 7")


def test_ribbons_stay_in_their_lane_and_most_switches_break_the_first_story(root):
    parts = "paper", "headline", "word"
    paper, sheet, words = (root.locator(f".tfm-{part}").first.bounding_box() for part in parts)
    assert paper["y"] + paper["height"] <= sheet["y"] + 1
    for path in root.locator("path").all():
        top, height = path.evaluate("path => [path.getBBox().y, path.getBBox().height]")
        assert top >= 0 and sheet["y"] + top + height <= words["y"] + 2
    intact, broken = shown(root)["text"], 0
    for label, share in (("positions", "29.0 %"), ("scaling", "91.0 %"), ("residuals", "0 %"), ("a layer", "0 %")):
        assert root.locator(".tfm-shares label", has_text=label).locator("small").inner_text() == share
        switch(root, label)
        broken += wait(root)["text"] != intact
    assert broken == 4


def test_forced_colors_leave_what_is_chosen(root):
    root.page.emulate_media(forced_colors="active")
    ground, knob = "e => getComputedStyle(e).backgroundColor", root.locator(".tfm-choice:not(.tfm-shares)").first
    chosen, other = (knob.locator(f"input:{kind}checked) + span").first for kind in ("is(:", "not(:"))
    assert chosen.evaluate(ground) != other.evaluate(ground)
