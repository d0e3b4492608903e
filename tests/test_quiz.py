"""The quiz: every choice is answered with its own words, the reader is told the score, and nothing live is stored."""

import base64
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import ipywidgets
import nbformat
import pytest

from tests.proof import author, cells, lint, outputs
from tests.test_questions import CHOSEN, COURSE, GOOD, write_lesson
from tfm_lib.ask import quiz as module
from tfm_lib.ask.quiz import FOLDER, quiz
from tfm_lib.show.figure import Figure
from tfm_lib.show.live import VIEW, Live, caption, store_static_forms

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
UV = shutil.which("uv") or shutil.which(ROOT / ".uv/bin/uv")


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


class Page:
    """What a reader sees of a quiz, and does with it."""

    def __init__(self, live: Live) -> None:
        *self.asked, self.last = live.widget.children

    def choose(self, question: int, letter: str) -> None:
        self.button(question, letter).click()

    def button(self, question: int, letter: str) -> ipywidgets.Button:
        buttons = [row.children[0] for row in self.asked[question].children[1:-1]]
        return next(button for button in buttons if button.description.startswith(letter))

    def comment(self, question: int) -> str:
        comment = self.asked[question].children[-1]
        return "" if comment.layout.display == "none" else comment.value

    @property
    def verdict(self) -> str:
        return self.last.value.split("<strong>")[1].split("</strong>")[0]


def all_widgets(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from all_widgets(child)


# ----------------------------------------------------------------------------------------------------
# The reader's side.


def test_a_wrong_choice_is_explained_and_the_reader_chooses_again(lessons):
    page = Page(quiz("01_x"))
    assert [page.comment(question) for question in range(3)] == ["", "", ""]
    page.choose(0, "C")
    assert "<strong>✗ C is not it.</strong> It is often." in page.comment(0)
    page.choose(0, "A")
    assert r"<strong>✗ A is not it.</strong> This confuses \(&lt;\) and \(&gt;\)." in page.comment(0)
    page.choose(0, "B")
    assert "<p><strong>✓ B is right.</strong> It is.</p>" in page.comment(0) and "<p>Really.</p>" in page.comment(0)
    assert [page.button(0, letter).description for letter in "ABC"] == ["A ✗", "B ✓", "C ✗"]
    assert [page.button(1, letter).description for letter in "ABC"] == ["A", "B", "C"]
    assert page.comment(1) == ""


def test_the_score_counts_right_answers_and_those_at_the_first_try(lessons):
    page = Page(quiz("01_x"))
    assert page.verdict == "Score: 0 of 3 answered, 0 at the first try."
    page.choose(0, "A")
    assert page.verdict == "Score: 0 of 3 answered, 0 at the first try."
    page.choose(0, "B")
    page.choose(2, "B")
    assert page.verdict == "Score: 2 of 3 answered, 1 at the first try."
    page.choose(2, "A")  # curious what is wrong with it
    assert "✗ A is not it" in page.comment(2)
    assert page.verdict == "Score: 2 of 3 answered, 1 at the first try."


def test_questions_keep_their_order_and_another_quiz_begins_anew(lessons):
    first, second = Page(quiz("01_x")), Page(quiz("01_x"))
    first.choose(0, "B")
    assert second.verdict.startswith("Score: 0 of 3") and second.comment(0) == ""
    titles = [question.children[0].value for question in first.asked]
    assert [r"1. Is \(a &lt; b\) in <code>x$y</code>?" in titles[0], "2. Second?" in titles[1]] == [True, True]
    texts = [row.children[1].value for row in first.asked[0].children[1:-1]]
    assert ["<p>no</p>" in texts[0], r"<p>yes, by \(a^2\)</p>" in texts[1], "<p>never</p>" in texts[2]] == [True] * 3


def test_each_quiz_asks_its_part_of_the_questions_in_the_order_of_the_lesson(lessons):
    asked = [
        [question.children[0].value.split("<strong>")[1].split("</strong>")[0] for question in Page(shown).asked]
        for shown in (quiz("01_x"), quiz("01_x", opening=True), quiz("01_x", deeper=True))
    ]
    first = r"Is \(a &lt; b\) in <code>x$y</code>?"
    assert asked == [[f"1. {first}", "2. Second?", "3. Third?"], [f"1. {first}", "2. Third?"], ["1. Fourth?"]]


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ([], "2 of 2 right at the first try: go on to lesson 02."),
        ([1], "1 of 2 right at the first try: read this lesson."),
        ([0, 1], "0 of 2 right at the first try: read this lesson."),
    ],
)
def test_the_opening_quiz_says_whether_to_read(lessons, wrong, verdict):
    page = Page(quiz("01_x", opening=True))
    for question in range(2):
        assert page.verdict == f"{question} of 2 answered."
        page.choose(question, "C" if question in wrong else "B")
    assert page.verdict == verdict
    for question in range(2):
        page.choose(question, "B")
    assert page.verdict == verdict


