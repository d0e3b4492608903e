"""What the cells of a lesson define, for scripts that measure just that: nothing is written twice."""

import __future__

import ast
import json
import re
from functools import cache
from types import SimpleNamespace

from tfm_lib.lessons import course_file

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
AS_TEXT = __future__.annotations.compiler_flag  # a type may have a name that a cell assigns


@cache
def definitions(lesson: str) -> SimpleNamespace:
    """The functions, classes and CONSTANTS of a lesson, such as "15_cheaper_attention", by their names.

    It runs what its cells import and define, in their order, and nothing else; no exercise either.
    """
    cells = json.loads(course_file(f"notebooks/{lesson}.ipynb").read_text(encoding="utf-8"))["cells"]
    found: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code" and "exercise" not in cell["metadata"].get("tags", []):
            selected = [part for part in ast.parse("".join(cell["source"])).body if _defines(part)]
            exec(compile(ast.Module(selected, []), lesson, "exec", AS_TEXT), found)
    return SimpleNamespace(**found)


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(re.fullmatch("[A-Z]{2,}", ast.unparse(target)) for target in statement.targets)
    return isinstance(statement, DEFINITIONS)
