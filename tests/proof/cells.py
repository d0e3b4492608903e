"""Builds a notebook from Python. Most lessons are edited in JupyterLab; a first draft is easier written so:

    from tests.proof.cells import code, markdown, notebook, write
    write("notebooks/01_attention.ipynb", notebook(
        markdown("# Attention\\n\\nAfter this lesson you can ..."),
        code("scores = queries @ keys.T  # (T, S)\\nprint(scores.shape)"),
        markdown("The variance is near 64<!-- claim: 60 < scores.var() < 68 -->."),
        code("print(torch.__version__)", "nbval-ignore-output", reason="names the versions of this machine"),
    ))

then `make stamp` adds the first code cell, and `make lessons` the outputs.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def markdown(source: str) -> NotebookNode:
    """A Markdown cell."""
    return nbformat.v4.new_markdown_cell(source)


def code(source: str, *tags: str, reason: str | None = None) -> NotebookNode:
    """A code cell that was not executed yet; `reason` says why its output is not compared."""
    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if reason is not None:
        metadata["reason"] = reason
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def notebook(*cells: NotebookNode) -> NotebookNode:
    """A notebook of these cells. Their ids are their places, so that the same cells give the same file."""
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place}"
    return nbformat.from_dict({"cells": list(cells), "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def read(path: str | Path) -> NotebookNode:
    """The notebook in a file, as it stands there: nothing is repaired."""
    return nbformat.v4.reads(Path(path).read_text(encoding="utf-8"))


def write(path: str | Path, book: NotebookNode) -> bool:
    """Writes a notebook as JupyterLab would; False, and no write, where the file has just that already."""
    text = nbformat.v4.writes(book)
    text = text if text.endswith("\n") else text + "\n"
    path = Path(path)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8", newline="\n")
    return True


def code_cells(book: NotebookNode) -> list[NotebookNode]:
    """The code cells of a notebook, in order."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> Iterable[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])
