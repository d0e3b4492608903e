"""The commands of authors: what they say, what they write, and what a change loses."""

from copy import deepcopy

import pytest

from tests import ROOT
from tests.lessons import author, execution, roundings
from tests.nbclaims import environment
from tests.nbclaims.cells import code, code_cells, markdown, notebook, printed, read, write


def executed(*outputs: list):
    """A lesson of one cell per output, executed."""
    book = notebook(markdown("# T"), *(code(f"cell({n})") for n in range(len(outputs))))
    for count, (cell, shown) in enumerate(zip(code_cells(book), outputs, strict=True), start=1):
        cell.update(execution_count=count, outputs=deepcopy(shown))
    return book


def test_lessons_writes_once_and_only_what_runs(tmp_path, capsys, monkeypatch):
    """Executing is the business of `check`, below."""

    def execute(book, folder):
        if "import nowhere" in book.cells[1].source:
            raise execution.LessonFailed("code cell 2 ('import nowhere'): ModuleNotFoundError")
        return executed(printed("1\n"))

    monkeypatch.setattr(author, "execute", execute)
    draft, broken = tmp_path / "lesson.ipynb", tmp_path / "broken.ipynb"
    write(draft, notebook(markdown("# T"), code("cell(0)")))
    write(broken, notebook(markdown("# T"), code("import nowhere")))
    before = broken.read_bytes()
    assert author.lessons([draft, broken]) == 1
    lines = capsys.readouterr().out
    assert "lesson.ipynb: written, since these changed: code cell 2 ('cell(0)'): outputs" in lines
    assert "broken.ipynb: FAILED, the file is as it was. code cell 2 ('import nowhere'): ModuleNotFound" in lines
    assert broken.read_bytes() == before and read(draft).cells[1].outputs == printed("1\n")
    assert author.lessons([draft]) == 0 and "lesson.ipynb: nothing changed" in capsys.readouterr().out


def test_a_lesson_is_the_same_by_a_relative_path(monkeypatch):
    lesson, paths = ROOT / "notebooks/04_positional_encoding.ipynb", []
    monkeypatch.setattr(author, "lessons", paths.extend)
    monkeypatch.setattr(environment, "why_not_compared", list)
    monkeypatch.chdir(lesson.parent)
    assert author.main(["lessons", lesson.name]) == 0
    assert paths == [lesson]


def test_only_what_changed_is_taken_over():
    book = executed(printed("0x7f00aabbcc\n"), printed("[62]\n"), printed("0.1.0\n"))
    book.cells[3].source = "nbformat.__version__"
    fresh = deepcopy(book)
    fresh.cells[1].outputs, fresh.cells[3].outputs = printed("0x7f00ddeeff\n"), printed("0.2.0\n")
    before = deepcopy(book)
    assert execution.renew(book, deepcopy(fresh)) == [] and book == before
    fresh.cells[2].outputs = printed("[63]\n")
    assert execution.renew(book, fresh) == ["code cell 3 ('cell(1)'): outputs"]
    outputs = [cell.outputs for cell in code_cells(book)]
    assert outputs == [printed("0x7f00aabbcc\n"), printed("[63]\n"), printed("0.2.0\n")]


def test_check_says_all_at_once_with_cells(tmp_path, capsys):
    book = notebook(
        markdown("# T\n\nSee lesson 06.  It is half of it. [Gone](gone.md)"),
        code("x = 5.3\nx"),
        markdown("It is 5.2<!-- claim: 5 < x < 6 -->, and false<!-- claim: x > 6 -->."),
        markdown("It is near 6<!-- claim: 5 < x < 7 -->, never 9<!-- claim (bound: so it is): x < 9 -->."),
        code("import nowhere"),
        markdown("It is 7<!-- claim: x == 7 -->."),
    )
    write(tmp_path / "01_x.ipynb", book)
    assert author.check_all([tmp_path / "01_x.ipynb"]) > 5
    report = capsys.readouterr().out
    for line in (
        "01 cell-0 reference: 'lesson 06' is no link",
        "01 cell-0 number: 'half' is measured",
        "01 cell-0 space: a reader sees two spaces",
        "01 - link: gone.md leads nowhere",
        "01 cell-2 claim: It is 5.2, and false.\n    Its claim `x > 6` is false",
        "01 cell-3 loose: It is near 6, never 9.\n    It writes 6, 9, and `x` is 5.3.",
        "01 cell-3 bound: `x < 9`, and it is 5.3, since: so it is",
        "01 - run: code cell 5 ('import nowhere'): ModuleNotFoundError: No module named 'nowhere'; what stands below",
        "claims: 5, of them 1 bounds",
        "loose: Mend it in one of three ways",
    ):
        assert line in report, report


