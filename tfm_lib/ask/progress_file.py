"""What a learner has done: exercises and questions, each kept in a small file beside the notebooks."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfm_lib.files import write_whole

FILE = "progress.json"
QUIZZES = "quizzes.json"
OWN = "own_model.json"
NOWHERE = "TFM_NO_PROGRESS"  # set in the test run, which starts and ends empty


def path(name: str = FILE) -> Path | None:
    """Where progress is kept: beside the notebook, which is where its kernel runs."""
    return None if os.environ.get(NOWHERE) else Path.cwd() / name


def load(file: Path | None) -> dict[str, str]:
    """The state of each exercise that was tried, "wrong" or "right", by its name."""
    return _read(file, lambda state: state in ("wrong", "right"))


def record(file: Path | None, name: str, state: str) -> None:
    """Keep what came of an exercise. One that was right once stays right.

    Where the file cannot be written, as in a folder that is read-only, nothing is kept, and nothing fails.
    """
    if file is None or state == "open":
        return
    states = load(file)
    if states.get(name) not in ("right", state):
        _write(file, states | {name: state})


def load_answers(file: Path | None) -> dict[str, dict[str, str]]:
    """What was chosen in each quiz, by its name: the letters in their order, by the key of the question."""
    return _read(file, lambda quiz: isinstance(quiz, dict) and all(isinstance(x, str) for x in quiz.values()))


def record_answers(file: Path | None, quiz: str, letters: dict[str, str]) -> None:
    """Keep what was chosen in one quiz, in place of what was kept of it, or nothing where that fails."""
    if file is not None:
        _write(file, load_answers(file) | {quiz: letters})


def load_own(file: Path | None) -> dict[str, int]:
    """The best score of a model of one's own, as `record_own` wrote it; empty where there is none."""
    return _read(file, lambda number: isinstance(number, int))


def record_own(file: Path | None, **score: int) -> None:
    """Keep a score, right, of, parameters, shipped_right and shipped_parameters, if no share before it was better."""
    before = load_own(file)
    if file is not None and score["right"] * before.get("of", 1) >= before.get("right", 0) * score["of"]:
        _write(file, score)


def _read(file: Path | None, sound: Callable[[Any], bool]) -> dict[str, Any]:
    """What a file holds. One with a value that is not sound is set aside under another name, and nothing is lost."""
    if file is None or not file.exists():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(values, dict) and all(map(sound, values.values())):
            return values
    except ValueError:
        pass
    aside = next(p for n in range(1, 10**6) if not (p := file.with_suffix(f".unreadable{n}.json")).exists())
    file.rename(aside)
    print(f"{file.name} could not be read. It is kept as {aside.name}, and a new one is begun.")
    return {}


def _write(file: Path, values: dict[str, Any]) -> None:
    try:
        write_whole(file, (json.dumps(values, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        print(f"Your progress could not be kept: {error}")
