"""How long things may take in tests: no test fails because the machine has other work.

A process that has not ended after `HUNG` seconds hangs. The browser tests leave tables of times, medians beside goals;
only what takes ten times as long fails.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

HUNG = 1200  # seconds: ten times what the slowest process of a test needs on a machine with other work
LOADED = 10  # times the goal that a machine with other work may take


class Answer(NamedTuple):
    """How long something took, again and again, to answer."""

    control: str
    knob: str
    milliseconds: list[float]
    goal: float  # of the median


def report(answers: Sequence[Answer], file: Path) -> None:
    """Write the times as a table; AssertionError for a median that no machine needs."""
    lines = ["| control | knob | median ms | worst ms | goal ms |", "|---|---|---:|---:|---:|"]
    for control, knob, times, goal in answers:
        lines.append(f"| {control} | {knob} | {median(times):.1f} | {max(times):.1f} | {goal:g} |")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    slow = [f"{control}: {knob}" for control, knob, times, goal in answers if not median(times) <= LOADED * goal]
    assert not slow, f"more than {LOADED} times the goal, see {file}: {', '.join(slow)}"