# ---- roundings


def test_what_a_rounding_did_is_kept_until_the_lesson_changes(tmp_path, monkeypatch):
    runs: list[str] = []

    def run(lesson, rounding):
        runs.append(rounding)
        return roundings.Outcome(loose=[str(len(runs))])

    monkeypatch.setattr(roundings, "CACHE", tmp_path / "kept")
    monkeypatch.setattr(roundings, "observed", run)
    lesson = tmp_path / "01_x.ipynb"
    write(lesson, notebook(markdown("# T")))
    assert [roundings.outcome(lesson, name).loose for name in ("default", "default", "best")] == [["1"], ["1"], ["2"]]
    write(lesson, notebook(markdown("# Another title")))
    assert roundings.outcome(lesson, "default").loose == ["3"]
    assert len(list((tmp_path / "kept").iterdir())) == 2, "what no longer holds is gone"


@pytest.mark.slow
def test_a_rounding_reaches_the_kernel_and_what_it_changes_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(roundings, "CACHE", tmp_path / "kept")
    threads = code("import os\nthreads = int(os.environ['OMP_NUM_THREADS'])\nprint(threads)")
    threads.outputs = printed("1\n")
    loose = deepcopy(threads)
    loose.update(metadata={"tags": ["nbval-ignore-output"]}, execution_count=1)
    lesson = tmp_path / "01_x.ipynb"
    claim = markdown("There is 1.0<!-- claim: 0.9 < threads < 1.1 -->.")
    ranged = markdown("It takes 3 to 4<!-- claim (range: 3..4): 0 < threads < 5 -->.")
    write(lesson, notebook(markdown("# T"), threads, loose, claim, ranged))
    found = roundings.outcome(lesson, "threads")
    [changed], [false, outside, strict] = found.loose, [message for _, message, _ in found.faults]
    assert strict.startswith("code cell 2") and "-1\n+2" in strict and changed.startswith("code cell 3")
    assert "`0.9 < threads < 1.1` is false" in false
    assert "`threads` is 2, outside of the range 3..4" in outside and found.ranges == {"threads": [2]}
    write(lesson, notebook(markdown("# T"), threads, loose, claim))
    same = roundings.outcome(lesson, "default")
    assert not (same.faults or same.loose) and same.instructions == "DEFAULT"


# ---- what a change loses


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("It is 5<!-- claim: 4.9 < x < 5.1 -->.", "Now it is 5<!-- claim: 4.95 < x < 5.05 -->.", []),
        ("It is 5<!-- claim: 4.9 < x < 5.1 -->.", "It is 5.", ["lost: It is 5. | claim: 4.9 < x < 5.1"]),
        (
            "It is 91 %<!-- claim: 0.905 < x < 0.915 -->.",
            "It is over 60 %<!-- claim (bound: any draw): x > 0.6 -->.",
            ["weaker: It is 91 %. | claim: 0.905 < x < 0.915 | is now claim (bound): x > 0.6"],
        ),
        ("It is 5<!-- claim: x == 5 -->.", "It is 5<!-- claim: 4 < x < 6 -->.", ["weaker: "]),
        ("It is 5<!-- claim: 4 < x < 6 -->.", "It is 4 to 5<!-- claim (range: 4.1..5): 4 < x < 6 -->.", ["weaker: "]),
        ("It is 6<!-- arithmetic: 2 * 3 == 6 -->.", "It is 6<!-- cited: them -->.", ["lost: "]),
    ],
)
def test_claims_that_are_lost_or_weaker_are_named(before, after, lines):
    found = list(author.lost_claims(notebook(markdown(before)), notebook(markdown(after))))
    assert len(found) == len(lines) and all(map(str.startswith, found, lines)), found