def test_who_needs_not_read_the_last_lesson_is_sent_nowhere(lessons):
    write_lesson(lessons, CHOSEN, name="02_y", title="# 02 · Why", opening=(0,))
    page = Page(quiz("02_y", opening=True))
    page.choose(0, "B")
    assert page.verdict == "1 of 1 right at the first try: you may skip this lesson."


def test_what_cannot_be_asked_is_refused(lessons):
    with pytest.raises(ValueError, match=r"no lesson '01'; there are 01_x, 02_y$"):
        quiz("01")
    with pytest.raises(ValueError, match="02_y has no questions with choices"):
        quiz("02_y")
    with pytest.raises(ValueError, match="02_y has no opening questions with choices.*'question' and 'opening'"):
        quiz("02_y", opening=True)
    with pytest.raises(ValueError, match="02_y has no questions of a second reading"):
        quiz("02_y", deeper=True)
    for lesson in lessons.iterdir():
        lesson.unlink()
    with pytest.raises(ValueError, match=f"no lesson '01_x'; there are none in {lessons}"):
        quiz("01_x")


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_the_quizzes_of_a_real_lesson_can_be_won(lesson):
    for part, asked in (("spine", lesson.spine), ("opening", lesson.opening), ("deeper", lesson.deeper)):
        if not asked:
            continue  # no second reading
        page = Page(quiz(lesson.name, opening=part == "opening", deeper=part == "deeper"))
        for place, question in enumerate(asked):
            for choice in sorted(question.choices, key=lambda choice: not choice.why_not):
                page.choose(place, choice.letter)
                assert "✗" in page.comment(place) if choice.why_not else "✓" in page.comment(place)
        assert page.verdict.startswith("0 of 3 right" if part == "opening" else f"Score: {len(asked)} of")


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
    source = "\n".join(cell.source for cell in cells.code_cells(cells.read(FOLDER / f"{lesson.name}.ipynb")))
    asked = re.findall(rf'quiz\("{lesson.name}"(.*?)\)', source)
    assert asked == [", opening=True", "", *[", deeper=True"] * bool(lesson.deeper)]


def test_the_static_form_says_how_to_get_the_quiz(lessons):
    where = "Run this cell to choose; without a kernel, read them below."
    assert repr(quiz("01_x")) == f"Quiz: 3 questions. {where}"
    assert repr(quiz("01_x", deeper=True)) == f"Quiz: 1 question. {where}"
    [shown] = bundles(closing := quiz("01_x"))
    assert set(shown.data) == {"text/plain", VIEW}
    assert (shown.data["text/plain"], shown.data[VIEW]["model_id"]) == (repr(closing), closing.widget.model_id)


