"""The recipe of a run: how long, how fast and on how much it learns."""

import math
from dataclasses import dataclass

from tfm_lib.errors import CourseError


def paper_rate(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """The learning rate of step 1, 2, ...: a straight rise, then a fall with 1 / sqrt(step).

    The factor is a usual addition. Raises ValueError for step 0. Source: Vaswani et al. 2017, section 5.3.
    """
    _check_step(step)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def linear_rate(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """The learning rate of step 1, 2, ...: a straight rise to `peak`, then a straight fall to 0 after `steps`.

    A warm-up beyond the run rises to its end. Raises ValueError for step 0.
    Source: Devlin et al. 2019 (BERT), appendix A.2.
    """
    _check_step(step)
    return peak * max(0.0, min(step / warmup_steps, (steps + 1 - step) / max(1, steps + 1 - warmup_steps)))


def _check_step(step: int) -> None:
    if step < 1:
        raise CourseError(f"steps count from 1, got {step}; where yours count from 0, as LambdaLR's, give step + 1")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides a run besides model and data; a checkpoint keeps it. Raises ValueError for impossible values."""

    steps: int
    peak_rate: float = 1e-3  # the highest learning rate, reached after the warm-up
    warmup_steps: int = 100
    fall: str = "paper"  # after it: "paper" as 1 / sqrt(step), "linear" to zero at the last step
    max_tokens: int = 4096  # places in a batch: both sides, padding included
    label_smoothing: float = 0.1
    risk_steps: int = 0  # so many of the last steps minimize risk, see `risk`
    fixed_embeddings: bool = False  # they stay as they were at the start
    seed: int = 0  # of the data's order

    def __post_init__(self) -> None:
        if self.fall not in ("paper", "linear"):
            raise CourseError(f"fall must be 'paper' or 'linear', got {self.fall!r}")
        for name in ("steps", "warmup_steps", "max_tokens", "risk_steps", "seed"):
            if not isinstance(getattr(self, name), int):
                raise CourseError(f"{name} must be a whole number, got {getattr(self, name)!r}; round it")
        for name in ("steps", "peak_rate", "warmup_steps", "max_tokens"):
            if not 0 < getattr(self, name) < math.inf:
                raise CourseError(f"{name} must be positive, got {getattr(self, name)}")
        if self.fall == "linear" and self.warmup_steps > self.steps:
            raise CourseError(f"a warm-up of {self.warmup_steps} steps doesn't fit a run of {self.steps}; shorten it")
        if not 0 <= self.risk_steps <= self.steps:
            raise CourseError(f"risk_steps must lie in 0..{self.steps}, steps, got {self.risk_steps}")
        if not 0 <= self.label_smoothing < 1:
            raise CourseError(f"label_smoothing must lie in [0, 1), got {self.label_smoothing}")

    def rate(self, step: int) -> float:
        if self.fall == "linear":
            return linear_rate(step, self.peak_rate, self.warmup_steps, self.steps)
        return paper_rate(step, 1, self.warmup_steps, factor=self.peak_rate * self.warmup_steps**0.5)
