"""Runs in the sandbox, before and around what a student wrote: reads a job from stdin, tells data on stdout.

The job: {"seed", "seconds", "setups": {topic: source}, "cells": [{"topic", "names", "source"}]}.
Told are lines of JSON: "ready" before anything foreign runs, "begun" before each cell, and of each of its `names` the
outcomes, or why there are none.
"""

import importlib
import json
import linecache
import os
import resource
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfm_lib.ask import running
from tfm_lib.ask.exercise import Exercise
from tfm_lib.ask.running import OutOfTime, guarded, outcome
from tfm_lib.ask.verdict import not_callable
from tfm_lib.grading.values import outcome_to_data

MEMORY = 2 * 2**30  # bytes beside what Python and torch take
FILE, FILES = 16 * 2**20, 64  # bytes of a file; files open at once, those in memory included


def main() -> None:
    """Do the job, and end this process whatever still runs in it."""
    job = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)

    def tell(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    topics = {cell["topic"] for cell in job["cells"]}
    modules = [importlib.import_module(f"tfm_lib.ask.exercises.{topic}") for topic in sorted(topics)]
    known = {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Exercise)}
    running.SECONDS = job["seconds"]
    _limit(job["seconds"], len(job["cells"]))
    tell({"ready": True})
    student = Student(job, known, tell)
    for place, cell in enumerate(job["cells"]):
        tell({"begun": place})
        _limit(job["seconds"])
        student.run(f"<cell {place}>", **cell)
    os._exit(0)


def _limit(seconds: float, cells: int | None = None) -> None:
    """Limit this process: for one cell the seconds of computing; for the whole job all, which nothing raises again."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    used, hard = int(spent.ru_utime + spent.ru_stime) + 2, resource.getrlimit(resource.RLIMIT_CPU)[1]
    if cells is None:
        resource.setrlimit(resource.RLIMIT_CPU, (min(used + 3 * int(seconds + 1), hard), hard))
        return
    total = used + 3 * int(seconds + 1) * (cells + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (total, total))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))


class Student:
    """Runs the cells of a student, those of a lesson in one space of names, and tries what they hand to `check`."""

    def __init__(self, job: dict[str, Any], known: dict[str, Exercise], tell: Callable[[dict[str, Any]], None]) -> None:
        self.job, self.known, self.tell = job, known, tell
        self.spaces: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Any] = {}
        checks = types.ModuleType("tfm_lib.ask.checks")
        checks.check = lambda name, answer: self.answers.update({name: answer})  # type: ignore[attr-defined]
        sys.modules[checks.__name__] = checks

    def run(self, file: str, topic: str, names: list[str], source: str) -> None:
        """Run a cell, and tell what comes of its answers; after one that can't be stopped the process ends."""
        self.answers.clear()
        why, late = self._executed(file, topic, source)
        for name in names:
            told = {"failed": why or "The cell hands nothing to `check`."}
            if name in self.answers and not late:
                told, late = self._tried(self.known[name], self.answers[name])
            self.tell({"name": name, **told})
        if late:
            os._exit(0)

    def _executed(self, file: str, topic: str, source: str) -> tuple[str, bool]:
        """Why a cell did not come to its end, "" if it did; and whether it may still run."""
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        setup = "" if topic in self.spaces else self.job["setups"][topic]
        space = self.spaces.setdefault(topic, {"__name__": "__main__", "display": print})
        try:
            guarded(lambda: exec(setup, space))
            guarded(lambda: exec(compile(source, file, "exec"), space))
        except OutOfTime as error:
            return str(error), True
        except BaseException as error:
            said = f"{type(error).__name__}: {str(error)[:200]}"
            return f"The cell raised {said}. Only cells that call `check` are run.", False
        return "", False

    def _tried(self, exercise: Exercise, answer: Any) -> tuple[dict[str, Any], bool]:
        """What to tell of an answer, and whether it may still run."""
        if answer is ...:
            return {"open": True}, False
        if exercise.cases and not callable(answer):
            return {"failed": not_callable(answer)}, False
        try:
            inputs = exercise.inputs(self.job["seed"])
            came, _ = guarded(lambda: [outcome_to_data(outcome(exercise, answer, given)) for given in inputs])
        except OutOfTime as error:
            return {"failed": str(error)}, True
        except BaseException as error:
            return {"failed": f"What came can't be read ({type(error).__name__})."}, False
        return {"outcomes": came}, False


if __name__ == "__main__":
    main()
