"""The guarantee of the exercises: untouched is not attempted, the folded solution is right, each mistake is diagnosed.

What a learner copies out of the notebook is what is run here, cell by cell, in the order of the lesson.
"""

import ast
import contextlib
import copy
import functools
import io
import itertools
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from tests.nbclaims import cells
from tests.show.test_plots import contrast
from tests.times import HUNG
from tfm_lib.ask import checks, progress_file, running, verdict
from tfm_lib.ask.comparing import difference
from tfm_lib.ask.exercise import Exercise
from tfm_lib.ask.exercise import exercise as make_exercise
from tfm_lib.ask.headings import heading
from tfm_lib.ask.progress import progress
from tfm_lib.ask.telling import COLORS, Piece, tell
from tfm_lib.ask.verdict import Verdict, judge
from tfm_lib.attention import attention
from tfm_lib.commands.lab import without_solutions

read = functools.cache(cells.read)
LESSONS = Path(__file__).resolve().parents[2] / "notebooks"
EXERCISES = [exercise for topic in checks.TOPICS for exercise in checks.exercises(topic)]
STEP = re.compile(r"<details><summary>([^<]+)</summary>\n\n(.+?)\n\n</details>", re.DOTALL)
EXAMPLE = re.compile(r"For example, (.+?) gives? (.+)\.$", re.MULTILINE)
IMPORT = "from tfm_lib.ask.checks import check\n"
CODE = re.compile(r"^```python\n(.+?)^```$", re.DOTALL | re.MULTILINE)


def lesson(topic: str) -> Path:
    return LESSONS / f"{checks.TOPICS[topic]}_{topic}.ipynb"


class Section(NamedTuple):
    """What a lesson shows of an exercise."""

    text: str
    code: str
    answer: str  # the name that it hands to `check`
    hints: str

    @property
    def steps(self) -> dict[str, str]:
        return dict(STEP.findall(self.hints))


