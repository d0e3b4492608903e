"""The form of a lesson: what keeps a spine short, and a second reading out of the way of a first one."""

import pytest

from tests.proof import anatomy
from tests.proof.cells import code, markdown, notebook, write
from tests.proof.environment import ROOT
from tfm_lib.lessons import LESSONS

TITLE = (
    "# 03 · Heads\n\nAfter this lesson you split.\n\n*Reading: {} minutes. Exercises: 9 minutes. You need lesson 02.*"
)


def tagged(cell, *tags):
    cell.metadata["tags"] = list(tags)
    return cell


def printing(text: str, *tags: str):
    cell = code("print(x)", *tags)
    cell.outputs = [{"output_type": "stream", "name": "stdout", "text": text}]
    return cell


def lesson():
    """In the form, with one Deeper section and a box; 46 words and a code cell are read in less than a minute."""
    spine = [
        markdown("## 1 The whole\n\nAll of it."),
        printing("largest difference 0.0"),
        markdown("## 2 Parts\n\n*Deeper: [what it costs](#deeper-what-it-costs).*"),
        markdown("## 3 More"),
        markdown("## 4 And more"),
        markdown("## 5 The end"),
        markdown("## Exercises"),
        tagged(code("import torch"), "exercises"),
        *(
            tagged(cell, "exercise")
            for cell in (markdown("### Exercise 1: split"), code("check('heads.split', split)"))
        ),
        *(markdown(f"## {title}") for title in ("Recap", "Questions")),
        tagged(markdown("**Why?**"), "question"),
        markdown("## Where to go next"),
    ]
    second = [
        markdown("## Second reading\n\n[a](#deeper-what-it-costs), [b](#deeper-claims-that-you-will-meet)"),
        tagged(
            markdown("## Deeper: what it costs\n\n*For many; it deepens [section 2](#2-parts).*\n\nMuch."), "deeper"
        ),
        tagged(markdown("### Exercise 2: count"), "exercise"),
        tagged(markdown("## Deeper: claims that you will meet\n\n*With answers.*"), "deeper"),
        markdown("## Questions of the second reading"),
        tagged(markdown("**How much?**"), "question"),
    ]
    return notebook(markdown(TITLE.format(2)), *spine, *second)


def cell_with(book, text: str):
    return next(cell for cell in book.cells if text in cell.source)


def test_a_lesson_in_the_form_has_no_findings_with_and_without_a_second_reading():
    book = lesson()
    assert list(anatomy.anatomy_findings(book)) == []
    end = book.cells.index(cell_with(book, "## Second reading"))
    del book.cells[end:]
    cell_with(book, "## 2").source = "## 2 Parts"
    assert list(anatomy.anatomy_findings(book)) == []


def test_the_spine_ends_where_exercises_begin_and_leaves_out_deeper_sections_and_what_is_below_them():
    book = lesson()
    kept = anatomy.spine(book)
    assert kept == book.cells[:8] and kept[-1].source == "## Exercises"
    place = book.cells.index(cell_with(book, "## 3"))
    book.cells[place:place] = [tagged(markdown("## Deeper: early"), "deeper"), markdown("### Below"), code("x")]
    assert anatomy.spine(book) == kept


def test_without_exercises_the_spine_ends_at_the_recap():
    book = lesson()
    start, end = (book.cells.index(cell_with(book, f"## {title}")) for title in ("Exercises", "Recap"))
    del book.cells[start:end]
    assert anatomy.spine(book) == book.cells[:start]


def test_a_section_may_begin_in_the_middle_of_a_cell():
    book = lesson()
    third, fourth = cell_with(book, "## 3"), cell_with(book, "## 4")
    third.source += f"\n\nText.\n\n{fourth.source}"
    book.cells.remove(fourth)
    assert list(anatomy.anatomy_findings(book)) == []
    assert [section.title for section in anatomy.sections(book)][2:5] == ["3 More", "4 And more", "5 The end"]


def test_claims_and_code_are_no_words():
    cells = [markdown("Two words <!-- claim: x ==\n1 -->\n```\nx = 1\n```"), code("print('no prose')")]
    assert anatomy.words(cells) == 2


# ---- faults: (what is planted, what the message says)


def two_long(book):
    cell_with(book, "## 1").source += " word" * 3000
    book.cells[0].source = TITLE.format(20)


def two_many(book):
    book.cells[2:2] = [markdown("Text.") for _ in range(50)]


def too_sure(book):
    book.cells[2:2] = [printing("largest difference 0.0") for _ in range(3)]
    book.cells[0].source = TITLE.format(3)


def four_sections(book):
    book.cells.remove(cell_with(book, "## 5"))


