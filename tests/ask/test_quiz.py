"""The quiz in Python: what is asked, what is kept of the answers, and that nothing live is stored."""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import ipywidgets
import nbformat
import pytest

from tests import ROOT, UV
from tests.ask.test_questions import CHOSEN, COURSE, GOOD, write_lesson
from tests.lessons import execution, rules
from tests.nbclaims import cells, outputs
from tfm_lib.ask import progress_file
from tfm_lib.ask import quiz as module
from tfm_lib.ask.quiz import filled_in, mathml, quiz, quiz_data
from tfm_lib.show.figure import Figure
from tfm_lib.show.live import ON_PAGES, VIEW, Live, caption, store_static_forms


@pytest.fixture
def lessons(tmp_path, monkeypatch) -> Path:
    """Two lessons, of which 01_x asks "Is $a < b$ in `x$y`?", "Second?", "Third?" and, on a second reading, "Fourth?".

    The right choice is always B, and those that open the lesson are all but "Second?".
    """
    asked = [CHOSEN.replace("Is $a < b$ in `x$y`?", text) for text in ("Second?", "Third?", "Fourth?")]
    write_lesson(tmp_path, CHOSEN, *asked[:2], "## Second reading", asked[2], opening=(0, 2))
    write_lesson(tmp_path, GOOD, name="02_y", title="# 02 · Why")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(module, "LESSONS", [SimpleNamespace(number=name[:2], name=name) for name in ("01_x", "02_y")])
    return tmp_path


# ----------------------------------------------------------------------------------------------------
# What is asked. How it is answered, tests/pages/browser/test_quiz.py tries.


def asked(live: Live) -> list[str]:
    return [question["question"] for question in live.widget.data["questions"]]


def test_each_quiz_asks_its_part_of_the_questions_in_the_order_of_the_lesson(lessons):
    quizzes = [quiz("01_x"), quiz("01_x", opening=True), quiz("01_x", deeper=True)]
    first, *rest = asked(quizzes[0])
    assert first.startswith("Is <math") and first.endswith("in <code>x$y</code>?") and rest == ["Second?", "Third?"]
    assert [asked(live) for live in quizzes[1:]] == [[first, "Third?"], ["Fourth?"]]
    assert [live.widget.data["name"] for live in quizzes] == ["01_x spine", "01_x opening", "01_x deeper"]


def test_every_choice_has_its_reason_and_formulas_are_mathml(lessons):
    question = quiz("01_x").widget.data["questions"][0]
    comments = {choice["letter"]: choice["comment"] for choice in question["choices"]}
    less, more = (mathml(sign, False) for sign in "<>")
    assert "&lt;</mo>" in less and question["right"] == "B"
    assert comments["A"] == f"<p><strong>✗ A is not it.</strong> This confuses {less} and {more}.</p>"
    assert comments["C"] == "<p><strong>✗ C is not it.</strong> It is often.</p>"
    assert (
        comments["B"].startswith("<p><strong>✓ B is right.</strong> It is.</p>") and "<p>Really.</p>" in comments["B"]
    )
    squared = "<msup><mi>a</mi><mn>2</mn></msup>"
    assert [choice["text"].count(squared) for choice in question["choices"]] == [0, 1, 0]
    assert question["choices"][1]["text"].startswith("yes, by <math")


def test_a_formula_stands_in_its_line_or_in_one_of_its_own():
    assert mathml("x", False).startswith("<math><mi>x") and 'display="block"' in mathml("x", True)


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_the_formulas_of_a_real_lesson_are_all_known(lesson):
    for part in ("spine", "opening", *["deeper"] * bool(lesson.deeper)):
        data = quiz_data(lesson.name, part)
        texts = [text for one in data["questions"] for text in (one["question"], *map(str, one["choices"]))]
        formulas = re.findall("<math.*?</math>", "".join(texts))
        drawn = "".join(re.findall(r"<m[inot]\w*[^>]*>([^<]+)<", "".join(formulas)))
        assert not set(drawn) & set("\\${}_^"), drawn


def test_who_needs_not_read_goes_on_to_the_next_lesson_or_from_the_last_one_nowhere(lessons):
    write_lesson(lessons, CHOSEN, name="02_y", title="# 02 · Why", opening=(0,))
    assert quiz_data("01_x", "opening")["onward"] == "go on to lesson 02"
    assert quiz_data("02_y", "opening")["onward"] == "you may skip this lesson"
    assert quiz_data("02_y", "spine")["onward"] is None


