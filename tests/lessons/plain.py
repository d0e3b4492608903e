"""How plain the English of a lesson is: habits of style per 1,000 words, and the length of its sentences.

Only prose counts: not code, formulas, tables, headings, the cards of lessons and exercises, nor questions and their
choices. The ceilings leave room, since a count also hits innocent sentences: CONTRIBUTING says how to write, and
readers judge the rest. A sentence that is right as it is says why: `Guess.<!-- plain: the reader is asked to -->`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nbformat import NotebookNode

from tests.nbclaims.cells import markdown_cells, tags
from tests.nbclaims.prose import sentences


class Habit(NamedTuple):
    """A pattern that is looked for in each sentence, and how many of 1,000 words may have it."""

    name: str
    pattern: re.Pattern
    goal: float


CALQUES = r"""\b(?:anew|afterward|by\ turns|way\ back|ways?\ around|mend(?:s|ed)?|alike|one\ and\ the\ same|besides
    |so\ many|hand(?:s|ed)?\ (?:over|on|back|down)|in\ earnest|of\ use|as\ it\ should\ be
    |stands?\ (?:in|there|beside|behind)|behind\ (?:it|its|the|each|an?)|(?<!square\ )roots?\ of
    |comes?\ to\ the\ same)\b"""
HABITS = [
    Habit("four words or fewer", re.compile(r"(?:\S+\s+){0,3}\S+[.!]\W*"), 2.0),
    Habit("begins with So, And, But", re.compile(r"(?:So|And|But)\b.*"), 1.5),
    Habit("a statement that begins with What", re.compile(r"(?:(?:So|And|But) )?What\b.*[^?]"), 0.3),
    Habit("whoever, somebody, nobody", re.compile(r".*\b(?:(?:who|what|wher)ever|somebody|nobody)\b.*", re.I), 0.1),
    Habit("', and not', ', and no'", re.compile(r".*, and (?:not|no) .*"), 0.1),
    Habit("has and a number", re.compile(r".*\b(?:has|have|had) (?:only |about |just )?\d.*"), 0.2),
    Habit("a calque", re.compile(rf".*{CALQUES}.*", re.IGNORECASE | re.VERBOSE), 0.3),
    Habit("a question", re.compile(r".*\?"), 2.5),
]
ROOM = 2  # so many of each habit any lesson may have, however short it is
MEAN = (14, 19)  # words per sentence, at least and at most
LONG, MOST_LONG = 35, 0.05  # sentences of more words, and their share

CARD = re.compile(r"^\*(?:Reading: |Difficulty \d).*\*$", re.MULTILINE)
LEAD = re.compile(
    r"^(?:\d+\. |- )?(?:\*\*[^*\n]+[.:?]\*\*|- [A-Z]:) ", re.MULTILINE
)  # words in bold, or a choice, before its text
EXCUSED = re.compile(r"<!-- plain: .*\S -->")
READ = [  # what is left of a sentence where it is read aloud
    (re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>|^\s*(?:[-*+>]|\d+\.)\s", re.DOTALL), ""),
    (re.compile(r"`[^`]*`"), "code"),
    (re.compile(r"\$[^$]+\$"), "X"),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\*+|\b_|_\b"), ""),
]


class Count(NamedTuple):
    """What was counted in a text."""

    read: list[str]  # its sentences
    hits: dict[Habit, list[str]]

    @property
    def words(self) -> int:
        return sum(len(sentence.split()) for sentence in self.read)

    @property
    def mean(self) -> float:
        return self.words / max(1, len(self.read))

    @property
    def long(self) -> list[str]:
        return [sentence for sentence in self.read if len(sentence.split()) > LONG]

    def most(self, habit: Habit) -> int:
        return max(ROOM, int(habit.goal * self.words / 1000))

    def __str__(self) -> str:
        habits = "; ".join(f"{habit.name}: {len(found)} of {self.most(habit)}" for habit, found in self.hits.items())
        share = len(self.long) / max(1, len(self.read))
        return f"{self.words:,} words, {self.mean:.1f} a sentence, {share:.1%} of more than {LONG}; {habits}"


def count(texts: Iterable[str]) -> Count:
    """Counts the habits in Markdown texts; sentences that are excused have none, and no length."""
    read = []
    for text in texts:
        for sentence in sentences(LEAD.sub("", CARD.sub("", text))):
            prose = sentence.source
            if re.search("[a-z]", sentence.masked) and not prose.lstrip().startswith("|") and not EXCUSED.search(prose):
                for pattern, left in READ:
                    prose = pattern.sub(left, prose.strip())
                read.append(" ".join(prose.split()).strip('()“”" '))
    return Count(read, {habit: [one for one in read if habit.pattern.fullmatch(one)] for habit in HABITS})


def count_lesson(book: NotebookNode) -> Count:
    """Counts the habits in the Markdown cells of a lesson; of a question only what its answers explain is prose."""
    return count(
        cell.source.partition("</summary>")[2]
        if "question" in tags(cell)
        else re.sub(r"<summary>.*?</summary>", "", cell.source)
        for cell in markdown_cells(book)
    )


def findings(counted: Count) -> Iterator[str]:
    """The habits that a text has too often, with their sentences, and sentences that are too short or too long."""
    for habit, found in counted.hits.items():
        if len(found) > (most := counted.most(habit)):
            yield f"{habit.name}: {len(found)} of its sentences, at most {most}. Rewrite some of these: {found}"
    if not MEAN[0] <= counted.mean <= MEAN[1]:
        yield f"a sentence has {counted.mean:.1f} words in the mean; wanted {MEAN[0]} to {MEAN[1]}"
    if len(counted.long) > MOST_LONG * len(counted.read):
        yield f"{len(counted.long)} of its {len(counted.read)} sentences have more than {LONG} words: {counted.long}"
