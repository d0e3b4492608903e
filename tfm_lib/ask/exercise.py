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

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        """Normally distributed numbers of that shape, rounded to one decimal."""
        return (torch.randn(shape, generator=self.generator) * 10).round() / 10

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from `low` up to, but not including, `high`."""
        return torch.randint(low, high, shape, generator=self.generator)


def _call(answer: Callable, **inputs: Any) -> Any:
    """By name, or by position where a learner has renamed the arguments."""
    try:
        inspect.signature(answer).bind(**inputs)
    except (TypeError, ValueError):
        return answer(*inputs.values())
    return answer(**inputs)


@dataclass
class Exercise:
    """What `check` knows of an exercise. `exercise` makes one of a reference; `mistake` adds a mistake."""

    reference: Callable  # does what is asked
    right: str  # why it matters, one sentence, for those who got it right
    difficulty: int  # 1, a warm-up, to 5
    minutes: int  # thinking included
    trains: str  # what it is good for, a few words
    # Yields inputs by name, the smallest ones first, since a diagnosis shows them. Without it the reference takes no
    # arguments, and the answer is a value, not a function: a prediction, a number that explains.
    cases: Callable[[Draw], Iterator[Inputs]] | None = None
    call: Callable = _call  # call(answer, **inputs), where an answer is used in another way, as a class is
    tolerance: float = 1e-4  # how far numbers may be off, relative to the expected ones (see `comparing.difference`)
    without: tuple[str, ...] = ()  # names of torch's functions that an answer has to do without, such as "tril"
    most_calls: int | None = None  # of torch's functions
    work: int = 1  # how many times the usual seconds of computing an answer may take
    mistakes: list[Callable] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What a learner hands to `check`, such as "attention.scaled"."""
        return f"{self.reference.__module__.rpartition('.')[2]}.{self.reference.__name__}"

    def mistake(self, wrong: Callable) -> Callable:
        """A decorator: an answer that gives what this wrong one gives is told its docstring."""
        self.mistakes.append(wrong)
        return wrong

    def inputs(self, seed: int = 0) -> list[Inputs]:
        """The inputs to try answers on, new ones on each call; what is drawn of them depends on the seed."""
        return list(self.cases(Draw(seed))) if self.cases else [{}]


def exercise(**about: Any) -> Callable[[Callable], Exercise]:
    """A decorator that makes an exercise of its reference; `about` are the fields of `Exercise`."""
    return lambda reference: Exercise(reference, **about)
