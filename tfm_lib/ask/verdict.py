"""Judges an answer: not attempted, not right yet, or right; and says why."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tfm_lib.ask.comparing import difference, first_difference, kind, show
from tfm_lib.ask.exercise import Exercise, Inputs
from tfm_lib.ask.running import Outcome, OutOfTime, guarded, outcome
from tfm_lib.ask.telling import SIGNS, WIDTH, wrapped

WORDS = {"open": "not attempted yet", "wrong": "not right yet", "right": "right"}


@dataclass(frozen=True)
class Verdict:
    """What `check` says. `state` is "open", "wrong" or "right"."""

    name: str
    state: str
    why: str = ""
    details: tuple[str, ...] = ()

    def reasons(self) -> list[str]:
        """Why, and the details, each wrapped; the rows of a matrix stand below each other."""
        lines = [wrapped(self.why, " " * 2, " " * 2)] if self.why else []
        for line in self.details:
            matrix = 0 < line.find("[[") < WIDTH // 3
            first, *rows = line.replace("], [", "],\n[").split("\n") if matrix else [line]
            under = " " * (5 + line.index("[[") if matrix else 14)
            lines += [wrapped(first, " " * 4, under), *(wrapped(row, under, under) for row in rows)]
        return lines

    def __str__(self) -> str:
        return "\n".join([f"{SIGNS[self.state]} {self.name}: {WORDS[self.state]}.", *self.reasons()])


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer. Raises nothing, whatever the answer does, and lasts a minute at most."""
    if answer is ...:
        return Verdict(exercise.name, "open")
    try:
        verdict, printed = guarded(lambda: _judge(exercise, answer), exercise.work)
    except OutOfTime as which:
        return Verdict(exercise.name, "wrong", str(which))
    except BaseException as error:  # an answer whose very comparison fails
        return Verdict(exercise.name, "wrong", f"What came cannot be read ({type(error).__name__}).")
    lines = printed.splitlines()
    shown = tuple(f"printed   {line[:120]}" for line in lines[:10])
    more = (f"          and {len(lines) - 10} lines more",) if len(lines) > 10 else ()
    return Verdict(verdict.name, verdict.state, verdict.why, verdict.details + shown + more)


def _judge(exercise: Exercise, answer: Any) -> Verdict:
    if exercise.cases is not None and not callable(answer):
        return Verdict(exercise.name, "wrong", not_callable(answer))
    inputs = exercise.inputs()
    return decide(Expected(exercise, inputs), [outcome(exercise, answer, given) for given in inputs])


def not_callable(answer: Any) -> str:
    """Why it is no answer where a function is asked for."""
    result = "its result: hand over its name, without parentheses" if answer is not None else "None"
    return f"`check` wants the function itself, and got {result} ({kind(answer)})."


@dataclass
class Expected:
    """What the reference and the mistakes of an exercise give for these inputs, each computed once it is needed."""

    exercise: Exercise
    inputs: list[Inputs]

    @cached_property
    def wanted(self) -> list[Outcome]:
        """Of the reference, for each of the inputs."""
        return self._of(self.exercise.reference)

    @cached_property
    def mistakes(self) -> list[tuple[str, list[Outcome]]]:
        """Of each mistake: its diagnosis, and what it gives for each of the inputs."""
        return [(" ".join((one.__doc__ or "").split()), self._of(one)) for one in self.exercise.mistakes]

    def _of(self, function: Callable) -> list[Outcome]:
        return [_of_ours(self.exercise, function, inputs) for inputs in self.inputs]