@functools.cache
def sections(topic: str) -> tuple[str, dict[str, Section]]:
    """The imports of a lesson's exercises, and what the lesson shows of each exercise, by name."""
    tagged = [(tag, cell) for cell in read(lesson(topic)).cells for tag in cells.tags(cell)]
    parts = [(tag, cell) for tag, cell in tagged if tag in ("exercises", "exercise", "solution")]
    assert [tag for tag, _ in parts] == ["exercises", *["exercise", "exercise", "solution"] * ((len(parts) - 1) // 3)]
    found = {}
    rest = iter([cell for _, cell in parts[1:]])
    for text, code, solution in zip(rest, rest, rest, strict=True):
        call = ast.parse(code.source).body[-1]
        assert isinstance(call, ast.Expr) and ast.unparse(call.value.func) == "check", f"{code.source!r}: check last"
        name, answer = call.value.args
        found[ast.literal_eval(name)] = Section(text.source, code.source, ast.unparse(answer), solution.source)
    return parts[0][1].source, found


def section(exercise: Exercise) -> Section:
    return sections(topic_of(exercise))[1][exercise.name]


def topic_of(exercise: Exercise) -> str:
    return exercise.name.partition(".")[0]


@functools.cache
def untouched(name: str) -> tuple[dict, object]:
    """The names after the untouched cell has run, alone as after a restart, and the answer that it hands to `check`."""
    answers: list = []
    namespace: dict = {"__name__": "__main__", "check": lambda name, answer: answers.append(answer)}
    exec(section(checks.find(name)).code.replace(IMPORT, ""), namespace)
    return namespace, answers[-1]


def solution(exercise: Exercise) -> object:
    """What the learner hands to `check` after the folded solution took the place of the untouched cell."""
    namespace, _ = untouched(exercise.name)
    [source] = CODE.findall(section(exercise).steps["Solution"])
    exec(sections(topic_of(exercise))[0], namespace)
    exec(source, namespace)
    return namespace[section(exercise).answer]


each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)


@functools.cache
def ours(name: str, of_ours=verdict._of_ours) -> tuple[list, Callable]:
    """The inputs of an exercise, and what a reference or mistake gives for one of them, which is computed once."""
    exercise = checks.find(name)
    inputs = exercise.inputs()
    place = {id(case): place for place, case in enumerate(inputs)}
    once = functools.cache(lambda function, place: of_ours(exercise, function, inputs[place]))
    return inputs, lambda _, function, case: once(function, place[id(case)])


@pytest.fixture
def ours_once(exercise, monkeypatch):
    """The reference and the mistakes are run once, however many answers are compared with them."""
    inputs, once = ours(exercise.name)
    monkeypatch.setattr(Exercise, "inputs", lambda _: inputs)
    monkeypatch.setattr(verdict, "_of_ours", once)
    judge(exercise, (lambda *args, **names: None) if exercise.cases else None)  # before any answer spoils something


# ----------------------------------------------------------------------------------------------------
# In the lessons.


@pytest.mark.parametrize("topic", checks.TOPICS)
def test_lesson_and_checks_hold_the_same_exercises_in_the_same_order(topic):
    assert list(sections(topic)[1]) == [exercise.name for exercise in checks.exercises(topic)]
    assert all(part.code.count(IMPORT) == 1 for part in sections(topic)[1].values()), "a cell works after a restart"


@each_exercise
def test_the_lesson_says_what_the_check_knows(exercise):
    number = list(sections(topic_of(exercise))[1]).index(exercise.name) + 1
    title, label, *task = section(exercise).text.split("\n\n")
    called = heading(exercise.name)
    assert title == f"### Exercise {number}: {called.title}" and called.number == f"Exercise {number}"
    [cell] = [cell for cell in read(LESSONS / called.file).cells if called.link == f"#cell-id={cell.id}"]
    assert cell.source == section(exercise).text, "where the link leads"
    assert label == f"*Difficulty {exercise.difficulty} of 5 · {exercise.minutes} minutes · trains {exercise.trains}*"
    assert task, "the task itself is missing"
    assert 1 <= exercise.difficulty <= 5 and exercise.minutes > 0 and exercise.right


@each_exercise
def test_hints_come_in_steps_and_end_in_the_solution(exercise):
    part = section(exercise)
    assert list(part.steps) == ["A nudge", "A bigger nudge", "Solution"]
    assert STEP.sub("", part.hints).strip() == ""
    after = CODE.sub("", part.steps["Solution"]).strip()
    assert len(re.findall(r"[.?!](?:\s|$)", after)) >= 2, "two sentences on how one would find it"


# ----------------------------------------------------------------------------------------------------
# The guarantee.


@each_exercise
def test_an_untouched_cell_is_not_attempted(exercise):
    assert judge(exercise, untouched(exercise.name)[1]) == Verdict(exercise.name, "open")


@each_exercise
def test_the_folded_solution_is_right(exercise, ours_once):
    assert judge(exercise, solution(exercise)) == Verdict(exercise.name, "right", exercise.right)


@each_exercise
def test_an_exercise_knows_at_least_three_mistakes(exercise):
    words = [" ".join(mistake.__doc__.split()) for mistake in exercise.mistakes]
    assert len(words) == len(set(words)) >= 3
    assert all(re.fullmatch(r"[A-Z`].+[.?]", word) for word in words)


@each_exercise
def test_a_reference_raises_nothing_but_a_refusal(exercise):
    """Otherwise every answer that raises the same would pass."""
    if exercise.cases:
        errors = [running.outcome(exercise, exercise.reference, inputs).error for inputs in exercise.inputs()]
        assert not all(errors) and {type(error) for error in errors} <= {type(None), ValueError, TypeError}, errors


def values_in(text: str) -> list:
    """The values in code and formulas and the whole numbers of a sentence, in their order."""
    found = re.findall(r"[`$](?:\w = )?([\[(\d][^`$]*)[`$]|\b(\d+|three)\b", text)
    return [ast.literal_eval(code or number.replace("three", "3")) for code, number in found]


def as_if(value: object, like: object) -> object:
    """A value of a sentence in the form of another one: where that is a tensor, one with as many axes."""
    if not isinstance(like, torch.Tensor):
        return value
    tensor = torch.tensor(value, dtype=like.dtype)
    return tensor[(None,) * (like.dim() - tensor.dim())]


def test_an_example_in_a_task_is_what_the_reference_gives():
    tried = 0
    for exercise in EXERCISES:
        for given, gives in EXAMPLE.findall(section(exercise).text):
            like = exercise.inputs()[0]
            inputs = {name: as_if(value, like[name]) for name, value in zip(like, values_in(given), strict=True)}
            came = exercise.call(exercise.reference, **inputs)
            came = came if isinstance(came, tuple) else (came,)
            wanted = tuple(as_if(value, x) for value, x in zip(values_in(gives), came, strict=True))
            wrong = difference(wanted, came, exercise.tolerance)
            assert wrong is None, f"{exercise.name}: {given} gives {came}, and not {gives}"
            tried += 1
    assert tried >= 5, "the examples are written in another way; read them so"


@each_exercise
def test_each_mistake_gets_its_own_diagnosis(exercise, ours_once):
    wanted = {mistake.__name__: ("wrong", " ".join(mistake.__doc__.split())) for mistake in exercise.mistakes}
    verdicts = {m.__name__: judge(exercise, m if exercise.cases else m()) for m in exercise.mistakes}
    assert {name: (found.state, found.why) for name, found in verdicts.items()} == wanted


@each_exercise
def test_lessons_for_students_keep_all_but_the_solution(exercise, student_lessons):
    # Where links lead is written anew in copies.
    unlinked = functools.partial(re.sub, r"\]\([^)\s]*#[^)\s]+\)", "]()")
    copied = read(student_lessons / lesson(topic_of(exercise)).name)
    sources, part = [unlinked(cell.source) for cell in copied.cells], section(exercise)
    nudges, _, _ = part.hints.partition("\n\n<details><summary>Solution</summary>")
    assert {unlinked(source) for source in (part.text, part.code, nudges)} <= {*sources}
    assert unlinked(part.hints) not in sources


@pytest.fixture(scope="module")
def student_lessons(tmp_path_factory):
    target = tmp_path_factory.mktemp("student")
    assert without_solutions(LESSONS, target) == len(EXERCISES), "every lesson that has exercises is known"
    return target


# ----------------------------------------------------------------------------------------------------
# Progress.


def test_progress_is_kept_and_never_lost(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFM_NO_PROGRESS", raising=False)
    first, second = EXERCISES[0].name, EXERCISES[1].name
    checks.check(first, ...)
    assert list(tmp_path.iterdir()) == []
    checks.check(first, solution(EXERCISES[0]))
    checks.check(second, "wrong")
    checks.check(first, "wrong by now")
    assert json.loads(Path("progress.json").read_text()) == {first: "right", second: "wrong"}
    capsys.readouterr()
    progress()
    shown = capsys.readouterr().out
    assert f"  ✓ {heading(first)} " in shown and f"  ✗ {heading(second)} " in shown
    left = sum(e.minutes for e in EXERCISES[1:])
    assert f"\nall lessons: 1 solved, {len(EXERCISES) - 1} open, {left:,} minutes left\n" in shown
    assert max(map(len, shown.splitlines())) <= 88, "no lesson shows a longer line"
    listed = [line for line in shown.splitlines() if line.startswith("  ")]
    assert len(listed) == len(checks.exercises("attention")), "only the lesson that was begun is shown in full"


LINES = [[Piece("✗ ", "wrong"), Piece("a <b>", link="02_b.ipynb#cell-id=x"), ": no."], ["  why"]]


def test_in_a_notebook_what_is_told_has_colors_and_links(monkeypatch):
    bundles = []
    monkeypatch.setattr("tfm_lib.ask.telling._in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    tell(LINES)
    monkeypatch.setitem(sys.modules, "google.colab", None)  # opens no file beside the notebook
    tell(LINES)
    assert bundles[0]["text/plain"] == "✗ a <b>: no.\n  why"
    words = '<b style="color: #d1453b">✗ </b><a href="02_b.ipynb#cell-id=x">a &lt;b&gt;</a>: no.\n  why'
    assert words in bundles[0]["text/html"] and "</b>a &lt;b&gt;: no." in bundles[1]["text/html"]


def test_a_terminal_has_colors_and_a_file_has_none(monkeypatch, capsys):
    tell(LINES)
    assert capsys.readouterr().out == "✗ a <b>: no.\n  why\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tell(LINES)
    assert capsys.readouterr().out == "\x1b[31m✗ \x1b[0ma <b>: no.\n  why\n"


@pytest.mark.parametrize("background", [1.0, 0.0])
def test_signs_are_read_on_white_and_on_black(background):
    for color, _ in COLORS.values():
        assert contrast(color, (background,) * 3) >= 4, color


def test_the_test_run_keeps_no_progress():
    assert progress_file.path() is None


def test_an_unknown_name_is_said_and_not_raised(capsys):
    checks.check("attention.scald", 1)
    assert capsys.readouterr().out == "There is no exercise 'attention.scald'. Did you mean 'attention.scaled'?\n"


# ----------------------------------------------------------------------------------------------------
# The engine, on an exercise of its own.


@make_exercise(
    right="Yes.",
    difficulty=1,
    minutes=1,
    trains="the engine",
    cases=lambda draw: iter([{"x": torch.tensor([1.0, -2.0])}, {"x": draw(2, 3)}, {"x": None}]),
    without=("relu",),
    most_calls=1,
)
def positive(x):
    if x is None:
        raise ValueError("x is None")
    return x.clamp(min=0)


def refuses(x):
    if x is None:
        raise ValueError


LINEAR = torch.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (lambda x: refuses(x) or x.clamp_(min=0), "wrong", "changes its input `x`"),
        (lambda x: refuses(x) or torch.relu(x), "wrong", "it comes from `relu`, and the task is without it"),
        (lambda x: refuses(x) or (x + x.abs()) / 2, "wrong", "3 calls of torch (abs, add, div), and 1 are enough"),
        (lambda x: print("seen", x) or refuses(x) or x.clamp(min=0), "right", "Yes."),
        (lambda x: refuses(x), "wrong", "is there a `return`?"),
        (lambda x: x.clamp(min=0) if x is not None else 0, "wrong", "should refuse this input with a ValueError"),
        (lambda x: x.clamp(min=0), "wrong", "It should refuse this input with a ValueError, and raised AttributeError"),
        (lambda x: x.no_such_thing, "wrong", "It raised AttributeError"),
        (lambda y: refuses(y) or y.clamp(min=0), "right", "Yes."),
        (lambda x: refuses(x) or x.clone().relu_(), "wrong", "it comes from `relu_`, and the task is without it"),
        (lambda x: refuses(x) or (len(x) and x.clamp(min=0)), "right", "Yes."),
        (lambda x: refuses(x) or x.clamp(min=0) * 1.001, "wrong", "Some values differ."),
        (lambda x: refuses(x) or x.clamp(min=0)[None], "wrong", "The shape is (1, 2), and should be (2,)."),
        (lambda x: refuses(x) or x.clamp(min=0).double(), "wrong", "type float64, and should be float32"),
        (lambda x: refuses(x) or x.clamp(min=0) / 0, "wrong", "There is nan in it"),
        (lambda x: refuses(x) or x.clamp(min=0).tolist(), "wrong", "is a list, and a tensor is wanted"),
        (torch.zeros(2), "wrong", "hand over its name, without parentheses"),
    ],
)
def test_the_engine_says_what_is_wrong(answer, state, words):
    found = judge(positive, answer)
    assert found.state == state and words in found.why
    prints = callable(answer) and "print" in answer.__code__.co_names
    assert ("printed   seen" in str(found)) == prints


def test_a_mistake_that_runs_on_the_first_input_alone_is_named_and_matrices_stand_row_by_row():
    plain = judge(checks.find("attention.scaled"), lambda q, k, v: (q @ k / q.shape[-1] ** 0.5).softmax(-1) @ v)
    assert plain.why.startswith("You did not transpose the keys.")
    assert "    key = [[-2.2, 0.6],\n                     [-1.1, -1.4]]  (2, 2)" in str(plain)


@pytest.mark.parametrize(
    ("expected", "came", "agree"),
    [
        (16000, 16001, False),
        (16000, 16000.0, True),
        (1e-6, 0.0, False),
        (0.0, 1e-9, True),
        (torch.tensor([1e-6, 2e-6]), torch.zeros(2), False),
        (torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1e-7]), True),
        (torch.zeros(2), torch.full((2,), 1e-7), True),
        (torch.tensor([torch.nan, 1.0]), torch.tensor([torch.nan, 1.0]), True),
        ("Encoder", " encoder", True),
        ((1, [2.0]), [1, (2.0,)], True),
        (LINEAR, torch.nn.Linear(2, 2), False),
        (LINEAR, copy.deepcopy(LINEAR), True),
    ],
)
def test_how_near_is_near_enough(expected, came, agree):
    assert (difference(expected, came, 1e-4) is None) == agree


