"""Plants faults in a notebook: each function returns one that changes the notebook."""

from collections.abc import Callable

from nbformat import NotebookNode

Plant = Callable[[NotebookNode], None]


def cell_with(book: NotebookNode, text: str) -> NotebookNode:
    """The first cell whose source has the text."""
    return next(cell for cell in book.cells if text in cell.source)


def change(text: str, **parts) -> Plant:
    """Gives the cell with that text another source, metadata or outputs."""
    return lambda book: cell_with(book, text).update(parts)


def append(text: str, more: str) -> Plant:
    """Writes more into the cell with that text."""
    return lambda book: cell_with(book, text).update(source=cell_with(book, text).source + more)
