"""The commands of authors.

python -m tests.lessons.author check [FILE ...]     executes lessons, says all that has to be mended, writes nothing
python -m tests.lessons.author claims [FILE ...]    says which claims are lost or weaker than at the last commit
python -m tests.lessons.author lessons [FILE ...]   executes lessons; writes those whose outputs really changed
python -m tests.lessons.author stamp [FILE ...]     writes badges, first cells, folds, and numbers in links to lessons
python -m tests.lessons.author address [ADDRESS]    writes where the course is published, and stamps all
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests import ROOT
from tests.lessons import address, references
from tests.lessons.execution import LessonFailed, execute, renew
from tests.lessons.folds import fold, fold_findings
from tests.lessons.plain import count_lesson
from tests.lessons.roundings import observed
from tests.lessons.stamp import stamp
from tests.nbclaims import environment, lint, values
from tests.nbclaims.cells import markdown_cells, read, write
from tests.nbclaims.claims import bounds, operands
from tests.nbclaims.prose import Note, notes
from tests.pages import links

MEND = {"loose": values.MEND, "number": lint.MEND, "reference": references.MEND}  # said once, at the end of `check`


def lessons(paths: list[Path]) -> int:
    """Executes lessons and writes those that really changed; returns how many failed."""
    failed = 0
    for path in paths:
        started = time.monotonic()
        book = read(path)
        try:
            changes = renew(book, execute(book, path.parent))
        except LessonFailed as error:
            failed += 1
            print(f"{path.name}: FAILED, the file is as it was. {error}")
            continue
        if list(fold_findings(path, book)):
            fold(book)
            changes.append("which cells are folded")
        if changes:
            write(path, book)
        news = "written, since these changed: " + "; ".join(changes) if changes else "nothing changed"
        print(f"{path.name}: {news} ({time.monotonic() - started:.0f} s)", flush=True)
    return failed


def check(path: Path, book: NotebookNode) -> Iterator[lint.Finding]:
    """All that has to be mended in a lesson, executed once.

    Of the rule "bound" are the bounds that it states, with their values: they are to be looked at.
    """
    yield from lint.lint(path, book)
    yield from (lint.Finding("link", f"{link} leads nowhere") for link in links.broken(path))
    outcome = observed(path)
    yield from (*outcome.faults, *outcome.bounds)


def check_all(paths: list[Path]) -> int:
    """Prints what has to be mended in lessons, and how much of each kind; returns how many findings there are."""
    total: Counter[str] = Counter()
    for path in paths:
        book, counts = read(path), Counter()
        for kind, finding, place in check(path, book):
            counts[kind] += kind != "bound"
            short = finding.removesuffix(MEND.get(kind, "")).replace("\n", "\n    ")
            print(f"{path.stem[:2]} {'-' if place is None else book.cells[place].id} {kind}: {short}")
        bounds = [bool(note.bound) for _, note in notes(book) if note.kind == "claim"]
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common() if count) or "nothing to mend"
        print(f"{path.name}: {kinds}; claims: {len(bounds)}, of them {sum(bounds)} bounds")
        print(f"{path.stem[:2]} plain English: {count_lesson(book)}", flush=True)
        total += counts
    for kind in MEND.keys() & total.keys():
        print(f"{kind}: {MEND[kind]}.")
    return total.total()


def claims(path: Path) -> Iterator[str]:
    """What a lesson no longer claims as it did at the last commit, a line each."""
    name = path.relative_to(ROOT).as_posix()
    shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    if shown.returncode == 0:  # else the lesson is new, and nothing of it can be lost
        yield from lost_claims(nbformat.v4.reads(shown.stdout), read(path))


def lost_claims(old: NotebookNode, new: NotebookNode) -> Iterator[str]:
    """The claims of a notebook that are gone, or weaker: with wider bounds, or of a kind that allows more.

    A claim is found again by what it compares.
    """
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
    if note.kind == "claim":
        ends = bounds(note.content).ends
        for part, (low, high) in bounds(before.content).ends.items():
            if ends[part][0] < low or ends[part][1] > high:
                return True
    return (bool(note.bound), bool(note.seen)) > (bool(before.bound), bool(before.seen))


def stamp_all(paths: list[Path], texts: list[Path]) -> None:
    """Writes badge, first code cell and folds into lessons, and the numbers of links into lessons and other texts."""
    published = address.repository()
    books = {path: read(path) for path in paths}
    for path, book in books.items():
        stamp(book, path.name, published)
        for cell in markdown_cells(book):
            cell.source = references.renumber(cell.source, path)
    for path in texts:
        old = path.read_text(encoding="utf-8")
        new = references.renumber(old, path)
        if path.name == "README.md":
            new = address.in_readme(new, published)
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(f"{path.name}: written")
    for path, book in books.items():
        if texts:  # all links were led to the new words of a heading
            for cell in markdown_cells(book):
                cell.source = references.WAS.sub("", cell.source)
        print(f"{path.name}: {'written' if write(path, book) else 'nothing changed'}")
    print(f"The address is {published}." if published else "No address in pyproject.toml yet, so no badge.")


def main(arguments: list[str]) -> int | str:
    """Runs a command; returns what the process ends with."""
    parser = argparse.ArgumentParser(prog="python -m tests.lessons.author", description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["address", "check", "claims", "lessons", "stamp"])
    parser.add_argument("files", nargs="*", type=Path, help="lessons; all of notebooks/ if none is named")
    if arguments[:1] == ["address"]:
        try:
            address.publish("".join(arguments[1:]))
        except ValueError as error:
            return str(error)
        arguments = ["stamp"]
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.files] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    if missing := [str(path) for path in paths if not path.is_file()]:
        return f"There is no file {', '.join(missing)}."
    if options.command == "stamp":
        try:
            stamp_all(paths, [] if options.files else [text for text in links.TEXTS if text.suffix == ".md"])
        except ValueError as error:
            return str(error)
        return 0
    if options.command == "claims":
        for path in paths:
            for change in list(claims(path)) or ["as it was"]:
                print(path.stem[:2], change)
        return 0
    environment.settle()
    if reasons := environment.why_not_compared():
        return "Committed outputs are always those of the locked environment, and here " + "; ".join(reasons)
    return 1 if (check_all(paths) if options.command == "check" else lessons(paths)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