def test_without_a_kernel_the_bare_opening_questions_are_read(lessons):
    live = bundles(quiz("01_x", opening=True))
    [stored] = outputs.clean(live)
    assert set(stored.data) == {"text/plain", "text/markdown"}
    assert stored.data["text/plain"].startswith("Read or skip? 2 questions. Run this cell to choose")
    head, *asked = stored.data["text/markdown"].split("\n\n")
    assert head == stored.data["text/plain"]
    assert asked == ["1. Is $a < b$ in `x$y`?\n2. Third?"]


def test_only_the_static_form_is_stored_and_compared(lessons):
    live = bundles(quiz("01_x"))
    assert [dict(output.data) for output in outputs.clean(live)] == [{"text/plain": repr(quiz("01_x"))}]
    assert outputs.difference(outputs.clean(live), bundles(quiz("01_x"))) is None
    assert "2 questions" in outputs.difference(outputs.clean(live), [_says("Quiz: 2 questions.")])


def _says(text: str) -> dict:
    return nbformat.v4.new_output("execute_result", {"text/plain": text}, execution_count=1)


def test_a_control_around_a_figure_stores_the_figure_with_its_alt_text_and_under_it_its_words():
    drawn = Figure("A line rises from 0 to 1.")
    drawn.subplots().plot([0, 1])
    [shown] = bundles(Live(ipywidgets.IntSlider(), *drawn._repr_mimebundle_()))
    assert set(shown.data) == {"image/png", "text/plain", VIEW}
    stored = outputs.clean([shown])
    picture, words = deepcopy(stored)
    assert base64.b64decode(picture.data.pop("image/png")) == drawn.png()
    assert picture.data == {"text/plain": drawn.alt} and picture.metadata["image/png"]["alt"] == drawn.alt
    assert words.data == {"text/html": caption(drawn.alt)}
    assert outputs.clean(stored) == stored and outputs.difference(stored, [shown]) is None
    book = cells.notebook(cells.code("control"))
    book.cells[0].outputs = stored
    assert list(lint.output_findings(book)) == []


def test_a_live_view_needs_words_beside_it():
    with pytest.raises(ValueError, match=r"the static form has \['image/png'\]; add 'text/plain'"):
        Live(ipywidgets.IntSlider(), {"image/png": b""})


def test_authors_get_a_lesson_without_live_views_and_with_its_collapsed_section(tmp_path, lessons):
    """What JupyterLab saves is found by the lint and mended by `make lessons`, in a real kernel."""
    code = f"""\
        from pathlib import Path
        from tfm_lib.ask import quiz

        quiz.FOLDER = Path({str(lessons)!r})
        quiz.quiz("01_x")"""
    section = cells.markdown("### The same questions, to read")
    section.metadata = nbformat.from_dict({"jp-MarkdownHeadingCollapsed": True, "editable": True})
    book = cells.notebook(cells.code("\n".join(line.strip() for line in code.splitlines())), section)
    fresh = author.execute(book, tmp_path)
    assert VIEW in fresh.cells[0].outputs[0].data
    saved = nbformat.from_dict({**fresh, "metadata": book.metadata})
    assert "stores a live widget" in "".join(lint.output_findings(saved))
    changes = author.renew(saved, fresh)
    assert any("live widget" in change for change in changes) and "metadata" in changes
    assert [dict(output.data) for output in saved.cells[0].outputs] == [{"text/plain": repr(quiz("01_x"))}]
    assert saved.cells[1].metadata == {"jp-MarkdownHeadingCollapsed": True}
    assert list(lint.output_findings(saved)) == [] and "widgets" not in saved.metadata
    assert author.renew(saved, fresh) == []


def test_a_quiz_is_built_of_what_every_front_end_draws(lessons):
    kinds = {type(widget).__name__ for widget in all_widgets(quiz("01_x").widget)}
    assert kinds == {"VBox", "HBox", "Button", "HTMLMath"}  # no Output, which is neither stored nor compared


# ----------------------------------------------------------------------------------------------------
# Where it is found, and what it costs.


