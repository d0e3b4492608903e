"""The questions of the lessons: each can be read, choices are explained, and all of them fit on cards."""

import contextlib
import json
import re
import sqlite3
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.nbclaims import cells
from tfm_lib.ask.flashcards import DECK, write_deck
from tfm_lib.ask.questions import Choice, Lesson, Question, read_course, read_lesson, to_html
from tfm_lib.commands.cli import parameters

LESSONS = Path(__file__).resolve().parents[2] / "notebooks"
COURSE = read_course(LESSONS)
GOOD = "**Why $x$?**\n\n<details><summary>Answer</summary>\n\nBecause.\n\nReally.\n\n</details>"
CHOSEN = """\
**Is $a < b$ in `x$y`?**

- A: no
- B: yes, by $a^2$
- C: never

<details><summary>Answer</summary>

**B.** It is.

- one
- two

Really.

- A: This confuses $<$ and $>$.
- C: It is often.

</details>"""


def write_lesson(folder: Path, *questions: str, name="01_x", title="# 01 · X", opening: tuple[int, ...] = ()) -> Path:
    """A lesson of these questions; opening are the places of those that open it. A heading is a cell of its own."""
    asked = [cells.markdown(source) for source in questions]
    for place, cell in enumerate(asked):
        if not cell.source.startswith("## "):
            cell.metadata["tags"] = ["question", *["opening"] * (place in opening)]
    cells.write(folder / f"{name}.ipynb", cells.notebook(cells.markdown(title), cells.markdown("Text."), *asked))
    return folder / f"{name}.ipynb"


def deck(path: Path, lessons: list[Lesson]) -> dict[str, list]:
    """What Anki finds in a package: notes as (guid, tags, question, answer), cards' decks, and all decks' names."""
    count = write_deck(path, lessons)
    with zipfile.ZipFile(path) as package:
        package.extract("collection.anki2", path.parent)
    with contextlib.closing(sqlite3.connect(path.parent / "collection.anki2")) as database:
        notes = database.execute("select guid, tags, flds from notes order by id").fetchall()
        decks, models = map(json.loads, database.execute("select decks, models from col").fetchone())
        cards = database.execute("select did from cards order by id").fetchall()
    assert count == len(notes)
    return {
        "notes": [(guid, tags.split(), *fields.split("\x1f")) for guid, tags, fields in notes],
        "cards": cards,
        "decks": {int(number): deck["name"] for number, deck in decks.items()},
        "models": sorted(models),
    }


# ----------------------------------------------------------------------------------------------------
# In the lessons.


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_a_lesson_closes_with_seven_to_ten_questions_of_which_three_of_the_spine_open_it(lesson):
    assert 7 <= len(lesson.questions) <= 10
    assert [one.question for one in lesson.questions if not (one.question.endswith("?") and one.choices)] == []
    assert len(lesson.opening) == 3 and not any(question.deeper for question in lesson.opening)
    book = cells.read(LESSONS / f"{lesson.name}.ipynb").cells
    assert [one.question for one in lesson.questions if one.question in book[0].source] == [], "the title asks none"
    asking = [cell for cell in book if "<summary>Answer</summary>" in cell.source]
    assert [cell.source[:60] for cell in asking if "question" not in cells.tags(cell)] == [], "each has its tag"


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_who_does_not_know_the_answer_cannot_guess_it(lesson):
    right = Counter(choice.letter for question in lesson.questions for choice in question.choices if not choice.why_not)
    assert max(right.values()) <= len(lesson.questions) / 2, f"the right choice is too often the same: {right}"
    longest = [max(question.choices, key=lambda choice: len(choice.text)) for question in lesson.questions]
    assert sum(not choice.why_not for choice in longest) <= len(longest) / 2, "the right choice is too often longest"


def test_no_two_questions_are_alike():
    asked = [question.question.casefold() for lesson in COURSE for question in lesson.questions]
    assert len(set(asked)) == len(asked)
    assert [lesson.name for lesson in COURSE] == [path.stem for path in sorted(LESSONS.glob("*.ipynb"))]


def test_a_question_is_read_without_its_claims(tmp_path):
    lesson = read_lesson(write_lesson(tmp_path, GOOD.replace("Because.", "Because 1 < 2<!-- claim: 1 < 2 -->.")))
    assert lesson == Lesson("01_x", "01 · X", [Question("01_x", "Why $x$?", "Because 1 < 2.\n\nReally.")])


