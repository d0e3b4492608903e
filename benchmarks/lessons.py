"""What the cells of a lesson define, for scripts that measure just that: nothing is written twice."""

import ast
import json
from types import SimpleNamespace

from tfm_lib.lessons import course_file

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def definitions(lesson: str) -> SimpleNamespace:
    """The functions and classes of a lesson, such as "15_cheaper_attention", by their names.

    It runs what its cells import and define, in their order, and nothing else; no exercise either.
    """
    cells = json.loads(course_file(f"notebooks/{lesson}.ipynb").read_text(encoding="utf-8"))["cells"]
    found: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code" and "exercise" not in cell["metadata"].get("tags", []):
            statements = ast.parse("".join(cell["source"])).body
            selected = [statement for statement in statements if isinstance(statement, DEFINITIONS)]
            exec(compile(ast.Module(selected, []), lesson, "exec"), found)
    return SimpleNamespace(**found)
