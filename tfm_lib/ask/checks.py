"""Exercises that check themselves. In a lesson:

    from tfm_lib.checks import check, progress

    check("attention.scaled", my_function)     # not attempted yet, not right yet (and why), or right
    progress()                                 # how far you are in each lesson

`exercises/` holds a table a lesson, in the form that `exercise.py` describes. `running.py` tries an answer out,
whatever it does; `comparing.py` says how a result differs from the expected one; `verdict.py` judges.
"""

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from tfm_lib.ask import progress_file
from tfm_lib.ask.exercise import Exercise
from tfm_lib.ask.headings import heading
from tfm_lib.ask.questions import read_lesson
from tfm_lib.ask.telling import Line, Piece, tell
from tfm_lib.ask.verdict import SIGNS, WORDS, judge
from tfm_lib.lessons import LESSONS, Lesson

# The lessons that have exercises, by what their files are called after the number.
TOPICS = {lesson.topic: lesson.number for lesson in LESSONS if lesson.exercises}


def exercises(topic: str) -> list[Exercise]:
    """The exercises of a lesson, in their order."""
    module = import_module(f"tfm_lib.ask.exercises.{topic}")
    return [value for value in vars(module).values() if isinstance(value, Exercise)]


def find(name: str) -> Exercise:
    """The exercise of that name, such as "attention.scaled".

    Raises ValueError if there is none.
    """
    found = {exercise.name: exercise for topic in TOPICS for exercise in exercises(topic)}
    if name not in found:
        near = get_close_matches(str(name), found, n=1, cutoff=0.4) or sorted(found)[:1]
        raise ValueError(f"There is no exercise {name!r}. Did you mean {near[0]!r}?")
    return found[name]


def check(name: str, answer: Any) -> None:
    """Says in one line whether `answer` is what the exercise asks for, and why not; keeps that in the progress file.

    Raises nothing, whatever the answer does. An answer that computes for more than three seconds, or waits for more
    than a minute, is stopped between two of Python's steps. One step that takes longer, such as `sum(range(10**10))`,
    holds the cell until it is done, since Python runs nothing else meanwhile; restarting the kernel ends it sooner.
    """
    try:
        exercise = find(name)
    except ValueError as error:
        print(error)
        return
    verdict = judge(exercise, answer)
    state, called = verdict.state, heading(exercise.name)
    title = Piece(str(called), link=called.inside) if called else exercise.name
    first: Line = [Piece(f"{SIGNS[state]} ", state), title, ": ", Piece(WORDS[state], state), "."]
    tell([first, *([line] for line in verdict.reasons())], plain=state == "open")
    try:
        progress_file.record(progress_file.path(), exercise.name, verdict.state)
    except OSError as error:
        print(f"Your progress could not be kept: {error}")


def progress(folder: Path | None = None) -> None:
    """Shows how far you are: a line a lesson, and each exercise of the lessons of which one was tried.

    Of the questions it says how many you answered, once there is one, and of a model of your own, which
    `tfm_lib.ask.own_model.score` has scored, how well it writes.

    Args:
        folder: where the notebooks lie; the folder of this notebook if it is not given.
    """
    kept, chosen, owned = (
        progress_file.path(name) if folder is None else folder / name
        for name in (progress_file.FILE, progress_file.QUIZZES, progress_file.OWN)
    )
    try:
        states, answers = progress_file.load(kept), progress_file.load_answers(chosen)
        own = progress_file.load_own(owned)
    except OSError as error:
        print(f"Your progress could not be read, so all is shown as open: {error}")
        states, answers, own = {}, {}, {}
    signs = (Piece(f"{SIGNS[state]} ", state) for state in ("right", "wrong", "open"))
    said = ("right   ", "tried   ", "open   (once you try one, its lesson's exercises are listed)\n")
    lines: list[Line] = [[part for pair in zip(signs, said, strict=True) for part in pair]]
    every = {topic: exercises(topic) for topic in TOPICS}
    for lesson in LESSONS:
        all_of_it = every.get(lesson.topic, [])
        right = [e for e in all_of_it if states.get(e.name) == "right"]
        minutes = sum(e.minutes for e in all_of_it if e not in right)
        left = f", {minutes} minutes left" if minutes else ""
        told = [f"{len(right)} of {len(all_of_it)}{left}"] * bool(all_of_it) + _answered(lesson, answers)
        if told:
            lines.append([f"{lesson.number} {lesson.topic.replace('_', ' ')}: {'; '.join(told)}"])
        for e in all_of_it if any(e.name in states for e in all_of_it) else ():
            state, called = states.get(e.name, "open"), heading(e.name)
            title = Piece(str(called), link=called.outside) if called else Piece(e.name)
            rest = f"{'':{60 - len(title.text)}} {'●' * e.difficulty:<5} {e.minutes:>3} min"
            lines.append(["  ", Piece(f"{SIGNS[state]} ", state), title, rest])
    for whose, start in (("your own model:", ""), ("the shipped one:", "shipped_")) if own else ():
        share = f"{100 * own[start + 'right'] / own['of']:.1f} % of {own['of']} headlines"
        lines.append([f"{whose:16} {share}, {own[start + 'parameters']:,} parameters"])
    whole = [e for all_of_it in every.values() for e in all_of_it]
    undone = [e for e in whole if states.get(e.name) != "right"]
    counts = f"{len(whole) - len(undone)} solved, {len(undone)} open"
    lines.append([f"\nall lessons: {counts}, {sum(e.minutes for e in undone):,} minutes left"])
    tell(lines)


def _answered(lesson: Lesson, answers: dict[str, dict[str, str]]) -> list[str]:
    """How many of the questions that close a lesson and its second reading were answered, if any was tried."""
    letters = answers.get(f"{lesson.name} spine", {}) | answers.get(f"{lesson.name} deeper", {})
    asked = read_lesson(lesson.file).questions if letters else []
    answered = sum(question.answered(letters.get(question.key, "")) for question in asked)
    return [f"{answered} of {len(asked)} questions answered"] * bool(asked)
