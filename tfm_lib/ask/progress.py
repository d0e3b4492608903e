"""How far a learner is, as the lessons themselves name their exercises: without torch, so that it is said at once."""

from pathlib import Path

from tfm_lib.ask import progress_file
from tfm_lib.ask.headings import headings
from tfm_lib.ask.questions import read_lesson
from tfm_lib.ask.telling import SIGNS, Line, Piece, tell
from tfm_lib.lessons import LESSONS, Lesson


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
    every = {lesson.topic: list(headings(lesson.file).values()) for lesson in LESSONS}
    for lesson in LESSONS:
        all_of_it = every[lesson.topic]
        right = [e for e in all_of_it if states.get(e.name) == "right"]
        minutes = sum(e.minutes for e in all_of_it if e not in right)
        left = f", {minutes} minutes left" if minutes else ""
        told = [f"{len(right)} of {len(all_of_it)}{left}"] * bool(all_of_it) + _answered(lesson, answers)
        if told:
            lines.append([f"{lesson.number} {lesson.topic.replace('_', ' ')}: {'; '.join(told)}"])
        for e in all_of_it if any(e.name in states for e in all_of_it) else ():
            state = states.get(e.name, "open")
            rest = f"{'':{60 - len(str(e))}} {'●' * e.difficulty:<5} {e.minutes:>3} min"
            lines.append(["  ", Piece(f"{SIGNS[state]} ", state), Piece(str(e), link=e.outside), rest])
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
