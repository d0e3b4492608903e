"""A corpus that every machine with Python holds: docstrings, whose first line sums up the rest. No code is run."""

import ast
import gc
import re
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tfm_lib.data.pairs import Pair
from tfm_lib.errors import CourseError

SUMMARY, BODY = (3, 18), 15  # words: of a summary, at least and at most, and of the text below it, at least
# A heading with a line under it, a line such as "Args:", an example, a field or a directive: what follows is no prose.
NO_PROSE = re.compile(r"^(?:.+\n[-=~]{3,}\s*$|\w[\w ]*::?\s*$|>>> |:\w|\.\. )", re.MULTILINE)
NOT_FOR_READERS = {"test", "tests", "testing", "_vendor", "vendor", "extern"}  # folders
HOLDS_MORE = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(package: str) -> Iterator[str]:
    """Every docstring of an installed package, file by file, without tests and other packages' code.

    Raises ValueError where there is no such package.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CourseError(f"{package} is no installed package; give one that you could import, such as numpy")
    folder = Path(spec.submodule_search_locations[0])
    for file in sorted(folder.rglob("*.py")):
        if NOT_FOR_READERS.isdisjoint(file.relative_to(folder).parts):
            yield from docstrings_of_code(file.read_bytes())


def docstrings_of_code(code: str | bytes) -> Iterator[str]:
    """Those of a module, of its classes and of their functions; none of what is no Python, as templates are."""
    try:
        with warnings.catch_warnings(action="ignore"):  # code of others, whatever its escapes
            waiting: list[ast.AST] = [ast.parse(code)]
    except (SyntaxError, ValueError):
        return
    while waiting:
        node = waiting.pop()
        if text := ast.get_docstring(node):  # type: ignore[arg-type]
            yield text
        waiting += reversed([child for child in node.body if isinstance(child, HOLDS_MORE)])  # type: ignore[attr-defined]


def pair_of(docstring: str) -> Pair | None:
    """The prose below the first line, and the first line; None where there are no such two.

    PEP 257: "a summary line [...], followed by a blank line, followed by a more elaborate description".
    """
    first, _, below = docstring.strip().partition("\n\n")
    prose = NO_PROSE.split(below, maxsplit=1)[0]
    summary, article = " ".join(first.split()), " ".join(prose.split())
    fits = SUMMARY[0] <= len(summary.split()) <= SUMMARY[1] and len(article.split()) >= BODY
    return Pair(article, summary) if fits and "\n" not in first else None


def harvest(package: str) -> list[Pair]:
    """The pairs of a package's docstrings, each article once, in the order of its files."""
    collecting = gc.isenabled()
    gc.disable()  # of millions of nodes none is left over, and to look for such takes half of the time
    try:
        pairs = filter(None, map(pair_of, docstrings(package)))
        return list({pair.article: pair for pair in pairs}.values())
    finally:
        if collecting:
            gc.enable()
