"""Who trains: one process, or several workers that torchrun started."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import distributed

from tfm_lib.learning import training
from tfm_lib.learning.checkpoints import History


class Team(Protocol):
    """Who trains: `learning.training` alone, or `learning.workers` together."""

    minimizes_risk: bool

    def find_device(self, name: str | None = None) -> torch.device: ...
    def is_first(self) -> bool: ...  # who says, saves and scores something
    def joined(self, device: torch.device) -> AbstractContextManager[None]: ...
    def steps_within(self, *arguments: Any, **options: Any) -> int: ...
    def train(self, *arguments: Any, **options: Any) -> History: ...


def works_together() -> bool:
    """Whether torchrun started this process, as one of several workers."""
    return distributed.is_available() and distributed.is_torchelastic_launched()


def who_trains() -> Team:
    """The workers, in each of them, and otherwise this process."""
    if works_together():
        from tfm_lib.learning import workers

        return workers
    return training
