"""docs/teaching.md says what the lessons and their exercises say."""

import re
from pathlib import Path

import pytest

from tests.proof import cells
from tfm_lib import checks

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d\d) ([^|]+?) \| (\d+) \| ?([^|]*?) ?\| ?([^|]*?) ?\|$", re.MULTILINE)
ROWS = {row[0]: row for row in ROW.findall(TEXT)}
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
TOPICS = {number: topic for topic, number in checks.TOPICS.items()}


def test_every_lesson_has_its_row():
    assert [row[0] for row in ROW.findall(TEXT)] == list(LESSONS)


@pytest.mark.parametrize("number", LESSONS)
def test_a_row_has_the_minutes_of_its_lesson(number):
    first = cells.read(LESSONS[number]).cells[0].source
    _, title, reading, exercises, grading = ROWS[number]
    assert first.startswith(f"# {number} · {title}\n")
    assert f"*Reading: {reading} minutes" in first
    if number not in TOPICS:
        assert not exercises and not grading
        return
    found = {exercise.name.partition(".")[2]: exercise for exercise in checks.exercises(TOPICS[number])}
    minutes = sum(exercise.minutes for exercise in found.values())
    assert exercises == f"{len(found)} in {minutes}"
    assert f"Exercises: {minutes} minutes" in first
    named = re.findall(r"`(\w+)`", grading)
    assert len(named) >= 2 and all(found[name].difficulty >= 2 and found[name].cases for name in named)


def test_there_are_forty_exercises_and_more():
    numbers = [f"{n:02}" for n in range(1, 8)]
    assert sum(len(checks.exercises(TOPICS[number])) for number in numbers) >= 40
