"""Runs what was collected, each submission in a process of its own, and judges the values that come back."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tfm_lib.ask.checks import TOPICS, exercises
from tfm_lib.ask.exercise import Exercise
from tfm_lib.ask.verdict import Expected, decide
from tfm_lib.errors import CourseError
from tfm_lib.grading.collecting import Submission, collect
from tfm_lib.grading.sandbox import Ran, Sandbox
from tfm_lib.grading.values import outcome_from_data
from tfm_lib.lessons import LESSONS

SECONDS = 10.0  # of computing, for a cell and for each exercise; a learner's own machine gives three

PATIENCE = 300.0  # seconds by the clock on the wall until a process has begun, on a machine with other work


class Row(NamedTuple):
    """What the grader says of one exercise of a submission."""

    submission: str
    exercise: str  # empty where something is said of files
    verdict: str  # right, wrong, open (not attempted), missing (not handed in), unread (no notebook), twice
    diagnosis: str = ""


def grade(
    folder: Path, sandbox: Sandbox, seed: int = 0, seconds: float = SECONDS, done: Callable[[], object] = lambda: None
) -> list[Row]:
    """The rows of all submissions of a folder; `done` is called after each.

    Of each lesson of which a submission has an exercise, all are told. Raises CourseError where there is no submission,
    or where the sandbox fails.
    """
    known = {one.name: one for topic in TOPICS for one in exercises(topic)}
    submissions = collect(folder, known)
    expected = {name: Expected(one, one.inputs(seed)) for name, one in known.items()}

    def told(submission: Submission) -> dict[str, Any]:
        try:
            return run(submission, sandbox, seed, seconds, folder.resolve())
        finally:
            done()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        all_told = list(pool.map(told, submissions))
    return [row for one, found in zip(submissions, all_told, strict=True) for row in _rows(one, found, expected)]


def run(submission: Submission, sandbox: Sandbox, seed: int, seconds: float, hidden: Path) -> dict[str, Any]:
    """What a submission's processes tell of each exercise. After a cell that ends its process another one goes on."""
    told: dict[str, Any] = {}
    cells = [cell._asdict() for cell in submission.cells]
    while any(cell["names"] for cell in cells):
        setups = {topic: _setup(topic) for topic in {cell["topic"] for cell in cells}}
        job = json.dumps({"seed": seed, "seconds": seconds, "setups": setups, "cells": cells}).encode()
        ran = sandbox.run(job, PATIENCE + 60 * len(cells), hidden)
        begun, lines = -1, list(_lines(ran.told))
        if not lines or "ready" not in lines[0]:
            raise CourseError(f"the sandbox ended ({ran.status}) before it ran {submission.name}: {ran.said[-300:]}")
        for line in lines:
            begun = line["begun"] if isinstance(line.get("begun"), int) else begun
            if isinstance(name := line.get("name"), str):
                told.setdefault(name, line)
        begun = max(0, min(begun, len(cells) - 1))
        for name in cells[begun]["names"]:
            told.setdefault(name, {"failed": _ending(ran, seconds)})
        cells = [cell | {"names": [n for n in cell["names"] if n not in told]} for cell in cells]
        cells = cells[:begun] + cells[begun + 1 :]  # what ended one process is not run again
    return told


def _lines(told: str) -> Iterator[dict[str, Any]]:
    for text in told.splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def _ending(ran: Ran, seconds: float) -> str:
    if ran.late:
        return "Its process was stopped: it waited too long, or wrote too much."
    how = f"by an exit, by more than {seconds:g} seconds of computing, or by its memory"
    return f"It ended its own process (status {ran.status}): {how}."


@cache
def _setup(topic: str) -> str:
    """The imports under *Exercises*, as the course's own lesson has them."""
    [lesson] = [lesson for lesson in LESSONS if lesson.topic == topic]
    cells = json.loads(lesson.file.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if "exercises" in cell["metadata"].get("tags", ()))


def _rows(submission: Submission, told: dict[str, Any], expected: dict[str, Expected]) -> Iterator[Row]:
    for verdict, remark in submission.remarks:
        yield Row(submission.name, "", verdict, remark)
    topics = {cell.topic for cell in submission.cells}
    for name, ours in expected.items():
        if name in told:
            yield _judged(submission.name, ours, told[name])
        elif name.partition(".")[0] in topics:
            yield Row(submission.name, name, "missing")


def _judged(submission: str, expected: Expected, line: dict[str, Any]) -> Row:
    exercise: Exercise = expected.exercise
    if "failed" in line or "open" in line:
        failed = str(line.get("failed", ""))[:400]
        return Row(submission, exercise.name, "wrong" if failed else "open", failed)
    try:
        tried = [outcome_from_data(data) for data in line["outcomes"]]
        verdict = decide(expected, tried)
    except Exception as error:  # no data of ours, or such that even their comparison fails
        return Row(submission, exercise.name, "wrong", f"What came back can't be read ({type(error).__name__}).")
    return Row(submission, exercise.name, verdict.state, verdict.why[:600] if verdict.state == "wrong" else "")
