"""The newsroom keeps its promises: what a story is, what its summary is, and what no training set gives away."""

from collections import Counter
from functools import cache, partial
from hashlib import sha256
from itertools import product

import pytest
from nltk.stem.porter import PorterStemmer

from tfm_lib.data import newsroom
from tfm_lib.data.newsroom import (
    DAYS,
    EVENTS,
    NUMBERS,
    PEOPLE,
    PLACES,
    SLOTS,
    Story,
    compose,
    make_newsroom,
    read_slots,
    words,
)

room = cache(partial(make_newsroom, seed=0, train=4000, dev=300, test=600))  # drawn when a test first asks
# Every event, thing and phrasing, with one choice of the rest.
PLAIN = [
    compose(event, thing, "Anna Weber", "Oslo", "Monday", 12, phrasing=phrasing)
    for event, (_, things, phrasings) in EVENTS.items()
    for thing, phrasing in product(things, range(len(phrasings)))
]
FIRE = {"event": "fire", "thing": "houses", "who": "Anna Weber", "where": "Oslo", "when": "Monday", "how_many": 12}


@pytest.mark.parametrize("name", newsroom.Newsroom._fields)
def test_sizes_of_stories_and_summaries(name: str) -> None:
    stories = getattr(room(), name)
    for story in stories:
        assert 15 <= len(story.article.split()) <= 60
        assert 2 <= story.article.count(". ") + 1 <= 4
        assert 5 <= len(story.summary.split()) <= 12
    assert {story.event for story in stories} == EVENTS.keys() and len(EVENTS) >= 8
    assert len({story.article for story in stories}) == len(stories)
    events = Counter(story.event for story in stories).values()
    assert max(events) <= min(events) + 1


@pytest.mark.parametrize("stem", [str, PorterStemmer().stem], ids=["words", "stems"])
def test_summaries_are_abstractive_whatever_stands_beside_the_story(stem) -> None:
    context = {stem(word) for sentence in [*newsroom.BEFORE, *newsroom.AFTER] for word in words(sentence)}
    for story in PLAIN:
        article = context | {stem(word) for word in words(story.article)}
        summary = [stem(word) for word in words(story.summary)]
        assert sum(word not in article for word in summary) >= 0.15 * len(summary), story


def test_an_article_tells_each_slot_and_the_summary_nothing_else() -> None:
    for story in PLAIN:
        thing = next(a for a, s in EVENTS[story.event].things.items() if s == story.slots["what"])
        for value in ("Anna Weber", "Oslo", "Monday", "welve", thing):
            assert story.article.count(value) == 1, (value, story)
        fixed = EVENTS[story.event].summary.format(who="", where="", when="", how_many="", thing="")
        assert Counter(words(story.summary)) == Counter(words(fixed)) + Counter(story.slots.values())


@pytest.mark.parametrize("name", newsroom.Newsroom._fields)
def test_slots_and_event_decide_the_summary(name: str) -> None:
    """What stands beside a story, and the way it is told, leave no mark; each slot leaves its own."""
    stories = getattr(room(), name)
    summaries: dict[tuple, str] = {}
    for story in stories:
        key = (story.event, *story.slots.values())
        assert summaries.setdefault(key, story.summary) == story.summary
        assert read_slots(story.summary, story.event) == story.slots
        for slot in ("who", "where", "when"):
            assert words(story.article).count(story.slots[slot]) == 1
        assert words(story.article).count(NUMBERS[int(story.slots["how_many"])]) == 1
    assert len({*summaries.values()}) == len(summaries)


def test_stories_are_distinct_even_where_there_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, few in [("DAYS", DAYS[:2]), ("NUMBERS", {2: "two", 3: "three"}), ("PEOPLE", PEOPLE[:8])]:
        monkeypatch.setattr(f"tfm_lib.data.newsroom.{name}", few)
    monkeypatch.setattr("tfm_lib.data.newsroom.PLACES", PLACES[:8])
    test = make_newsroom(train=1, dev=1, test=1200).test
    assert len({story.article for story in test}) == 1200


@pytest.mark.parametrize("slot", ["who", "where"])
def test_no_pair_of_event_and_name_is_in_two_sets(slot: str) -> None:
    train, dev, test, unseen = ({(story.event, story.slots[slot]) for story in stories} for stories in room())
    assert not (train & dev or train & test or dev & test or unseen & (train | dev | test))
    # The sets differ in pairs alone: all names are in each of them.
    assert {name for _, name in train} == {name for _, name in dev} == {name for _, name in test}


def test_the_last_phrasings_are_told_in_the_test_sets_alone_in_words_that_training_knows() -> None:
    phrasings = [{(story.event, story.phrasing) for story in stories} for stories in room()]
    last = {(name, len(event.phrasings) - 1) for name, event in EVENTS.items()}
    assert not last & (phrasings[0] | phrasings[1])
    assert last <= phrasings[2] and last <= phrasings[3]
    known = {word for story in room().train for word in words(f"{story.article} {story.summary}")}
    assert {
        word for story in [*room().dev, *room().test] for word in words(f"{story.article} {story.summary}")
    } <= known
    assert len(known) < 800


def test_unseen_names_are_in_no_other_set() -> None:
    strange = {word for name in [*newsroom.UNSEEN_PEOPLE, *newsroom.UNSEEN_PLACES] for word in words(name)}
    for stories in room()[:3]:
        assert not any(strange & {*words(story.article)} for story in stories)
    for story in room().unseen_names:
        assert {story.slots["who"], story.slots["where"]} <= strange
    names = [name.lower() for name in [*PEOPLE, *PLACES, *newsroom.UNSEEN_PEOPLE, *newsroom.UNSEEN_PLACES]]
    last = [name.split()[-1] for name in names]
    assert len({*last}) == len(last)
    everything = {word for event in EVENTS.values() for word in words(" ".join(event.phrasings) + event.summary)}
    everything |= {
        word for sentence in [*newsroom.BEFORE, *newsroom.AFTER, *DAYS, *NUMBERS.values()] for word in words(sentence)
    }
    assert not everything & {word for name in names for word in words(name)}