@pytest.mark.parametrize(
    ("expected", "came", "shown"),
    [
        ((0, torch.ones(2)), (0, torch.zeros(2)), ("entry 1: [1, 1]  (2,)", "entry 1: [0, 0]  (2,)")),
        ({"a": (1, torch.ones(1))}, {"a": (1, torch.zeros(1))}, ("a: entry 1: [1]  (1,)", "a: entry 1: [0]  (1,)")),
        ((1, 2), (1, 3), ("(1, 2)", "(1, 3)")),
        (torch.zeros(200), torch.eye(200)[150], ("at [150]: 0", "at [150]: 1")),
        (torch.ones(1), torch.full((1,), 1.0002), ("[1]  (1,)", "[1.00020003]  (1,)")),
    ],
)
def test_what_differs_is_what_is_shown(expected, came, shown):
    outcomes = running.Outcome(expected), running.Outcome(came)
    assert verdict._beside(*outcomes, 1e-4) == shown


def test_a_verdict_has_lines_that_fit_and_keep_their_columns():
    found = judge(positive, lambda x: refuses(x) or x.repeat(1, 2) if x is None or x.dim() > 1 else x.clamp(min=0))
    lines = str(found).splitlines()
    assert lines[0] == "✗ test_exercises.positive: not right yet." and lines[1] == f"  {found.why}"
    assert all(len(line) <= 88 for line in lines)
    assert all(any(line.startswith(f"    {word:10}") for line in lines) for word in ("for", "expected", "came"))


