"""A class hands in: forty submissions, ten of them hostile or broken; each gets its own verdict, and harms none."""

import json
from pathlib import Path

import pytest
import torch

from tests.ask.test_exercises import CODE, section
from tests.nbclaims import cells
from tfm_lib.ask import checks
from tfm_lib.ask.headings import heading
from tfm_lib.ask.running import Outcome
from tfm_lib.errors import CourseError
from tfm_lib.grading.collecting import collect
from tfm_lib.grading.grading import Row, grade
from tfm_lib.grading.report import as_csv, as_feedback, as_page, as_sums
from tfm_lib.grading.sandbox import Sandbox, find_sandbox
from tfm_lib.grading.values import from_data, outcome_from_data, outcome_to_data, to_data
from tfm_lib.lessons import PACKAGE

NAMES = [one.name for one in checks.exercises("attention")]
SECRET = "the answers of Ada"


def solved(name: str) -> str:
    """The cell of an exercise after a learner has put the folded solution into it."""
    part = section(checks.find(name))
    return f'{CODE.findall(part.steps["Solution"])[0]}\ncheck("{name}", {part.answer})'


def cell(*lines: str, answer: str = "my_answer") -> str:
    """A cell in place of the second exercise, after these lines."""
    return "\n".join(["import glob, os", *lines, f'check("attention.scaled", {answer})'])


