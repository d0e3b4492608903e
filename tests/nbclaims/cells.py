"""Builds a notebook from Python, and reads and writes it. A first draft is easier written so than in JupyterLab:

from nbclaims.cells import code, markdown, notebook, write

write("attention.ipynb", notebook(
    markdown("# Attention"),
    code("scores = queries @ keys.T  # (T, S)\\nprint(scores.shape)"),
    markdown("The variance is near 64<!-- claim: 60 < scores.var() < 68 -->."),
    code("print(torch.__version__)", "nbval-ignore-output", reason="names the versions of this machine"),
))
"""

from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def markdown(source: str, *tags: str) -> NotebookNode:
    """A Markdown cell."""
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(tags)} if tags else {})


def code(source: str, *tags: str, reason: str | None = None) -> NotebookNode:
    """A code cell that was not executed yet; `reason` says why its output is not compared."""
    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if reason is not None:
        metadata["reason"] = reason
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def printed(text: str) -> list[NotebookNode]:
    """The outputs of a cell that prints this."""
    return [nbformat.v4.new_output("stream", name="stdout", text=text)]


def notebook(*cells: NotebookNode) -> NotebookNode:
    """A notebook of these cells. Their ids are their places, so that the same cells give the same file."""
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place}"
    return nbformat.from_dict({"cells": list(cells), "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def read(path: str | Path) -> NotebookNode:
    """The notebook in a file, as it is: nothing is repaired."""
    return nbformat.v4.reads(Path(path).read_text(encoding="utf-8"))


def write(path: str | Path, book: NotebookNode) -> bool:
    """Writes a notebook as JupyterLab would; False, and no write, where the file has just that already."""
    path, text = Path(path), nbformat.v4.writes(book).removesuffix("\n") + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8", newline="\n")
    return True


def code_cells(book: NotebookNode) -> list[NotebookNode]:
    """The code cells of a notebook, in order."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def markdown_cells(book: NotebookNode) -> list[NotebookNode]:
    """The Markdown cells of a notebook, in order."""
    return [cell for cell in book.cells if cell.cell_type == "markdown"]


def placed(book: NotebookNode, kind: str) -> list[tuple[int, NotebookNode]]:
    """The cells of a kind ("code", "markdown") with their places among all cells."""
    return [(place, cell) for place, cell in enumerate(book.cells) if cell.cell_type == kind]


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def where(place: int, cell: NotebookNode) -> str:
    """A cell as a reader finds it: its number among all cells, and the start of its text."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"{cell.cell_type} cell {place + 1} ({first[:40].strip()!r})"
