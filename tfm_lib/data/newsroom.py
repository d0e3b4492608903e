"""News for small models: ten pairs to learn by heart, and a newsroom of stories that ask for more than memory.

Its words are in newsroom.toml.
"""

import re
import tomllib
from collections.abc import Sequence
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
    own person, place, day or number, or it would not be plain what the summary has to say.
    Raises ValueError for anything else.
    """
    _choose("event", event, EVENTS)
    summary, things, phrasings = EVENTS[event]
    _choose("thing", thing, things)
    _choose("when", when, DAYS)
    _choose("how_many", how_many, NUMBERS)
    _choose("phrasing", phrasing, range(len(phrasings)))
    for slot, name, pattern, example in [("who", who, r"\w+ \w+", PEOPLE[0]), ("where", where, r"\w+", PLACES[0])]:
        if not re.fullmatch(pattern, name):
            raise CourseError(f"{slot} must be a name such as {example!r}, got {name!r}")
    names = {"who": who, "where": where, "when": when, "how_many": NUMBERS[how_many], "thing": thing}
    core = phrasings[phrasing].format(**names)
    fillers = [*before, *after]
    if any("{" in sentence or not sentence.strip() for sentence in fillers):
        raise CourseError(
            f"the sentences beside the story must be whole, with names for all that is in {{}}; got {fillers}"
        )
    clash = {*words(f"{who} {where} {when} {NUMBERS[how_many]}")} & {*words(" ".join(fillers))}
    if clash:
        raise CourseError(f"the sentences beside the story name its own {', '.join(sorted(clash))}; name others there")
    sentences = [*before, *re.split(r"(?<=\.) ", core), *after]
    article = " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
    for count, most, of in [(len(sentences), MOST_SENTENCES, "sentences"), (len(article.split()), MOST_WORDS, "words")]:
        if count > most:
            raise CourseError(f"{count} {of}; a story has {most} at most: leave some of before and after out")
    slots = {
        "who": who.split()[-1],
        "what": things[thing],
        "where": where,
        "when": when,
        "how_many": str(int(how_many)),
    }
    slots = {slot: word.lower() for slot, word in slots.items()}
    return Story(article, summary.format(thing=slots["what"], **slots), event, phrasing, slots)


def _choose(name: str, value: object, choices: Sequence | dict) -> None:
    if value not in list(choices):
        raise CourseError(f"{name} must be one of {', '.join(map(str, choices))}; got {value!r}")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without marks."""
    return re.findall(r"\w+", text.lower())


def read_slots(summary: str, event: str) -> dict[str, str | None]:
    """Who, what, where, when and how many, as a summary of such an event tells them; None for what it doesn't.

    A slot is the word at its place in the house's style: "in" tells where, a verb before two words what and how many.
    A word elsewhere tells nothing, and neither does a place that comes twice.
    """
    _choose("event", event, EVENTS)
    template, text = EVENTS[event].summary.replace(",", "").split(), " ".join(words(summary))
    found = {slot: re.findall(_cue(template, slot), text) for slot in SLOTS}
    return {slot: matches[0] if len(matches) == 1 else None for slot, matches in found.items()}


def _cue(template: Sequence[str], slot: str) -> str:
    """A pattern that finds a slot by the fixed word nearest before it, or, if there is none, after it.

    What happened is told by all of the fixed words before the thing, "fire destroys".
    """
    place = template.index("{thing}" if slot == "what" else f"{{{slot}}}")
    fixed = [i for i, word in enumerate(template) if not word.startswith("{")]
    pattern = [word if i in fixed else r"\w+" for i, word in enumerate(template)]
    pattern[place] = r"(\w+)"
    first, last = max((i for i in fixed if i < place), default=place), place
    if first == place:
        last = fixed[0]
    while slot == "what" and first - 1 in fixed:
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
    for the test set: no pair of a test story is one of a training story. In these pairs, who is the person of the
    story; a name may stand beside any story. Each event's last phrasing is told in the test sets alone.
    Raises ValueError for sizes below 1.
    """
    for name, size in {"train": train, "dev": dev, "test": test}.items():
        if size < 1:
            raise CourseError(f"{name} must be 1 or more, got {size}")
    random = Random(f"newsroom {seed}")

    def draw(size: int, people: list[str], places: list[str], folds: Sequence[int], unheard: bool) -> list[Story]:
        def of_folds(names: list[str]) -> list[list[str]]:  # for each event
            return [[name for i, name in enumerate(names, n) if i % FOLDS in folds] for n in range(len(EVENTS))]

        who_of, where_of = of_folds(people), of_folds(places)
        stories: dict[str, Story] = {}  # by article, so that they are distinct
        while len(stories) < size:
            number = len(stories) % len(EVENTS)  # the kinds take turns
            who, where = random.choice(who_of[number]), random.choice(where_of[number])
            story = _draw(random, list(EVENTS)[number], who, where, people, places, unheard)
            stories[story.article] = story
        return list(stories.values())

    known = random.sample(PEOPLE, len(PEOPLE)), random.sample(PLACES, len(PLACES))
    return Newsroom(
        train=draw(train, *known, folds=range(2, FOLDS), unheard=False),
        dev=draw(dev, *known, folds=[1], unheard=False),
        test=draw(test, *known, folds=[0], unheard=True),
        unseen_names=draw(test, UNSEEN_PEOPLE, UNSEEN_PLACES, folds=range(FOLDS), unheard=True),
    )


def _draw(
    random: Random, event: str, who: str, where: str, people: list[str], places: list[str], unheard: bool
) -> Story:
    """A story of that event, person and place, with up to two sentences beside it; all else is drawn."""
    _, things, phrasings = EVENTS[event]
    when, how_many = random.choice(DAYS), random.choice(list(NUMBERS))

    def fill(sentences: list[str], count: int) -> list[str]:
        return [
            sentence.format(
                person=random.choice([name for name in people if name != who]),
                place=random.choice([name for name in places if name != where]),
                day=random.choice([day for day in DAYS if day != when]),
                number=random.choice([word for value, word in NUMBERS.items() if value != how_many]),
            )
            for sentence in random.sample(sentences, count)
        ]

    before, after = random.choice([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)])
    thing, phrasing = random.choice(list(things)), random.randrange(len(phrasings) - (not unheard))
    sentences = {"before": fill(BEFORE, before), "after": fill(AFTER, after)}
    return compose(event, thing, who, where, when, how_many, phrasing=phrasing, **sentences)
