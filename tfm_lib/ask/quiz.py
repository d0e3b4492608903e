"""The questions of a lesson as a quiz in its notebook: choose, read why, choose again."""

from collections.abc import Callable
from functools import partial

from ipywidgets import Button, HBox, HTMLMath, VBox

from tfm_lib.ask.questions import Choice, Question, read_lesson, to_html
from tfm_lib.lessons import LESSONS, REPLACED, course_file
from tfm_lib.show.live import Live

FOLDER = course_file("notebooks")
WIDTH = "740px"  # as wide as figures
BUTTON = {"width": "4em", "flex": "0 0 auto"}


def quiz(lesson: str, opening: bool = False, deeper: bool = False) -> Live:
    """The questions that close the first reading of `lesson`, such as "01_attention", with a button for each choice.

    A wrong choice is explained, and the reader chooses again; the last line counts. With `deeper` the questions of the
    second reading are asked. With `opening` only those of "Read or skip?" are, and the last line says which of the two;
    without a kernel the bare questions can be read.
    Raises ValueError if there is no such lesson, or it has no such questions with choices.
    """
    lesson = REPLACED.get(lesson, (lesson,))[0]
    names = sorted(path.stem for path in FOLDER.glob("[0-9][0-9]_*.ipynb"))
    if lesson not in names:
        raise ValueError(f"no lesson {lesson!r}; there are {', '.join(names) or f'none in {FOLDER}'}")
    asked = read_lesson(FOLDER / f"{lesson}.ipynb")
    questions = asked.opening if opening else asked.deeper if deeper else asked.spine
    if not questions or not all(question.choices for question in questions):
        kind = "opening questions" if opening else "questions of a second reading" if deeper else "questions"
        tags = "'question' and 'opening'" if opening else "'question'"
        raise ValueError(f"{lesson} has no {kind} with choices; add them to its cells with the tag {tags}")
    count = len(questions)
    run = f"{count} question{'s' * (count != 1)}. Run this cell to choose"
    if not opening:
        return Live(_build(questions, _count), {"text/plain": f"Quiz: {run}; without a kernel, read them below."})
    said = f"Read or skip? {run}; the answers stand where the questions return, at the end."
    read = "\n".join([f"{said}\n", *(f"{n}. {one.question}" for n, one in enumerate(questions, start=1))])
    return Live(_build(questions, _advice(_onward(lesson))), {"text/plain": said, "text/markdown": read})


class Attempts(list[Choice]):
    """What a reader chose for one question, up to the right choice."""

    @property
    def solved(self) -> bool:
        """Whether the right choice was found."""
        return any(not choice.why_not for choice in self)

    @property
    def at_once(self) -> bool:
        """Whether it was found at the first try."""
        return self.solved and len(self) == 1


Conclude = Callable[[list[Attempts]], str]


def _build(questions: list[Question], conclude: Conclude) -> VBox:
    """All questions and the last line, which `conclude` writes anew after each choice."""
    attempts = [Attempts() for _ in questions]
    last_line = _text("")

    def update() -> None:
        last_line.value = _html(f"**{conclude(attempts)}**")

    update()
    asked = [_ask(f"**{n}. {q.question}**", q, attempts[n - 1], update) for n, q in enumerate(questions, start=1)]
    return VBox([*asked, last_line])


def _ask(title: str, question: Question, attempts: Attempts, update: Callable[[], None]) -> VBox:
    """One question: a button for each choice and, below, what is to be said of the choice."""
    comment, rows = _text(""), []
    comment.layout.display = "none"  # until there is one

    def choose(choice: Choice, button: Button) -> None:
        sign, verdict = ("✗", "is not it") if choice.why_not else ("✓", "is right")
        button.description = f"{choice.letter} {sign}"
        comment.value = _html(f"**{sign} {choice.letter} {verdict}.** {choice.why_not or question.answer}")
        if not attempts.solved:
            attempts.append(choice)
        comment.layout.display = None
        update()

    for choice in question.choices:
        button = Button(description=choice.letter, tooltip=f"Choose {choice.letter}", layout=BUTTON)
        button.on_click(partial(choose, choice))
        rows.append(HBox([button, _text(choice.text)], layout={"align_items": "baseline"}))
    return VBox([_text(title), *rows, comment], layout={"margin": "0 0 1em"})


def _text(markdown: str) -> HTMLMath:
    return HTMLMath(_html(markdown), layout={"max_width": WIDTH})


def _html(markdown: str) -> str:
    """With the class by which JupyterLab shows it as it shows Markdown; elsewhere the class means nothing."""
    return f'<div class="jp-RenderedHTMLCommon">{to_html(markdown)}</div>'


def _count(attempts: list[Attempts]) -> str:
    solved, at_once = sum(a.solved for a in attempts), sum(a.at_once for a in attempts)
    return f"Score: {solved} of {len(attempts)} answered, {at_once} at the first try."


def _onward(name: str) -> str:
    """Where to go on for who needs not read the lesson of that name: to the next one, if there is one."""
    following = dict(zip([lesson.name for lesson in LESSONS], LESSONS[1:], strict=False))
    return f"go on to lesson {following[name].number}" if name in following else "you may skip this lesson"


def _advice(onward: str) -> Conclude:
    def conclude(attempts: list[Attempts]) -> str:
        at_once, count = sum(a.at_once for a in attempts), len(attempts)
        if not all(attempts):
            return f"{sum(map(bool, attempts))} of {count} answered."
        score = f"{at_once} of {count} right at the first try"
        return f"{score}: {onward}." if at_once == count else f"{score}: read this lesson."

    return conclude