def test_an_error_is_told_by_the_learners_own_line():
    def broken_inside_the_package(x):
        refuses(x)
        return attention(x, x[:1, :1], x)

    found = judge(positive, broken_inside_the_package)
    assert "in `return attention(x, x[:1, :1], x)`" in found.why


def test_an_error_is_matched_by_its_words_and_not_by_its_type_alone():
    def of(error: Exception) -> running.Outcome:
        return running.Outcome(error=error)

    assert verdict._alike(of(ValueError("size 3, not 4")), of(ValueError("size 30, not 5")), 0.0)
    assert not verdict._alike(of(ValueError("size 3, not 4")), of(ValueError("no such axis")), 0.0)
    assert not verdict._alike(of(ValueError("x")), of(TypeError("x")), 0.0)


@pytest.fixture(params=["thread", "process"])
def each_clock(request, monkeypatch):
    """Linux has a clock for a single thread; the process's stands in for it elsewhere."""
    if request.param == "process":
        monkeypatch.delattr(time, "pthread_getcpuclockid", raising=False)


@pytest.mark.parametrize("work", [1, 3])
def test_an_endless_loop_ends_after_its_seconds_of_computing(each_clock, work, monkeypatch):
    monkeypatch.setattr(running, "SECONDS", 0.2)
    before = set(threading.enumerate())  # other tests leave some, such as the monitor of a progress bar
    started = time.process_time()
    found = judge(replace(positive, work=work), loops)
    assert found.state == "wrong" and f"within {0.2 * work:g} seconds of computing" in found.why
    assert time.process_time() - started > 0.19 * work, "it had its seconds"
    for thread in set(threading.enumerate()) - before:
        thread.join(HUNG)
        assert not thread.is_alive(), "the loop has ended"


