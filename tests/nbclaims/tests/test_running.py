"""Notebooks about the heights of trees: what their kernels, and a stranger's run of pytest, say of them."""

import ast
import os
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from nbformat.v4 import new_output

from ..cells import code, markdown, notebook, printed, read, tags, write
from ..lint import lint
from ..project import project
from .test_outputs import picture

ENGINE = Path(__file__).resolve().parents[1]
MEAN = "The mean is 4.0 m<!-- claim: sum(heights) / len(heights) == 4 -->, as `0.5` and $0.5$ are not."
PICTURE = """\
class Leaf:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/png": pixels, "text/plain": "A leaf."}, {"image/png": {"alt": "A leaf."}}


Leaf()"""


def trees():
    """A notebook as it should be, with outputs written by hand that a kernel has to repeat."""
    book = notebook(
        markdown("# Trees"),
        code("heights = [3.0, 4.0, 5.0]\nprint(heights)"),
        markdown(MEAN),
        code(f"pixels = {picture('green')[0].data['image/png']!r}\n{PICTURE}"),
        code("heights[9]", "raises-exception"),
    )
    error = new_output("error", ename="IndexError", evalue="list index out of range")
    stored = [printed("[3.0, 4.0, 5.0]\n"), picture("green"), [error]]
    for count, (place, outputs) in enumerate(zip((1, 3, 4), stored, strict=True), start=1):
        book.cells[place].update(outputs=outputs, execution_count=count)
    return book


def faulty():
    book = trees()
    book.cells[1].outputs = printed("[3.0, 4.0, 6.0]\n")
    book.cells[2].source = (
        "The mean is 6.0 m<!-- claim: 5.9 < sum(heights) / len(heights) < 6.1 -->. "
        "It is more than before<!-- claim: sum(heights) > before -->. "
        "The first is near 4<!-- claim: heights[0] < 4 -->."
    )
    book.cells[3].outputs = picture("red")
    book.cells[4].source = "heights[0] / 1"
    lacking = code("print('no axe here')", "needs-axe"), markdown(MEAN.replace("4", "6"), "needs-axe")
    lacking[0].update(outputs=printed("6.0\n"), execution_count=4)
    return notebook(*book.cells, *lacking, code("heights = )"), markdown(MEAN), code("print(heights)"))


def test_each_fault_is_named_but_not_what_is_lacking_and_nothing_piles_up_behind_a_broken_cell(run):
    project.lacking = {"needs-axe"}
    found = run(faulty())
    assert "-[3.0, 4.0, 6.0]\n+[3.0, 4.0, 5.0]" in found["cell 2"]
    assert found["cell 2"].startswith("trees.ipynb, code cell 2 ('heights = [3.0, 4.0, 5.0]'): Cell outputs differ")
    assert found["cell 2"].endswith(project.how_to_update)
    mean = "The mean is 6.0 m.\nIts claim `5.9 < sum(heights) / len(heights) < 6.1` is false. In this run\n"
    assert f"trees.ipynb, markdown cell 3 ('The mean is 6.0 m<!-- claim: 5.9 < sum(h'): {mean}" in found["claims 1"]
    assert "  sum(heights) / len(heights) = 4.0\n" in found["claims 1"]
    assert "`sum(heights) > before` raises NameError: name 'before' is not defined" in found["claims 2"]
    assert "The first is near 4.\nIt writes 4, and `heights[0]` is 3. Mend it in one of three ways" in found["claims 3"]
    assert "a picture is not the one in the file: 100.00% of the pixels differ, by up to 255 of 255" in found["cell 4"]
    assert "SyntaxError" in found["cell 8"] and found["lint"] == found["cell 6"] == ""
    assert found["claims 4"] == found["cell 10"] == "skipped: cell 8 failed, and this needs it"


def test_where_outputs_are_not_compared_cells_run_and_claims_hold(run, monkeypatch):
    project.switches = {"FOREST_GPU": "CUDA_VISIBLE_DEVICES"}
    monkeypatch.setenv("FOREST_GPU", "1")
    failed = {name: message for name, message in run(notebook(*faulty().cells[:5])).items() if message}
    assert [*failed] == ["claims 1", "claims 2", "cell 5"]
    assert "Cell is tagged raises-exception, and nothing was raised" in failed["cell 5"]


def test_a_project_adds_rules_and_items(run):
    class Never(pytest.Item):
        def runtest(self):
            raise AssertionError("never")

    project.items = [lambda file, place, cell: [Never.from_parent(file, name="never")] * ("old" in tags(cell))]
    project.book_rules["name"] = lambda path, book: iter([f"{path.name} has {len(book.cells)} cells"])
    project.prose_rules["oak"] = lambda source: iter(["an oak"] * ("oak" in source))
    found = run(notebook(markdown("An oak."), markdown("An ash.", "old")))
    assert found["lint"] == "trees.ipynb\n- trees.ipynb has 2 cells\n- markdown cell 1 ('An oak.'): an oak"
    assert "never" in found["never"]


README = (ENGINE / "README.md").read_text(encoding="utf-8")


def test_a_stranger_copies_the_folder_and_has_claims(tmp_path):
    """In an empty project, with the rule of the README: right, wrong and missing claims about trees."""
    shutil.copytree(ENGINE, tmp_path / "nbclaims", ignore=shutil.ignore_patterns("tests", "__pycache__"))
    [rules] = re.findall(r"^```python\n(.+?)^project\.lock.+?^```$", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "my_rules.py").write_text(rules)
    write(tmp_path / "right.ipynb", trees())
    book = trees()
    book.cells[0].source = "Trees"
    book.cells[2].source += " The oldest is 1.5 times as high. It is 2.5 m<!-- claim: 2 < heights[1] < 3 -->."
    write(tmp_path / "wrong.ipynb", book)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    plugins = ["-p", "nbclaims", "-p", "my_rules", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "--color=no"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    # Where the variable CI is set, the short summary at the end repeats each message whole.
    report = re.sub("(?s)= short test summary info =.*?\n(?==)", "", done.stdout) + done.stderr
    assert done.returncode == 1 and "2 failed, 9 passed" in report, report
    assert report.count("- the first line is no title") == 1
    assert "'1.5 times' is measured, and no claim checks it: 'The oldest is 1.5 times as high.'" in report
    assert "It is 2.5 m.\nIts claim `2 < heights[1] < 3` is false. In this run\n  heights[1] = 4.0" in report
    assert "notebooks: 2, cells: 6 (100% strict), claims: 3, of them 0 bounds, seconds: " in report
    assert "outputs compared; rounding: avx2" in report


def test_the_example_of_the_readme_is_in_order():
    example = "".join(re.findall(r"^    (.*\n)", README.partition("## Install")[0], re.MULTILINE))
    assert example.count("<!-- claim: ") == 2
    assert list(lint(Path(), notebook(markdown(example)))) == []


def test_nbclaims_imports_itself_relatively_and_nothing_of_the_project_around_it():
    folders = {folder.name for folder in ENGINE.parents[1].iterdir() if any(folder.glob("*.py"))}
    for path in ENGINE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {name.partition(".")[0] for name in names} & {*folders, "tests", "nbclaims"}, path


def test_cells_are_read_as_they_are_written_and_written_once(tmp_path):
    book = trees()
    assert write(tmp_path / "trees.ipynb", book) and not write(tmp_path / "trees.ipynb", deepcopy(book))
    assert read(tmp_path / "trees.ipynb") == book
