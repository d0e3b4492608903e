"""What learners get: lessons whose answers are not given away, whose links lead somewhere, and nothing else changed."""

import json
import re
from pathlib import Path

import pytest

from tests.nbclaims import cells
from tests.pages import links
from tfm_lib.commands.copies import learners_copy
from tfm_lib.commands.lab import add_lessons, reset_lesson, without_solutions
from tfm_lib.lessons import LESSONS

LINK = re.compile(r"\]\(((?:\d\d_\w+\.ipynb)?)#([^)\s]+)\)")


@pytest.fixture
def lessons(tmp_path) -> Path:
    """Two lessons that lead to each other; the first asks for a guess."""
    answer = cells.code("print(42)", "guess")
    answer.outputs, answer.execution_count = [{"output_type": "stream", "name": "stdout", "text": "42\n"}], 7
    shown = cells.code("print(1)")
    shown.outputs, shown.execution_count = [{"output_type": "stream", "name": "stdout", "text": "1\n"}], 8
    shown.metadata["jupyter"] = {"source_hidden": True}
    folder = tmp_path / "notebooks"
    folder.mkdir()
    text = (
        "# 01 · A\n\n[up](#01--a) [there](02_b.ipynb#2-keys-and-more) `x` [gone](#gone) [file](../README.md#top) 2 < 3."
    )
    cells.write(folder / "01_a.ipynb", cells.notebook(cells.markdown(text), answer, shown))
    deeper = cells.markdown("## 2 `Keys` and *more*?<!-- was: keys -->\n\nText.\n\n### Below it")
    deeper.metadata["jp-MarkdownHeadingCollapsed"] = True
    back = cells.markdown("[back](01_a.ipynb#01--a), [below](#below-it), [no file](03_c.ipynb#x)")
    cells.write(folder / "02_b.ipynb", cells.notebook(cells.markdown("# 02 · B"), deeper, back))
    return folder


def test_outputs_to_guess_are_cleared_and_all_else_is_as_it_was(lessons):
    original, copy = json.loads((lessons / "01_a.ipynb").read_text()), learners_copy(lessons / "01_a.ipynb")
    assert (copy["cells"][1]["outputs"], copy["cells"][1]["execution_count"]) == ([], None)
    assert copy["cells"][1]["source"] == original["cells"][1]["source"] and copy["cells"][2] == original["cells"][2]
    original["metadata"]["language_info"] = copy["metadata"]["language_info"]
    assert {**copy, "cells": 0} == {**original, "cells": 0}


def test_a_copy_names_the_language_as_its_kernel_does(lessons):
    ipykernel = pytest.importorskip("ipykernel.ipkernel")
    language = ipykernel.IPythonKernel.language_info
    assert learners_copy(lessons / "01_a.ipynb")["metadata"]["language_info"] == language


def test_links_lead_to_the_cells_of_their_headings(lessons):
    first, second = (learners_copy(lessons / name)["cells"] for name in ("01_a.ipynb", "02_b.ipynb"))
    text = "".join(first[0]["source"])
    assert "[up](#cell-id=cell-0) [there](02_b.ipynb#cell-id=cell-1) `x` [gone](#gone) [file](../README.md#top)" in text
    assert second[2]["source"] == [
        "[back](01_a.ipynb#cell-id=cell-0), [below](#cell-id=cell-1), [no file](03_c.ipynb#x)"
    ]
    assert second[1]["metadata"] == {"jp-MarkdownHeadingCollapsed": True}


def test_every_way_to_a_copy_brings_what_learners_get(lessons, tmp_path):
    add_lessons(tmp_path / "added", lessons)
    reset_lesson("01", tmp_path / "reset", lessons)
    without_solutions(lessons, tmp_path / "student")
    expected = learners_copy(lessons / "01_a.ipynb")
    for folder in ("added", "reset", "student"):
        text = (tmp_path / folder / "01_a.ipynb").read_text(encoding="utf-8")
        assert json.loads(text) == expected and "·" in text and text.endswith("}\n")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_every_link_to_a_section_finds_its_cell(lesson):
    before = links.markdown_of(lesson.file)
    after = ["".join(c["source"]) for c in learners_copy(lesson.file)["cells"] if c["cell_type"] == "markdown"]
    for old, new in zip(before, after, strict=True):
        assert LINK.sub("", old) == LINK.sub("", new)
        assert [anchor for _, anchor in LINK.findall(new) if not anchor.startswith("cell-id=")] == []


def test_a_lesson_that_lost_its_tags_and_ids_hands_out_no_solution(lessons, tmp_path):
    solved = "## Task\n\n<details><summary>Solution</summary>\n\n```python\nx = 1\n```\n\n</details>\n"
    cell = cells.markdown(solved)
    cell.metadata["tags"] = ["solution"]
    book = cells.read(lessons / "02_b.ipynb")
    book.cells.append(cell)
    cells.write(lessons / "02_b.ipynb", book)
    for lesson in lessons.glob("*.ipynb"):  # as Colab and some editors save one: format 4.0, no ids of cells, no tags
        content = json.loads(lesson.read_text()) | {"nbformat_minor": 0}
        for saved in content["cells"]:
            del saved["id"]
            saved["metadata"] = {}
        lesson.write_text(json.dumps(content))
    assert without_solutions(lessons, tmp_path / "student") == 1
    copy = cells.read(tmp_path / "student/02_b.ipynb")
    assert copy.cells[-1].source == "## Task" and len({cell.id for cell in copy.cells}) == len(copy.cells)
    reset_lesson("01", tmp_path, lessons)
    assert "[there](02_b.ipynb#cell-id=cell-1)" in (tmp_path / "01_a.ipynb").read_text()


def test_a_solution_that_would_be_handed_out_is_refused(lessons, tmp_path):
    book = cells.read(lessons / "02_b.ipynb")
    book.cells.append(cells.markdown("<details open><summary>Solution</summary>\n\nx = 1\n\n</details>"))
    cells.write(lessons / "02_b.ipynb", book)
    with pytest.raises(ValueError, match=r"02_b.ipynb: a solution that isn't folded .*<summary>Solution"):
        without_solutions(lessons, tmp_path / "student")
    assert not (tmp_path / "student").exists()