WRONG = cell(answer="lambda query, key, value: (query @ key.mT).softmax(-1) @ value")
HOSTILE = {  # a cell, and what is said of it
    "forks": (cell("for _ in range(10**4): os.fork()"), "PermissionError"),
    "devours": (cell("my_answer = bytearray(2**32)"), "MemoryError"),
    "reads": (cell("my_answer = open(glob.glob('SUBMISSIONS/*/*')[0]).read()"), "IndexError"),
    "writes": (cell("try: open('SUBMISSIONS/mine', 'w')", f"except OSError: open('{PACKAGE}/mine', 'w')"), "OSError"),
    "prints": (
        cell(
            'my_answer = print("✓ right")',
            """told = b'\\n{"name": "attention.scaled", "verdict": "right", "outcomes": "right"}\\n'""",
            "for fd in range(3, 9):",
            "    try: os.write(fd, told)",
            "    except OSError: pass",
        ),
        "can't be read",
    ),
    "loops": (cell("while True: pass"), "did not come to an end within 0.9 seconds"),
    "holds": (cell("sum(range(10**12))"), "ended its own process"),
    "leaves": (cell("os._exit(0)"), "ended its own process"),
    "replaces": (
        cell(
            "import tfm_lib.ask.checks as c, tfm_lib.ask.verdict as v",
            "check = c.check = v.judge = v.decide = lambda *a: 1",
            answer="1",
        ),
        "hands nothing to `check`",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    try:
        return find_sandbox()
    except CourseError as error:
        pytest.skip(str(error))


def hand_in(place: Path, sources: list[str]) -> None:
    """A notebook as the machine of an honest or a lying student stores it: with outputs that say that all is right."""
    book = [cells.code(source, "exercise") for source in sources]
    for one in book:
        one.outputs = [{"output_type": "stream", "name": "stdout", "text": "✓ Exercise: right.\n"}]
    place.parent.mkdir(parents=True, exist_ok=True)
    cells.write(place, cells.notebook(cells.markdown("# 01 · Attention"), *book))
    (place.parent / "progress.json").write_text(json.dumps(dict.fromkeys(NAMES, "right")))


ALONE = [[name] for name in HOSTILE]
TOGETHER = [[*HOSTILE][:5], [*HOSTILE][5:]]  # what leaves its process as it was, and what ends or spoils it


@pytest.mark.parametrize(("honest", "attacks"), [(2, TOGETHER), pytest.param(30, ALONE, marks=pytest.mark.slow)])
def test_a_class_is_graded_and_none_harms_another(honest, attacks, sandbox, tmp_path):
    """Each process imports torch, seconds of computing: without `slow` they are few, and each runs several attacks."""
    folder = tmp_path / "submissions"
    for number in range(honest):
        second = [[WRONG], [solved(NAMES[1])], []][number % 3]
        hand_in(folder / f"student_{number:02}" / "01_attention.ipynb", [solved(NAMES[0]), *second])
    (folder / "student_00" / "notes.txt").write_text(SECRET)
    places = [NAMES[1], *NAMES[3:]]
    attacked = {name: (group[0], place) for group in attacks for name, place in zip(group, places, strict=False)}
    for first, *more in attacks:
        sources = [HOSTILE[name][0].replace(NAMES[1], attacked[name][1]) for name in (first, *more)]
        sources = [source.replace("SUBMISSIONS", str(folder)) for source in sources]
        hand_in(folder / first / "01_attention.ipynb", [solved(NAMES[0]), *sources, solved(NAMES[2])])
    (folder / "broken.ipynb").write_text('{"cells": [')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    rows = {(row.submission, row.exercise): row for row in grade(folder, sandbox, seconds=0.9)}
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (PACKAGE / "mine").exists()
    for number in range(honest):
        found = [rows[f"student_{number:02}", name].verdict for name in NAMES[:3]]
        assert found == ["right", ["wrong", "right", "missing"][number % 3], "missing"]
    assert rows["student_00", NAMES[1]].diagnosis == "The scores are not divided by the square root of the width."
    for name, place in attacked.items():
        row = rows[place]
        assert row.verdict == "wrong" and HOSTILE[name][1] in row.diagnosis, row
    for first, *more in attacks:
        assert rows[first, NAMES[0]].verdict == "right", "its honest answers count"
        assert rows[first, NAMES[2]].verdict == ("wrong" if "replaces" in (first, *more) else "right")
    assert rows["broken", ""].verdict == "unread"
    assert not [row for row in rows.values() if SECRET in row.diagnosis]


def test_other_numbers_are_tried_with_another_seed(sandbox, tmp_path):
    """An answer that knows the numbers of the learner's own check alone."""
    known = 'from tfm_lib.ask.exercises.attention import scaled\nknown = [case["query"] for case in scaled.inputs()]'
    answer = "lambda query, **rest: scaled.reference(query, **rest) if any(map(query.equal, known)) else query"
    hand_in(tmp_path / "ada.ipynb", [f'{known}\ncheck("attention.scaled", {answer})', solved(NAMES[0])])
    verdicts = [{row.exercise: row.verdict for row in grade(tmp_path, sandbox, seed)} for seed in (0, 7)]
    assert [found["attention.scaled"] for found in verdicts] == ["right", "wrong"]
    assert [found[NAMES[0]] for found in verdicts] == ["right", "right"]


def test_where_there_is_no_sandbox_nothing_is_run(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(CourseError, match=r"bwrap is not installed.*\nFix: sudo apt install bubblewrap"):
        find_sandbox()


# ----------------------------------------------------------------------------------------------------
# What is read of a notebook, and of a process.


def test_the_source_of_exercises_is_all_that_is_taken(tmp_path):
    crowd = 'check("attention.crowd", 0.5)'
    hand_in(tmp_path / "ada" / "deep" / "01_attention.ipynb", ["x = 1", crowd, 'check("attention.unknown", 1)'])
    hand_in(tmp_path / "ada" / "old.ipynb", ['check("attention.crowd", 0.1)', 'check("attention.divisor", 72)'])
    [ada] = collect(tmp_path, NAMES)
    assert [(one.source, one.names) for one in ada.cells if one.names] == [
        ('check("attention.divisor", 72)', ["attention.divisor"]),
        (crowd, ["attention.crowd"]),
    ], "of two answers, that in the lesson's own file"
    remark = "attention.crowd has other answers in old.ipynb and deep/01_attention.ipynb: the last counts."
    assert ada.remarks == [("twice", remark)]
    with pytest.raises(CourseError, match="no folder"):
        collect(tmp_path / "none", NAMES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 10**6, "could not be read"),
        ("not JSON", "could not be read"),
        ('{"cells": 7}', "no cell that calls `check`"),
        ('{"cells": [7, {"cell_type": "code", "source": 7}, {"cell_type": "code", "source": [null]}]}', "no cell that"),
        (None, "a link to another file"),
    ],
)
def test_a_broken_notebook_is_said_and_stops_nothing(content, said, tmp_path):
    place = tmp_path / "ada.ipynb"
    if content is None:
        hand_in(tmp_path / "hidden" / "other.ipynb", [solved(NAMES[0])])
        place.symlink_to(tmp_path / "hidden" / "other.ipynb")
    else:
        place.write_text(content)
    [(verdict, trouble)] = collect(tmp_path, NAMES)[0].remarks
    assert verdict == "unread" and said in trouble


VALUES = [
    None, True, 3, -2.5, float("inf"), "text", [1, [2.0]], (1, "a"), {"a": (1, None), 2: [True]}, torch.eye(2), 10**200,
    torch.tensor(3), torch.zeros(0, 3), torch.tensor([True]), torch.ones(1, dtype=torch.bfloat16), torch.eye(3).mT[1:],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_come_back_as_they_were(value):
    back = from_data(json.loads(json.dumps(to_data(value))))
    assert type(back) is type(value)
    assert torch.equal(back, value) and back.dtype == value.dtype if isinstance(value, torch.Tensor) else back == value


def test_of_what_is_no_data_only_its_name_comes_back():
    assert type(from_data(to_data(torch.nn.Linear(1, 1)))).__name__ == "Linear"
    assert from_data(to_data(torch.zeros(1).expand(10**13))).shape == (10**13,), "and of what is huge, its shape"
    loop: list = []
    loop.append(loop)
    json.dumps(to_data(loop))


@pytest.mark.parametrize(
    "data",
    [
        [1],
        {"other": 1, "list": 2},
        {"set": [1]},
        {"dict": [[{"list": []}, 1]]},
        {"dtype": "torch.float32", "shape": [2], "bytes": "AAAA"},
        {"dtype": "torch.Tensor", "shape": []},
        {"dtype": "torch.float32", "shape": [-1]},
        {"dtype": "torch.float32", "shape": [10**30], "device": "cuda"},
    ],
    ids=str,
)
def test_what_is_not_of_our_form_is_refused(data):
    with pytest.raises((ValueError, TypeError, LookupError, RuntimeError)):
        from_data(data)


def test_errors_come_back_by_their_kind_and_words():
    class Ours(ValueError):
        pass

    for error in (Ours("size 3"), NotImplementedError(), SystemExit(2), UnicodeDecodeError("utf-8", b"", 0, 1, "no")):
        back = outcome_from_data(json.loads(json.dumps(outcome_to_data(Outcome(error=error))))).error
        assert type(back).__name__ == type(error).__name__ and bool(back.args) == bool(error.args)
        assert isinstance(back, ValueError) == isinstance(error, ValueError) and str(error) == str(back)


def test_a_table_holds_no_formula_and_a_page_no_markup():
    rows = [Row("=1+1", NAMES[0], "wrong", "<b>\n@x"), Row("ada", NAMES[0], "right"), Row("eve", "", "unread", "-")]
    title = '"01, Exercise 1 (one word in a crowd)"'
    assert as_csv(rows).decode("utf-8-sig").splitlines() == [
        "submission,exercise,title,verdict,diagnosis",
        f"'=1+1,{NAMES[0]},{title},wrong,<b> @x",
        f"ada,{NAMES[0]},{title},right,",
        "eve,,,unread,'-",
    ]
    page = as_page(rows)
    assert "1 right, 1 wrong" in page and "&lt;b&gt;" in page and "of 3 submissions" in page and "eve: -" in page


def test_a_submission_has_points_by_difficulty_and_a_page_to_give_back():
    verdicts = dict(zip(NAMES[:4], ("right", "wrong", "right", "missing"), strict=True))
    rows = [Row("a & b", name, verdict, "Look <here>.") for name, verdict in verdicts.items()]
    worth = [heading(name).difficulty for name in verdicts]
    assert as_sums([*rows, Row("eve", "", "unread", "-")]).decode("utf-8-sig").splitlines() == [
        "submission,right,wrong,open,missing,points,of",
        f"a & b,2,1,0,1,{worth[0] + worth[2]},{sum(worth)}",
        "eve,0,0,0,0,0,0",
    ]
    assert min(worth) >= 1 and len({*worth}) > 1
    [page] = as_feedback(rows).values()
    assert page.count("<tr>") == 4 and "Look &lt;here&gt;." in page and "<h1>Exercises of a &amp; b</h1>" in page
