"""Exercises that check themselves: `check("attention.scaled", my_function)` says whether it is right, and why not.

`exercises/` holds a table a lesson, in the form that `exercise.py` describes. `running.py` tries an answer out,
whatever it does; `comparing.py` says how a result differs from the expected one; `verdict.py` judges.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from tfm_lib.ask import progress_file
from tfm_lib.ask.exercise import Exercise
from tfm_lib.ask.headings import heading
from tfm_lib.ask.telling import SIGNS, Line, Piece, tell
from tfm_lib.ask.verdict import WORDS, judge
from tfm_lib.lessons import LESSONS

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

    Raises nothing, whatever the answer does. An answer that computes for more than three seconds (a few exercises allow
    more), or waits for more than a minute, is stopped between two of Python's steps. One step that takes longer, such
    as `sum(range(10**10))`, holds the cell until it is done, since Python runs nothing else meanwhile; restarting the
    kernel ends it sooner.
    """
    try:
        exercise = find(name)
    except ValueError as error:
        print(error)
        return
    verdict = judge(exercise, answer)
    state, called = verdict.state, heading(exercise.name)
    title = Piece(str(called), link=called.link) if called else exercise.name
    first: Line = [Piece(f"{SIGNS[state]} ", state), title, ": ", Piece(WORDS[state], state), "."]
    tell([first, *([line] for line in verdict.reasons())], plain=state == "open")
    if state != "open":  # and what was right once stays right
        progress_file.keep(progress_file.path(), {name: state}, unless=lambda states: states.get(name) == "right")


def assert_right(name: str, answer: Any) -> None:
    """Raises AssertionError, which says why, unless `answer` is what the exercise asks for. The form that graders want.

    Raises ValueError if there is no such exercise.
    """
    verdict = judge(find(name), answer)
    if verdict.state != "right":
        raise AssertionError(str(verdict))
