"""News for small models: ten pairs to memorize, and stories that ask for more than memory, of newsroom.toml's words."""

import re
import tomllib
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from tfm_lib.errors import CourseError


class Event(NamedTuple):
    """A kind of event: its summary, the names of things in articles and in summaries, the ways to tell it."""

    summary: str
    things: dict[str, str]
    phrasings: list[str]  # the last one is told in the test set alone


_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
EVENTS = {name: Event(**event) for name, event in _WORDS["events"].items()}
DAYS: list[str] = _WORDS["days"]
PEOPLE: list[str] = _WORDS["people"]
PLACES: list[str] = _WORDS["places"]
UNSEEN_PEOPLE: list[str] = _WORDS["unseen_people"]
UNSEEN_PLACES: list[str] = _WORDS["unseen_places"]
BEFORE: list[str] = _WORDS["before"]
AFTER: list[str] = _WORDS["after"]
NUMBERS: dict[int, str] = dict(zip([*range(2, 21), 30, 40, 50, 60], _WORDS["numbers"], strict=True))
TEN_PAIRS: list[tuple[str, str]] = [(article, summary) for article, summary in _WORDS["ten_pairs"]]
"""Article and summary: 8 to 18 and 4 to 7 words, some of the latter not in the article, all lower case."""
SLOTS = ("who", "what", "where", "when", "how_many")
MOST_SENTENCES, MOST_WORDS = 4, 60  # of a story
FOLDS = 8  # parts of the (who, what) and the (what, where) pairs: one is the test set's, one the development set's


class Story(NamedTuple):
    """An article and the one summary that the house's style allows, with what both were made of."""

    article: str
    summary: str  # lower case, as vocabularies write it
    event: str
    phrasing: int
    slots: dict[str, str]  # by the names of SLOTS, as they stand in the summary


def compose(
    event: str,
    thing: str,
    who: str,
    where: str,
    when: str,
    how_many: int,
    *,
    phrasing: int = 0,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
) -> Story:
    """Write one story: a phrasing of the event, between sentences that are beside the point.

    `event`, its `thing` as articles name it, `when` and `how_many` are of EVENTS, DAYS and NUMBERS. `who` is any first
    and last name, `where` any place of one word; a model writes only names that it was trained on. `before` and
    `after` are whole sentences, such as those of BEFORE and AFTER with names put in. They must not name the story's
    own person, place, day or number, or the summary would not be plain. Raises ValueError for anything else.
    """
    _check_choice("event", event, EVENTS)
    summary, things, phrasings = EVENTS[event]
    _check_choice("thing", thing, things)
    _check_choice("when", when, DAYS)
    _check_choice("how_many", how_many, NUMBERS)
    _check_choice("phrasing", phrasing, range(len(phrasings)))
    for slot, name, pattern, example in [("who", who, r"\w+ \w+", PEOPLE[0]), ("where", where, r"\w+", PLACES[0])]:
        if not re.fullmatch(pattern, name):
            raise CourseError(f"{slot} must be a name such as {example!r}, got {name!r}")
    names = {"who": who, "where": where, "when": when, "how_many": NUMBERS[how_many]}
    _check_fillers([*before, *after], names)
    core = phrasings[phrasing].format(thing=thing, **names)
    sentences = [*before, *re.split(r"(?<=\.) ", core), *after]
    article = " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
    for count, most, of in [(len(sentences), MOST_SENTENCES, "sentences"), (len(article.split()), MOST_WORDS, "words")]:
        if count > most:
            raise CourseError(f"{count} {of}; a story has {most} at most: leave some of before and after out")
    values = (who.split()[-1], things[thing], where, when, str(int(how_many)))
    slots = {slot: value.lower() for slot, value in zip(SLOTS, values, strict=True)}
    return Story(article, summary.format(thing=slots["what"], **slots), event, phrasing, slots)


def _check_choice(name: str, value: object, choices: Collection) -> None:
    if value not in list(choices):
        raise CourseError(f"{name} must be one of {', '.join(map(str, choices))}; got {value!r}")