def test_choices_are_read_with_what_each_wrong_one_confuses(tmp_path):
    marked = CHOSEN.replace("no\n", "no<!-- claim: 1 < 2 -->\n").replace("often.", "often<!-- claim: 2 < 3 -->.")
    [read] = read_lesson(write_lesson(tmp_path, marked)).questions
    assert (read.question, read.answer) == ("Is $a < b$ in `x$y`?", "It is.\n\n- one\n- two\n\nReally.")
    assert read.choices == (
        Choice("A", "no", "This confuses $<$ and $>$."),
        Choice("B", "yes, by $a^2$", ""),
        Choice("C", "never", "It is often."),
    )


MALFORMED = "a question must be Markdown, .*this is a markdown cell"


@pytest.mark.parametrize(
    ("good", "old", "new", "message"),
    [
        (GOOD, "**Why $x$?**", "*Why $x$?*", MALFORMED),
        (GOOD, "<summary>Answer</summary>", "<summary>Solution</summary>", MALFORMED),
        (GOOD, "</details>", "", MALFORMED),
        (GOOD, "Answer</summary>\n\n", "Answer</summary>\n", MALFORMED),
        (GOOD, "Because.\n\nReally.", "", MALFORMED),
        (GOOD, GOOD, "Why?", MALFORMED),
        (GOOD, GOOD, "", MALFORMED),
        (CHOSEN, "- C: never\n", "", "choices are A, B; wanted are A, B and C"),
        (CHOSEN, "- C: never", "- D: never", "choices are A, B, D; wanted"),
        (CHOSEN, "- C: never", "- B: never", "choices are A, B, B; wanted"),
        (CHOSEN, "- C: never", "- C: never\n- D: ever\n- E: over", "choices are A, B, C, D, E; wanted"),
        (CHOSEN, "- C: never", "- never", MALFORMED),
        (CHOSEN, "- C: never", "- C: never\n\nSay one.", MALFORMED),
        (CHOSEN, "**B.** It is.", "It is.", "must begin with the letter of the right choice.*begins 'It is"),
        (CHOSEN, "**B.** It is.", "**b.** It is.", "must begin with the letter of the right choice"),
        (CHOSEN, "**B.** It is.", "**D.** It is.", "right choice is D of A, B, C"),
        (CHOSEN, "**B.** It is.", "**A.** It is.", "right choice is A of A, B, C, and its answer explains A, C"),
        (CHOSEN, "\n- C: It is often.", "", "right choice is B of A, B, C, and its answer explains A;"),
        (CHOSEN, "- C: It is often.", "- A: It is often.", "explains A, A;"),
        (CHOSEN, "\n\n- A: This confuses $<$ and $>$.\n- C: It is often.", "", "end in a list with an item '- A: why"),
        (CHOSEN, "- C: It is often.", "- C: It is often.\n\nThat is all.", "end in a list with an item"),
    ],
)
def test_a_malformed_question_is_named_with_lesson_and_cell(tmp_path, good, old, new, message):
    assert good.count(old) == 1
    path = write_lesson(tmp_path, GOOD, good.replace(old, new))
    with pytest.raises(ValueError, match=rf"01_x\.ipynb, cell 4: .*{message}"):
        read_lesson(path)


def test_tags_and_the_second_reading_say_when_a_question_is_asked(tmp_path):
    more = [GOOD.replace("Why $x$?", f"{which}?") for which in ("Second", "Third")]
    path = write_lesson(tmp_path, CHOSEN, GOOD, more[0], "## Second reading\n\nFor later.", more[1], opening=(0, 2))
    lesson = read_lesson(path)
    asked = {part: [q.question for q in getattr(lesson, part)] for part in ("questions", "opening", "spine", "deeper")}
    first, second, third, fourth = asked["questions"]
    assert asked["opening"] == [first, third] and asked["spine"] == [first, second, third]
    assert asked["deeper"] == [fourth] == ["Third?"]


