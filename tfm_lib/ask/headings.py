"""Under which heading an exercise stands in its lesson, and how a link gets there."""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tfm_lib.lessons import LESSONS

CHECKED = re.compile(r'\bcheck\(\s*"([\w.]+)"')
HEADING = re.compile(r"#+ (Exercise \d+): (.+)")


class Heading(NamedTuple):
    """Of an exercise; a link leads there as JupyterLab names cells."""

    number: str  # "Exercise 3"
    title: str
    file: str  # of its lesson
    cell: str  # its id

    @property
    def inside(self) -> str:
        """The link from the lesson itself."""
        return f"#cell-id={self.cell}"

    @property
    def outside(self) -> str:
        """The link from another notebook in the same folder."""
        return self.file + self.inside

    def __str__(self) -> str:
        return f"{self.number} ({self.title})"


def heading(name: str) -> Heading | None:
    """The heading of the exercise of that name, such as "attention.scaled"; None if its lesson lacks it."""
    lesson = next((lesson for lesson in LESSONS if lesson.topic == name.partition(".")[0]), None)
    return _headings(lesson.file).get(name) if lesson else None


@cache
def _headings(file: Path) -> dict[str, Heading]:
    """Those of a lesson, by the names of their exercises: the heading stands in the cell before the one that checks."""
    found: dict[str, Heading] = {}
    if not file.is_file():
        return found
    last = None
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and (match := HEADING.match(source)):
            last = Heading(match[1], match[2], file.name, cell["id"])
        elif last and (checked := CHECKED.search(source)):
            found[checked[1]] = last
    return found
