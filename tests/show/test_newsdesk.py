"""The newsroom's desk and the controls around it, as a kernel makes them and as they are stored."""

import pytest
import torch

from tfm_lib.data.newsroom import EVENTS, make_newsroom, read_slots
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.newsdesk import DIGITS, KINDS, fabrications, ready_stories, story_tokens
from tfm_lib.show.summarizer_controls import MOST_TOKENS, decoding_control, go_on
from tfm_lib.show.two_summarizers import two_summarizers
from tfm_lib.writing.decoding import greedy, token_log_probs

MODEL, VOCABULARY = newsroom_model()
STORY = "Boats brought fourteen tenants to dry ground in Tampa, where heavy rain had broken a dam."


@pytest.mark.parametrize("strangers", [False, True])
def test_a_ready_story_is_of_the_test_set_and_names_its_own_first(strangers):
    newsroom = make_newsroom(0)
    stories = {story.article: story for story in (newsroom.unseen_names if strangers else newsroom.test)}
    assert list(ready_stories(strangers)) == list(EVENTS)
    for event, text in ready_stories(strangers).items():
        story = stories[text]
        assert story.event == event and read_slots(story.summary, event) == story.slots
        for slot, names in zip(("who", "where", "when", "how_many"), KINDS.values(), strict=True):
            places = {text.lower().find(name.lower()): name for name in sorted(names, key=len)}  # of "six", "sixty"
            word = places[min(place for place in places if place >= 0)].lower().split()[-1]
            assert DIGITS.get(word, word) == story.slots[slot]


def test_the_tokens_of_a_story_are_those_that_the_vocabulary_reads():
    for text in (STORY, " Fire:in [Oslo],  says\tGondolin's “elves”!?", *ready_stories().values()):
        words, ids = story_tokens(text), VOCABULARY.encode(text)
        pieces = VOCABULARY.pieces(ids)
        assert len(words) == len(ids)
        for word, piece in zip(words, pieces, strict=True):
            assert piece in (word.lower(), "[unk]")


@pytest.mark.parametrize(
    ("summary", "sentence"),
    [
        ("flood displaces 14 residents in tampa", ""),
        ("flood displaces 15 residents in oslo on monday , says flood", " The story has no “15”, “oslo”, “monday”."),
        ("weber adopts 14 dogs , says weber", " The story has no “weber”."),
    ],
)
def test_names_days_and_numbers_that_the_story_lacks_are_said(summary, sentence):
    assert fabrications(STORY, summary.split()) == sentence


def test_the_control_opens_with_the_words_that_are_written():
    src = torch.tensor([VOCABULARY.encode(STORY)])
    ids = greedy(MODEL, src, MOST_TOKENS)[0].tolist()
    words, chance = VOCABULARY.pieces(ids), token_log_probs(MODEL, src, torch.tensor([ids[:3]])).sum().exp()
    shown = repr(decoding_control(MODEL, VOCABULARY, STORY, " ".join(words[:3])))
    assert shown.startswith(f"Word 4: the most probable word is “{words[3]}” with ")
    assert f"The text so far, 3 words, has a probability of {100 * chance:.1f} %. By itself" in shown
    assert f"By itself the model would write {len(ids) - 3} more." in shown


def test_a_text_without_an_end_stops_at_the_most_tokens():
    src, word = torch.tensor([VOCABULARY.encode("Fire.")]), VOCABULARY.encode("fire")[0]
    assert len(go_on(MODEL, src, (word,) * (MOST_TOKENS - 1))[2]) == 1
    assert go_on(MODEL, src, (word,) * MOST_TOKENS)[2] == []


def test_the_longest_are_not_refused():
    decoding_control(MODEL, VOCABULARY, "fire " * 72, "fire " * (MOST_TOKENS - 1))


def test_two_models_of_a_readers_own_go_to_the_browser_under_two_names():
    pairs = [newsroom_model(copying=copying) for copying in (False, True)]
    with torch.no_grad():
        for model, _ in pairs:
            next(model.parameters())[0, 0] += 1
    live = two_summarizers(*pairs)
    assert {*live.widget.weights} == {"plain", "copying"} == {live.widget.data[role] for role in ("plain", "copying")}
    assert ON_PAGES not in live.data  # pages don't have them
    live = two_summarizers((MODEL, VOCABULARY), newsroom_model(copying=True))
    assert live.data[ON_PAGES]["weights"] == ["newsroom", "newsroom_copying"]