def test_what_cannot_be_asked_is_refused(lessons):
    for lesson, part, message in (
        ("01", {}, r"no lesson '01'; there are 01_x, 02_y$"),
        ("02_y", {}, "02_y has no questions with choices"),
        ("02_y", {"opening": True}, "02_y has no opening questions with choices.*'question' and 'opening'"),
        ("02_y", {"deeper": True}, "02_y has no questions of a second reading"),
    ):
        with pytest.raises(ValueError, match=message):
            quiz(lesson, **part)
    for lesson in lessons.iterdir():
        lesson.unlink()
    with pytest.raises(ValueError, match=f"no lesson '01_x'; there are none in {lessons}"):
        quiz("01_x")


# ----------------------------------------------------------------------------------------------------
# What is kept.


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where a notebook runs whose reader's answers are kept."""
    monkeypatch.delenv("TFM_NO_PROGRESS", raising=False)
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def keys(live: Live) -> list[str]:
    return [question["key"] for question in live.widget.data["questions"]]


def test_what_was_chosen_is_there_when_the_cell_is_run_again(lessons, folder):
    live = quiz("01_x")
    assert live.widget.answers == {} and list(folder.iterdir()) == []
    live.widget.answers = {keys(live)[0]: "A"}  # as the browser sets it
    live.widget.answers = {keys(live)[0]: "AB", keys(live)[2]: "B"}
    assert quiz("01_x").widget.answers == {keys(live)[0]: "AB", keys(live)[2]: "B"}
    assert quiz("01_x", opening=True).widget.answers == {}, "the same question is asked again, after the lesson"
    quiz("01_x", deeper=True).widget.answers = {"another": "C"}
    live.widget.answers = {}  # begun anew
    assert json.loads((folder / "quizzes.json").read_text()) == {"01_x spine": {}, "01_x deeper": {"another": "C"}}
    assert [path.name for path in folder.iterdir()] == ["quizzes.json"]


def test_a_question_is_known_by_its_words_and_choices(lessons):
    before = keys(quiz("01_x"))
    reworded = CHOSEN.replace("Is $a < b$ in `x$y`?", "Second?").replace("Really.", "Indeed.")
    swapped = CHOSEN.replace("Is $a < b$ in `x$y`?", "Third?").replace("A: no", "A: never").replace("C: never", "C: no")
    write_lesson(lessons, CHOSEN.replace("Is $a", "Was $a"), reworded, swapped)
    first, second, third = keys(quiz("01_x"))
    assert second == before[1], "another reason is the same question"
    assert {first, third} & {*before} == set()


def test_nothing_is_kept_where_nothing_is_to_be_kept(lessons, folder, monkeypatch):
    monkeypatch.setenv("TFM_NO_PROGRESS", "1")
    quiz("01_x").widget.answers = {"some": "A"}
    assert quiz("01_x").widget.answers == {} and list(folder.iterdir()) == []


@pytest.mark.parametrize("broken", ['{"cut', "[]", '{"01_x spine": "AB"}', '{"01_x spine": {"some": 1}}', '"\\ud800"'])
def test_a_file_of_answers_that_cannot_be_read_is_set_aside(lessons, folder, capsys, broken):
    (folder / "quizzes.json").write_text(broken)
    live = quiz("01_x")
    assert live.widget.answers == {}
    assert "kept as quizzes.unreadable1.json" in capsys.readouterr().out
    live.widget.answers = {"some": "A"}
    assert (folder / "quizzes.unreadable1.json").read_text() == broken
    assert quiz("01_x").widget.answers == {"some": "A"}


def test_a_file_of_answers_that_cannot_be_opened_stops_no_quiz_and_is_left_as_it_is(lessons, folder, capsys):
    (folder / "quizzes.json").mkdir()
    live = quiz("01_x")
    assert "could not be read, so all questions are asked anew" in capsys.readouterr().out
    live.widget.answers = {"some": "A"}
    assert "could not be kept" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["quizzes.json"]


