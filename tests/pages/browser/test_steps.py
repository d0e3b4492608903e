"""The control of the steps of a training shows what was measured, and what was measured can be measured again."""

import json

import pytest

from benchmarks.training_on_toy_summaries import newsroom_steps
from tests.show.controls import opened
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.lessons import course_file
from tfm_lib.show.steps_control import LEARNED, NAMES, RECORD, steps_control

RECORDED = json.loads(course_file(RECORD).read_text(encoding="utf-8"))


@pytest.mark.browser
def test_every_step_shows_what_was_written_and_calls_learned_what_is_right(tmp_path):
    from tests.pages.browser.chromium import chromium

    with chromium() as browser, opened(browser, tmp_path, steps_control()) as root:
        for number, look in enumerate(RECORDED["looks"]):
            root.locator("input[type=range]").fill(str(number))
            for place, (_, right) in RECORDED["places"].items():
                root.get_by_label(place, exact=True).check(force=True)
                shown, words = root.evaluate("root => root.shown"), root.locator(".tfm-words").inner_text()
                assert shown == {key: look[key] for key in ("step", "text", "loss", "right")} | {
                    "next": look["next"][place]
                }
                assert f"writes “{look['text']}”. " in words and f"; {right} is right." in words
                learned = [name for key, name in NAMES.items() if look["right"][key] >= LEARNED]
                assert f"it has right: {', '.join(learned) or 'nothing'}. In fewer: " in words
                first = root.locator(".tfm-bar-name").first.inner_text()
                assert first.removeprefix("✓ ") == look["next"][place][0][0]
                assert first.startswith("✓") == (look["next"][place][0][0] == right)
            right_words = {*RECORDED["story"]["summary"].replace(",", "").split()}
            underlined = root.locator("u").all_inner_texts()
            assert underlined == [word for word in look["text"].replace(",", "").split() if word not in right_words]


@pytest.mark.slow
def test_the_first_steps_can_be_taken_again():
    again = newsroom_steps.measure(steps=(1,), others=2)
    [look], recorded = again["looks"], RECORDED["looks"][0]
    assert look["text"] == recorded["text"] and look["loss"] == pytest.approx(recorded["loss"], abs=0.01)
    for place, words in look["next"].items():
        assert words[0][0] == recorded["next"][place][0][0]
        assert words[0][1] == pytest.approx(recorded["next"][place][0][1], abs=0.01)
    assert {key: again[key] for key in ("command", "seed", "steps", "story")} == {
        key: RECORDED[key] for key in ("command", "seed", "steps", "story")
    }
    assert {place: tuple(words) for place, words in RECORDED["places"].items()} == again["places"]
    assert [one["step"] for one in RECORDED["looks"]] == [*newsroom_steps.STEPS]
    assert RECORDED["curve"]["step"][-1] == RECORDED["steps"] == newsroom_steps.STEPS[-1]


def test_a_form_is_one_of_the_house_whatever_stands_in_its_slots():
    assert newsroom_steps.form_of("fire destroys 19 cabins in bergen on wednesday, says mwangi") == "fire"
    assert newsroom_steps.form_of("fire destroys fire fire in fire on fire, says fire") == "fire"
    assert newsroom_steps.form_of("fire destroys 19 cabins in bergen on wednesday") is None
    assert newsroom_steps.form_of("bus bus bus bus") is None and newsroom_steps.form_of("") is None


def test_shares_are_counted_story_by_story():
    stories = make_newsroom(0, train=1).test[:4]
    own = [story.summary for story in stories]
    assert set(newsroom_steps.shares(own, stories).values()) == {1.0}
    of_neighbors = newsroom_steps.shares([*own[1:], own[0]], stories)
    assert of_neighbors["form"] == 1 and of_neighbors["event"] == 0  # the kinds of events take turns
    assert newsroom_steps.shares([own[0], "", "", ""], stories) == dict.fromkeys(of_neighbors, 0.25)


def test_the_words_before_a_place_end_where_its_right_word_begins():
    story = make_newsroom(0, train=1).test[0]
    assert newsroom_steps.places_of(story) == {
        "place": ("fire destroys 16 cabins in", "bergen"),
        "person": ("fire destroys 16 cabins in bergen on thursday, says", "jimenez"),
        "first word": ("", "fire"),
    }
