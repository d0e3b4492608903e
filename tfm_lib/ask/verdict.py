"""Judges an answer: not attempted, not right yet, or right; and says why."""

import re
import sysconfig
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfm_lib.ask.comparing import difference, first_difference, kind, show
from tfm_lib.ask.exercise import Exercise, Inputs
from tfm_lib.ask.running import Outcome, OutOfTime, guarded, outcome
from tfm_lib.ask.telling import SIGNS

WIDTH = 88
STANDARD = sysconfig.get_paths()["stdlib"]
WORDS = {"open": "not attempted yet", "wrong": "not right yet", "right": "right"}


@dataclass(frozen=True)
class Verdict:
    """What `check` says. `state` is "open", "wrong" or "right"."""

    name: str
    state: str
    why: str = ""
    details: tuple[str, ...] = ()

    def reasons(self) -> list[str]:
        """Why, and the details, each wrapped."""
        details = [_wrapped(line, " " * 4, " " * 14) for line in self.details]
        return [*([_wrapped(self.why, " " * 2, " " * 2)] if self.why else []), *details]

    def __str__(self) -> str:
        return "\n".join([f"{SIGNS[self.state]} {self.name}: {WORDS[self.state]}.", *self.reasons()])


def _wrapped(text: str, indent: str, next_indent: str) -> str:
    """Lines that JupyterLab shows whole, since it would break them in the middle of a word or number."""
    wrapper = textwrap.TextWrapper(WIDTH, indent, next_indent, break_on_hyphens=False, break_long_words=False)
    wrapper.replace_whitespace = False
    return wrapper.fill(text)


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer. Raises nothing, whatever the answer does, and lasts a minute at most."""
    if answer is ...:
        return Verdict(exercise.name, "open")
    try:
        verdict, printed = guarded(lambda: _judge(exercise, answer))
    except OutOfTime as which:
        return Verdict(exercise.name, "wrong", str(which))
    except BaseException as error:  # an answer whose very comparison fails
        return Verdict(exercise.name, "wrong", f"What came cannot be read ({type(error).__name__}).")
    lines = printed.splitlines()
    shown = tuple(f"printed   {line[:120]}" for line in lines[:10])
    more = (f"          and {len(lines) - 10} lines more",) if len(lines) > 10 else ()
    return Verdict(verdict.name, verdict.state, verdict.why, verdict.details + shown + more)


def _judge(exercise: Exercise, answer: Any) -> Verdict:
    def verdict(state: str, why: str = "", *details: str) -> Verdict:
        return Verdict(exercise.name, state, why, details)

    if exercise.cases is not None and not callable(answer):
        result = "its result: hand over its name, without parentheses" if answer is not None else "None"
        return verdict("wrong", f"`check` wants the function itself, and got {result} ({kind(answer)}).")

    outcomes: list[tuple[Inputs, Outcome, Outcome]] = []
    for inputs in exercise.inputs():
        came = outcome(exercise, answer, inputs)
        if not outcomes and type(came.error) is NotImplementedError and not came.error.args:
            return verdict("open")
        outcomes.append((inputs, came, _of_ours(exercise, exercise.reference, inputs)))

    for inputs, came, wanted in outcomes:
        if not came.agrees(wanted, exercise.tolerance):
            why = _mistake(exercise, outcomes) or _generic(came, wanted, exercise.tolerance)
            lines = [f"{name} = {show(value)}" for name, value in inputs.items()]
            lines = [f"{'' if place else 'for':<9} {line}" for place, line in enumerate(lines)]
            expected, found = _beside(wanted, came, exercise.tolerance)
            if exercise.cases:  # a value is not given away
                lines.append(f"expected  {expected}")
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


def _mistake(exercise: Exercise, outcomes: list[tuple[Inputs, Outcome, Outcome]]) -> str | None:
    """The diagnosis of the mistake that explains every wrong outcome, and of these the one that explains most.

    Where none explains all, there may be two mistakes: then it is one that explains the first outcomes, two at least.
    """
    wrong = [not came.agrees(wanted, exercise.tolerance) for _, came, wanted in outcomes]
    best, diagnosis = (False, 1), None
    for mistake in exercise.mistakes:
        same = [_alike(came, _of_ours(exercise, mistake, inputs), exercise.tolerance) for inputs, came, _ in outcomes]
        where_wrong = [one for one, bad in zip(same, wrong, strict=True) if bad]
        every = all(where_wrong)
        explained = sum(same) + 1 if every else sum(where_wrong)
        if where_wrong[0] and (every, explained) > best:
            best, diagnosis = (every, explained), " ".join((mistake.__doc__ or "").split())
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
        raised = f"raised {type(came.error).__name__}{_line(came.error)}."
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


def _line(error: BaseException) -> str:
    """The innermost line of the learner's code that an error came from, as far as Python still has it."""
    ours = str(Path(__file__).parent.parent)  # the package: what it raises, a line of the learner's has called
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f.line for f in frames if not f.filename.startswith((ours, STANDARD)) and "site-packages" not in f.filename
    ]
    return f" in `{lines[-1]}`" if lines and lines[-1] else ""


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