def _check_fillers(fillers: Sequence[str], names: dict[str, str]) -> None:
    if any("{" in sentence or not sentence.strip() for sentence in fillers):
        raise CourseError(f"the sentences beside the story must be whole, with names for all of {{}}; got {fillers}")
    if clash := {*words(" ".join(names.values()))} & {*words(" ".join(fillers))}:
        raise CourseError(f"the sentences beside the story name its own {', '.join(sorted(clash))}; name others there")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without marks."""
    return re.findall(r"\w+", text.lower())


def read_slots(summary: str, event: str) -> dict[str, str | None]:
    """Who, what, where, when and how many, as a summary of such an event tells them; None for what it doesn't.

    A slot is the word at its place in the house's style: "in" tells where, a verb before two words what and how many.
    A word elsewhere tells nothing, and neither does a place that comes twice.
    """
    _check_choice("event", event, EVENTS)
    template, text = EVENTS[event].summary.replace(",", "").split(), " ".join(words(summary))
    matches = {slot: re.findall(_cue(template, slot), text) for slot in SLOTS}
    return {slot: values[0] if len(values) == 1 else None for slot, values in matches.items()}


def _cue(template: Sequence[str], slot: str) -> str:
    """A pattern that finds a slot by the fixed word nearest before it, or, if there is none, after it."""
    place = template.index("{thing}" if slot == "what" else f"{{{slot}}}")
    fixed = [i for i, word in enumerate(template) if not word.startswith("{")]
    pattern = [word if i in fixed else r"\w+" for i, word in enumerate(template)]
    pattern[place] = r"(\w+)"
    first = max((i for i in fixed if i < place), default=place)
    last = fixed[0] if first == place else place
    while slot == "what" and first - 1 in fixed:  # what happened is told by all of them, "fire destroys"
        first -= 1
    return r"\b" + " ".join(pattern[first : last + 1]) + r"\b"


class Newsroom(NamedTuple):
    """Stories to learn from, to choose by, to test with; and a test set of people and places that no other has."""

    train: list[Story]
    dev: list[Story]
    test: list[Story]
    unseen_names: list[Story]


def make_newsroom(seed: int = 0, *, train: int = 20_000, dev: int = 500, test: int = 1000) -> Newsroom:
    """Draw a newsroom of so many distinct stories; both test sets have `test`. The same seed, the same stories.

    Of all pairs (who, event) and (event, where) of the known names, an eighth is kept for the development set, another
    for the test set; names in the sentences beside a story don't count. Raises ValueError for sizes below 1.
    """
    for name, size in {"train": train, "dev": dev, "test": test}.items():
        if size < 1:
            raise CourseError(f"{name} must be 1 or more, got {size}")
    sets = _draw_newsroom(seed, train, dev, test)
    return Newsroom(*([story._replace(slots={**story.slots}) for story in stories] for stories in sets))


@lru_cache(maxsize=4)  # drawing takes a second, and callers get copies
def _draw_newsroom(seed: int, train: int, dev: int, test: int) -> Newsroom:
    random = Random(f"newsroom {seed}")
    known = random.sample(PEOPLE, len(PEOPLE)), random.sample(PLACES, len(PLACES))
    return Newsroom(
        train=_draw_stories(random, train, *known, folds=range(2, FOLDS), test=False),
        dev=_draw_stories(random, dev, *known, folds=[1], test=False),
        test=_draw_stories(random, test, *known, folds=[0], test=True),
        unseen_names=_draw_stories(random, test, UNSEEN_PEOPLE, UNSEEN_PLACES, folds=range(FOLDS), test=True),
    )


def _draw_stories(
    random: Random, size: int, people: list[str], places: list[str], folds: Collection[int], test: bool
) -> list[Story]:
    """Distinct stories; the pair of name i and event n is of fold (i + n) % FOLDS. test: all phrasings are told."""
    choices = [
        (event, *([name for i, name in enumerate(names, n) if i % FOLDS in folds] for names in (people, places)))
        for n, event in enumerate(EVENTS)
    ]
    stories: dict[str, Story] = {}  # by article, so that they are distinct
    while len(stories) < size:
        event, who, where = choices[len(stories) % len(EVENTS)]  # the kinds take turns
        story = _tell(random, event, random.choice(who), random.choice(where), people, places, test)
        stories[story.article] = story
    return list(stories.values())


def _tell(random: Random, event: str, who: str, where: str, people: list[str], places: list[str], test: bool) -> Story:
    """A story of that event, person and place, with up to two sentences beside it; all else is drawn."""
    _, things, phrasings = EVENTS[event]
    when, how_many = random.choice(DAYS), random.choice(list(NUMBERS))
    before, after = random.choice([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)])
    thing, phrasing = random.choice(list(things)), random.randrange(len(phrasings) - (not test))
    sentences = {
        place: [
            sentence.format(
                person=random.choice([name for name in people if name != who]),
                place=random.choice([name for name in places if name != where]),
                day=random.choice([day for day in DAYS if day != when]),
                number=random.choice([word for value, word in NUMBERS.items() if value != how_many]),
            )
            for sentence in random.sample(fillers, count)
        ]
        for place, fillers, count in [("before", BEFORE, before), ("after", AFTER, after)]
    }
    return compose(event, thing, who, where, when, how_many, phrasing=phrasing, **sentences)
