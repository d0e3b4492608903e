"""docs/coverage.md leads to sections that speak of what they are named for; test_links sees that they are there."""

import re
from pathlib import Path

import pytest

from tests import links
from tests.proof import cells
from tfm_lib.lessons import LESSONS

PAGE = Path(__file__).parent.parent / "docs" / "coverage.md"
ROWS = re.findall(r"^\| (.+?) \| \[(.+?)\]\(([^)#]+)(?:#(.+))?\) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
FORM = "that what with from into have been where which their they them this these after before each there only same"


def section(path: Path, anchor: str) -> str:
    """All that stands under one heading, code as well, in lower case."""
    if path.suffix == ".md":
        parts = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        return next(part for part in parts if links.slug(part.split("\n")[0]) == anchor).casefold()
    text, inside = [], False
    for cell in cells.read(path).cells:
        headings = re.findall(r"^## (.+)$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else []
        if headings:
            inside = anchor in map(links.slug, headings)
        if inside:
            text.append(cell.source)
    return "\n".join(text).casefold()


def test_every_row_is_read_and_every_lesson_is_named():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(ROWS) == sum(line != "| what | where it is shown |" for line in lines) > 120
    named = {Path(file).name for _, _, file, _ in ROWS}
    assert named >= {lesson.file.name for lesson in LESSONS}, "each lesson shows something"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_section_speaks_of_it(row):
    what, _, file, anchor = row
    path = (PAGE.parent / file).resolve()
    if not anchor:
        return
    text = section(path, anchor)
    words = [word for word in re.findall(r"\w{4,}", what.casefold()) if word not in FORM.split()]
    found = [word for word in words if word[:5] in text]
    assert words and len(found) >= len(words) / 2, f"{path.name}, {anchor}: of {words} only {found}"
