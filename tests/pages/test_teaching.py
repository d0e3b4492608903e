"""docs/teaching.md says what the lessons and their exercises say."""

import re

import pytest

from tests.nbclaims import cells
from tests.pages import links
from tfm_lib.ask import checks
from tfm_lib.ask.comparing import difference
from tfm_lib.lessons import FIRST_BEYOND, LESSONS

TEXT = links.flat("docs/teaching.md")
ROW = re.compile(r"\| (\d\d) ([^|]+?) \| (\d+) \| ?([^|]*?) ?\| ?([^|]*?) ?\|(?= |$)")
ROWS = {row[0]: row for row in ROW.findall(TEXT)}
TOPICS = {number: topic for topic, number in checks.TOPICS.items()}
EXERCISES = [exercise for topic in checks.TOPICS for exercise in checks.exercises(topic)]


def test_every_lesson_has_its_row():
    assert [row[0] for row in ROW.findall(TEXT)] == [lesson.number for lesson in LESSONS]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_a_row_has_the_minutes_of_its_lesson(lesson):
    first = cells.read(lesson.file).cells[0].source
    _, title, reading, exercises, grading = ROWS[lesson.number]
    assert (title, int(reading)) == (lesson.title, lesson.reading)
    assert first.startswith(f"# {lesson.number} · {title}\n") and f"*Reading: {reading} minutes" in first
    if lesson.number not in TOPICS:
        assert not exercises and not grading
        return
    found = {exercise.name.partition(".")[2]: exercise for exercise in checks.exercises(TOPICS[lesson.number])}
    minutes = sum(exercise.minutes for exercise in found.values())
    assert minutes == lesson.exercises and exercises == f"{len(found)} in {minutes}"
    assert f"Exercises: {minutes} minutes" in first
    named = re.findall(r"`(\w+)`", grading)
    assert len(named) >= min(2, len(found)) and all(found[name].difficulty >= 2 and found[name].cases for name in named)


def test_the_minutes_are_added_up():
    reading = sum(int(row[2]) for row in ROWS.values())
    minutes = sum(exercise.minutes for exercise in EXERCISES)
    assert f"{reading} minutes of reading, and {len(EXERCISES)} exercises in {minutes} minutes" in TEXT


def test_the_plans_name_the_lessons():
    """The ten weeks name each lesson once, 13 from its first milestone on; the shorter plans stay in part one."""
    short, _, rest = TEXT.partition("**One day:**")[2].partition("**Ten weeks**")
    plan = rest.partition("**The project:**")[0]
    weeks = re.findall(r"\| (\d+) \| ([^|]+) (?=\|)", plan)
    assert [int(week) for week, _ in weeks] == [*range(1, 11)]
    beyond = [lesson.number for lesson in LESSONS if lesson.place[1] >= FIRST_BEYOND]
    assert f"one of {beyond[0]} to {beyond[-1]}" in plan
    named = dict.fromkeys(number for _, lessons in weeks for number in re.findall(r"\b\d\d\b", lessons))
    assert named.pop("13", 0) is None
    assert [*named] == [x.number for x in LESSONS if x.number != "13" and x.number not in beyond[1:-1]]
    assert not {*re.findall(r"\b\d\d\b", short)} & {*beyond}


def test_the_exercises_whose_inputs_a_seed_changes_are_counted():
    functions = [exercise for exercise in EXERCISES if exercise.cases]
    drawn = sum(difference(one.inputs(0), one.inputs(1), 0.0) is not None for one in functions)
    fixed, others = len(functions) - drawn, len(EXERCISES) - len(functions)
    assert f"{drawn} of the {len(EXERCISES)} exercises have such inputs." in TEXT
    assert f"{fixed} functions are tried on fixed inputs, and {others} exercises" in TEXT
