"""docs/coverage.md leads to sections that speak of what they are named for; test_links sees that they are there."""

import re
from functools import cache
from math import log, log1p
from pathlib import Path

import pytest

from tests.nbclaims import cells
from tests.pages import links
from tfm_lib.lessons import LESSONS

PAGE = links.ROOT / "docs/coverage.md"
ROWS = re.findall(r"^\| (.+?) \| \[.+?\]\(([^)#]+)(?:#(.+))?\) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
FORM = "that what with from into have been where which their they them this these after before each there only same"
LINK = re.compile(r"\[[^\]]*\]\((?!http)[^)]*\)")  # within the course: it names what another section shows
SELF_TESTS = ("exercises", "questions", "claims-that-you-will-meet")  # which speak of everything


@cache
def sections(path: Path) -> dict[str, str]:
    """What stands under each heading, code as well, in lower case and without links to other sections."""
    sources = [path.read_text(encoding="utf-8")] if path.suffix == ".md" else [c.source for c in cells.read(path).cells]
    texts = links.sections(sources).items()
    return {anchor: LINK.sub("", text).casefold() for anchor, text in texts if not anchor.endswith(SELF_TESTS)}


def match(what: str, texts: dict[str, str]) -> dict[str, float]:
    """How well each section matches these words, which count less the more sections have them (tf-idf)."""
    stems = {word[:5] for word in re.findall(r"\w{4,}", what.casefold()) if word not in FORM.split()}
    rare = {stem: log((len(texts) + 1) / max(1, sum(stem in text for text in texts.values()))) for stem in stems}
    return {anchor: sum(rare[stem] * log1p(text.count(stem)) for stem in stems) for anchor, text in texts.items()}


def test_every_row_is_read_and_every_lesson_is_named():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(ROWS) == sum(line != "| what | where it is shown |" for line in lines) > 120
    named = {Path(file).name for _, file, _ in ROWS}
    assert named >= {lesson.file.name for lesson in LESSONS}, "each lesson shows something"


@pytest.mark.parametrize(("what", "file", "anchor"), [row for row in ROWS if row[2]])
def test_the_section_speaks_of_it(what, file, anchor):
    path = (PAGE.parent / file).resolve()
    matches = match(what, sections(path))
    best = max(matches, key=matches.__getitem__)
    assert matches[best] > 0, f"{path.name} has none of the words of {what!r}"
    assert matches[anchor] >= matches[best] / 2, f"{path.name}: {best} speaks more of {what!r} than {anchor}"
