"""What the course asks of every lesson, beyond its claims and its form (anatomy.py).

Each rule yields its findings as sentences; plugin.py gives them to nbclaims.
"""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests.lessons.address import repository
from tests.lessons.folds import TITLE
from tests.lessons.stamp import is_setup, stamp
from tests.nbclaims.cells import METADATA, code_cells, placed, tags, where
from tests.nbclaims.collector import LOOSE_TAGS
from tests.nbclaims.numbers import numbers_in
from tests.nbclaims.prose import sentences
from tfm_lib.show.live import VIEW

MAX_LINES, MAX_LINES_OF_A_LISTING = 25, 120
MOST_OF_A_CAPTION = 36  # words
# CONTRIBUTING says what each means. `exercises` is the cell with the imports of that section.
KNOWN_TAGS = {
    "nbval-ignore-output", "pixels-vary", "raises-exception", "expects-nan", "needs-locked-docstrings",
    "needs-translator", "question", "opening", "deeper", "listing", "guess", "exercise", "exercises", "solution",
}  # fmt: skip
# The last one shows a section collapsed in JupyterLab, the one before it a cell in Colab.
CELL_METADATA = {"tags", "reason", "jupyter", "cellView", "jp-MarkdownHeadingCollapsed"}
NAN = re.compile(r"(?<![A-Za-z_])-?(nan|inf)(?![A-Za-z_])")
MACHINE_PATH = re.compile(r"(?<![\w.])(?:/home/|/root/|/tmp/|/work/|/Users/|[A-Za-z]:\\+Users\b)")
VERSIONS = re.compile(r"__version__|\bmetadata\.version\(|\bimportlib\.metadata\b.*\bversion\b")


def format_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """The file itself: valid, with ids, and without what an editor left in it."""
    ids = [cell.get("id") for cell in book.cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "every cell needs an id of its own: open the lesson in JupyterLab and save it"
    else:
        try:
            nbformat.validate(book)
        except nbformat.ValidationError as error:
            yield f"is not a valid notebook: {error.message}"
    if book.metadata != METADATA:
        yield "its metadata is not just kernelspec python3 and language_info name: `make lessons` cleans it"
    for place, cell in enumerate(book.cells):
        if extra := set(cell.metadata) - CELL_METADATA:
            yield f"{where(place, cell)} has metadata {sorted(extra)}: `make lessons` cleans it"
        if unknown := set(tags(cell)) - KNOWN_TAGS:
            yield f"{where(place, cell)} has tags {sorted(unknown)}; the known ones are {sorted(KNOWN_TAGS)}"


def setup_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """Badge and first code cell are the same in every lesson, and a cell shows the versions."""
    stamped, code = deepcopy(book), code_cells(book)
    if book.cells and book.cells[0].cell_type == "markdown":
        stamp(stamped, path.name, repository())
    if stamped.cells[:1] != book.cells[:1] or code_cells(stamped)[:1] != code[:1]:
        yield "its badge or its first code cell is not that of the course: `make stamp` writes them"
    if not any(VERSIONS.search(cell.source) and not is_setup(cell) for cell in code):
        yield "no cell shows the versions that the lesson ran with (`__version__`)"


def execution_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """The lesson was executed from top to bottom before it was committed."""
    counts = [cell.execution_count for cell in code_cells(book)]
    if missing := [place + 1 for place, cell in placed(book, "code") if not cell.execution_count]:
        yield f"cells {missing} were not executed before the commit: `make lessons` executes them"
    elif counts != [*range(1, len(counts) + 1)]:
        yield f"the execution counts are {counts} and not 1, 2, 3, ...: `make lessons` executes from top to bottom"


def output_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """Nan and pictures are meant, no widget is stored, and outputs that are not compared say why."""
    for place, cell in placed(book, "code"):
        here, marks = where(place, cell), set(tags(cell))
        free = marks & LOOSE_TAGS
        if free and not str(cell.metadata.get("reason", "")).strip():
            yield f"{here} is not compared ({free.pop()}); say why as `reason` in its metadata"
        text = "".join(o.get("text", "") + str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs)
        if "expects-nan" not in marks and (found := NAN.search(text)):
            yield f"{here} shows {found[0]!r}: mend it, or tag the cell expects-nan if the lesson means it"
        for output in cell.outputs:
            if VIEW in output.get("data", {}):
                yield f"{here} stores a live widget, which no reader's kernel knows: `make lessons` cleans it"
            for mime in output.get("data", {}):
                alt = output.metadata.get(mime, {}).get("alt", "").strip()
                if mime.startswith("image/") and not (alt and alt in str(output.data.get("text/plain", ""))):
                    yield f"{here} shows a figure whose text/plain is no alt text: make it a tfm_lib.show.figure.Figure"
                caption = output.metadata.get(mime, {}).get("caption", alt)
                count, words = len(sentences(caption)), len(caption.split())
                if mime.startswith("image/") and (count > 1 or words > MOST_OF_A_CAPTION):
                    wanted = f"one sentence, {MOST_OF_A_CAPTION} words at most, before what only the alt text says"
                    yield f"{here} has a caption of {count} sentences and {words} words; wanted {wanted}"


def source_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """No long cell, no empty one, no path of a machine."""
    for place, cell in enumerate(book.cells):
        here = where(place, cell)
        outputs = [
            {**o, "data": {m: v for m, v in o.get("data", {}).items() if not m.startswith("image/")}}
            for o in cell.get("outputs", [])
        ]
        if found := MACHINE_PATH.search(re.sub(r"\\u001b\[[\d;]*m", " ", cell.source + json.dumps(outputs))):
            yield f"{here} holds a path of one machine ({found[0]}...)"
        if cell.cell_type != "code":
            continue
        lines = sum(1 for line in cell.source.splitlines() if line.strip() and not line.startswith(TITLE))
        if not lines:
            yield f"{here} is empty"
        if lines > (most := MAX_LINES_OF_A_LISTING if "listing" in tags(cell) else MAX_LINES) and not is_setup(cell):
            yield f"{here} has {lines} lines; {most} are the most that a reader takes in at once"


def caption_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """A measured number in the words of a figure is computed from what is drawn: no literal text holds one."""
    for place, cell in placed(book, "code"):
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            continue  # the run says so
        assigned: dict[str, list[ast.AST]] = defaultdict(list)
        for node in ast.walk(tree):
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                if isinstance(node, ast.Assign | ast.AugAssign) and isinstance(target, ast.Name):
                    assigned[target.id].append(node.value)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            words = [keyword.value for keyword in call.keywords if keyword.arg in ("alt", "caption", "message")]
            if getattr(call.func, "attr", getattr(call.func, "id", "")).endswith("Figure"):
                words += call.args[:1]
            for text in words:
                parts = assigned[text.id] if isinstance(text, ast.Name) else [text]
                literal = " ".join(map(_literal, parts))
                for number in numbers_in(literal):
                    if number.measured:
                        yield (
                            f"{where(place, cell)} writes {number.text!r} into the words of a figure: {literal[:100]!r}"
                            ". Compute it from what is drawn, in an f-string"
                        )


def _literal(node: ast.AST) -> str:
    """The text that stands in the code; what is computed is left out."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) if isinstance(part, ast.Constant) else "\N{WHITE SQUARE}" for part in node.values)
    return _literal(node.left) + _literal(node.right) if isinstance(node, ast.BinOp) else ""
