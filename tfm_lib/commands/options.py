"""What the options of the command line read, and refuse in words."""

import argparse
import math
from collections.abc import Callable


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Reads a whole number within these bounds."""

    def read(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"wants a whole number from {least} on, got {text}")
        return int(text)

    return read


def one_of(*names: str) -> Callable[[str], str]:
    """Reads one of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"is {' or '.join(names)}, not {text}")
        return text

    return read


def fields(text: str) -> list[str]:
    """Reads the names of two fields."""
    names = [field.strip() for field in text.split(",")]
    if len(names) != 2 or not all(names):
        raise argparse.ArgumentTypeError(f"wants the names of two fields, such as body,subject, got {text}")
    return names


def minutes(text: str) -> float:
    """Reads a positive number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"wants a number above 0, such as 10 or 0.5, got {text}")
    return number