def decide(expected: Expected, tried: list[Outcome]) -> Verdict:
    """The verdict on what came of an answer for each of the inputs; runs nothing of the answer."""
    exercise = expected.exercise

    def verdict(state: str, why: str = "", *details: str) -> Verdict:
        return Verdict(exercise.name, state, why, details)

    if type(tried[0].error) is NotImplementedError and not tried[0].error.args:
        return verdict("open")
    outcomes = list(zip(expected.inputs, tried, expected.wanted, strict=True))
    for inputs, came, wanted in outcomes:
        if not came.agrees(wanted, exercise.tolerance):
            why = _mistake(expected, tried) or _generic(came, wanted, exercise.tolerance)
            lines = [f"{name} = {show(value)}" for name, value in inputs.items()]
            lines = [f"{'' if place else 'for':<9} {line}" for place, line in enumerate(lines)]
            ours, found = _beside(wanted, came, exercise.tolerance)
            if exercise.cases:  # a value is not given away
                lines.append(f"expected  {ours}")
            return verdict("wrong", why, *lines, f"came      {found}")
    for _, came, _ in outcomes:
        if came.changed:
            return verdict("wrong", f"The result is right, but {_changes(came)}")
        if used := [name for name in came.calls if name.rstrip("_") in exercise.without]:
            return verdict("wrong", f"The result is right, but it comes from `{used[0]}`, and the task is without it.")
        if exercise.most_calls is not None and len(came.calls) > exercise.most_calls:
            calls = f"{len(came.calls)} calls of torch ({', '.join(came.calls[:12])}), and {exercise.most_calls}"
            return verdict("wrong", f"The result is right, but it takes {calls} are enough.")
    return verdict("right", exercise.right)


def _of_ours(exercise: Exercise, function: Any, inputs: Inputs) -> Outcome:
    """The outcome of a reference or a mistake, which for a value is what the function returns."""
    return outcome(exercise, function if exercise.cases else function(), inputs)


def _mistake(expected: Expected, tried: list[Outcome]) -> str | None:
    """The diagnosis of the mistake that explains every wrong outcome, and of these the one that explains most.

    Where none explains all, there may be two mistakes: then it is one that explains the first outcomes, two at least.
    """
    tolerance = expected.exercise.tolerance
    wrong = [not came.agrees(wanted, tolerance) for came, wanted in zip(tried, expected.wanted, strict=True)]
    best, diagnosis = (False, 1), None
    for said, outcomes in expected.mistakes:
        same = [_alike(came, of_mistake, tolerance) for came, of_mistake in zip(tried, outcomes, strict=True)]
        where_wrong = [one for one, bad in zip(same, wrong, strict=True) if bad]
        every = all(where_wrong)
        explained = sum(same) + 1 if every else sum(where_wrong)
        if where_wrong[0] and (every, explained) > best:
            best, diagnosis = (every, explained), said
    return diagnosis if best[0] or diagnosis is None else f"At least this: {diagnosis}"


def _alike(came: Outcome, mistake: Outcome, tolerance: float) -> bool:
    """The same value, or the same error in the same words, whatever the numbers in them."""
    if came.error and mistake.error:
        one, other = ((type(error), re.sub(r"\d+", "", str(error))) for error in (came.error, mistake.error))
        return one == other
    return came.agrees(mistake, tolerance)


def _generic(came: Outcome, wanted: Outcome, tolerance: float) -> str:
    """What can be said of any answer."""
    if came.error:
        where = f" in `{came.line}`" if came.line else ""
        raised = f"raised {type(came.error).__name__}{where}."
        refuse = f"It should refuse this input with a {type(wanted.error).__name__}, and {raised}"
        return refuse if wanted.error else f"It {raised}"
    if wanted.error:
        return f"It should refuse this input with a {type(wanted.error).__name__}, and gave a result."
    if came.changed:
        return f"Its result is not right, and {_changes(came)}"
    return difference(wanted.value, came.value, tolerance) or ""


def _changes(came: Outcome) -> str:
    names = " and ".join(f"`{name}`" for name in came.changed)
    return f"your function changes its input {names}, which its caller still needs. Make a new tensor."


def _named(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return type(error).__name__ + (f": {message[:200]}" if message else "")


def _beside(wanted: Outcome, came: Outcome, tolerance: float) -> tuple[str, str]:
    """Expected and found, each in a line, such that a reader sees the difference.

    Of several values only the first that differs, and of a long tensor the first place, where the whole looks alike.
    """
    if wanted.error or came.error:
        one, other = (_named(o.error) if o.error else show(o.value) for o in (wanted, came))
        return one, other
    where, expected, found = first_difference(wanted.value, came.value, tolerance)
    for digits in (4, 9):
        if show(expected, digits) != show(found, digits):
            break
    else:
        if isinstance(expected, Tensor) and isinstance(found, Tensor) and expected.shape == found.shape:
            apart = ~torch.isclose(expected, found, tolerance, 0.0, equal_nan=True)
            place = apart.nonzero()[0].tolist()
            where = f"{where}at {place}: "
            expected, found = expected[tuple(place)], found[tuple(place)]
    return f"{where}{show(expected, digits)}", f"{where}{show(found, digits)}"
