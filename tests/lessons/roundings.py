"""A lesson under one rounding after another: which outputs change, and which claims no longer hold.

What was found is kept in `.roundings/`, under a name that follows from all that decides it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from tests import ROOT
from tests.lessons.execution import LessonFailed, changed, execute
from tests.nbclaims.cells import read, where
from tests.nbclaims.outputs import clean, difference
from tests.nbclaims.prose import sentences
from tests.nbclaims.values import Evaluate, findings, values_compared

CACHE = ROOT / ".roundings"
INSTRUCTIONS = "__import__('torch').backends.cpu.get_cpu_capability()"


@dataclass
class Outcome:
    """What a lesson did under a rounding."""

    instructions: str = ""  # those that torch used, in its own words
    strict: list[str] = field(default_factory=list)  # strict cells whose outputs changed, and how
    loose: list[str] = field(default_factory=list)  # loose cells whose outputs changed
    claims: list[str] = field(default_factory=list)  # what is wrong with claims
    ranges: dict[str, list[float]] = field(default_factory=dict)  # values that claims name a range for
    failed: str = ""  # the cell that did not run, and why


def outcome(lesson: Path, rounding: str) -> Outcome:
    """What the lesson does under this rounding, executed unless that is known already."""
    name = f"{lesson.stem}-{rounding}"
    record = CACHE / f"{name}-{_key(lesson, rounding)}.json"
    if record.exists():
        return Outcome(**json.loads(record.read_text(encoding="utf-8")))
    found = _executed(lesson, rounding)
    CACHE.mkdir(exist_ok=True)
    for old in CACHE.glob(f"{name}-*.json"):
        old.unlink()
    record.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return found


def _key(lesson: Path, rounding: str) -> str:
    """A hash of notebook, package, lock, rounding and this processor's instructions."""
    from torch.backends.cpu import get_cpu_capability

    files = [lesson, *(ROOT / "tfm_lib").rglob("*"), ROOT / "requirements.lock"]
    key = hashlib.sha256(f"{rounding} {get_cpu_capability()}".encode())
    for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
        key.update(hashlib.sha256(file.read_bytes()).digest())
    return key.hexdigest()[:16]


def _executed(lesson: Path, rounding: str) -> Outcome:
    book, found = read(lesson), Outcome()

    def read_prose(cell: NotebookNode, evaluate: Evaluate) -> None:
        for sentence in sentences(cell.source):
            if sentence.checks:
                found.claims += findings(sentence, evaluate, tight=True)
            for note in (note for note in sentence.checks if note.seen):
                held = {part.source: numbers for part, numbers in values_compared(note, evaluate) if part.held}
                found.ranges |= held
                found.claims += [
                    f"{sentence.text}\n`{part}` is {value:.6g}, outside of the range {note.seen[0]:g}..{note.seen[1]:g}"
                    for part, numbers in held.items()
                    for value in numbers
                    if not note.seen[0] <= value <= note.seen[1]
                ]
        found.instructions = (evaluate([INSTRUCTIONS])[0].text or "").strip("'")

    try:
        fresh = execute(book, lesson.parent, read_prose, rounding)
    except LessonFailed as error:
        found.failed = str(error)
        return found
    for place, (cell, new) in enumerate(zip(book.cells, fresh.cells, strict=True)):
        if cell.cell_type == "code" and difference(cell.outputs, clean(new.outputs)):
            if why := changed(cell, new):
                found.strict.append(f"{where(place, cell)}:\n{why}")
            else:
                found.loose.append(where(place, cell))
    return found
