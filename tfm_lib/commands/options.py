"""What the options of the command line read, and refuse in words."""

import math
from collections.abc import Callable
from typing import Annotated

from typer import BadParameter, Option

# Where other work shares the cores, threads that spin while they wait slow training down more than ten times.
PATIENT = ("OMP_WAIT_POLICY", "PASSIVE")


def integer(least: int, most: float = math.inf) -> Callable[[object], int]:
    """Reads a whole number within these bounds."""

    def number(value: object) -> int:
        text = str(value)
        if not (text.isdecimal() and least <= int(text) <= most):
            raise BadParameter(f"wants a whole number from {least} on, got {text}")
        return int(text)

    return number


def two_names(text: str) -> str:
    """Reads the names of two fields."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise BadParameter(f"wants the names of two fields, such as body,subject, got {text}")
    return ",".join(names)


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
Fields = Annotated[str, Option(parser=two_names, help="what the file calls text and summary")]
Seed = Annotated[int, Option(parser=integer(0, 2**32 - 1), help="of weights, dropout, order and split")]
