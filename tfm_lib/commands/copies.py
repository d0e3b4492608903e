"""A lesson as learners get it: what they are to guess is open, and links lead where they say they do."""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

HEADING = re.compile(r"^ {0,3}#{1,6} (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?P<file>\d\d_\w+\.ipynb)?#(?P<anchor>[^)\s]+)\)")

LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": sys.version_info.major},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": f"ipython{sys.version_info.major}",
    "version": sys.version.split()[0],
}


def learners_copy(lesson: Path, colab: bool = False) -> dict[str, Any]:
    """The notebook of `lesson` without the outputs of cells tagged `guess`, which the learner's own run brings.

    It names the language as the kernel will, since JupyterLab would call it changed as soon as that answers.
    Links to sections lead to the cells of their headings: JupyterLab does not know headings by the names that GitHub
    and the web pages give them. Nor does Colab, where the cells of a lesson are found by ids in their metadata.
    """
    book = _read(lesson)
    book["metadata"]["language_info"] = LANGUAGE
    cell_of = cache(_cells_of_headings)

    def to_cell(link: re.Match[str]) -> str:
        found = cell_of(lesson.parent / (link["file"] or lesson.name)).get(link["anchor"])
        if found and colab:
            return link[0] if link["file"] else f"](#scrollTo={found})"
        return f"]({link['file'] or ''}#cell-id={found})" if found else link[0]

    for cell in book["cells"]:
        cell["metadata"] |= {"id": cell["id"]} if colab else {}
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(to_cell, "".join(cell["source"])).splitlines(keepends=True)
        elif "guess" in cell["metadata"].get("tags", []):
            cell["outputs"], cell["execution_count"] = [], None
    return book


def _read(lesson: Path) -> dict[str, Any]:
    """A notebook whose cells have ids: those that others have saved, as Colab does, may be of before there were any."""
    book: dict[str, Any] = json.loads(lesson.read_text(encoding="utf-8"))
    for place, cell in enumerate(book["cells"]):
        cell.setdefault("id", f"cell-{place}")
        cell.setdefault("metadata", {})
    book["nbformat"], book["nbformat_minor"] = 4, max(5, book.get("nbformat_minor", 0))
    return book


def as_file(book: dict[str, Any]) -> bytes:
    """A notebook as JupyterLab writes it."""
    return (json.dumps(book, ensure_ascii=False, indent=1) + "\n").encode()


def _cells_of_headings(lesson: Path) -> dict[str, str]:
    """The id of the cell that each heading of a lesson stands in, by the heading's name in links."""
    if not lesson.is_file():
        return {}
    book, found = _read(lesson), dict[str, str]()
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            for heading in HEADING.findall(re.sub(r"<!--.*?-->", "", "".join(cell["source"]))):
                found.setdefault(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-"), cell["id"])
    return found
