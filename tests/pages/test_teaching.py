"""docs/teaching.md says what the lessons and their exercises say."""

import re
from pathlib import Path

import pytest

from tests.nbclaims import cells
from tfm_lib.ask import checks
from tfm_lib.lessons import FIRST_BEYOND
from tfm_lib.lessons import LESSONS as TABLE

ROOT = Path(__file__).resolve().parents[2]
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
    [row] = [lesson for lesson in TABLE if lesson.number == number]
    assert (title, int(reading)) == (row.title, row.reading)
    assert first.startswith(f"# {number} · {title}\n")
    assert f"*Reading: {reading} minutes" in first
    if number not in TOPICS:
        assert not exercises and not grading
        return
    found = {exercise.name.partition(".")[2]: exercise for exercise in checks.exercises(TOPICS[number])}
    minutes = sum(exercise.minutes for exercise in found.values())
    assert minutes == row.exercises
    assert exercises == f"{len(found)} in {minutes}"
    assert f"Exercises: {minutes} minutes" in first
    named = re.findall(r"`(\w+)`", grading)
    assert len(named) >= min(2, len(found)) and all(found[name].difficulty >= 2 and found[name].cases for name in named)


def test_the_minutes_are_added_up():
    reading = sum(int(row[2]) for row in ROWS.values())
    found = [exercise for topic in checks.TOPICS for exercise in checks.exercises(topic)]
    total = f"{reading} minutes of reading, and {len(found)} exercises in {sum(e.minutes for e in found)} minutes"
    assert total in " ".join(TEXT.split())


def test_the_plans_name_the_lessons():
    """The ten weeks name each lesson once, 13 from its first milestone on; the shorter plans stay in part one."""
    plan = TEXT.partition("**Ten weeks**")[2].partition("**The project.**")[0]
    weeks = re.findall(r"^\| (\d+) \| ([^|]+) \|", plan, re.MULTILINE)
    assert [int(week) for week, _ in weeks] == [*range(1, 11)]
    named = [number for _, lessons in weeks for number in re.findall(r"\b\d\d\b", lessons)]
    beyond = [lesson.number for lesson in TABLE if lesson.place[1] >= FIRST_BEYOND]
    assert f"one of {beyond[0]} to {beyond[-1]}" in plan
    assert [*dict.fromkeys(n for n in named if n != "13")] == [
        lesson.number for lesson in TABLE if lesson.number != "13" and lesson.number not in beyond[1:-1]
    ]
    assert "13" in named
    short = TEXT.partition("**One day.**")[2].partition("**Ten weeks**")[0]
    assert not {*re.findall(r"\b\d\d\b", short)} & {*beyond}
