"""Under which heading an exercise stands in its lesson, what it takes, and how a link gets there."""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tfm_lib.lessons import LESSONS

CHECKED = re.compile(r'\bcheck\(\s*"([\w.]+)"')
HEADING = re.compile(r"#+ (Exercise \d+): (.+)")
EFFORT = re.compile(r"^\*Difficulty (\d) of 5 · (\d+) minutes?", re.MULTILINE)


class Heading(NamedTuple):
    """Of an exercise; the link leads there as JupyterLab names cells."""

    number: str  # "Exercise 3"
    title: str
    file: str  # of its lesson
    link: str  # to its cell, from the lesson itself
    name: str  # what a learner hands to `check`, such as "attention.scaled"
    difficulty: int  # 1, a warm-up, to 5
    minutes: int

    def __str__(self) -> str:
        return f"{self.number} ({self.title})"


def heading(name: str) -> Heading | None:
    """The heading of the exercise of that name, such as "attention.scaled"; None if its lesson lacks it."""
    lesson = next((lesson for lesson in LESSONS if lesson.topic == name.partition(".")[0]), None)
    return headings(lesson.file).get(name) if lesson else None


@cache
def headings(file: Path) -> dict[str, Heading]:
    """Those of a lesson, by the names of their exercises: the heading stands in the cell before the one that checks."""
    found: dict[str, Heading] = {}
    if not file.is_file():
        return found
    asked: Heading | None = None
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and (match := HEADING.match(source)):
            difficulty, minutes = effort.groups() if (effort := EFFORT.search(source)) else (0, 0)
            link = f"#cell-id={cell['id']}"
            asked = Heading(match[1], match[2], file.name, link, "", int(difficulty), int(minutes))
        elif asked and (checked := CHECKED.search(source)):
            found[checked[1]] = asked._replace(name=checked[1])
    return found
