"""Which exercises a learner has done, kept in one small file beside the notebooks."""

import json
import os
from pathlib import Path

from tfm_lib.files import write_whole

# Exercises that were known by other names: learners' notebooks and progress files still have those.
RENAMED = {
    "decoding.ending": "speed.ending",
    "speed_and_scale.table": "speed.table",
    "speed_and_scale.padding": "speed.padding",
    "speed_and_scale.fused": "speed.fused",
    "speed_and_scale.accumulated": "speed.accumulated",
    "speed_and_scale.segment": "speed.segment",
    "speed_and_scale.unscaled": "speed.unscaled",
    "speed_and_scale.ring": "scale.ring",
}
FILE = "progress.json"
NOWHERE = "TFM_NO_PROGRESS"  # set in the test run, which starts and ends empty


def path() -> Path | None:
    """Where progress is kept: beside the notebook, which is where its kernel runs."""
    return None if os.environ.get(NOWHERE) else Path.cwd() / FILE


def load(file: Path | None) -> dict[str, str]:
    """The state of each exercise that was tried, "wrong" or "right", by the name that it has today.

    What was right under one of its names is right. A file that cannot be read is set aside under another name, and
    nothing in it is lost.
    """
    if file is None or not file.exists():
        return {}
    try:
        states: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(states, dict) or not set(map(str, states.values())) <= {"wrong", "right"}:
            raise ValueError
    except ValueError:
        aside = next(p for n in range(1, 10**6) if not (p := file.with_suffix(f".unreadable{n}.json")).exists())
        file.rename(aside)
        print(f"{file.name} could not be read. It is kept as {aside.name}, and a new one is begun.")
        return {}
    tried = [(RENAMED.get(name, name), state) for name, state in states.items()]
    return dict(tried) | {name: state for name, state in tried if state == "right"}


def record(file: Path | None, name: str, state: str) -> None:
    """Keep what came of an exercise. One that was right once stays right.

    Where the file cannot be written, as in a folder that is read-only, nothing is kept, and nothing fails.
    """
    if file is None or state == "open":
        return
    states = load(file)
    if states.get(name) in ("right", state):
        return
    try:
        write_whole(file, (json.dumps(states | {name: state}, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        print(f"Your progress could not be kept: {error}")