def test_a_saved_lesson_keeps_its_static_forms_and_no_view(tmp_path, lessons):
    from jupyter_server.services.contents.filemanager import FileContentsManager

    view = {"version_major": 2, "version_minor": 0, "model_id": "0"}
    book = cells.notebook(cells.code("quiz"), cells.code("print(1)"), cells.code("control"))
    book.cells[0].outputs = [cells.nbformat.v4.new_output("display_data", {"text/plain": "Quiz.", VIEW: view})]
    data, about = {"text/plain": "A line.", "image/png": "", VIEW: view}, {"image/png": {"alt": "A line."}}
    book.cells[2].outputs = [cells.nbformat.v4.new_output("display_data", data, metadata=about)]
    book.cells[1].outputs = [cells.nbformat.v4.new_output("stream", text="1")]
    manager = FileContentsManager(root_dir=str(tmp_path), pre_save_hook="tfm_lib.show.live.store_static_forms")
    manager.save({"type": "notebook", "format": "json", "content": book}, "lesson.ipynb")
    saved = cells.read(tmp_path / "lesson.ipynb")
    assert saved.cells[0].outputs[0].data == {"text/plain": "Quiz."} and saved.cells[1].outputs[0].text == "1"
    picture, words = saved.cells[2].outputs
    assert set(picture.data) == {"text/plain", "image/png"} and words.data == {"text/html": caption("A line.")}
    store_static_forms({"type": "file", "content": "text"})


def test_the_quiz_of_an_old_copy_asks_what_the_lesson_in_its_place_asks():
    assert len(Page(quiz("09_speed_and_scale")).asked) == len(Page(quiz("09_speed")).asked)


def test_widgets_load_only_with_the_quiz():
    modules = "tfm_lib.show.live, tfm_lib.ask.questions, tfm_lib.ask.flashcards"
    code = f"import sys, {modules}; print('ipywidgets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_in_a_clone_the_questions_are_those_of_the_original_lessons():
    assert FOLDER == ROOT / "notebooks"


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="uv builds the wheel")
def test_an_installed_package_brings_the_lessons(tmp_path):
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT], check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(tmp_path / "installed")
    names = sorted(path.name for path in (tmp_path / "installed/tfm_lib/notebooks").iterdir())
    assert names == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert (tmp_path / "installed/tfm_lib/benchmarks/changes.json").is_file()  # what lesson 09 reads
    assert (tmp_path / "installed/tfm_lib/docs/transformer.py").is_file()  # what lesson 07 prints
    assert (tmp_path / "installed/tfm_lib/show/js/model.js").is_file()  # what controls run
    code = "import tfm_lib.ask.quiz as module; print(module.FOLDER)"
    there = {"cwd": tmp_path / "installed", "capture_output": True, "text": True}
    found = subprocess.run([sys.executable, "-c", code], **there).stdout.strip()
    assert Path(found).resolve() == (tmp_path / "installed/tfm_lib/notebooks").resolve()


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="uv installs the old version")
def test_the_quiz_works_with_the_oldest_ipywidgets_which_is_that_of_colab(tmp_path, lessons):
    [oldest] = [line for line in PROJECT["project"]["dependencies"] if line.startswith("ipywidgets")]
    python = tmp_path / "colab" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "colab"], check=True)
    packages = [oldest.replace(">=", "=="), "mistune"]
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    code = f"""\
from pathlib import Path
import ipywidgets
from tfm_lib.ask import quiz

quiz.FOLDER = Path({str(lessons)!r})
live = quiz.quiz("01_x", opening=True)
*asked, last = live.widget.children
for question in asked:
    question.children[2].children[0].click()
print(ipywidgets.__version__, sorted(live._repr_mimebundle_()[0]), last.value)
"""
    ran = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    kinds = sorted([VIEW, "text/plain", "text/markdown"])
    assert ran.stdout.startswith(f"{oldest.split('>=')[1]} {kinds} "), ran.stdout
    assert "2 of 2 right at the first try: you may skip this lesson." in ran.stdout
