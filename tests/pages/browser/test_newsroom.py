"""The newsroom's controls compute what tfm_lib computes, whatever story is chosen, turned or typed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.pages.browser.reader import NOT_READ, near, note, pick, shown, type_story, words
from tests.show.controls import CONTROLS, TAMPA
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.newsdesk import greedy_with_attention, ready_stories
from tfm_lib.show.summarizer_controls import CHOICES, MOST_TOKENS, go_on
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.tracing import copied_from

pytestmark = pytest.mark.browser
# Names and a mark that are in no vocabulary; one of the names comes twice.
TYPED = "Burglar Zaphod Beeblebrox stole <b>six</b> necklaces in Magrathea; on Friday, Beeblebrox was caught."
WORDS = ".tfm-word-row button:visible"
SLOTS = ("who", "where", "when", "how many")


@pytest.fixture
def root(show, request):
    """The control that the test names, or that of attention."""
    return show(CONTROLS[getattr(request, "param", "attention_control")]())


decoding = pytest.mark.parametrize("root", ["decoding_control"], indirect=True)


def story_of(root: Any) -> str:
    return root.locator("textarea").input_value()


def menu(root: Any, name: str) -> Any:
    return root.locator(".tfm-knob", has=root.page.get_by_text(name, exact=True)).locator("select")


def chosen(root: Any, *names: str) -> list[str]:
    return [menu(root, name).evaluate("e => e.selectedOptions[0].text") for name in names]


def encoded(vocabulary: Any, story: str) -> tuple[Tensor, list[str]]:
    slots = vocabulary.slot_words(story)
    return torch.tensor([vocabulary.encode(story, slots)]), slots


def test_the_menus_say_what_stands_in_the_text_and_change_it_there(root):
    stories = ready_stories()
    assert story_of(root) == stories["fire"] == shown(root)["story"]
    menu(root, "story").select_option("theft")
    assert story_of(root) == stories["theft"]
    assert chosen(root, *SLOTS) == ["Nina Popescu", "Cairo", "Monday", "three"]
    menu(root, "where").select_option("Lima")
    menu(root, "how many").select_option("sixty")
    changed = stories["theft"].replace("Cairo", "Lima").replace("three", "sixty")
    assert story_of(root) == changed == shown(root)["story"]
    assert " ".join(shown(root)["summary"]) == "popescu steals 60 jewels in lima on monday [eos]"
    assert chosen(root, "story") == ["your own"]
    menu(root, "story").select_option("theft")
    menu(root, "story").select_option(label="your own")  # the text is ready to be replaced
    selected = "area => [area.selectionStart, area.selectionEnd - area.value.length]"
    assert root.locator("textarea").evaluate(selected) == [0, 0]
    menu(root, "where").select_option("Tampa")
    assert root.locator("mark").all_inner_texts() == ["Tampa"]
    type_story(root, "Anytwo. Two of them. Then six: SIXTEEN came to lima, Sundays and all.")
    assert chosen(root, *SLOTS) == ["not found", "Lima", "not found", "two"]
    menu(root, "how many").select_option("six")  # with the capital of the word that it replaces
    assert story_of(root) == "Anytwo. Six of them. Then six: SIXTEEN came to lima, Sundays and all."


def test_unknown_words_are_marked_once_and_what_cannot_be_read_leaves_the_last_answer(root):
    assert note(root) == "40 tokens, each of them in the vocabulary."
    type_story(root, TYPED)
    marked = root.locator("mark").all_inner_texts()
    assert marked == list(dict.fromkeys(newsroom_model()[1].unknown_words(TYPED)))
    assert marked.count("Beeblebrox") == 1 and "<b>six</b>" in marked
    assert note(root).endswith(". The model reads [unk] instead.")
    answer = words(root), shown(root)
    for text, length in (*NOT_READ, (" \n", 0)):
        type_story(root, text)
        assert note(root) == f"{length} tokens: from 1 to 72 can be read. The last answer stands."
        assert (words(root), shown(root)) == answer
    type_story(root, "fire " * 72)
    assert shown(root)["story"] == "fire " * 72 and "vocabulary" in note(root)
    type_story(root, TAMPA)
    [city] = [word for word in shown(root)["summary"] if f"The story has no “{word}”." in words(root)]
    assert city.title() not in TAMPA


@pytest.mark.parametrize("story", [None, TYPED])
def test_the_attention_shows_the_weights_of_the_model(root, story):
    model, vocabulary = newsroom_model()
    if story:
        type_story(root, story)
    src, _ = encoded(vocabulary, shown(root)["story"])
    tokens, _, maps = greedy_with_attention(model, src, MOST_TOKENS)
    summary = vocabulary.pieces(tokens[0])
    assert shown(root)["summary"] == summary == root.locator(WORDS).all_inner_texts()
    for layer, head, place in ((1, 3, 0), (2, 8, 4), (1, "mean", len(summary) - 1), (2, 1, 2)):
        pick(root, layer, "layer")
        pick(root, head, "head")
        root.locator(WORDS).nth(place).click()
        weights = maps[f"decoder.layers.{layer - 1}.cross_attention"][0, :, place]  # (H, S)
        weights = weights.mean(0) if head == "mean" else weights[head - 1]
        near(shown(root)["weights"], weights)
        best = root.locator(".tfm-word-row > span:visible").nth(int(weights.argmax())).inner_text()
        who = "the mean of all heads" if head == "mean" else f"head {head}"
        assert words(root).startswith(
            f"While word {place + 1}, “{summary[place]}”, was written, {who} of layer {layer} looked most at “{best}” "
            f"({weights.max():.2f}), "
        )


@decoding
def test_a_click_writes_a_word_and_the_rows_stay(root):
    model, vocabulary = newsroom_model()
    src, _ = encoded(vocabulary, TAMPA)
    begun = vocabulary.encode("flood displaces 14 residents in")

    def agrees(tokens: list[int], place: int) -> list[str]:
        state, (total, _, rest) = shown(root), go_on(model, src, tuple(tokens))
        best = go_on(model, src, tuple(tokens[:place]))[1].topk(CHOICES)
        assert (state["written"], state["rest"], state["place"]) == (tokens, rest, place)
        assert state["best"] == best.indices.tolist() and state["total"] == pytest.approx(total, abs=1e-3)
        near(state["probs"], best.values)
        texts = vocabulary.pieces([*tokens, *rest])
        assert root.locator(WORDS).all_inner_texts() == texts
        kinds = [element.get_attribute("data-kind") for element in root.locator(WORDS).all()]
        assert [kind != "ahead" for kind in kinds] == [t < len(tokens) for t in range(len(texts))]
        assert root.locator(".tfm-bar-name").all_inner_texts() == vocabulary.pieces(best.indices)
        return texts

    agrees(begun, 5)
    bars = root.locator(".tfm-bar")
    before, choices = bars.nth(3).bounding_box(), shown(root)["best"]
    for row in (3, 1):  # a second click tries another word at the same place
        bars.nth(row).click()
        agrees([*begun, choices[row]], 5)
        assert bars.nth(3).bounding_box() == before and bars.nth(row).get_attribute("aria-pressed") == "true"
    tokens = [*begun, choices[1]]
    next_word, one_back = root.get_by_text("next word"), root.get_by_text("one back")
    next_word.click()
    agrees(tokens, 6)
    next_word.click()  # where nothing is chosen it writes the most probable
    agrees([*tokens, go_on(model, src, tuple(tokens))[2][0]], 7)
    one_back.click()
    agrees(tokens, 6)
    root.locator(WORDS).nth(2).click()
    agrees(begun[:3], 2)
    for _ in range(3):
        one_back.click()
    summary = greedy(model, src, MOST_TOKENS)[0].tolist()
    assert agrees([], 0) == vocabulary.pieces(summary) and one_back.is_disabled()
    root.get_by_text("as it would").click()
    agrees(summary, len(summary) - 1)
    assert "The text has ended." in words(root) and next_word.is_disabled()


@decoding
def test_words_that_are_written_stay_in_another_city_and_go_with_another_story(root):
    tokens = shown(root)["written"]
    menu(root, "where").select_option("Lima")
    assert shown(root)["written"] == tokens and shown(root)["probs"][0] > 0.9
    assert root.locator(".tfm-bar-name").first.inner_text() == "lima"
    menu(root, "story").select_option("strike")
    assert shown(root)["written"] == [] and shown(root)["place"] == 0


@decoding
def test_a_text_without_an_end_stops_at_the_most_words(root):
    next_word, eos_id = root.get_by_text("next word"), newsroom_model()[1].eos_id
    for place in range(5, MOST_TOKENS):
        assert shown(root)["place"] == place
        row = next(row for row, token in enumerate(shown(root)["best"]) if token != eos_id)
        root.locator(".tfm-bar").nth(row).click()
        if next_word.is_enabled():
            next_word.click()
    assert len(shown(root)["written"]) == MOST_TOKENS and next_word.is_disabled()
    assert f"A summary has at most {MOST_TOKENS}." in words(root)


@pytest.mark.parametrize("story", [None, TYPED, "fire " * 72])
def test_two_summarizers_write_what_they_write_in_python(show, story):
    root = show(CONTROLS["two_summarizers"]())
    type_story(root, story or story_of(root).replace("Kwame Asante", "Zaphod Beeblebrox"))
    state = shown(root)
    for role in ("plain", "copying"):
        model, vocabulary = newsroom_model(copying=role == "copying")
        src, slots = encoded(vocabulary, state["story"])
        tokens = greedy(model, src, MOST_TOKENS)
        assert state[role] == vocabulary.decode(tokens[0], slots)
    shares = copied_from(model, src, tokens).share[0]
    near(state["shares"], shares, 1e-3)
    copied = [vocabulary.decode([i], slots) for i, share in zip(tokens[0], shares, strict=True) if share > 0.5]
    assert state["copied"] == root.locator("u").all_inner_texts() == copied
    texts = [" ".join(line.split()) for line in root.locator(".tfm-summary").all_inner_texts()]
    assert texts == [state["plain"], state["copying"]]
    if story is None:  # a name that nobody knows is written by the one that copies
        assert "beeblebrox" in state["copied"] and "beeblebrox" not in state["plain"]
        assert "Beeblebrox" in root.locator("mark").all_inner_texts()
        assert note(root).endswith(". The plain model reads [unk] instead.")