def test_every_name_day_and_number_is_told_often_and_others_stand_beside_most_stories() -> None:
    for slot, values in [("who", PEOPLE), ("where", PLACES), ("when", DAYS), ("how_many", NUMBERS)]:
        times = Counter(story.slots[slot] for story in room().train)
        assert len(times) == len(values) and min(times.values()) > 40
    everyone = {name.split()[-1].lower() for name in PEOPLE}
    misled = sum(len(everyone & {*words(story.article)}) > 1 for story in room().train)
    assert misled > 0.3 * len(room().train)


def digest(stories: list[Story]) -> str:
    return sha256("\n".join(story.article + story.summary for story in stories).encode()).hexdigest()[:16]


def test_a_seed_gives_the_same_stories_everywhere() -> None:
    """Whatever the seed of hashes: this process has a random one."""
    small = make_newsroom(seed=3, train=50, dev=5, test=5)
    digests = ["0a700f7d5fca0688", "d69185058a6a5a81", "b31ff726cfbae3ff", "a9159aaced344e6a"]
    assert [digest(stories) for stories in small] == digests and [*map(len, small)] == [50, 5, 5, 5]
    usual, first, other = (make_newsroom(*seed, train=50, dev=5, test=5).train for seed in ([], [0], [4]))
    assert usual == first != other != small.train != first


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"event": "war"}, "event must be one of fire, flood, .*; got 'war'"),
        ({"thing": "homes"}, "thing must be one of houses, shops, cottages; got 'homes'"),
        ({"when": "today"}, "when must be one of Monday, .*; got 'today'"),
        ({"how_many": 1}, "how_many must be one of 2, 3, .*; got 1"),
        ({"how_many": "12"}, "how_many must be one of 2, 3, .*; got '12'"),
        ({"who": "Weber"}, "who must be a name such as 'Anna Weber', got 'Weber'"),
        ({"where": "New York"}, "where must be a name such as 'Oslo', got 'New York'"),
        ({"phrasing": 5}, "phrasing must be one of 0, 1, 2, 3, 4; got 5"),
        ({"after": ["Nobody in Oslo slept."]}, "the sentences beside the story name its own oslo; name others there"),
        ({"before": ["Ms. weber called."]}, "name its own weber"),
        ({"before": ["It rained."] * 2, "after": ["It rained."]}, "5 sentences; a story has 4 at most: leave some of"),
        ({"after": ["word " * 50 + "."]}, "words; a story has 60 at most: leave some of before and after out"),
        ({"after": [newsroom.AFTER[0]]}, r"must be whole, with names for all of {}; got \['The news reached {place}"),
        ({"before": [" "]}, "must be whole"),
    ],
)
def test_bad_input_is_named(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compose(**FIRE | wrong)
    with pytest.raises(ValueError, match="dev must be 1 or more, got 0"):
        make_newsroom(dev=0)
    with pytest.raises(ValueError, match="event must be one of .*; got 'war'"):
        read_slots("war ends", "war")


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        ("Fire destroys 12 homes in Oslo on Monday, says Weber", {}),
        ("fire destroys twelve homes in oslo on monday, says weber", {"how_many"}),
        ("fire destroys homes in oslo on monday, says weber", {"how_many", "what"}),
        ("flood destroys 12 homes in oslo on monday, says weber", {"what"}),
        ("fire displaces 12 homes in oslo on monday, says weber", {"what", "how_many"}),
        ("fire destroys 12 homes in oslo on monday, says [unk]", {"who"}),
        # All the words, at wrong places.
        ("fire destroys 12 homes in weber on monday, says oslo", {"where", "who"}),
        ("weber destroys 12 homes in oslo on monday, says fire", {"who", "what"}),
        ("fire destroys homes 12 in oslo on monday, says weber", {"how_many", "what"}),
        ("weber oslo monday 12 homes fire", set(SLOTS)),
        # What is left out is not told, and spoils nothing else.
        ("fire destroys 12 homes in oslo", {"when", "who"}),
        # Two answers are none.
        ("fire destroys 12 homes in oslo in oslo on monday, says weber", {"where"}),
        ("fire destroys 12 homes in oslo on monday on friday, says weber", {"when"}),
        ("", set(SLOTS)),
    ],
)
def test_slots_of_wrong_summaries(summary: str, wrong: set[str]) -> None:
    truth, read = compose(**FIRE).slots, read_slots(summary, "fire")
    assert {slot for slot in SLOTS if read[slot] != truth[slot]} == set(wrong)


def test_one_wrong_slot_is_seen_in_every_event() -> None:
    for story, slot in product(PLAIN, SLOTS):
        summary = story.summary.replace(story.slots[slot], "elsewhere")
        assert read_slots(summary, story.event) == story.slots | {slot: "elsewhere"}


def test_of_the_phrasings_a_story_has_the_first_one_if_none_is_named() -> None:
    assert compose(**FIRE) == compose(**FIRE, phrasing=0) != compose(**FIRE, phrasing=1)


def test_what_a_caller_does_to_a_newsroom_spoils_no_later_one() -> None:
    first = make_newsroom(seed=5, train=9, dev=2, test=2)
    first.train[0].slots["who"] = "nobody"
    first.train.pop()
    again = make_newsroom(seed=5, train=9, dev=2, test=2)
    assert len(again.train) == 9 and again.train[0].slots["who"] in again.train[0].summary
