"""The newsroom's controls compute what tfm_lib computes, whatever story is chosen, turned or typed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.show.controls import CONTROLS, TAMPA, opened
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.newsdesk import ready_stories
from tfm_lib.show.summarizer_controls import CHOICES, MOST_TOKENS, go_on
from tfm_lib.writing.decoding import greedy, token_log_probs
from tfm_lib.writing.tracing import copied_from, record_attention

pytestmark = pytest.mark.browser
# Names and a mark that are in no vocabulary; one of the names comes twice.
TYPED = "Burglar Zaphod Beeblebrox stole <b>six</b> necklaces in Magrathea; on Friday, Beeblebrox was caught."
WORDS = ".tfm-word-row button:visible"


def shown(root: Any) -> dict[str, Any]:
    return root.evaluate("root => root.shown")


def words(root: Any) -> str:
    return root.locator(".tfm-words").inner_text()


def type_story(root: Any, text: str) -> None:
    root.locator("textarea").fill(text)


def menu(root: Any, name: str) -> Any:
    return root.locator(".tfm-knob", has=root.page.get_by_text(name, exact=True)).locator("select")


def chosen(root: Any, name: str) -> str | None:
    return menu(root, name).evaluate("e => e.disabled ? null : e.selectedOptions[0].text")


def encoded(vocabulary: Any, story: str) -> tuple[Tensor, list[str]]:
    slots = vocabulary.slot_words(story)
    return torch.tensor([vocabulary.encode(story, slots)]), slots


def test_the_menus_say_what_stands_in_the_text_and_change_it_there(browser, tmp_path):
    with opened(browser, tmp_path, CONTROLS["attention_control"]()) as root:
        stories, text = ready_stories(), root.locator("textarea")
        assert text.input_value() == stories["fire"] == shown(root)["story"]
        menu(root, "story").select_option("theft")
        assert text.input_value() == stories["theft"]
        said = [chosen(root, name) for name in ("who", "where", "when", "how many")]
        assert said == ["Nina Popescu", "Cairo", "Monday", "three"]
        menu(root, "where").select_option("Lima")
        menu(root, "how many").select_option("sixty")
        changed = stories["theft"].replace("Cairo", "Lima").replace("three", "sixty")
        assert text.input_value() == changed == shown(root)["story"]
        assert " ".join(shown(root)["summary"]) == "popescu steals 60 jewels in lima on monday [eos]"
        assert chosen(root, "story") == "your own"
        menu(root, "story").select_option("theft")
        menu(root, "story").select_option(label="your own")  # the text is ready to be replaced
        assert text.evaluate("area => [area.selectionStart, area.selectionEnd - area.value.length]") == [0, 0]
        menu(root, "where").select_option("Tampa")
        assert root.locator("mark").all_inner_texts() == ["Tampa"]
        type_story(root, "Anytwo. Two of them. Then six: SIXTEEN came to lima, Sundays and all.")
        assert [chosen(root, name) for name in ("who", "where", "when", "how many")] == [None, "Lima", None, "two"]
        menu(root, "how many").select_option("six")  # with the capital of the word that it replaces
        assert text.input_value() == "Anytwo. Six of them. Then six: SIXTEEN came to lima, Sundays and all."


def test_unknown_words_are_marked_once_and_what_cannot_be_read_leaves_the_last_answer(browser, tmp_path):
    with opened(browser, tmp_path, CONTROLS["attention_control"]()) as root:
        note = root.locator(".tfm-note")
        assert note.inner_text() == "40 tokens, each of them in the vocabulary."
        type_story(root, TYPED)
        marked = root.locator("mark").all_inner_texts()
        assert marked == list(dict.fromkeys(newsroom_model()[1].unknown_words(TYPED)))
        assert marked.count("Beeblebrox") == 1 and "<b>six</b>" in marked
        assert note.inner_text().endswith(". The model reads [unk] instead.")
        answer = words(root), shown(root)
        for text, length in (("", 0), (" \n", 0), ("fire " * 73, 73)):
            type_story(root, text)
            assert note.inner_text() == f"{length} tokens: from 1 to 72 can be read. The last answer stands."
            assert (words(root), shown(root)) == answer
        type_story(root, "fire " * 72)
        assert shown(root)["story"] == "fire " * 72 and "vocabulary" in note.inner_text()


def test_names_that_the_story_lacks_are_said(browser, tmp_path):
    with opened(browser, tmp_path, CONTROLS["attention_control"]()) as root:
        assert "The story has no" not in words(root)
        type_story(root, TAMPA)
        [city] = [word for word in shown(root)["summary"] if f"The story has no “{word}”." in words(root)]
        assert city.title() not in TAMPA


@pytest.mark.parametrize("story", [None, TYPED])
def test_the_attention_shows_the_weights_of_the_model(browser, tmp_path, story):
    model, vocabulary = newsroom_model()
    with opened(browser, tmp_path, CONTROLS["attention_control"]()) as root:
        if story:
            type_story(root, story)
        src, _ = encoded(vocabulary, shown(root)["story"])
        tokens = greedy(model, src, MOST_TOKENS)
        with torch.no_grad(), record_attention(model) as maps:
            model(src, torch.cat([torch.tensor([[model.config.start_id]]), tokens[:, :-1]], dim=1))
        assert shown(root)["summary"] == vocabulary.pieces(tokens[0]) == root.locator(WORDS).all_inner_texts()
        layers, heads = (root.get_by_role("radiogroup", name=name) for name in ("layer", "head"))
        for layer, head, place in ((1, 3, 0), (2, 8, 4), (1, "mean", tokens.shape[1] - 1), (2, 1, 2)):
            layers.get_by_role("radio", name=str(layer), exact=True).check()
            heads.get_by_role("radio", name=str(head), exact=True).check()
            root.locator(WORDS).nth(place).click()
            weights = maps[f"decoder.layers.{layer - 1}.cross_attention"][0, :, place]  # (H, S)
            weights = weights.mean(0) if head == "mean" else weights[head - 1]
            assert torch.tensor(shown(root)["weights"]).allclose(weights, atol=1e-4)
            best = root.locator(".tfm-word-row > span:visible").nth(int(weights.argmax())).inner_text()
            who = "the mean of all heads" if head == "mean" else f"head {head}"
            word = vocabulary.pieces(tokens[0])[place]
            said = f"While word {place + 1}, “{word}”, was written, {who} of layer {layer} looked most at “{best}” "
            assert words(root).startswith(f"{said}({weights.max():.2f}), ")


def test_a_click_writes_a_word_and_the_rows_stay(browser, tmp_path):
    model, vocabulary = newsroom_model()
    src, _ = encoded(vocabulary, TAMPA)
    begun = vocabulary.encode("flood displaces 14 residents in")

    def agree(root: Any, written: list[int], place: int) -> list[str]:
        now, (total, _, rest) = shown(root), go_on(model, src, tuple(written))
        best = go_on(model, src, tuple(written[:place]))[1].topk(CHOICES)
        assert now["written"] == written and now["rest"] == rest and now["place"] == place
        assert now["best"] == best.indices.tolist()
        assert now["probs"] == pytest.approx(best.values.tolist(), abs=1e-4)
        assert now["total"] == pytest.approx(total, abs=1e-3)
        texts = vocabulary.pieces([*written, *rest])
        assert root.locator(WORDS).all_inner_texts() == texts
        kinds = [element.get_attribute("data-kind") for element in root.locator(WORDS).all()]
        assert [kind != "ahead" for kind in kinds] == [t < len(written) for t in range(len(texts))]
        assert root.locator(".tfm-bar-name").all_inner_texts() == vocabulary.pieces(best.indices)
        return texts

    with opened(browser, tmp_path, CONTROLS["decoding_control"]()) as root:
        agree(root, begun, 5)
        bars, before = root.locator(".tfm-bar"), root.locator(".tfm-bar").nth(3).bounding_box()
        tokens = shown(root)["best"]
        for row in (3, 1):  # a second click tries another word at the same place
            bars.nth(row).click()
            agree(root, [*begun, tokens[row]], 5)
            assert bars.nth(3).bounding_box() == before
            assert bars.nth(row).get_attribute("aria-pressed") == "true"
        root.get_by_text("next word").click()
        agree(root, [*begun, tokens[1]], 6)
        root.get_by_text("next word").click()  # where nothing is chosen it writes the likeliest
        agree(root, [*begun, tokens[1], go_on(model, src, (*begun, tokens[1]))[2][0]], 7)
        root.get_by_text("one back").click()
        agree(root, [*begun, tokens[1]], 6)
        root.locator(WORDS).nth(2).click()
        agree(root, begun[:3], 2)
        whole = greedy(model, src, MOST_TOKENS)[0].tolist()
        for _ in range(3):
            root.get_by_text("one back").click()
        assert agree(root, [], 0) == vocabulary.pieces(whole) and root.get_by_text("one back").is_disabled()
        root.get_by_text("as it would").click()
        agree(root, whole, len(whole) - 1)
        assert shown(root)["total"] == pytest.approx(
            token_log_probs(model, src, torch.tensor([whole])).sum().item(), abs=1e-3
        )
        assert "The text has ended." in words(root) and root.get_by_text("next word").is_disabled()


def test_words_that_are_written_stay_in_another_city_and_go_with_another_story(browser, tmp_path):
    with opened(browser, tmp_path, CONTROLS["decoding_control"]()) as root:
        written = shown(root)["written"]
        menu(root, "where").select_option("Lima")
        assert shown(root)["written"] == written
        assert root.locator(".tfm-bar-name").first.inner_text() == "lima" and shown(root)["probs"][0] > 0.9
        menu(root, "story").select_option("strike")
        assert shown(root)["written"] == [] and shown(root)["place"] == 0


def test_a_text_without_an_end_stops_at_the_most_words(browser, tmp_path):
    with opened(browser, tmp_path, CONTROLS["decoding_control"]()) as root:
        following, eos_id = root.get_by_text("next word"), newsroom_model()[1].eos_id
        for place in range(5, MOST_TOKENS):
            assert shown(root)["place"] == place
            row = next(row for row, token in enumerate(shown(root)["best"]) if token != eos_id)
            root.locator(".tfm-bar").nth(row).click()
            if following.is_enabled():
                following.click()
        assert len(shown(root)["written"]) == MOST_TOKENS and following.is_disabled()
        assert f"A summary has at most {MOST_TOKENS}." in words(root)


@pytest.mark.parametrize("story", [None, TYPED, "fire " * 72])
def test_two_summarizers_write_what_they_write_in_python(browser, tmp_path, story):
    with opened(browser, tmp_path, CONTROLS["two_summarizers"]()) as root:
        if story:
            type_story(root, story)
        now = shown(root)
        for role in ("plain", "copying"):
            model, vocabulary = newsroom_model(copying=role == "copying")
            src, slots = encoded(vocabulary, now["story"])
            tokens = greedy(model, src, MOST_TOKENS)
            assert now[role] == vocabulary.decode(tokens[0], slots)
        shares = copied_from(model, src, tokens).share[0]
        assert now["shares"] == pytest.approx(shares.tolist(), abs=1e-3)
        copied = [vocabulary.decode([i], slots) for i, share in zip(tokens[0], shares, strict=True) if share > 0.5]
        assert now["copied"] == root.locator("u").all_inner_texts() == copied
        texts = [" ".join(line.split()) for line in root.locator(".tfm-summary").all_inner_texts()]
        assert texts == [now["plain"], now["copying"]]


def test_a_name_that_nobody_knows_is_written_by_the_one_that_copies(browser, tmp_path):
    with opened(browser, tmp_path, CONTROLS["two_summarizers"]()) as root:
        text = root.locator("textarea")
        type_story(root, text.input_value().replace("Kwame Asante", "Zaphod Beeblebrox"))
        assert "beeblebrox" in shown(root)["copied"] and "beeblebrox" not in shown(root)["plain"]
        assert "Beeblebrox" in root.locator("mark").all_inner_texts()
        assert root.locator(".tfm-note").inner_text().endswith(". The plain model reads [unk] instead.")
