"""The book and the slides: what goes into them, on a small lesson, and that nothing in them asks to be pressed."""

import re
from base64 import b64encode
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tfm_lib.lessons import LESSONS

pytest.importorskip("typst", reason="the group `paper` is not installed")
pytest.importorskip("sphinx_revealjs", reason="the group `paper` is not installed")
from docs.paper import book, cells, slides

pypdfium2 = pytest.importorskip("pypdfium2", reason="the group `paper` is not installed")

# Words for what a page or a notebook can do, and paper cannot.
INTERACTIVE = re.compile(
    r"\b([Cc]licks?|[Cc]licked|[Dd]rag|[Pp]ress\b(?! (et|and) )|[Rr]un (this|the) cells?|[Ff]ill in the cell|Run it\b|"
    r"[Tt]urn the knobs?|[Ss]liders?|[Ww]idgets?|[Hh]over|[Uu]nfold the|[Ff]olded|[Tt]he control (shows|below)|quiz|"
    r"`progress\(\)`|claim:|kernel, read them)\b|<kbd>|class=.knob|<details>"
)
NO_PROSE = re.compile(r"^(`{3,}).*?^\1$|\]\([^)]*\)", re.DOTALL | re.MULTILINE)  # fenced code, and where links lead
ALT = "A line rises from the left to the right, and then it falls. More."
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"".join(side.to_bytes(4, "big") for side in (555, 200))
ANSWER = "<details><summary>Answer</summary>\n\n**A.** One is.\n\n- B: It is.\n\n</details>"
QUESTION = f"**Is it one?**\n\n- A: Yes.\n- B: No.\n\n{ANSWER}"


@pytest.fixture
def small(tmp_path):
    """A lesson in which each thing that a lesson can hold is there once."""
    shown = {"image/png": b64encode(PNG).decode()}
    picture = new_output("display_data", shown, metadata={"image/png": {"alt": ALT, "caption": ALT[:-6]}})
    opening = new_output("execute_result", {"text/markdown": "Read or skip?\n\n1. Is it one?", "text/plain": "Quiz"})
    check = "from tfm_lib.ask.checks import check\n\nmine = ...\n\ncheck('a.b', mine)"
    tagged = {name: {"tags": [name]} for name in ("exercise", "solution", "guess")}
    asked = {"tags": ["question", "opening"]}
    written = [
        new_markdown_cell('# 99 · Small\n\nYou can add.<span class="knob"> Press it.</span>'),
        new_code_cell("from tfm_lib.ask.quiz import quiz\n\nquiz()", outputs=[opening]),
        new_markdown_cell(
            "## 1 Sums\n\nA sum adds<!-- claim: 1<2 -->. It holds:\n\n$$ a + b $$\n\n$$ c $$\n\n"
            "The next cell adds. **Guess first:** what?"
        ),
        new_code_cell("print(1 + 1)", outputs=[new_output("stream", text="2\n")], metadata=tagged["guess"]),
        new_code_cell("# @title Drawing\ndraw()", outputs=[picture], id="drawn"),
        new_markdown_cell("## Exercises\n\nOne task. Fill in the cell below a task and run it. `check` says it."),
        new_markdown_cell("### Exercise 1: add", metadata=tagged["exercise"]),
        new_code_cell(check, outputs=[new_output("stream", text="not attempted")], metadata=tagged["exercise"]),
        new_markdown_cell("<details><summary>A nudge</summary>\n\nAdd.\n\n</details>", metadata=tagged["solution"]),
        new_markdown_cell("## Recap\n\n1. Sums add."),
        new_markdown_cell("## Questions"),
        new_markdown_cell(QUESTION, metadata=asked),
        new_markdown_cell("## Second reading\n\n- [deeper](#deeper-more) and [out](../tfm_lib/masks.py)"),
        new_markdown_cell("## Deeper: more\n\nSee [section 1](#1-sums)."),
    ]
    file = tmp_path / "99_small.ipynb"
    nbformat.write(new_notebook(cells=written), file)
    return SimpleNamespace(number="99", name="99_small", title="Small", file=file)


def test_a_chapter_has_its_solutions_and_answers_at_its_end_and_no_machinery(small, tmp_path):
    text = str(book.Chapter(small, tmp_path))
    order = [
        "# 99 · Small",
        "You can add.",
        "Is it one?",
        "A sum adds. It",
        "print(1 + 1)",
        "````shown\n2",
        "#picture(",
    ]
    order += ["Hints and solutions are at the end of the lesson.", "### Exercise 1: add", "mine = ...", "## Recap"]
    order += [
        "1.  **Is it one?**",
        "    - A: Yes.",
        "## Second reading",
        "## Hints and solutions",
        "#### Exercise 1: add",
    ]
    order += ["**A nudge.** Add.", "## Answers to the questions", "1.  **A.** One is."]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    for machinery in ("quiz", "claim", "Press", "check", "draw()", "not attempted", "<details"):
        assert machinery not in text
    assert (tmp_path / "99_small-drawn-0.png").read_bytes() == PNG and f'0.png", 50%, "{ALT[:-6]}", "{ALT}")' in text
    assert len(re.findall(r', "([^"]+)", "\1 ', book.page("landscape", tmp_path))) == 2, "a caption, and more words"


