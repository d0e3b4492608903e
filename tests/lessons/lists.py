"""What lessons no longer claim as they did at the last commit: claims lost or weaker, answers that changed.

A claim is found again by what it compares. It is weaker if its bounds are wider, or if its kind allows more.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests import ROOT
from tests.nbclaims.cells import read, tags
from tests.nbclaims.claims import bounds, operands
from tests.nbclaims.prose import Note, notes


def changes(lesson: Path) -> Iterator[str]:
    """What is lost, weaker or answered otherwise in a lesson than in the last commit, a line each."""
    name = lesson.resolve().relative_to(ROOT).as_posix()
    shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    if shown.returncode == 0:  # else the lesson is new, and nothing of it can be lost
        yield from differences(nbformat.v4.reads(shown.stdout), read(lesson))


def differences(old: NotebookNode, new: NotebookNode) -> Iterator[str]:
    """How the claims and answers of a notebook became fewer, weaker or different."""
    now = notes(new)
    for sentence, before in notes(old):
        same = [note for _, note in now if _compared(note) == _compared(before)]
        if not same:
            yield f"lost: {sentence.text} | {before.label}: {before.content}"
        elif all(_weaker(note, before) for note in same):
            is_now = f"is now {same[0].label}: {same[0].content}"
            yield f"weaker: {sentence.text} | {before.label}: {before.content} | {is_now}"
    answered = dict(_answers(new))
    for question, answer in _answers(old):
        if answered.get(question) != answer:
            yield f"answer: {question} | was {answer} | is now {answered.get(question, 'not asked')}"


def _compared(note: Note) -> tuple[str, ...]:
    """What finds a claim again where its bounds or its sentence changed."""
    return tuple(sorted(operands(note.content))) or (note.content,) if note.kind == "claim" else (note.content,)


def _weaker(note: Note, before: Note) -> bool:
    if note.content != before.content and note.kind == "claim":
        ends, ends_before = bounds(note.content).ends, bounds(before.content).ends
        for part, (low, high) in ends_before.items():
            low_now, high_now = ends.get(part, (float("-inf"), float("inf")))
            if low_now < low or high_now > high:
                return True
    return _freedom(note) > _freedom(before)


def _freedom(note: Note) -> int:
    """How much the kind of a claim allows: just its number, a range that was seen, a bound, anything."""
    return 3 if note.kind == "cited" else 2 if note.bound else 1 if note.seen else 0


def _answers(book: NotebookNode) -> Iterator[tuple[str, str]]:
    """Each question with its right choice in full, or with its answer where there is nothing to choose."""
    for cell in book.cells:
        if "question" not in tags(cell):
            continue
        text = re.sub(r"<!--.*?-->", "", cell.source, flags=re.DOTALL)
        question, _, answer = text.partition("<details>")
        question, *choices = question.strip().split("\n")
        right = re.search(r"^\*\*([A-Z])\.\*\*", answer, re.MULTILINE)
        chosen = [choice[5:] for choice in choices if right and choice.startswith(f"- {right[1]}: ")]
        yield question.strip("* "), " ".join((chosen[0] if chosen else answer.partition("</summary>")[2]).split())
