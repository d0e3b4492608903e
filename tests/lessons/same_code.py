"""Code that stands in a lesson and in a module, since both are read by themselves: it has to be the same."""

import ast
import inspect
from collections.abc import Iterable
from types import ModuleType

from tests import ROOT
from tests.nbclaims import cells


def definitions(source: str) -> dict[str, str]:
    """The classes and functions of a text, without types, docstrings, comments and lines, in which the two differ."""
    found = {}
    for definition in ast.parse(source).body:
        if isinstance(definition, ast.ClassDef | ast.FunctionDef):
            for part in ast.walk(definition):
                if isinstance(part, ast.FunctionDef):
                    part.returns = None
                if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part):
                    del part.body[0]
                if isinstance(part, ast.arg):
                    part.annotation = None
            found[definition.name] = ast.unparse(definition)
    return found


def assert_same(lesson: str, module: ModuleType, names: Iterable[str]) -> None:
    """That a lesson, such as "14_before_and_beside", and a module define these alike."""
    book = cells.read(ROOT / f"notebooks/{lesson}.ipynb")
    shown = definitions("\n".join(cell.source for cell in cells.code_cells(book)))
    defined = definitions(inspect.getsource(module))
    for name in names:
        assert shown[name] == defined[name], f"{lesson} and {module.__name__}: {name}"
