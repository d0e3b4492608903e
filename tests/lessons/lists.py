"""What lessons no longer claim as they did at the last commit: claims that are lost, or weaker.

A claim is found again by what it compares. It is weaker if its bounds are wider, or if its kind allows more.
"""

import math
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests import ROOT
from tests.nbclaims.cells import read
from tests.nbclaims.claims import bounds, operands
from tests.nbclaims.prose import Note, notes


def changes(lesson: Path) -> Iterator[str]:
    """What is lost or weaker in a lesson than in the last commit, a line each."""
    name = lesson.resolve().relative_to(ROOT).as_posix()
    shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    if shown.returncode == 0:  # else the lesson is new, and nothing of it can be lost
        yield from differences(nbformat.v4.reads(shown.stdout), read(lesson))


def differences(old: NotebookNode, new: NotebookNode) -> Iterator[str]:
    """How the claims of a notebook became fewer or weaker."""
    now = notes(new)
    for sentence, before in notes(old):
        was = f"{sentence.text} | {before.label}: {before.content}"
        same = [note for _, note in now if _compared(note) == _compared(before)]
        if not same:
            yield f"lost: {was}"
        elif all(_weaker(note, before) for note in same):
            yield f"weaker: {was} | is now {same[0].label}: {same[0].content}"


def _compared(note: Note) -> list[str]:
    """What finds a claim again where its bounds or its sentence changed."""
    return (sorted(operands(note.content)) if note.kind == "claim" else []) or [note.content]


def _weaker(note: Note, before: Note) -> bool:
    if note.content != before.content and note.kind == "claim":
        ends = bounds(note.content).ends
        for part, (low, high) in bounds(before.content).ends.items():
            low_now, high_now = ends.get(part, (-math.inf, math.inf))
            if low_now < low or high_now > high:
                return True
    return (bool(note.bound), bool(note.seen)) > (bool(before.bound), bool(before.seen))
