"""What the options of the command line read, and refuse in words."""

import csv
import math
from collections.abc import Callable, Sequence
from os.path import expanduser
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

USUAL = ("article", "summary")  # fields of a file


def integer(least: int, most: float = math.inf) -> Callable[[object], int]:
    """Reads a whole number within these bounds."""

    def number(value: object) -> int:
        if not (str(value).isdecimal() and least <= int(str(value)) <= most):
            bounds = f"from {least} on" if most == math.inf else f"from {least} to {most}"
            raise BadParameter(f"wants a whole number {bounds}, got {value}")
        return int(str(value))

    return number


def names(fields: str | None, usual: Sequence[str] = USUAL) -> list[str]:
    """The names of fields, which commas part; one that holds a comma stands in double quotes. Of none: the usual."""
    [row] = csv.reader([fields], skipinitialspace=True) if fields else [usual if fields is None else [""]]
    return [name.strip() for name in row]


def two_names(text: str) -> str:
    """Reads the names of two fields."""
    if len(names(text)) != 2 or not all(names(text)):
        raise BadParameter(f"wants the names of two fields, such as body,subject, got {text}")
    return text


def expanded(text: object) -> Path:
    """Reads a path, where ~ is the home folder: not every shell says so behind a sign of equality."""
    return Path(expanduser(str(text)))


def positive(value: object) -> float:
    """Reads a number above zero."""
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise BadParameter(f"wants a number above 0, such as 10 or 0.5, got {value}")
    return number


# What several commands take.
Fields = Annotated[str | None, Option(parser=two_names, help="its text and summary, if not article,summary")]
Seed = Annotated[int, Option(parser=integer(0, 2**32 - 1), help="of weights, dropout, order and split")]