def test_a_deck_shows_pictures_formulas_predictions_and_the_recap(small, tmp_path):
    deck = slides.Deck(small, tmp_path).slides
    assert [re.match(r"## (.*) \{\.(\w+)\}", slide).groups() for slide in deck] == [
        ("99 · Small", "opening"),
        ("What do you think?", "ask"),
        ("1 Sums", "section"),
        ("1 Sums", "formula"),
        ("Guess first", "ask"),
        ("1 Sums", "code"),
        ("1 Sums", "picture"),
        ("Is it one?", "choose"),
        ("Recap", "text"),
    ]
    assert "It holds:" in deck[3] and "$$ a + b $$\n\n$$ c $$" in deck[3] and "A program adds.\n\n**What?**" in deck[4]
    assert f"![{ALT[:-6]}](drawn-0.png)" in deck[6] and ". . .\n\n**A.** One is." in deck[7]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_nothing_on_paper_asks_to_be_pressed(lesson, tmp_path):
    chapter = str(book.Chapter(lesson, tmp_path))
    assert not re.search(r"quiz\(|progress\(\)|tfm_lib is missing|[^_]check\(|not attempted", chapter)
    assert not re.search("Run this cell|folded cell|with these versions:|[\u2e80-\ud7ff]", chapter), "no glyph"
    prose = NO_PROSE.sub("", chapter)
    assert len(prose) > 10_000 and [found[0] for found in INTERACTIVE.finditer(prose)] == []


def test_a_sentence_that_a_lesson_lost_is_named(small, monkeypatch):
    monkeypatch.setitem(cells.WORDING, "99", {"Gone.": ""})
    with pytest.raises(ValueError, match=r"lesson 99 no longer says 'Gone\.'; change it in docs/paper/wording\.toml"):
        cells.read(small)


def typeset(folder, text: str) -> tuple[list[str], list[str]]:
    """The titles in the contents of a book of this text, and the text of each page."""
    page = folder / "99_small.ipynb"
    page.write_text(text, encoding="utf-8")
    book.typeset([page], folder, folder / "book.pdf")
    with pypdfium2.PdfDocument(folder / "book.pdf") as pdf:
        titles = [entry.get_title() for entry in pdf.get_toc()]
        return titles, [page.get_textpage().get_text_bounded() for page in pdf]


def test_a_book_is_typeset_and_what_is_not_in_it_is_no_link(small, tmp_path):
    chapter = book.Chapter(small, tmp_path)
    chapter.text = [part for part in chapter.text if "#picture" not in part]  # a PNG of one line
    titles, texts = typeset(tmp_path, str(chapter))
    assert titles[:2] == ["99 · Small", "1 Sums"] and titles[-1] == "Answers to the questions"
    assert texts[1].startswith("Contents") and "1 Sums" in texts[1] and "2 + 2" not in texts[2]
    assert "deeper and out" in texts[-1] or "deeper and out" in texts[-2]


def test_a_deck_that_fails_leaves_all_that_was_there(tmp_path, monkeypatch):
    def write(lesson, folder, out):
        if lesson is LESSONS[1]:
            raise ValueError("no such formula")
        out.write_text("new")

    monkeypatch.setattr(slides, "write_deck", write)
    (tmp_path / f"{LESSONS[0].name}.html").write_text("old")
    with pytest.raises(ValueError, match="no such formula"):
        slides.write_slides(tmp_path, LESSONS[:2])
    assert [deck.read_text() for deck in tmp_path.iterdir()] == ["old"]
    assert slides.write_slides(tmp_path, LESSONS[:1]) == 1
    assert [deck.read_text() for deck in tmp_path.iterdir()] == ["new"]


def test_no_page_begins_with_the_single_line_of_code_of_a_task(tmp_path):
    pages = [f"# {n}\n\n" + "Line.\n\n" * n + "Task.\n\n```python\nx = ...\n```\n" for n in range(26, 42)]
    _, texts = typeset(tmp_path, "\n".join(pages))
    assert [text for text in texts if text.count("x = ...") != text.count("Task.")] == []


def test_exercises_follow_a_text_on_its_page_and_no_page_parts_a_small_table(tmp_path):
    tasks = "\n\n".join(f"### Exercise {n}\n\n*Easy.*\n\nDo.\n\n```python\nx = ...\n```" for n in range(20))
    parts = [f"# {n}\n\n" + "Line.\n\n" * n + "See:\n\n|a|b|\n|-|-|\n|one|1|\n|two|2|\n" for n in range(24, 40)]
    _, texts = typeset(tmp_path, "\n".join(["# Tasks\n\nFirst.\n", tasks, *parts]))
    assert any("First." in text and "Do." in text for text in texts)
    assert [text for text in texts if not text.count("See:") == text.count("one") == text.count("two")] == []


@pytest.mark.slow
def test_the_whole_book_is_complete_and_nothing_runs_over_its_margins(tmp_path):
    """The margins are 28 mm; a millimeter lets an italic letter lean over."""
    file = tmp_path / "book.pdf"
    book.write_book(file)
    assert file.stat().st_size < 30e6
    with pypdfium2.PdfDocument(file) as pdf:
        titles = [entry.get_title() for entry in pdf.get_toc()]
        assert [f"{lesson.number} · {lesson.title}" for lesson in LESSONS] == [t for t in titles if t[2:5] == " · "]
        assert {"About this book", "Symbols and terms", "The landscape", "Glossary"} <= {*titles}
        assert 400 < len(pdf) < 900
        for number, page in enumerate(pdf, 1):
            pixels = np.asarray(page.render(scale=1, grayscale=True).to_pil())
            edge = round(27 / 25.4 * 72)
            assert pixels[:, :edge].min() > 200 and pixels[:, -edge:].min() > 200, f"page {number} runs over"