def test_a_disk_that_is_full_loses_no_answer(lessons, folder, monkeypatch, capsys):
    live = quiz("01_x")
    live.widget.answers = {"some": "A"}
    monkeypatch.setattr(progress_file, "write_whole", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    live.widget.answers = {"some": "AB"}
    assert "could not be kept: [Errno 28] No space left" in capsys.readouterr().out
    assert quiz("01_x").widget.answers == {"some": "A"}


def test_progress_counts_the_questions_that_were_answered(folder, capsys):
    from tfm_lib.ask.progress import progress

    progress()
    before = capsys.readouterr().out
    assert "question" not in before and "00 start here" not in before
    start, attention = quiz("00_start_here"), quiz("01_attention")
    rights = [question["right"] for question in attention.widget.data["questions"]]
    wrong = "A" if rights[1] != "A" else "B"
    attention.widget.answers = dict(zip(keys(attention), [rights[0], wrong, wrong + rights[2]], strict=False))
    quiz("02_masked_softmax", opening=True).widget.answers = {"some": "A"}
    start.widget.answers = {"of a question that was asked before": "A"}
    progress(folder)
    lines = capsys.readouterr().out.splitlines()
    [lesson] = [lesson for lesson in COURSE if lesson.name == "01_attention"]
    [old] = [line for line in before.splitlines() if line.startswith("01 ")]
    assert f"{old}; 2 of {len(lesson.questions)} questions answered" in lines
    assert f"00 start here: 0 of {len(start.widget.data['questions'])} questions answered" in lines
    assert [line for line in lines if line[:2] not in ("00", "01")] == [
        line for line in before.splitlines() if line[:2] != "01"
    ]


# ----------------------------------------------------------------------------------------------------
# What is stored.


def bundles(live: Live) -> list[dict]:
    """What a cell that ends in `live` shows, by the formatters of a kernel."""
    from IPython.core.formatters import DisplayFormatter

    data, metadata = DisplayFormatter().format(live)
    if "image/png" in data:
        data["image/png"] = base64.b64encode(data["image/png"]).decode()  # as files have it
    return [nbformat.v4.new_output("execute_result", data, metadata=metadata, execution_count=1)]


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_a_lesson_has_a_quiz_for_each_of_its_parts_in_their_order(lesson):
    source = "\n".join(cell.source for cell in cells.code_cells(cells.read(ROOT / f"notebooks/{lesson.name}.ipynb")))
    asked = re.findall(rf'quiz\("{lesson.name}"(.*?)\)', source)
    assert asked == [", opening=True", "", *[", deeper=True"] * bool(lesson.deeper)]


def test_the_static_form_says_how_to_get_the_quiz(lessons):
    where = "Run this cell to choose; without a kernel, read them below."
    assert repr(quiz("01_x")) == f"Quiz: 3 questions. {where}"
    assert repr(quiz("01_x", deeper=True)) == f"Quiz: 1 question. {where}"
    [shown] = bundles(closing := quiz("01_x"))
    assert set(shown.data) == {"text/plain", ON_PAGES, VIEW}
    assert (shown.data["text/plain"], shown.data[VIEW]["model_id"]) == (repr(closing), closing.widget.model_id)


def test_without_a_kernel_the_bare_opening_questions_are_read(lessons):
    live = bundles(quiz("01_x", opening=True))
    [stored] = outputs.clean(live)
    assert set(stored.data) == {"text/plain", "text/markdown", ON_PAGES}
    words = "Read or skip? 2 questions, which return at the end with their answers."
    assert stored.data["text/plain"] == f"{words} Run this cell to choose."
    head, *asked = stored.data["text/markdown"].split("\n\n")
    assert head == f'{words} <span class="knob">Run this cell to choose.</span>', "paper leaves it out"
    assert asked == ["1. Is $a < b$ in `x$y`?\n2. Third?"]


def test_a_control_around_a_figure_stores_the_figure_with_its_alt_text_and_under_it_its_words():
    drawn = Figure("A line rises. It begins at 0.")
    drawn.subplots().plot([0, 1])
    [shown] = bundles(Live(ipywidgets.IntSlider(), *drawn._repr_mimebundle_()))
    assert set(shown.data) == {"image/png", "text/plain", VIEW}
    stored = outputs.clean([shown])
    picture, words = deepcopy(stored)
    assert base64.b64decode(picture.data.pop("image/png")) == drawn.png()
    assert picture.data == {"text/plain": drawn.alt} and picture.metadata["image/png"]["alt"] == drawn.alt
    assert words.data == {"text/html": caption("A line rises.")}
    assert outputs.clean(stored) == stored and outputs.difference(stored, [shown]) is None
    book = cells.notebook(cells.code("control"))
    book.cells[0].outputs = stored
    assert list(rules.output_findings(Path(), book)) == []


def test_a_live_view_needs_words_beside_it():
    with pytest.raises(ValueError, match=r"the static form has \['image/png'\]; add 'text/plain'"):
        Live(ipywidgets.IntSlider(), {"image/png": b""})


def test_authors_get_a_lesson_without_live_views_and_with_its_collapsed_section(lessons):
    """What JupyterLab saves is found by the lint and mended by `make lessons`.

    Stored are words, and for pages which quiz it is; the questions stand in the lesson already.
    """
    section = cells.markdown("### The same questions, to read")
    section.metadata = nbformat.from_dict({"jp-MarkdownHeadingCollapsed": True, "editable": True})
    book = cells.notebook(cells.code('quiz("01_x")'), section)
    fresh = deepcopy(book)
    fresh.cells[0].outputs = bundles(quiz("01_x"))
    saved = nbformat.from_dict({**fresh, "metadata": book.metadata})
    assert "stores a live widget" in "".join(rules.output_findings(Path(), saved))
    changes = execution.renew(saved, fresh)
    assert any("live widget" in change for change in changes) and "metadata" in changes
    about = {"name": "lessonQuiz", "data": {"lesson": "01_x", "part": "spine"}, "weights": []}
    stored = saved.cells[0].outputs
    assert [dict(output.data) for output in stored] == [{"text/plain": repr(quiz("01_x")), ON_PAGES: about}]
    assert outputs.difference(stored, bundles(quiz("01_x"))) is None
    assert saved.cells[1].metadata == {"jp-MarkdownHeadingCollapsed": True}
    assert list(rules.output_findings(Path(), saved)) == [] and "widgets" not in saved.metadata
    assert execution.renew(saved, fresh) == []


def test_a_page_gets_the_questions_of_which_the_lesson_stores_only_the_place(lessons):
    live = quiz("01_x", opening=True)
    about = filled_in(live.data[ON_PAGES])
    assert about["data"] == live.widget.data and (about["name"], about["weights"]) == ("lessonQuiz", [])
    assert json.loads(json.dumps(about)) == about
    other = {"name": "softmaxTemperature", "data": '{"width": 1}', "weights": []}
    assert filled_in(other) == {**other, "data": {"width": 1}}


# ----------------------------------------------------------------------------------------------------
# Where it is found, and what it costs.


def test_a_saved_lesson_keeps_its_static_forms_and_no_view(tmp_path, lessons):
    from jupyter_server.services.contents.filemanager import FileContentsManager

    book = cells.notebook(cells.code("quiz"), cells.code("print(1)"))
    book.cells[0].outputs = bundles(quiz("01_x"))
    book.cells[1].outputs = [nbformat.v4.new_output("stream", text="1")]
    manager = FileContentsManager(root_dir=str(tmp_path), pre_save_hook="tfm_lib.show.live.store_static_forms")
    manager.save({"type": "notebook", "format": "json", "content": book}, "lesson.ipynb")
    manager.notary.store.close()
    saved = cells.read(tmp_path / "lesson.ipynb")
    assert set(saved.cells[0].outputs[0].data) == {"text/plain", ON_PAGES} and saved.cells[1].outputs[0].text == "1"
    store_static_forms({"type": "file", "content": "text"})


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="uv installs the old versions")
def test_the_quiz_works_with_the_oldest_ipywidgets_which_is_that_of_colab(tmp_path, lessons):
    names = ("anywidget", "ipywidgets", "mistune", "math-core")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [line.replace(">=", "==") for line in project["dependencies"] if line.startswith(names)]
    python = tmp_path / "colab" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "colab"], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *needed], check=True)
    code = f"""\
from pathlib import Path
import ipywidgets
from tfm_lib.ask import quiz

quiz.FOLDER = Path({str(lessons)!r})
live = quiz.quiz("01_x", opening=True)
assert "lessonQuiz" in live.widget._esm and len(live.widget.data["questions"]) == 2
live.widget.answers = {{"some": "A"}}
print(ipywidgets.__version__, sorted(live._repr_mimebundle_()[0]), quiz.quiz("01_x", opening=True).widget.answers)
"""
    environment = {key: value for key, value in os.environ.items() if key != "TFM_NO_PROGRESS"} | {
        "PYTHONPATH": str(ROOT)
    }
    ran = subprocess.run([python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    [oldest] = [line.split("==")[1] for line in needed if line.startswith("ipywidgets")]
    kinds = sorted([VIEW, ON_PAGES, "text/plain", "text/markdown"])
    assert ran.stdout == f"{oldest} {kinds} {{'some': 'A'}}\n"
