"""Plants each fault in a lesson, and sees the rules of the course refuse it in words that help."""

import os
import re
import runpy
from pathlib import Path

import pytest
import torch
from nbformat.v4 import new_output

from tests import ROOT
from tests.lessons import folds, plugin, references, stamp
from tests.lessons.address import repository
from tests.lessons.faults import append, cell_with, change
from tests.nbclaims import environment
from tests.nbclaims.cells import code, code_cells, markdown, notebook, printed, write
from tests.nbclaims.lint import lint

PATH = Path("lesson.ipynb")
FIGURE = "Figure('One red pixel.')"
TEXT = "Their mean is 64.0<!-- claim: sum(scores) / len(scores) == 64 -->."


def figure(metadata: dict | None = None, text: str = "One red pixel.") -> list:
    metadata = {"image/png": {"alt": "One red pixel."}} if metadata is None else metadata
    return [new_output("execute_result", {"image/png": "", "text/plain": text}, metadata=metadata)]


def with_alt(caption: str) -> dict:
    return {"image/png": {"alt": "One red pixel.", "caption": caption}}


def good_lesson():
    """A lesson as it should be, with the outputs that it would have."""
    book = notebook(
        markdown("# A lesson\n\nAfter it you can take a mean.\n\nFive minutes."),
        code("scores = [62, 64, 66]\nprint(scores)"),
        markdown(TEXT),
        code(FIGURE),
        code("1 / 0", "raises-exception"),
        code("print(float('nan'))", "expects-nan"),
        code("print(nbformat.__version__)"),
    )
    stamp.stamp(book, PATH.name, repository())
    error = [new_output("error", ename="ZeroDivisionError", evalue="division by zero")]
    outputs = [[], printed("[62, 64, 66]\n"), figure(), error, printed("nan\n"), printed("0.1.0\n")]
    for count, (cell, shown) in enumerate(zip(code_cells(book), outputs, strict=True), start=1):
        cell.execution_count, cell.outputs = count, shown
    folds.fold(book)
    return book


def found(book) -> list[str]:
    return [message for _, message, _ in lint(PATH, book)]


def test_a_good_lesson_has_no_findings_and_the_title_of_a_fold_is_no_line_of_its_code():
    book = good_lesson()
    assert found(book) == []
    cell_with(book, "print(scores)").source = "# @title Long\n" + "x = 1\n" * 24 + "print(scores)"
    folds.fold(book)
    assert found(book) == []


def same_ids(book):
    book.cells[2].id = book.cells[0].id


SCORES = "print(scores)"
CAPTION = "\nmessage = 'It is ' + f'{x}'\nmessage += 'a third of the whole.'\nFigure(message)"
BOUNDS = "".join(f" It is below {n}<!-- claim (bound: why): len(scores) < {n} -->." for n in (70, 80))


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (append(TEXT, " See all of lesson 06."), "'lesson 06' is no link: 'See all of lesson 06.'. Write [lesson 08]"),
        (append(TEXT, " Lessons 05 and 06 show it."), "'Lessons 05 and 06' is no link"),
        (append(TEXT, " It is so.<!-- was: old-title -->"), "is for `make stamp`"),
        (append(TEXT, " [lesson 09](09_attention.ipynb)"), "the link 'lesson 09' leads to"),
        (append(TEXT, BOUNDS), "2 of its 3 claims are bounds"),
        (append(TEXT, " ![](drawing.svg)"), "a picture has no alt text"),
        (change(FIGURE, outputs=figure({})), "shows a figure whose text/plain is no alt text"),
        (change(FIGURE, outputs=figure(text="<Figure>")), "shows a figure whose text/plain is no alt text"),
        (change(FIGURE, outputs=figure(with_alt("A pixel. It is red."))), "a caption of 2 sentences and 5 words"),
        (change(FIGURE, outputs=figure(with_alt("red " * 37 + "."))), "a caption of 1 sentences and 38 words"),
        (append(FIGURE, CAPTION), "writes 'a third' into the words of a figure: 'It is"),
        (change(SCORES, execution_count=7), "execution counts are [1, 7, 3, 4, 5, 6] and not 1, 2, 3"),
        (change(SCORES, execution_count=None, outputs=[]), "cells [3] were not executed before the commit"),
        (change(SCORES, outputs=printed("tensor([nan])")), "shows 'nan'"),
        (change(SCORES, metadata={"tags": ["nbval-ignore-output"]}), "say why as `reason` in its metadata"),
        (change(SCORES, outputs=printed("File \x1b[32m/home/ada/x.py")), "holds a path of one machine (/home/...)"),
        (change(SCORES, source="x = 1\n" * 26), "has 26 lines; 25 are the most"),
        (change(SCORES, source="x = 1\n" * 121, metadata={"tags": ["listing"]}), "has 121 lines; 120 are the most"),
        (change(SCORES, source=""), "is empty"),
        (change("__version__", source="1"), "no cell shows the versions"),
        (same_ids, "needs an id of its own"),
        (lambda book: book.metadata.update(widgets={}), "its metadata is not just kernelspec"),
        (change(TEXT, metadata={"execution": {}}), "has metadata ['execution']"),
        (change("1 / 0", metadata={"tags": ["raises-exceptoin", "raises-exception"]}), "tags ['raises-exceptoin']"),
        (append("find_spec", "\nprint('hello')"), "its first code cell is not that of the course: `make stamp`"),
    ],
)
def test_a_planted_fault_is_the_one_finding(plant, message):
    book = good_lesson()
    plant(book)
    [finding] = found(book)
    assert message in finding


