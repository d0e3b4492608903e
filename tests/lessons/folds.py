"""What stands folded in a lesson, since a reader looks at what it shows: drawing code, and code that prints source.

A folded cell begins with its title. JupyterLab shows that line alone (`source_hidden`), Colab the title (`cellView`),
the pages a prompt with it; all of them unfold it with a click, and run it as any other cell. Of the second reading
JupyterLab shows the headings; links lead to them, and a click opens their sections.
"""

import ast
import re
import symtable
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from textwrap import indent

from nbformat import NotebookNode

from tests.nbclaims.cells import code_cells, tags

TITLE = "# @title "
DRAWING, SOURCE = "Drawing", "Source of the package"
ANSWER = "Drawing: guess first, then run this cell"  # all that a learner's copy shows of it, until it runs


def fold(book: NotebookNode) -> None:
    """Folds the cells of a lesson that has its outputs, and unfolds all others."""
    for cell in book.cells:
        if "deeper" in tags(cell):
            cell.metadata["jp-MarkdownHeadingCollapsed"] = True
    code = code_cells(book)
    for place, cell in enumerate(code):
        without = re.sub(rf"\A{TITLE}(?:{ANSWER}|{DRAWING}|{SOURCE})\n+", "", cell.source)
        title = None if without.startswith(TITLE) else _title(cell, code[place + 1 :])
        cell.source = f"{TITLE}{title}\n{without}" if title else without
        set_folded(cell, cell.source.startswith(TITLE))


def set_folded(cell: NotebookNode, folded: bool) -> None:
    """Whether JupyterLab and Colab show the code of a cell, whose first line is a title, only by that title."""
    jupyter = {key: value for key, value in cell.metadata.pop("jupyter", {}).items() if key != "source_hidden"}
    cell.metadata.pop("cellView", None)
    if folded:
        jupyter["source_hidden"] = True
        cell.metadata["cellView"] = "form"
    if jupyter:
        cell.metadata["jupyter"] = jupyter


def fold_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """Cells that are folded, and should not be, or the other way around."""
    right = deepcopy(book)
    fold(right)
    for place, (cell, folded) in enumerate(zip(book.cells, right.cells, strict=True), start=1):
        if cell != folded:
            yield f"cell {place} is to be {'open' if 'cellView' in cell.metadata else 'folded'}: `make stamp` does it"


def _title(cell: NotebookNode, below: list[NotebookNode]) -> str | None:
    """What a cell is called where it is folded: one that only draws, or prints source, and is no control."""
    kinds = [{*output.get("data", ())} for output in cell.outputs]
    rest = [kind for kind in kinds if "image/png" not in kind]
    if "getsource(" in cell.source and cell.outputs and not any(kinds):
        title = SOURCE
    elif len(rest) < len(kinds) and all(kind == {"text/html"} for kind in rest) and "control-" not in cell.id:
        title = ANSWER if "guess" in tags(cell) else DRAWING
    else:
        return None
    try:
        names = _names(cell)
        return None if any(_reads(later, names) for later in below) else title
    except SyntaxError:
        return None  # the run says so


def _names(cell: NotebookNode) -> set[str]:
    """The names under which a cell keeps what it made, for cells below; those of loops and imports are none."""
    nodes = [*ast.walk(ast.parse(cell.source))]
    targets = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    names = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _reads(cell: NotebookNode, names: set[str]) -> bool:
    """Whether a cell takes one of the names from a cell above: read as a function's body, it has it from outside."""
    scopes = [symtable.symtable("def cell():\n" + indent(cell.source, "    "), cell.id, "exec")]
    for scope in scopes:
        scopes += scope.get_children()
        if any(symbol.is_global() and symbol.get_name() in names for symbol in scope.get_symbols()):
            return True
    return False
