"""A lesson under one rounding after another: which outputs change, and which claims no longer hold.

What was found is kept in `.roundings/`, under a name that follows from all that decides it.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from tests.proof.author import LessonFailed, execute
from tests.proof.cells import read, tags
from tests.proof.environment import ROOT, variables
from tests.proof.lint import where
from tests.proof.outputs import clean, difference
from tests.proof.prose import Sentence, sentences
from tests.proof.values import AS_JSON, Evaluate, findings, readings, values

CACHE = ROOT / ".roundings"
INSTRUCTIONS = "__import__('torch').backends.cpu.get_cpu_capability()"


@dataclass
class Outcome:
    """What a lesson did under a rounding."""

    instructions: str = ""  # those that torch used, in its own words
    strict: list[str] = field(default_factory=list)  # strict cells whose outputs changed, and how
    loose: list[str] = field(default_factory=list)  # loose cells whose outputs changed
    claims: list[str] = field(default_factory=list)  # what is wrong with claims
    failed: str = ""  # the cell that did not run, and why


def outcome(lesson: Path, rounding: str) -> Outcome:
    """What the lesson does under this rounding, executed unless that is known already."""
    name = f"{lesson.stem}-{rounding}"
    kept = CACHE / f"{name}-{_decided_by(lesson, rounding)}.json"
    if kept.exists():
        return Outcome(**json.loads(kept.read_text(encoding="utf-8")))
    found = _executed(lesson, rounding)
    CACHE.mkdir(exist_ok=True)
    for old in CACHE.glob(f"{name}-*.json"):
        old.unlink()
    kept.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return found


def _decided_by(lesson: Path, rounding: str) -> str:
    """A hash of notebook, package, lock, rounding and this processor's instructions."""
    from torch.backends.cpu import get_cpu_capability

    files = [lesson, *(ROOT / "tfm_lib").rglob("*"), ROOT / "requirements.lock"]
    found = hashlib.sha256(f"{rounding} {variables(rounding).get('OMP_NUM_THREADS')} {get_cpu_capability()}".encode())
    for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:16]


def _executed(lesson: Path, rounding: str) -> Outcome:
    book, found = read(lesson), Outcome()

    def read_prose(cell: NotebookNode, evaluate: Evaluate) -> None:
        for sentence in sentences(cell.source):
            if sentence.checks:
                found.claims += [*findings(sentence, evaluate, tight=True), *out_of_range(sentence, evaluate)]
        found.instructions = (evaluate([INSTRUCTIONS])[0].text or "").strip("'")

    try:
        fresh = execute(book, lesson.parent, read_prose, rounding)
    except LessonFailed as error:
        found.failed = str(error)
        return found
    for place, (cell, new) in enumerate(zip(book.cells, fresh.cells, strict=True)):
        if cell.cell_type == "code" and (why := difference(cell.outputs, clean(new.outputs))):
            words_only = difference(cell.outputs, clean(new.outputs), "pixels-vary" not in tags(cell))
            if "nbval-ignore-output" in tags(cell) or not words_only:
                found.loose.append(where(place, cell))
            else:
                found.strict.append(f"{where(place, cell)}:\n{why}")
    return found


def out_of_range(sentence: Sentence, evaluate: Evaluate) -> Iterator[str]:
    """The values of its claims that lie outside the range that they name."""
    for note in (note for note in sentence.checks if note.seen):
        parts = [part.source for part in readings(note.content) if part.held]
        low, high = note.seen
        for part, answer in zip(parts, evaluate([AS_JSON.format(part) for part in parts]), strict=True):
            for value in values(answer):
                if not low <= value <= high:
                    yield f"{sentence.text}\n`{part}` is {value:.6g}, outside of the range {low:g}..{high:g}: widen it"