def test_a_question_is_found_without_its_tag_and_in_no_code(tmp_path):
    """Not every tool that saves a notebook keeps metadata."""
    path = write_lesson(tmp_path, CHOSEN, GOOD.replace("<summary>", "<summary> "))
    book = json.loads(path.read_text())
    code = {"cell_type": "code", "source": f'"""{GOOD}"""', "metadata": {}}
    path.write_text(json.dumps({"cells": [{**cell, "metadata": {}} for cell in book["cells"][:3]] + [code]}))
    assert [one.question for one in read_lesson(path).questions] == ["Is $a < b$ in `x$y`?"]
    path.write_text(json.dumps({"cells": [{**cell, "metadata": {}} for cell in book["cells"]]}))
    with pytest.raises(ValueError, match="cell 4: a question must be Markdown"):
        read_lesson(path)


def test_markdown_becomes_html_with_the_math_that_mathjax_reads():
    assert to_html("Is $a < b_1*c*d$ in `x$y`?") == r"<p>Is \(a &lt; b_1*c*d\) in <code>x$y</code>?</p>"
    assert to_html("So\n\n$$a^2$$\n\nand") == to_html("So\n\n$$\na^2\n$$\n\nand")
    html = to_html("*Yes*:\n\n$$\na^2\n$$\n\n- one\n- two")
    assert "<p><em>Yes</em>:</p>" in html and r"<p>\[a^2\]</p>" in html and "<li>one</li>" in html


def test_what_cannot_be_a_course_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no lesson in .*two digits"):
        read_course(tmp_path)
    with pytest.raises(ValueError, match=r"01_x\.ipynb has no title"):
        read_lesson(write_lesson(tmp_path, title="Attention"))


# ----------------------------------------------------------------------------------------------------
# On cards.


def test_the_deck_holds_every_question_in_the_subdeck_of_its_lesson(tmp_path):
    found = deck(tmp_path / "cards.apkg", COURSE)
    asked = [question for lesson in COURSE for question in lesson.questions]
    parts = ["second_reading" if question.deeper else "spine" for question in asked]
    assert [tags for _, tags, _, _ in found["notes"]] == [
        [question.lesson, part] for question, part in zip(asked, parts, strict=True)
    ]
    assert len({guid for guid, *_ in found["notes"]}) == len(asked) == len(found["cards"])
    by_card = [found["decks"][number] for (number,) in found["cards"]]
    assert by_card == [f"{DECK}::{lesson.title}" for lesson in COURSE for _ in lesson.questions]


def test_nothing_on_a_card_needs_the_notebook_or_is_left_unrendered(tmp_path):
    for *_, question, answer in deck(tmp_path / "cards.apkg", COURSE)["notes"]:
        html = f"{question}\n{answer}"
        assert not re.search(r"<img|<a href=\"(?!https?://)", html), "a card has no picture or file beside it"
        prose = re.sub(r"<code>.*?</code>|\\\(.*?\\\)|\\\[.*?\\\]", "", html, flags=re.DOTALL)
        assert not re.search(r"\$|\*\*|`|<!--|&lt;/?\w+&gt;", prose), prose


def test_a_card_has_the_question_and_its_answer_without_choices_and_letters(tmp_path):
    lesson = read_lesson(write_lesson(tmp_path, CHOSEN))
    [(_, _, front, back)] = deck(tmp_path / "cards.apkg", [lesson])["notes"]
    assert front == r"<p>Is \(a &lt; b\) in <code>x$y</code>?</p>"
    assert back == "<p>It is.</p>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n<p>Really.</p>"


def test_importing_again_updates_instead_of_doubling(tmp_path):
    """The numbers by which Anki knows decks, notes and their type: these here are on readers' machines."""
    asked = Question("01_x", "Why?", "Because.")
    first = deck(tmp_path / "cards.apkg", [Lesson("01_x", "01 · X", [asked])])
    better = [Question("02_y", "New?", "Yes."), asked._replace(answer="Since.", opening=True, deeper=True)]
    second = deck(tmp_path / "cards.apkg", [Lesson("01_x", "01 · X, renamed", better)])
    assert second["models"] == first["models"] == ["1518063369"]
    assert set(second["decks"]) == set(first["decks"]) == {1, 1553065497}
    assert second["notes"][1][0] == first["notes"][0][0] == "aae31bf446b39df428c5"
    assert second["notes"][0][0] != first["notes"][0][0]
    assert (first["notes"][0][1], second["notes"][1][1]) == (["01_x", "spine"], ["01_x", "second_reading"])


def test_flashcards_are_written_where_git_does_not_look():
    assert str(parameters("flashcards")["out"].default) in (LESSONS.parent / ".gitignore").read_text().split()
