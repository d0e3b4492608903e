"""What a lesson claims, as a list in a file of its own: a claim that is lost or weakened shows as a change there.

Each claim has a line: cell | kind | the sentence as readers see it | expression. Each question has one, too, with its
right choice. `make lessons` writes the lists; the lint of a lesson compares.
"""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tests.proof.cells import tags
from tests.proof.environment import ROOT
from tests.proof.prose import sentences

LISTS = ROOT / "tests" / "claims"
MOST = 160  # letters of a sentence


def list_of(lesson: Path) -> Path:
    """Where the list of a lesson lies."""
    return LISTS / f"{lesson.stem}.txt"


def listing(book: NotebookNode) -> str:
    """The list of a lesson's claims and answers, a line each."""
    lines = []
    for cell in book.cells:
        if cell.cell_type != "markdown":
            continue
        if "question" in tags(cell):
            lines.append(f"{cell.id} | answer | {_answer(cell.source)}")
        for sentence in sentences(cell.source):
            for note in sentence.notes:
                said = sentence.text if len(sentence.text) <= MOST else sentence.text[: MOST - 4].rstrip() + " ..."
                lines.append(f"{cell.id} | {note.label} | {said} | {note.content}")
    return "".join(f"{line}\n" for line in lines)


def _answer(source: str) -> str:
    """A question with its right choice in full, or with its answer where there is nothing to choose."""
    text = re.sub(r"<!--.*?-->", "", source, flags=re.DOTALL)
    question, _, answer = text.partition("<details>")
    question, *choices = question.strip().split("\n")
    right = re.search(r"^\*\*([A-Z])\.\*\*", answer, re.MULTILINE)
    chosen = [choice[2:] for choice in choices if right and choice.startswith(f"- {right[1]}: ")]
    return " | ".join([question.strip("* "), *(chosen or [" ".join(answer.partition("</summary>")[2].split())[:MOST]])])


def list_findings(lesson: Path, book: NotebookNode) -> Iterator[str]:
    """How a lesson of the course differs from its committed list."""
    if lesson.resolve().parent != ROOT / "notebooks":
        return
    file = list_of(lesson)
    committed = file.read_text(encoding="utf-8") if file.exists() else ""
    if committed != (new := listing(book)):
        lines = difflib.unified_diff(
            committed.splitlines(), new.splitlines(), str(file.name), lesson.name, "", "", 0, ""
        )
        yield "claims or answers changed; if that is right, `make lessons` writes the list:\n" + "\n".join(lines)
