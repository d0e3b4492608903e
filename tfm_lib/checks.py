"""What the exercises of the lessons call; `tfm_lib.ask` has it."""

from tfm_lib.ask.checks import check, progress

__all__ = ["check", "progress"]
