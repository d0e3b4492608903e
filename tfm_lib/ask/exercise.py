"""The one shape of all exercises: a reference, the inputs to try it on, and the mistakes that learners make."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Inputs = dict[str, Any]


class Draw:
    """Random inputs that are the same each time, with one decimal, so that a diagnosis can show them."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, *shape: int) -> Tensor:
        """Normally distributed numbers of that shape, rounded to one decimal."""
        return (torch.randn(shape, generator=self.generator) * 10).round() / 10

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from `low` up to, but not including, `high`."""
        return torch.randint(low, high, shape, generator=self.generator)


@dataclass
class Exercise:
    """What `check` knows of an exercise. `exercise` makes one of a reference; `mistake` adds a mistake."""

    reference: Callable
    right: str  # why it matters, one sentence, for those who got it right
    difficulty: int  # 1, a warm-up, to 5
    minutes: int
    trains: str
    cases: Callable[[Draw], Iterator[Inputs]] | None  # None: the answer is a value, not a function
    call: Callable  # how to use an answer: call(answer, **inputs)
    tolerance: float
    without: tuple[str, ...]
    most_calls: int | None
    mistakes: list[Callable] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What a learner hands to `check`, such as "attention.scaled"."""
        return f"{self.reference.__module__.rpartition('.')[2]}.{self.reference.__name__}"

    def mistake(self, wrong: Callable) -> Callable:
        """A decorator: an answer that gives what this wrong one gives is told its docstring."""
        self.mistakes.append(wrong)
        return wrong

    def inputs(self) -> list[Inputs]:
        """The inputs to try answers on, new ones on each call."""
        return list(self.cases(Draw())) if self.cases else [{}]


def _call(answer: Callable, **inputs: Any) -> Any:
    """By name, or by position where a learner has renamed the arguments."""
    try:
        inspect.signature(answer).bind(**inputs)
    except (TypeError, ValueError):
        return answer(*inputs.values())
    return answer(**inputs)


def exercise(
    *,
    right: str,
    difficulty: int,
    minutes: int,
    trains: str,
    cases: Callable[[Draw], Iterator[Inputs]] | None = None,
    call: Callable = _call,
    tolerance: float = 1e-4,
    without: tuple[str, ...] = (),
    most_calls: int | None = None,
) -> Callable[[Callable], Exercise]:
    """A decorator that makes an exercise of its reference, a function that does what is asked.

    Args:
        right: why it matters, one sentence, which a learner sees at the end.
        difficulty: from 1, a warm-up, to 5.
        minutes: how long it takes, thinking included.
        trains: what it is good for, a few words.
        cases: yields inputs by name, the smallest ones first, since a diagnosis shows them. Without it the reference
            takes no arguments, and the answer is a value: a prediction, a number that explains.
        call: `call(answer, **inputs)`, where an answer is used in another way than `answer(**inputs)`, as a class is.
        tolerance: how far numbers may be off, relative to the expected ones (see `comparing.difference`).
        without: names of torch's functions that an answer has to do without, such as "tril".
        most_calls: how many calls of torch's functions an answer may make, at most.
    """

    def make(reference: Callable) -> Exercise:
        limits = (tolerance, tuple(without), most_calls)
        return Exercise(reference, right, difficulty, minutes, trains, cases, call, *limits)

    return make
