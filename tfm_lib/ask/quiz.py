"""The questions of a lesson as a quiz, in its notebook and on its page: choose, read why, choose again."""

import json
from collections.abc import Mapping
from typing import Any

from tfm_lib.ask import progress_file
from tfm_lib.ask.questions import Question, read_lesson, to_html
from tfm_lib.lessons import LESSONS, course_file
from tfm_lib.show.control import Control
from tfm_lib.show.live import ON_PAGES, Live

FOLDER = course_file("notebooks")
NAME = "lessonQuiz"  # of the function in js/quiz.js


def quiz(lesson: str, opening: bool = False, deeper: bool = False) -> Live:
    """The questions that close the first reading of `lesson`, such as "01_attention", with a button for each choice.

    A wrong choice is explained, and the reader chooses again; the last line counts. With `deeper` the questions of the
    second reading are asked. With `opening` only those of "Read or skip?" are, and the last line says which of the two;
    without a kernel the bare questions can be read. What was chosen is kept beside the notebook, by question.
    Raises ValueError if there is no such lesson, or it has no such questions with choices.
    """
    part = "opening" if opening else "deeper" if deeper else "spine"
    widget, questions = Control(NAME, quiz_data(lesson, part)), _questions(lesson, part)
    _keep(widget)
    number = f"{len(questions)} question{'s' * (len(questions) != 1)}"
    shown: dict[str, Any] = {ON_PAGES: {"name": NAME, "data": {"lesson": lesson, "part": part}, "weights": []}}
    if not opening:
        closing = f"Quiz: {number}. Run this cell to choose; without a kernel, read them below."
        return Live(widget, {**shown, "text/plain": closing})
    words, how = f"Read or skip? {number}, which return at the end with their answers.", "Run this cell to choose."
    bare = "\n".join(f"{n}. {one.question}" for n, one in enumerate(questions, start=1))
    read = f'{words} <span class="knob">{how}</span>\n\n{bare}'  # on paper there is nothing to run
    return Live(widget, {**shown, "text/plain": f"{words} {how}", "text/markdown": read})


def quiz_data(lesson: str, part: str) -> dict[str, Any]:
    """What js/quiz.js builds the quiz of that part of a lesson from: "opening", "spine" or "deeper"."""
    questions = [_question_data(question) for question in _questions(lesson, part)]
    onward = _onward(lesson) if part == "opening" else None
    return {"name": f"{lesson} {part}", "questions": questions, "onward": onward}


def filled_in(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a page builds a control from. Of a quiz the lesson stores only the place: here come its questions."""
    return {**about, "data": quiz_data(**about["data"]) if about["name"] == NAME else json.loads(about["data"])}


def _questions(lesson: str, part: str) -> list[Question]:
    names = sorted(path.stem for path in FOLDER.glob("[0-9][0-9]_*.ipynb"))
    if lesson not in names:
        raise ValueError(f"no lesson {lesson!r}; there are {', '.join(names) or f'none in {FOLDER}'}")
    questions: list[Question] = getattr(read_lesson(FOLDER / f"{lesson}.ipynb"), part)
    if not questions or not all(question.choices for question in questions):
        kinds = {"opening": "opening questions", "spine": "questions", "deeper": "questions of a second reading"}
        tags = "'question' and 'opening'" if part == "opening" else "'question'"
        raise ValueError(f"{lesson} has no {kinds[part]} with choices; add them to its cells with the tag {tags}")
    return questions


def _question_data(question: Question) -> dict[str, Any]:
    [right] = [choice.letter for choice in question.choices if not choice.why_not]
    choices = []
    for letter, text, why_not in question.choices:
        comment = f"**✗ {letter} is not it.** {why_not}" if why_not else f"**✓ {letter} is right.** {question.answer}"
        choices.append({"letter": letter, "text": _in_line(text), "comment": to_html(comment, mathml)})
    return {"key": question.key, "question": _in_line(question.question), "right": right, "choices": choices}


def _in_line(markdown: str) -> str:
    """As HTML without the paragraph around it, which no button may hold."""
    return to_html(markdown, mathml).removeprefix("<p>").removesuffix("</p>")


def mathml(tex: str, displayed: bool) -> str:
    """A formula as MathML, which browsers draw without a script, and notebooks without MathJax.

    Raises math_core.LatexError, which names the command, for TeX that it does not know.
    """
    from math_core import LatexToMathML

    return LatexToMathML().convert_with_local_state(tex, displaystyle=displayed)


def _keep(widget: Control) -> None:
    """Gives the quiz what was chosen before, and from now on keeps what is chosen."""
    file, name = progress_file.path(progress_file.QUIZZES), widget.data["name"]
    try:
        widget.answers = progress_file.load(file).get(name, {})
    except OSError as error:
        print(f"Your answers could not be read, so all questions are asked anew: {error}")

    widget.observe(lambda change: progress_file.keep(file, {name: change["new"]}), "answers")


def _onward(name: str) -> str:
    """Where to go on for who needs not read the lesson of that name: to the next one, if there is one."""
    following = dict(zip([lesson.name for lesson in LESSONS], LESSONS[1:], strict=False))
    return f"go on to lesson {following[name].number}" if name in following else "you may skip this lesson"