def test_a_number_is_found_between_computed_ones():
    book = good_lesson()
    cell_with(book, FIGURE).source += "\nlearning_curve(history, caption=f'{x:.2f} is three times 0.25.')"
    assert [finding.split("writes ")[1].split(" into")[0] for finding in found(book)] == ["'three times'", "'0.25'"]


# ---- the plug-in


def test_a_perturbed_model_is_another_one_and_the_same_one_every_time(monkeypatch):
    def total() -> float:
        torch.manual_seed(0)
        return torch.nn.Linear(3, 3).weight.double().sum().item()

    plain = total()
    for name, value in vars(torch.nn.init).copy().items():
        monkeypatch.setattr(torch.nn.init, name, value)  # so that it is put back
    runpy.run_path(environment.ROUNDINGS["perturbed"]["PYTHONSTARTUP"])
    assert total() == total() and 0 < abs(total() - plain) < 1e-5


def test_rules_are_for_lessons_and_for_no_learners_copy(tmp_path):
    linted, rules = plugin.project.linted, plugin.project.book_rules
    assert linted(ROOT / "notebooks/02_masked_softmax.ipynb") and linted(tmp_path / "lesson.ipynb")
    assert not linted(tmp_path / "02_masked_softmax.ipynb")
    book = notebook(*(markdown("Nobody knows which of them it is.") for _ in range(9)))
    for name in ("anatomy", "plain"):
        assert [*rules[name](ROOT / "notebooks/../notebooks/03_heads.ipynb", book)]
        assert not [*rules[name](tmp_path / "notebooks/03_heads.ipynb", book)]


def test_this_process_has_one_thread_and_no_gpu():
    assert torch.get_num_threads() == 1
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ.get("TFM_GPU") == "1" or not torch.cuda.is_available()


def test_a_solution_is_right_among_the_names_of_its_notebook_and_the_prose_below_still_true(run):
    right = "from math import exp\n\nmy_crowd = exp(3) / (exp(3) + 20)"
    cells = [markdown("# A lesson"), code("from math import cosh as exp")]
    for solution in (right.partition("\n\n")[2], right, "my_crowd = nowhere"):
        cells.append(code('from tfm_lib.ask.checks import check\n\nmy_crowd = ...\ncheck("attention.crowd", my_crowd)'))
        folded = f"<details><summary>Solution</summary>\n\n```python\n{solution}\n```\n\n</details>"
        cells += [markdown(folded, "solution"), markdown("It is solved<!-- claim: my_crowd is not ... -->.")]
    results = run(notebook(*cells))
    failed = {name: message for name, message in results.items() if message}
    assert [*failed] == ["lint", "solution 4", "solution 10", "claims 3"]
    assert "\N{BALLOT X} attention.crowd: not right yet." in failed["solution 4"], "another exp"
    assert "markdown cell 10" in failed["solution 10"] and "name 'nowhere' is not defined" in failed["solution 10"]
    assert "It is solved.\nIts claim `my_crowd is not ...` is false" in failed["claims 3"]


# ---- folds

PICTURE = [*figure(), new_output("display_data", {"text/html": "<p>One red pixel.</p>"})]


