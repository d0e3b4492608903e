"""What a learner has done: exercises, questions, a model of their own; each kept in a small file by the notebooks."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfm_lib.files import write_whole

FILE, QUIZZES, OWN = "progress.json", "quizzes.json", "own_model.json"
NOWHERE = "TFM_NO_PROGRESS"  # set in the test run, which starts and ends empty
SOUND: dict[str, Callable[[Any], bool]] = {  # whether a value of each file is one that was written there
    FILE: lambda state: state in ("wrong", "right"),  # by the name of its exercise
    QUIZZES: lambda quiz: isinstance(quiz, dict) and all(isinstance(letters, str) for letters in quiz.values()),
    OWN: lambda number: isinstance(number, int),
}


def path(name: str = FILE) -> Path | None:
    """Where progress is kept: beside the notebook, which is where its kernel runs."""
    return None if os.environ.get(NOWHERE) else Path.cwd() / name


def load(file: Path | None) -> dict[str, Any]:
    """What a file holds. One with a value that is not sound is set aside under another name, and nothing is lost."""
    if file is None or not file.exists():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(values, dict) and all(map(SOUND[file.name], values.values())):
            return values
    except ValueError:
        pass
    aside = next(p for n in range(1, 10**6) if not (p := file.with_suffix(f".unreadable{n}.json")).exists())
    file.rename(aside)
    print(f"{file.name} could not be read. It is kept as {aside.name}, and a new one is begun.")
    return {}


def keep(file: Path | None, values: dict[str, Any], unless: Callable[[dict[str, Any]], bool] = lambda _: False) -> None:
    """Add values to those of a file, unless `unless` is true of the old ones. A failure is printed, not raised."""
    try:
        if file is not None and not unless(held := load(file)):
            write_whole(file, (json.dumps(held | values, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        print(f"Your progress could not be kept: {error}")
