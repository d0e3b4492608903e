"""What teachers hand out: a course without solutions in which all commands work, answers, and graded assignments."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.nbclaims import cells
from tests.times import HUNG
from tfm_lib.ask import checks
from tfm_lib.commands import handing_out
from tfm_lib.commands.cli import run
from tfm_lib.lessons import COURSE, LESSONS

NAMES = [one.name for topic in checks.TOPICS for one in checks.exercises(topic)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """What a student has after unpacking the bundle."""
    folder = tmp_path_factory.mktemp("student") / "new"
    run("student", "--out", str(folder / "course.zip"))
    with zipfile.ZipFile(folder / "course.zip") as package:
        package.extractall(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["course", "course.zip"]
    return folder / "course"


def test_the_bundle_has_the_course_without_solutions_tests_and_leftovers(unpacked):
    assert not [path for path in unpacked.rglob("*.ipynb") if "<summary>Solution" in path.read_text(encoding="utf-8")]
    assert {path.name for path in (unpacked / "notebooks").iterdir()} >= {lesson.file.name for lesson in LESSONS}
    inside = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    tracked = subprocess.run(["git", "ls-files"], cwd=COURSE, capture_output=True, text=True, check=True).stdout.split()
    needed = {name for name in tracked if not name.startswith(("tests/", ".github/", ".ci/"))}
    readme = (unpacked / "README.md").read_text(encoding="utf-8")
    needed.remove("docs/students/README.md")
    assert "your copy" in readme and all(
        (unpacked / link).is_file() for link in re.findall(r"\]\((\w[^):]*)\)", readme)
    )
    assert needed <= inside and not {name for name in inside if "__pycache__" in name or name.startswith("tests/")}


def test_commands_work_in_the_bundle_and_those_for_authors_say_why_not(unpacked):
    code = """
import sys
from tfm_lib.commands.cli import run
from tfm_lib.commands.lab import MY_LESSONS, add_lessons
print(len(add_lessons(MY_LESSONS)), MY_LESSONS)
for words in (["progress"], ["test"], ["answers"], ["nbgrader"]):
    try:
        run(*words)
    except ValueError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, timeout=HUNG)
    assert ran.stdout.startswith(f"{len(LESSONS)} {unpacked / 'my_lessons'}"), ran.stderr
    assert f"all lessons: 0 solved, {len(NAMES)} open" in ran.stdout
    assert re.search(
        "without tests\nthe lessons here have no solutions.*\nthe lessons here have no solutions", ran.stdout
    )


def test_the_answers_have_every_solution_and_every_right_choice(tmp_path):
    run("answers", "--out", str(tmp_path))
    pages = [(tmp_path / f"{lesson.name}.html").read_text(encoding="utf-8") for lesson in LESSONS]
    assert len(re.findall("<h3>Exercise", "".join(pages))) == len(NAMES) == "".join(pages).count("<strong>Solution")
    assert not [page for page in pages if "<!--" in page or "<details" in page]
    assert "my_weight = 0.5" in pages[1] and "<math>" in pages[1]


def test_assignments_are_of_nbgraders_form_and_their_tests_decide(tmp_path):
    run("nbgrader", "--out", str(tmp_path))
    found = {}
    for lesson in [lesson for lesson in LESSONS if lesson.exercises]:
        book = cells.read(tmp_path / "source" / lesson.name / f"{lesson.name}.ipynb")
        graded = [cell for cell in book.cells if "nbgrader" in cell.metadata]
        for answer, test in zip(graded[::2], graded[1::2], strict=True):
            about, of_test = answer.metadata["nbgrader"], test.metadata["nbgrader"]
            assert (about["solution"], about["grade"], about["locked"]) == (True, False, False)
            assert (of_test["solution"], of_test["grade"], of_test["locked"]) == (False, True, True)
            assert {about["schema_version"], of_test["schema_version"]} == {3} and of_test["points"] >= 1
            assert answer.source.count("### BEGIN SOLUTION") == answer.source.count("### END SOLUTION") == 1
            found[about["grade_id"]] = answer.source, test.source
        assert not [cell for cell in book.cells if "<summary>Solution" in cell.source]
        assert len({cell.id for cell in book.cells}) == len(book.cells)
    assert list(found) == [name.replace(".", "-") for name in NAMES]
    answer, test = found["attention-crowd"]
    exec(answer + "\n" + test, {})
    with pytest.raises(AssertionError, match="not attempted"):
        exec(answer.partition("### BEGIN")[0] + "\n" + test, {})


def test_a_bundle_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    (tmp_path / "course.zip").write_text("the old one")
    monkeypatch.setattr(handing_out, "FOLDER", tmp_path)  # has no lesson
    with pytest.raises(ValueError, match="no lesson in"):
        handing_out.bundle(tmp_path / "course.zip")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the old one"]
