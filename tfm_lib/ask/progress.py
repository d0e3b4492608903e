"""How far a learner is, as the lessons themselves name their exercises: without torch, so that it is said at once."""

from pathlib import Path

from tfm_lib.ask import progress_file
from tfm_lib.ask.headings import Heading, headings
from tfm_lib.ask.questions import read_lesson
from tfm_lib.ask.telling import SIGNS, Line, Piece, tell
from tfm_lib.lessons import LESSONS, Lesson


def progress(folder: Path | None = None) -> None:
    """Shows how far you are: a line a lesson, and each exercise of the lessons of which one was tried.

    Of the questions it says how many you answered, once there is one, and of a model of your own, which
    `tfm_lib.ask.own_model.score` has scored, how well it writes. folder: that of the notebooks, if it is another one.
    """
    names = progress_file.FILE, progress_file.QUIZZES, progress_file.OWN
    try:
        files = (folder / name if folder else progress_file.path(name) for name in names)
        states, answers, score = map(progress_file.load, files)
    except OSError as error:
        print(f"Your progress could not be read, so all is shown as open: {error}")
        states, answers, score = {}, {}, {}
    right, tried, yet = (Piece(f"{SIGNS[state]} ", state) for state in ("right", "wrong", "open"))
    about = "open   (once you try one, its lesson's exercises are listed)\n"
    lines: list[Line] = [[right, "right   ", tried, "tried   ", yet, about]]
    every = {lesson: list(headings(lesson.file).values()) for lesson in LESSONS}
    for lesson, exercises in every.items():
        lines += _lesson_lines(lesson, exercises, states, answers)
    for whose, start in (("your own model:", ""), ("the shipped one:", "shipped_")) if score else ():
        share = f"{100 * score[start + 'right'] / score['of']:.1f} % of {score['of']} headlines"
        lines.append([f"{whose:16} {share}, {score[start + 'parameters']:,} parameters"])
    open_ones = [e for exercises in every.values() for e in exercises if states.get(e.name) != "right"]
    counts = f"{sum(map(len, every.values())) - len(open_ones)} solved, {len(open_ones)} open"
    lines.append([f"\nall lessons: {counts}, {sum(e.minutes for e in open_ones):,} minutes left"])
    tell(lines)


def _lesson_lines(
    lesson: Lesson, exercises: list[Heading], states: dict[str, str], answers: dict[str, dict[str, str]]
) -> list[Line]:
    """A line on a lesson, and one on each of its exercises where one was tried."""
    right = [e for e in exercises if states.get(e.name) == "right"]
    minutes = sum(e.minutes for e in exercises if e not in right)
    left = f", {minutes} minutes left" if minutes else ""
    counts = [f"{len(right)} of {len(exercises)}{left}"] * bool(exercises) + _answered(lesson, answers)
    lines: list[Line] = [[f"{lesson.number} {lesson.topic.replace('_', ' ')}: {'; '.join(counts)}"]] * bool(counts)
    for e in exercises if any(e.name in states for e in exercises) else ():
        state = states.get(e.name, "open")
        effort = f"{'':{60 - len(str(e))}} {'●' * e.difficulty:<5} {e.minutes:>3} min"
        lines.append(["  ", Piece(f"{SIGNS[state]} ", state), Piece(str(e), link=e.file + e.link), effort])
    return lines


def _answered(lesson: Lesson, answers: dict[str, dict[str, str]]) -> list[str]:
    """How many of the questions that close a lesson and its second reading were answered, if any was tried."""
    letters = answers.get(f"{lesson.name} spine", {}) | answers.get(f"{lesson.name} deeper", {})
    asked = read_lesson(lesson.file).questions if letters else []
    answered = sum(question.answered(letters.get(question.key, "")) for question in asked)
    return [f"{answered} of {len(asked)} questions answered"] * bool(asked)
