"""Judges an answer: not attempted, not right yet, or right; and says why."""

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfm_lib.checks.comparing import difference, kind, show
from tfm_lib.checks.exercise import Exercise, Inputs
from tfm_lib.checks.running import SECONDS, Outcome, OutOfTime, guarded, outcome

SIGNS = {"open": "○", "wrong": "✗", "right": "✓"}
WORDS = {"open": "not attempted yet", "wrong": "not right yet", "right": "right"}


@dataclass(frozen=True)
class Verdict:
    """What `check` says. `state` is "open", "wrong" or "right"."""

    name: str
    state: str
    why: str = ""
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = f"{SIGNS[self.state]} {self.name}: {WORDS[self.state]}. {self.why}".rstrip()
        return "\n".join([first, *(f"    {line}" for line in self.details)])


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer. Raises nothing, whatever the answer does, and lasts seconds at most."""
    if answer is ...:
        return Verdict(exercise.name, "open")
    try:
        verdict, printed = guarded(lambda: _judge(exercise, answer))
    except OutOfTime:
        loop = "is there a loop that never stops, or a very slow one?"
        why = f"It did not come to an end within {SECONDS:.0f} seconds: {loop}"
        return Verdict(exercise.name, "wrong", why)
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

    wrong = [(inputs, came, wanted) for inputs, came, wanted in outcomes if not came.agrees(wanted, exercise.tolerance)]
    if wrong:
        inputs, came, wanted = wrong[0]
        why = _mistake(exercise, outcomes) or _generic(came, wanted, exercise.tolerance)
        given = [f"{name} = {show(value)}" for name, value in inputs.items()]
        lines = [f"{'' if place else 'for':<9} {line}" for place, line in enumerate(given)]
        digits = 4 if _shown(wanted, 4) != _shown(came, 4) else 9
        if exercise.cases:  # a value is not given away
            lines.append(f"expected  {_shown(wanted, digits)}")
        return verdict("wrong", why, *lines, f"came      {_shown(came, digits)}")
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
    """The diagnosis of the mistake that explains every wrong outcome, and of these the one that explains most."""
    best, diagnosis = 0, None
    for mistake in exercise.mistakes:
        explained = 0
        for inputs, came, wanted in outcomes:
            if came.agrees(_of_ours(exercise, mistake, inputs), exercise.tolerance):
                explained += 1
            elif not came.agrees(wanted, exercise.tolerance):
                break
        else:
            if explained > best:
                best, diagnosis = explained, " ".join((mistake.__doc__ or "").split())
    return diagnosis


def _generic(came: Outcome, wanted: Outcome, tolerance: float) -> str:
    """What can be said of any answer."""
    if came.error:
        message = " ".join(str(came.error).split())[:200]
        raised = f"raised {type(came.error).__name__}{_line(came.error)}{f': {message}' if message else '.'}"
        return (
            f"It should refuse this input with a {type(wanted.error).__name__}, and {raised}"
            if wanted.error
            else (f"It {raised}")
        )
    if wanted.error:
        return f"It should refuse this input with a {type(wanted.error).__name__}, and gave a result."
    if came.changed:
        return f"Its result is not right, and {_changes(came)}"
    return difference(wanted.value, came.value, tolerance) or ""


def _changes(came: Outcome) -> str:
    names = " and ".join(f"`{name}`" for name in came.changed)
    return f"your function changes its input {names}, which its caller still needs. Make a new tensor."


def _line(error: BaseException) -> str:
    """The line of the learner's code that an error came from, as far as Python still has it."""
    ours = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.line for f in frames if not f.filename.startswith(ours) and "site-packages" not in f.filename]
    return f" in `{lines[-1]}`" if lines and lines[-1] else ""


def _shown(result: Outcome, digits: int) -> str:
    return type(result.error).__name__ if result.error else show(result.value, digits)
