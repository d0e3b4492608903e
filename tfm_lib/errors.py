"""Which errors are answers to what somebody typed, and which are bugs; how options are called in the answers."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
BY_MAKE = "TFM_BY_MAKE"  # set in the environment where make runs the command


def option(name: str, value: object = None) -> str:
    """An option as one gives it, to make or to the command; without a value, one that is only switched on."""
    if BY_MAKE in os.environ:
        return f"{name.upper()}={1 if value is None else value}"
    return f"--{name}" if value is None else f"--{name} {value}"


def on_purpose(error: BaseException) -> bool:
    """Whether one of our own checks raised it, or the system did; then its message says enough.

    A ValueError from anywhere else is a bug's, and its traceback is what is needed to mend it.
    """
    if isinstance(error, OSError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(last.filename).resolve().is_relative_to(PACKAGE)
    return isinstance(error, ValueError) and ours and (last.line or "").startswith("raise ")


class OnPurpose(ValueError):
    """Such an error of a worker, under a name by which the process that has started it knows it from a bug's."""


def marking(command: Callable[[], None]) -> None:
    """Run a command; what it raises on purpose becomes an `OnPurpose` of the same message."""
    try:
        command()
    except (ValueError, OSError) as error:
        if on_purpose(error):
            raise OnPurpose(str(error)) from error
        raise