def test_an_answer_that_only_waits_ends_by_the_clock_on_the_wall(each_clock, monkeypatch):
    monkeypatch.setattr(running, "WAITING", 0.2)
    found = judge(positive, sleeps)
    assert found.state == "wrong" and "within 0.2 seconds: does it sleep" in found.why


def test_a_machine_with_other_work_fails_no_right_answer(monkeypatch):
    monkeypatch.setattr(running, "SECONDS", 0.2)
    done = threading.Event()
    threads = [threading.Thread(target=lambda: [None for _ in iter(done.is_set, True)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    try:
        found = judge(positive, lambda x: refuses(x) or computes(0.02) or x.clamp(min=0))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert found.state == "right" and time.monotonic() - began > running.SECONDS, found


# ----------------------------------------------------------------------------------------------------
# Wild answers: nothing crashes, nothing hangs, nothing passes.


class Hostile:
    """Says no to whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None


def loops(*args, **kwargs):
    while True:
        pass


def sleeps(*args, **kwargs):
    while True:
        time.sleep(0.01)


def computes(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def stubborn(*args, **kwargs):
    while True:
        with contextlib.suppress(Exception):
            raise ValueError


def spoils(*args, **kwargs):
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            value.zero_()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)


VALUES = {
    "none": lambda: None,
    "text": lambda: "attention",
    "nothing in it": lambda: torch.empty(0),
    "nan": lambda: float("nan"),
    "infinite": lambda: torch.full((2, 2), torch.inf),
    "huge": lambda: torch.zeros(1).expand(10**13),
    "huge number": lambda: 10**5000,
    "meta": lambda: torch.empty(2, 3, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "complex": lambda: 1j,
    "nested": lambda: (loop := []).append(loop) or loop,
    "hostile": Hostile,
    "module": lambda: torch.nn.Linear(2, 2),
}
ACTIONS = {
    "raises": lambda *a, **k: 1 / 0,
    "exits": lambda *a, **k: exit(),
    "interrupts": lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt),
    "wrong arguments": lambda only: only,
    "generator": lambda *a, **k: (number for number in itertools.count()),
    "recursion": lambda *a, **k: ACTIONS["recursion"](),
    "loops": loops,
    "stubborn": stubborn,
    "spoils": spoils,
    "prints": lambda *a, **k: print("word " * 10**5),
}
WILD = {name: lambda *a, make=make, **k: make() for name, make in VALUES.items()} | ACTIONS


@pytest.mark.parametrize("count", [3, pytest.param(len(WILD), marks=pytest.mark.slow)])
@each_exercise
def test_wild_answers_do_no_harm(exercise, ours_once, count, monkeypatch):
    def state() -> tuple:
        return torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.get_num_threads()

    monkeypatch.setattr(running, "SECONDS", 0.1)
    answers = [VALUES[name]() if exercise.cases is None and name in VALUES else WILD[name] for name in WILD]
    start, before = 3 * EXERCISES.index(exercise), state()
    for answer in itertools.islice(itertools.cycle(answers), start, start + count):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            found = judge(exercise, answer)
        assert found.state == "wrong" and found.why and str(found).startswith("✗"), found
        assert len(str(found)) < 5000 and printed.getvalue() == "" and state() == before


def test_a_progress_file_that_cannot_be_read_stops_no_exercise(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress_file, "path", lambda name="progress.json": tmp_path / name)
    (tmp_path / "progress.json").mkdir()
    checks.check("attention.scaled", None)
    checks.check("attention.scaled", lambda *arguments, **names: 1 / 0)
    assert "Your progress could not be kept" in capsys.readouterr().out
    progress()
    assert "could not be read, so all is shown as open" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"], "no part is left behind"
