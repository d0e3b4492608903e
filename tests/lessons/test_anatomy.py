"""The form of a lesson: what keeps a spine short, and a second reading out of the way of a first one."""

import pytest

from tests.lessons import anatomy
from tests.lessons.faults import append, cell_with, change
from tests.nbclaims.cells import code, markdown, notebook, printed

TITLE = "# 03 · Heads\n\nAfter it you split heads.\n\n*Reading: {} minutes. Exercises: 9 minutes. You need lesson 02.*"
COSTS = "## Deeper: what it costs\n\n*For many; it expands on [section 2](#2-parts).*\n\nMuch."


def printing(text: str):
    cell = code("print(x)")
    cell.outputs = printed(text)
    return cell


def lesson():
    """In the form, with one Deeper section and a box; 44 words and a code cell are read in less than a minute."""
    spine = [
        markdown("## 1 The whole\n\nAll of it.<!-- claim: x == 1 -->\n\n```\nx = 1\n```"),
        printing("largest difference 0.0"),
        markdown("## 2 Parts\n\n*Deeper: [what it costs](#deeper-what-it-costs).*"),
        *(markdown(f"## {title}") for title in ("3 More", "4 And more", "5 The end")),
        *(markdown(text) for text in ("## In practice\n\n" + "word " * 347, "", "", "")),  # as much as may be there
        markdown("## Exercises"),
        code("import torch", "exercises"),
        markdown("### Exercise 1: split", "exercise"),
        code("check('heads.split', split)", "exercise"),
        *(markdown(f"## {title}") for title in ("Recap", "Questions")),
        markdown("**Why?**", "question"),
        markdown("## Where to go next"),
    ]
    second = [
        markdown("## Second reading\n\n[a](#deeper-what-it-costs), [b](#deeper-claims-that-you-will-meet)"),
        markdown(COSTS, "deeper"),
        markdown("### Exercise 2: count", "exercise"),
        markdown("## Deeper: claims that you will meet\n\n*With answers.*", "deeper"),
        markdown("## Questions of the second reading"),
        markdown("**How much?**", "question"),
    ]
    return notebook(markdown(TITLE.format(2)), *spine, *second)


def place(book, text: str) -> int:
    return book.cells.index(cell_with(book, text))


def without_second_reading(book):
    del book.cells[place(book, "## Second reading") :]
    cell_with(book, "## 2").source = "## 2 Parts"


def third_and_fourth_in_one_cell(book):
    cell_with(book, "## 3").source += "\n\nText.\n\n## 4 And more"
    del book.cells[place(book, "## 4 And") + 1]


def words_of_a_picture(book):  # or of a quiz: they may be long
    long = {"text/plain": 100 * "a", "text/markdown": "a"}
    cell_with(book, "import torch").outputs = [{"output_type": "display_data", "data": long, "metadata": {}}]


AS_IT_IS = append("# 03", "")


@pytest.mark.parametrize(
    "variant", [AS_IT_IS, without_second_reading, third_and_fourth_in_one_cell, words_of_a_picture]
)
def test_a_lesson_in_the_form_has_no_findings(variant):
    book = lesson()
    variant(book)
    assert list(anatomy.anatomy_findings(book)) == []


def more(minutes: int, *cells):
    """Plants cells into the first section, and the minutes on the card."""

    def plant(book):
        book.cells[2:2] = cells
        book.cells[0].source = TITLE.format(minutes)

    return plant


def early(book):
    book.cells.insert(1, book.cells.pop(place(book, "## Deeper: claims")))


def swapped(book):
    recap, questions = cell_with(book, "## Recap"), cell_with(book, "## Questions")
    recap.source, questions.source = questions.source, recap.source


DEEPER = "headings '## Deeper: ...' have the tag `deeper`"


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (more(20, markdown(" word" * 3000)), "its spine has 3044 words; at most 3000"),
        (more(2, *[markdown("Text.")] * 50), "its spine has 57 cells; at most 50"),
        (lambda book: book.cells.insert(place(book, "## Exercises"), markdown("")), "has 5 cells; at most 4"),
        (append("## In practice", "word"), "In practice has 351 words; at most 350"),
        (change("## In practice", source="## At work"), "its sections are ['1 The whole'"),
        (more(3, *[printing("largest difference 0.0")] * 3), "its spine has 4 printed agreements; at most 3"),
        (lambda book: book.cells.pop(place(book, "## 5")), "its spine has 4 sections; a first reader walks 5 to 7"),
        (change("## 5", source="## 6 The end"), "have not the numbers 1, 2, 3"),
        (swapped, "its sections are ['1 The whole'"),
        (change("## Recap", metadata={"tags": ["exercise"]}), "an exercise stands in section 'Recap'"),
        (more(5), "says 5 minutes of reading; wanted 0 to 3: 44 words / 180 + 1 code cells / 2 + running"),
        (change("# 03", source="# 03\n\n*Long.*"), "no card that begins '*Reading: N minutes', with N from 0 to 3"),
        (change("## Deeper: what", metadata={}), DEEPER),
        (change("Exercise 2", metadata={"tags": ["deeper", "exercise"]}), DEEPER),
        (change("## Second", source="## Second reading"), "lists []; wanted a link to each Deeper section in their"),
        (change("## Deeper: what", source=COSTS.replace("*", "")), "in the heading's cell and in italics, what it is"),
        (change("## Deeper: what", source=COSTS.replace("](#2-parts)", "]")), "has no link to the section that it dee"),
        (change("## 2", source="## 2 Parts"), "'2 Parts' has no link to what deepens it: [...](#deeper-what-it-costs)"),
        (change("import torch", source=f"x = '{84 * 'a'}'"), "its code has 90 columns, at most 88"),
        (change("print", outputs=printed(89 * "a")), "what it prints has 89 columns, at most 88"),
    ],
)
def test_a_planted_fault_is_the_one_finding(plant, message):
    book = lesson()
    plant(book)
    [finding] = anatomy.anatomy_findings(book)
    assert message in finding


def test_what_is_moved_to_the_front_or_takes_an_evening_and_more_is_among_the_findings():
    book = lesson()
    more(31, *[code("x")] * 58)(book)
    early(book)
    found = "\n".join(anatomy.anatomy_findings(book))
    assert "its sections are ['Deeper: claims that you will meet', '1 The whole'" in found
    assert "its card says 31 minutes of reading; an evening has 30" in found
