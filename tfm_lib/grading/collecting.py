"""What students handed in: of their notebooks nothing but the source of the cells that call `check` is taken."""

import json
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from tfm_lib.ask.headings import CHECKED
from tfm_lib.errors import CourseError
from tfm_lib.lessons import LESSONS

NOTEBOOK, SOURCE, CELLS = 50 * 2**20, 10**5, 500  # bytes of a notebook, characters of a cell, cells of a submission
FILES = {lesson.file.name for lesson in LESSONS}


class Cell(NamedTuple):
    """Code of a student, and the exercises that it answers."""

    topic: str
    names: list[str]
    source: str


class Submission(NamedTuple):
    """What one student handed in: a notebook, or a folder with notebooks at any depth."""

    name: str
    cells: list[Cell]
    remarks: list[tuple[str, str]]  # "unread" or "twice", and what could not be read, or has several answers


def collect(folder: Path, known: Collection[str]) -> list[Submission]:
    """The submissions of a folder, by their names. Raises CourseError where there is none."""
    if not folder.is_dir():
        raise CourseError(f"no folder {folder}; give the one that holds a notebook, or a folder of them, per student")
    places = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "__MACOSX")))
    places = [path for path in places if path.is_symlink() or path.is_dir() or path.suffix == ".ipynb"]
    if not places:
        raise CourseError(f"no notebook (*.ipynb) and no folder in {folder}; unpack what was collected there")
    return [_submission(place, known) for place in places]


def _submission(place: Path, known: Collection[str]) -> Submission:
    cells, remarks = list[Cell](), list[tuple[str, str]]()
    answers = defaultdict[str, dict[str, str]](dict)  # by the exercise, then by the notebook
    try:
        found = sorted(p for p in place.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
        books = found if place.is_dir() and not place.is_symlink() else [place]
    except OSError as error:
        return Submission(place.name, [], [("unread", f"It could not be read: {error}")])
    for book in sorted(books, key=lambda path: (path.name in FILES, path)):  # a lesson's own name counts most
        try:
            for cell in _cells(book, known):
                cells.append(cell)
                for name in cell.names:
                    answers[name][str(book.relative_to(place))] = cell.source
        except (OSError, ValueError, RecursionError) as error:
            remarks.append(("unread", f"{book.name} could not be read: {str(error)[:200]}"))
    if not books:
        remarks.append(("unread", "There is no notebook in it."))
    if len(cells) > CELLS:
        too_many = f"It has {len(cells)} cells that call `check`, and {CELLS} are read at most."
        return Submission(place.name, [], [("unread", too_many)])
    last = {name: at for at, cell in enumerate(cells) for name in cell.names}
    for at, cell in enumerate(cells):
        cells[at] = cell._replace(names=[name for name in {*cell.names} if last[name] == at])
    differ = [(name, " and ".join(given)) for name, given in answers.items() if len({*given.values()}) > 1]
    remarks += [("twice", f"{name} has other answers in {where}: the last counts.") for name, where in differ]
    return Submission(place.stem, cells, remarks)


def _cells(book: Path, known: Collection[str]) -> list[Cell]:
    """Raises ValueError for what is no notebook, or leads elsewhere."""
    if book.is_symlink():  # of a folder rglob follows none
        raise ValueError("it is a link to another file")
    if not book.is_file() or book.stat().st_size > NOTEBOOK:
        raise ValueError(f"it is no file, or has more than {NOTEBOOK // 2**20} MiB")
    content: Any = json.loads(book.read_bytes())
    found = []
    for cell in content["cells"] if isinstance(content, dict) and isinstance(content.get("cells"), list) else ():
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        lines = cell.get("source")
        source = "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
        names = [name for name in CHECKED.findall(source) if name in known]
        if names and len(source) <= SOURCE:
            found.append(Cell(names[0].partition(".")[0], names, source))
    if not found:
        raise ValueError("it has no cell that calls `check` with the name of an exercise")
    return found