@pytest.mark.parametrize(
    ("source", "outputs", "below", "title"),
    [
        ("axes = 1\nFigure()", PICTURE, "for axes in [2]:\n    print(axes)", "Drawing"),
        ("rows = [2]\nFigure()", PICTURE, "def draw():\n    return rows", None),  # the cell below needs it
        ("Figure(), print(1)", [*PICTURE, *printed("1\n")], "1", None),
        ("import inspect\n\nprint(inspect.getsource(f))", printed("def f():\n"), "1", "Source of the package"),
        ("x = 3", [], "1", None),
        ("# @title Ten helpers\nx = 1", [], "1", "Ten helpers"),  # a title by hand stays
        ("# @title A pixel\nFigure()", figure(), "1", "A pixel"),
        (f"# @title {folds.ANSWER}\nFigure()", figure(), "1", "Drawing"),  # the tag is gone
        ("# @title Drawing\nprint(2)", printed("2\n"), "1", None),  # it draws no more
    ],
)
def test_drawings_and_printed_source_are_folded_under_a_title(source, outputs, below, title):
    book = notebook(code(source), code(below))
    cell = book.cells[0]
    cell.outputs = outputs
    folds.fold(book)
    lines = re.sub("# @title .*\n", "", source)
    assert cell.source == (f"# @title {title}\n{lines}" if title else lines)
    assert cell.metadata == ({"cellView": "form", "jupyter": {"source_hidden": True}} if title else {})
    assert list(folds.fold_findings(PATH, book)) == []


def test_what_is_not_folded_as_it_should_be_is_named():
    book = notebook(*(code("Figure()", *tags) for tags in ([], ["guess"], [])), markdown("## Deeper: more", "deeper"))
    for cell in book.cells[:3]:
        cell.outputs = figure()
    book.cells[2].id = "control-mask"
    assert list(folds.fold_findings(PATH, book)) == [
        f"cell {place} is to be folded: `make stamp` does it" for place in (1, 2, 4)
    ]
    folds.fold(book)
    assert book.cells[1].source == f"# @title {folds.ANSWER}\nFigure()"
    assert book.cells[3].metadata["jp-MarkdownHeadingCollapsed"] is True
    book.cells[0].outputs = printed("2\n")
    book.cells[0].metadata["jupyter"]["outputs_hidden"] = False
    assert list(folds.fold_findings(PATH, book)) == ["cell 1 is to be open: `make stamp` does it"]
    folds.fold(book)
    assert book.cells[0].source == "Figure()" and book.cells[0].metadata == {"jupyter": {"outputs_hidden": False}}


# ---- references


@pytest.fixture
def course(tmp_path):
    first = ["# First\n\n## 1. Start", "## 2. `Keys` and *more*"]
    second = [
        "# Second\n\n## 1. New words<!-- was: old-words -->",
        "## Deeper: what $h$ heads cost<!-- was: 4-price -->",
    ]
    for name, texts in (("01_first", first), ("02_second", second)):
        write(tmp_path / f"{name}.ipynb", notebook(*map(markdown, texts)))
    return tmp_path


COST, OF_COST = "“what $h$ heads cost”", "02_second.ipynb#deeper-what-h-heads-cost"


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("[lesson 07](07_first.ipynb)", "[lesson 01](01_first.ipynb)"),
        ("[x, section 9](01_first.ipynb#9-keys-and-more)", "[x, section 2](01_first.ipynb#2-keys-and-more)"),
        ("[x](../notebooks/01_first.ipynb#keys-and-more)", "[x](../notebooks/01_first.ipynb#2-keys-and-more)"),
        ("[05, section 3](05_second.ipynb#3-old-words)", "[02, section 1](02_second.ipynb#1-new-words)"),
        ("[section 7](#7-new-words)", "[section 1](#1-new-words)"),
        ("[section 4](#4-price)", f"[{COST}](#deeper-what-h-heads-cost)"),
        ("[Price](#deeper-price)", "[what $h$ heads cost](#deeper-what-h-heads-cost)"),
        ("[what $h$ heads cost](#deeper-what-h-heads-cost)", None),
        ("[02, section 6](02_second.ipynb#6-price)", f"[02, {COST}]({OF_COST})"),
        ("[lesson 05, “it”](05_second.ipynb#deeper-price)", f"[lesson 02, {COST}]({OF_COST})"),
        ("[the “new words”](#deeper-new-words)", "[the section 1](#1-new-words)"),
        ("[gone](01_first.ipynb#3-gone) `[lesson 07](07_first.ipynb)` [a](https://a.org#b)", None),
    ],
)
def test_links_get_the_numbers_of_today(course, written, right):
    path = course / "02_second.ipynb"
    assert references.renumber(written, path, course) == (right or written)
    assert bool(list(references.stale_links(written, path, course))) == (right is not None)
    assert list(references.stale_links(right or written, path, course)) == []


def test_a_section_that_is_not_there_is_named(course):
    texts = ("# T\n\n## 1 A\n\n## 2 B", "See section 2, and section 5.4 of the paper.", "See section 3.")
    [finding] = references.link_findings(course / "01_first.ipynb", notebook(*map(markdown, texts)))
    assert "markdown cell 3" in finding and "no section 3 in this lesson" in finding
