"""The questions that close the lessons, read from the notebooks: the one source for all that asks them again."""

import json
import re
from pathlib import Path
from typing import NamedTuple

FORM = re.compile(
    r"\*\*(?P<question>[^\n]+)\*\*\s*"
    r"<details><summary>Answer</summary>\n\n(?P<answer>.+)\n\n</details>\s*",
    re.DOTALL,
)
WANTED = (
    "**The question?**, an empty line, <details><summary>Answer</summary>, an empty line, the answer, an empty line, "
    "</details>"
)


class Question(NamedTuple):
    """One question of a lesson; question and answer are Markdown with math between dollar signs."""

    lesson: str  # the name of its file, such as 01_attention
    question: str
    answer: str


class Lesson(NamedTuple):
    """What a lesson asks at its end."""

    name: str  # of its file, such as 01_attention
    title: str  # such as 01 · Attention
    questions: list[Question]


def read_lesson(path: Path) -> Lesson:
    """The title and the questions of the notebook at `path`, in its order: its Markdown cells with the tag `question`.

    Raises ValueError, with lesson and cell, where there is no title or a question does not have the form of WANTED.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    title = re.match(r"# (.+)", sources[0] if sources else "")
    if title is None:
        raise ValueError(f"{path.name} has no title; its first cell must begin with one, such as '# 01 · Attention'")
    questions = []
    for number, (cell, source) in enumerate(zip(cells, sources, strict=True), start=1):
        if "question" in cell["metadata"].get("tags", []):
            match = FORM.fullmatch(source.strip())
            if match is None or cell["cell_type"] != "markdown":
                start = f"a {cell['cell_type']} cell that begins {source[:40]!r}"
                raise ValueError(f"{path.name}, cell {number}: a question must be Markdown, {WANTED}; this is {start}")
            # Claims stand in comments, which only the proof reads.
            answer = re.sub(r"<!--.*?-->", "", match["answer"], flags=re.DOTALL)
            questions.append(Question(path.stem, match["question"], answer.strip()))
    return Lesson(path.stem, title[1].strip(), questions)


def read_course(folder: Path) -> list[Lesson]:
    """The lessons of a folder, in reading order. Raises ValueError where there is none."""
    paths = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    if not paths:
        raise ValueError(f"no lesson in {folder}; a lesson's name begins with two digits, such as 00_start_here.ipynb")
    return [read_lesson(path) for path in paths]
