"""What a teacher hands out: the course without solutions, their answers as a document, assignments for nbgrader."""

import ast
import html
import json
import re
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tfm_lib.ask.headings import CHECKED, headings
from tfm_lib.ask.questions import read_lesson, to_html
from tfm_lib.ask.quiz import mathml
from tfm_lib.commands.copies import as_file, learners_copy
from tfm_lib.commands.lab import FOLDER, SOLUTION, without_solutions
from tfm_lib.errors import CourseError
from tfm_lib.files import html_page, write_whole
from tfm_lib.lessons import COURSE, IN_CLONE, LESSONS, Lesson

# What `make lab` needs, and what lessons link to: all of a clone but its tests.
PARTS = (
    ".devcontainer", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "LICENSE-text",
    "NOTICE", "Makefile", "README.md", "benchmarks", "docs", "environment.yml", "pyproject.toml", "requirements.lock",
    "tfm_lib",
)  # fmt: skip
CODE = re.compile(r"^```python\n(.+?)^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# nbgrader's own stub would raise at the end of each cell: ours is in it already.
CONFIG = """c = get_config()
c.CourseDirectory.course_id = "transformer"
c.ClearSolutions.code_stub = {"python": ""}
c.ExecutePreprocessor.timeout = 600
"""


def bundle(out: Path) -> int:
    """Write a zip file with the course as students get it, and return how many solutions it lacks.

    Raises CourseError outside of a clone, whose Makefile it needs.
    """
    if not IN_CLONE:
        raise CourseError("the bundle is made of a clone of the course; what is installed here is the package alone")
    files = [file for part in PARTS for file in [COURSE / part, *sorted((COURSE / part).rglob("*"))] if file.is_file()]
    with TemporaryDirectory() as work:
        removed = without_solutions(FOLDER, Path(work))
        content = {f"notebooks/{file.name}": file for file in [*Path(work).iterdir(), FOLDER / "ruff.toml"]}
        content |= {file.relative_to(COURSE).as_posix(): file for file in files if "__pycache__" not in file.parts}
        content["README.md"] = content.pop("docs/students/README.md")
        out.resolve().parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.resolve().parent) as beside:  # whole, or not at all
            part = Path(beside) / "part.zip"
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as package:
                for name, file in sorted(content.items()):
                    package.write(file, f"{out.stem}/{name}")
            part.replace(out)
    return removed


def write_answers(out: Path) -> int:
    """Write a page per lesson with its solutions and the right answers of its questions; returns their number.

    Raises CourseError where the lessons have no solutions, as in what students get.
    """
    pages = {lesson.name: page for lesson in LESSONS if (page := _answers(lesson))}
    if not any("<h3>Exercise" in page for page in pages.values()):
        fix = "use the clone that the bundle for students was made from"
        raise CourseError(f"the lessons here have no solutions; {fix}")
    for name, page in pages.items():
        write_whole(out / f"{name}.html", page.encode())
    return len(pages)


def _answers(lesson: Lesson) -> str:
    read = read_lesson(lesson.file)
    parts, task = [], ""
    for cell in json.loads(lesson.file.read_text(encoding="utf-8"))["cells"]:
        source = COMMENT.sub("", "".join(cell["source"]))
        if cell["cell_type"] == "markdown" and source.startswith("### Exercise"):
            task = source
        elif solution := SOLUTION.search(source):
            inner = solution[0].strip().removeprefix("<details><summary>Solution</summary>").removesuffix("</details>")
            parts.append(f"{task}\n\n**Solution**\n\n{inner}")
    parts.append("## Questions")
    for number, question in enumerate(read.questions, start=1):
        [right] = [choice for choice in question.choices if not choice.why_not]
        answer = f"{right.letter}: {right.text}\n\n   {question.answer}"
        parts.append(f"{number}. **{question.question}**\n\n   {answer}")
    return html_page(html.escape(f"Answers to {read.title}"), [to_html(part, mathml) for part in parts])


def write_assignments(out: Path) -> int:
    """Write the lessons as nbgrader's source, an assignment per lesson, and its configuration; returns their number.

    After each exercise comes a locked cell, worth its difficulty in points, in which a wrong answer raises.
    """
    files = {out / "nbgrader_config.py": CONFIG.encode()}
    for lesson in [lesson for lesson in LESSONS if lesson.exercises]:
        book, about = learners_copy(lesson.file), headings(lesson.file)
        solutions = _solutions(book["cells"])
        if not solutions:
            raise CourseError("the lessons here have no solutions, from which nbgrader makes both versions")
        cells = []
        for cell in book["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                cell["source"] = SOLUTION.sub("", source)
            cells.append(cell)
            if cell["cell_type"] == "code" and (name := _name(source)) in about:
                cells.append(_graded(cell, name, solutions[name], about[name].difficulty))
        book["cells"] = cells
        files[out / "source" / lesson.name / f"{lesson.name}.ipynb"] = as_file(book)
    for path, content in files.items():  # once all are known
        write_whole(path, content)
    return len(files) - 1


def _name(source: str) -> str:
    return found[1] if (found := CHECKED.search(source)) else ""


def _solutions(cells: list[dict[str, Any]]) -> dict[str, str]:
    """The code of the solutions, by the names of their exercises: each stands after the cell that it solves."""
    found, name = {}, ""
    for cell in cells:
        source = "".join(cell["source"])
        name = _name(source) or name if cell["cell_type"] == "code" else name
        if solution := SOLUTION.search(source):
            found[name] = CODE.findall(solution[0])[0]
    return found


def _graded(cell: dict[str, Any], name: str, solution: str, points: int) -> dict[str, Any]:
    """Make the cell of an exercise one that students fill in, and return the one that grades it."""
    source = "".join(cell["source"])
    answer = ast.unparse(ast.parse(source).body[-1].value.args[1])  # type: ignore[attr-defined]
    cell["source"] = f"{source.rstrip()}\n### BEGIN SOLUTION\n{solution}### END SOLUTION"
    ours = {"grade_id": name.replace(".", "-"), "schema_version": 3, "task": False, "cell_type": "code"}
    cell["metadata"]["nbgrader"] = ours | {"grade": False, "locked": False, "solution": True}
    test = f'from tfm_lib.ask.checks import assert_right\n\nassert_right("{name}", {answer})'
    locked = ours | {"grade_id": f"{ours['grade_id']}-test", "grade": True, "locked": True, "solution": False}
    return {
        "cell_type": "code", "id": f"{cell['id']}-test"[-64:], "execution_count": None, "outputs": [], "source": test,
        "metadata": {"nbgrader": locked | {"points": points}},
    }  # fmt: skip
