"""The questions that close the lessons, read from the notebooks: the one source for all that asks them again."""

import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

FORM = re.compile(
    r"\*\*(?P<question>[^\n]+)\*\*\s*"
    r"(?P<choices>(?:- [A-Z]: [^\n]+\n)*)\s*"
    r"<details><summary>Answer</summary>\n\n(?P<answer>.+)\n\n</details>\s*",
    re.DOTALL,
)
ASKED = re.compile(r"<summary>\s*Answer", re.IGNORECASE)
WANTED = (
    "**The question?**, an empty line, its choices if it has any, <details><summary>Answer</summary>, an empty line, "
    "the answer, an empty line, </details>"
)
SECOND_READING = "## Second reading"  # the heading behind which the questions are those of the second reading
DISPLAYED = re.compile(r"^\$\$([^$\n]+)\$\$[ \t]*$", re.MULTILINE)
ITEM = re.compile(r"- ([A-Z]): ([^\n]+)")
# The answer where there are choices: the letter of the right one, paragraphs, and an item for each wrong one.
ANSWER = re.compile(r"\*\*([A-Z])\.\*\* (.+?)\n\n((?:- [A-Z]: [^\n]+\n?)+)", re.DOTALL)
Formula = Callable[[str, bool], str]  # from TeX, and whether it stands in lines of its own, to HTML


class Choice(NamedTuple):
    """One of the answers that a question offers; text and reason are Markdown."""

    letter: str
    text: str
    why_not: str  # what it confuses; empty for the right one


class Question(NamedTuple):
    """One question of a lesson; question and answer are Markdown with math between dollar signs."""

    lesson: str  # the name of its file, such as 01_attention
    question: str
    answer: str
    choices: tuple[Choice, ...] = ()  # three or four, one of them right; none where the reader only unfolds
    opening: bool = False  # one of those that tell before the lesson whether to read it
    deeper: bool = False  # of the second reading

    @property
    def key(self) -> str:
        """By which an answer to it is kept. Other words, other choices or another order of them make another key."""
        asked = [self.question, *((choice.letter, choice.text, not choice.why_not) for choice in self.choices)]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]

    def answered(self, letters: str) -> bool:
        """Whether the right choice is among these."""
        return any(choice.letter in letters for choice in self.choices if not choice.why_not)


class Lesson(NamedTuple):
    """What a lesson asks."""

    name: str  # of its file, such as 01_attention
    title: str  # such as 01 · Attention
    questions: list[Question]

    @property
    def opening(self) -> list[Question]:
        """Those that tell whether to read it; they return among those of the spine."""
        return [question for question in self.questions if question.opening]

    @property
    def spine(self) -> list[Question]:
        """Those that close the first reading."""
        return [question for question in self.questions if not question.deeper]

    @property
    def deeper(self) -> list[Question]:
        """Those of the second reading, if there is one."""
        return [question for question in self.questions if question.deeper]


def read_lesson(path: Path) -> Lesson:
    """The title and the questions of the notebook at `path`, in its order: its Markdown cells that fold an answer.

    Those that open the lesson have the tag `opening`; those behind SECOND_READING belong to it.
    Raises ValueError, with lesson and cell, where there is no title or a question does not have the form of WANTED.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    # Claims stand in comments, which only the proof reads.
    sources = [re.sub(r"<!--.*?-->", "", "".join(cell["source"]), flags=re.DOTALL) for cell in cells]
    title = re.match(r"# (.+)", sources[0] if sources else "")
    if title is None:
        raise ValueError(f"{path.name} has no title; its first cell must begin with one, such as '# 01 · Attention'")
    questions, deeper = [], False
    for number, (cell, source) in enumerate(zip(cells, sources, strict=True), start=1):
        tags = cell.get("metadata", {}).get("tags", [])
        deeper = deeper or source.partition("\n")[0].strip() == SECOND_READING
        if "question" in tags or (cell["cell_type"] == "markdown" and ASKED.search(source)):
            try:
                question = _read_question(path.stem, cell["cell_type"], source.strip())
            except ValueError as error:
                raise ValueError(f"{path.name}, cell {number}: {error}") from None
            questions.append(question._replace(opening="opening" in tags, deeper=deeper))
    return Lesson(path.stem, title[1].strip(), questions)


def read_course(folder: Path) -> list[Lesson]:
    """The lessons of a folder, in reading order. Raises ValueError where there is none."""
    paths = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    if not paths:
        raise ValueError(f"no lesson in {folder}; a lesson's name begins with two digits, such as 00_start_here.ipynb")
    return [read_lesson(path) for path in paths]


def for_mathjax(tex: str, displayed: bool) -> str:
    r"""A formula as every MathJax reads it, whatever its settings: \(inline\) or \[displayed\]."""
    return rf"\[{escape(tex, quote=False)}\]" if displayed else rf"\({escape(tex, quote=False)}\)"


def to_html(markdown: str, formula: Formula = for_mathjax) -> str:
    """Markdown as HTML, with each formula as that function writes it."""
    # Colab's mistune, 3.2.0, displays a formula only if its dollars have lines of their own.
    return str(_renderer(formula)(DISPLAYED.sub(r"$$\n\1\n$$", markdown))).strip()


def _read_question(lesson: str, kind: str, source: str) -> Question:
    match = FORM.fullmatch(source)
    if match is None or kind != "markdown":
        start = f"a {kind} cell that begins {source[:40]!r}"
        raise ValueError(f"a question must be Markdown, {WANTED}; this is {start}")
    answer = match["answer"].strip()
    if not match["choices"]:
        return Question(lesson, match["question"], answer)
    choices = ITEM.findall(match["choices"])
    letters = [letter for letter, _ in choices]
    if letters not in (["A", "B", "C"], ["A", "B", "C", "D"]):
        raise ValueError(f"its choices are {', '.join(letters)}; wanted are A, B and C, or A, B, C and D")
    parts = ANSWER.fullmatch(answer)
    if parts is None:
        raise ValueError(
            "its answer must begin with the letter of the right choice, '**B.** ', and end in a list with an item "
            f"'- A: why it is not this' for each wrong one, since it has choices; it begins {answer[:40]!r}"
        )
    right, text, reasons = parts[1], parts[2], ITEM.findall(parts[3])
    explained = [letter for letter, _ in reasons]
    if explained != [letter for letter in letters if letter != right] or right not in letters:
        raise ValueError(
            f"its right choice is {right} of {', '.join(letters)}, and its answer explains {', '.join(explained)}; "
            "wanted is an explanation for each of the others, in their order"
        )
    why_not = dict(reasons)
    offered = tuple(Choice(letter, text, why_not.get(letter, "")) for letter, text in choices)
    return Question(lesson, match["question"], text.strip(), offered)


@cache
def _renderer(formula: Formula) -> Callable[[str], object]:
    import mistune  # here, since it loads only where a question is shown

    html = mistune.HTMLRenderer()
    markdown = mistune.create_markdown(renderer=html, plugins=["math", "table"])
    html.register("inline_math", lambda renderer, text: formula(text, False))
    html.register("block_math", lambda renderer, text: f"<p>{formula(text, True)}</p>")
    return markdown
