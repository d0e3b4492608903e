"""Which errors are answers to what somebody typed, and which are bugs; how options are called in the answers."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BY_MAKE = "TFM_BY_MAKE"  # set in the environment where make runs the command


def option(name: str, value: object = None) -> str:
    """An option as one gives it, to make or to the command; without a value, one that is only switched on."""
    if BY_MAKE in os.environ:
        return f"{name.upper()}={1 if value is None else value}"
    return f"--{name}" if value is None else f"--{name} {value}"


def command(name: str) -> str:
    """A command as one types it."""
    ours = "tfm" if Path(sys.argv[0]).stem == "tfm" else "python -m tfm_lib"
    return f"{'make' if BY_MAKE in os.environ else ours} {name}"


class CourseError(ValueError):
    """What somebody gave can't be used: the message names what came, what was wanted, and a fix.

    The command says it in a line; any other ValueError is a bug's, whose traceback is what is needed to mend it.
    """


def course_errors(command: Callable[[], None]) -> None:
    """Run a worker's command, whose starter learns only the error's class: an OSError becomes a `CourseError`."""
    try:
        command()
    except OSError as error:
        raise CourseError(str(error)) from error


@contextmanager
def brought_by(extra: str, what: str) -> Iterator[None]:
    """Around an import: a `CourseError` that says what needs it, and the command that adds it, where it is missing.

    pip takes the extra from what is installed, wherever that came from.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise CourseError(f"{what} needs {error.name}, which this adds: pip install 'tfm-lib[{extra}]'") from error