def misnumbered(book):
    cell_with(book, "## 5").source = "## 6 The end"


def swapped(book):
    recap, questions = cell_with(book, "## Recap"), cell_with(book, "## Questions")
    recap.source, questions.source = questions.source, recap.source


def early(book):
    book.cells.insert(1, book.cells.pop(book.cells.index(cell_with(book, "## Deeper: claims"))))


def stray_exercise(book):
    cell_with(book, "## Recap").metadata["tags"] = ["exercise"]


def slow(book):
    book.cells[0].source = TITLE.format(5)


def no_card(book):
    book.cells[0].source = "# 03 · Heads\n\n*Many minutes.*"


def an_evening_and_more(book):
    book.cells[2:2] = [code("x") for _ in range(58)]
    book.cells[0].source = TITLE.format(31)


def untagged(book):
    cell_with(book, "## Deeper: what").metadata = {}


def tagged_elsewhere(book):
    cell_with(book, "Exercise 2").metadata = {"tags": ["deeper", "exercise"]}


def not_listed(book):
    cell_with(book, "## Second").source = "## Second reading"


def no_purpose(book):
    cell = cell_with(book, "## Deeper: what")
    cell.source = cell.source.replace("*", "")


def no_way_back(book):
    cell = cell_with(book, "## Deeper: what")
    cell.source = cell.source.replace("[section 2](#2-parts)", "section 2")


def no_way_there(book):
    cell_with(book, "## 2").source = "## 2 Parts"


def wide_code(book):
    cell_with(book, "import torch").source = "x = '" + 84 * "a" + "'"


def wide_output(book):
    cell_with(book, "print").outputs[0]["text"] = "short\n" + 89 * "a" + "\n"


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (two_long, "its spine has 3046 words; at most 3000"),
        (two_many, "its spine has 58 cells; at most 50"),
        (too_sure, "its spine has 4 printed agreements; at most 3"),
        (four_sections, "its spine has 4 sections; a first reader walks 5 to 7"),
        (misnumbered, "have not the numbers 1, 2, 3"),
        (swapped, "its sections are ['1 The whole'"),
        (stray_exercise, "an exercise stands in section 'Recap'"),
        (slow, "says 5 minutes of reading; wanted 0 to 3: 46 words / 180 + 1 code cells / 2 + running"),
        (no_card, "no card that begins '*Reading: N minutes', with N from 0 to 3"),
        (untagged, "headings '## Deeper: ...' have the tag `deeper`"),
        (tagged_elsewhere, "headings '## Deeper: ...' have the tag `deeper`"),
        (not_listed, "its second reading lists []; wanted a link to each Deeper section in their order"),
        (no_purpose, "in the heading's cell and in italics, what it is for"),
        (no_way_back, "has no link to the section that it deepens"),
        (no_way_there, "section '2 Parts' has no link to what deepens it: [...](#deeper-what-it-costs)"),
        (wide_code, "its code has 90 columns, at most 88"),
        (wide_output, "what it prints has 89 columns, at most 88"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_the_one_finding(plant, message):
    book = lesson()
    plant(book)
    [finding] = anatomy.anatomy_findings(book)
    assert message in finding


def test_nothing_deeper_stands_before_the_end_of_the_spine():
    book = lesson()
    early(book)
    found = "\n".join(anatomy.anatomy_findings(book))
    assert "its sections are ['Deeper: claims that you will meet', '1 The whole'" in found


def test_a_card_may_not_ask_for_more_than_an_evening():
    book = lesson()
    an_evening_and_more(book)
    assert "its card says 31 minutes of reading; an evening has 30" in list(anatomy.anatomy_findings(book))


def test_what_stands_for_a_picture_or_a_quiz_may_be_long():
    book = lesson()
    long = {"text/plain": 100 * "a", "text/markdown": "a"}
    cell_with(book, "import torch").outputs = [{"output_type": "display_data", "data": long, "metadata": {}}]
    assert list(anatomy.anatomy_findings(book)) == []


# ---- in the lessons


def test_a_lesson_of_the_course_is_held_to_the_form_and_no_other_notebook(tmp_path, monkeypatch):
    monkeypatch.setattr(anatomy, "ROOT", tmp_path)
    (tmp_path / "notebooks").mkdir()
    book = lesson()
    no_card(book)
    for name, count in (("03_heads", 1), ("../03_heads", 0)):
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        write(path, book)
        assert len(list(anatomy.of_course(path, book))) == count


def test_the_lessons_lie_where_they_are_looked_for():
    assert {one.file.parent for one in LESSONS} == {ROOT / "notebooks"}
