"""What the cells of a lesson define, for scripts that measure just that: nothing is written twice."""

import ast
import json
from types import SimpleNamespace

from tfm_lib.lessons import course_file

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def definitions(lesson: str) -> SimpleNamespace:
    """The functions and classes of a lesson, such as "15_cheaper_attention", by their names.

    It runs the cells that only import and define, in their order, and no other.
    """
    cells = json.loads(course_file(f"notebooks/{lesson}.ipynb").read_text(encoding="utf-8"))["cells"]
    found: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            if all(isinstance(statement, DEFINITIONS) for statement in ast.parse(source).body):
                exec(source, found)
    return SimpleNamespace(**found)
