"""A lesson under one rounding after another: which outputs change, and which claims no longer hold.

What was found is kept in `.roundings/`, under a name that follows from all that decides it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests import ROOT
from tests.lessons.execution import LessonFailed, changed, execute
from tests.nbclaims.cells import read, where
from tests.nbclaims.claims import operands
from tests.nbclaims.lint import Finding
from tests.nbclaims.outputs import clean, difference
from tests.nbclaims.prose import sentences
from tests.nbclaims.values import Evaluate, findings, values_compared

CACHE = ROOT / ".roundings"
INSTRUCTIONS = "__import__('torch').backends.cpu.get_cpu_capability()"


@dataclass
class Outcome:
    """What a lesson did under a rounding."""

    instructions: str = ""  # those that torch used, in its own words
    faults: list[Finding] = field(default_factory=list)  # of the rules run, claim, loose, range and output
    bounds: list[Finding] = field(default_factory=list)  # no faults: bounds that the lesson states, with their values
    loose: list[str] = field(default_factory=list)  # loose cells whose outputs changed
    ranges: dict[str, list[float]] = field(default_factory=dict)  # values that claims name a range for


def outcome(lesson: Path, rounding: str) -> Outcome:
    """What the lesson does under this rounding, executed unless that is known already."""
    name = f"{lesson.stem}-{rounding}"
    record = CACHE / f"{name}-{_key(lesson, rounding)}.json"
    if record.exists():
        return Outcome(**json.loads(record.read_text(encoding="utf-8")))
    found = observed(lesson, rounding)
    CACHE.mkdir(exist_ok=True)
    for old in CACHE.glob(f"{name}-*.json"):
        old.unlink()
    record.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return found


def _key(lesson: Path, rounding: str) -> str:
    """A hash of notebook, package, lock, rounding, this processor's instructions, and this file, which writes it."""
    from torch.backends.cpu import get_cpu_capability

    files = [lesson, Path(__file__), *(ROOT / "tfm_lib").rglob("*"), ROOT / "requirements.lock"]
    key = hashlib.sha256(f"{rounding} {get_cpu_capability()}".encode())
    for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
        key.update(hashlib.sha256(file.read_bytes()).digest())
    return key.hexdigest()[:16]


def observed(lesson: Path, rounding: str = "") -> Outcome:
    """Executes a lesson under a rounding, by default the pinned one, and compares it with the file."""
    book, found = read(lesson), Outcome()

    def read_prose(place: int, evaluate: Evaluate) -> None:
        for sentence in (sentence for sentence in sentences(book.cells[place].source) if sentence.checks):
            for fault in findings(sentence, evaluate, tight=True):
                found.faults.append(Finding("claim" if "\nIts claim" in fault else "loose", fault, place))
            for note in sentence.checks:
                if note.bound:
                    [shown] = evaluate(operands(note.content)[:1] or [note.content])
                    stated = f"`{note.content}`, and it is {shown.text}, since: {note.bound}"
                    found.bounds.append(Finding("bound", stated, place))
                elif note.seen:
                    low, high = note.seen
                    held = {part.source: numbers for part, numbers in values_compared(note, evaluate) if part.held}
                    found.ranges |= held
                    outside = [(part, value) for part in held for value in held[part] if not low <= value <= high]
                    for part, value in outside:
                        message = f"{sentence.text}\n`{part}` is {value:.6g}, outside of the range {low:g}..{high:g}"
                        found.faults.append(Finding("range", message, place))
        found.instructions = (evaluate([INSTRUCTIONS])[0].text or "").strip("'")

    try:
        fresh = execute(book, lesson.parent, read_prose, rounding)
    except LessonFailed as error:
        found.faults.append(Finding("run", f"{error}; what stands below it was not checked"))
        return found
    for place, (cell, new) in enumerate(zip(book.cells, fresh.cells, strict=True)):
        if cell.cell_type == "code" and difference(cell.outputs, clean(new.outputs)):
            if why := changed(cell, new):
                message = f"{where(place, cell)}:\n{why}\n(`lessons` writes it)"
                found.faults.append(Finding("output", message, place))
            else:
                found.loose.append(where(place, cell))
    return found
