"""Tells in words how a value differs from the expected one, and shows values in a line."""

import math
import numbers
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST = 300  # characters of a value that a line shows
NAMES = {  # of types
    "NoneType": "None", "str": "a string", "bool": "True or False", "dict": "a dictionary", "int": "an integer",
    "ndarray": "an array of numpy", "float": "a number", "function": "a function", "type": "a class",
}  # fmt: skip


def difference(expected: Any, came: Any, tolerance: float) -> str | None:
    """A sentence on the first difference, None if there is none.

    Types come first, then shapes, then values, so that nothing large is computed for a value of the wrong form.
    A number may come as one of numpy or as a tensor without axes, and a tuple as a list. The tolerance is relative: to
    a number itself, to the largest entry of a tensor; whole numbers are exact, and the case of letters is free.
    """
    if came is None and expected is not None:
        return "What came is None: is there a `return`?"
    if isinstance(expected, Tensor):
        return _tensors(expected, came, tolerance)
    if isinstance(came, np.generic) or (isinstance(came, Tensor) and came.dim() == 0 and came.device.type != "meta"):
        came = came.item()
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        if type(came) is not type(expected):
            return f"What came is {kind(came)}, and {kind(expected)} is wanted."
        if isinstance(expected, str) and isinstance(came, str):
            came, expected = came.strip().casefold(), expected.strip().casefold()
        return None if came == expected else "The value differs."
    if isinstance(expected, numbers.Real):
        if isinstance(came, bool) or not isinstance(came, numbers.Real):
            return f"What came is {kind(came)}, and a number is wanted."
        if isinstance(expected, int):
            return None if came == expected else "The number differs."
        close = math.isclose(came, expected, rel_tol=tolerance, abs_tol=tolerance * _zero(abs(float(expected))))
        return None if close or (math.isnan(came) and math.isnan(expected)) else "The number differs."
    if isinstance(expected, tuple | list | dict):
        found = ((name, difference(one, other, tolerance)) for name, one, other in _pairs(expected, came, "Entry"))
        return _form(expected, came) or next((f"{name}: {what}" for name, what in found if what), None)
    if isinstance(expected, nn.Module) and type(came) is type(expected):
        return difference(dict(expected.state_dict()), dict(came.state_dict()), tolerance)
    return None if type(came) is type(expected) and came == expected else f"What came is {kind(came)}."


def first_difference(expected: Any, came: Any, tolerance: float) -> tuple[str, Any, Any]:
    """Where two values differ first, and what stands there: in tuples and dictionaries, the entry and its name."""
    for name, value, other in _pairs(expected, came, "entry"):
        if difference(value, other, tolerance) and not isinstance(value, int | float | str):
            deeper, value, other = first_difference(value, other, tolerance)
            return f"{name}: {deeper}", value, other
    return "", expected, came


def _form(expected: Any, came: Any) -> str | None:
    """What is wrong with what came as a list, tuple or dictionary, whatever is in it."""
    if isinstance(expected, dict):
        if not isinstance(came, dict):
            return f"What came is {kind(came)}, and a dictionary is wanted."
        keys = [sorted(map(str, value)) for value in (came, expected)]
        return None if came.keys() == expected.keys() else f"The keys are {keys[0]}, and should be {keys[1]}."
    if not isinstance(came, tuple | list):
        return f"What came is {kind(came)}, and {kind(expected)} of {len(expected)} is wanted."
    lengths = f"What came has {len(came)} entries, and should have {len(expected)}."
    return None if len(came) == len(expected) else lengths


def _pairs(expected: Any, came: Any, entry: str) -> list[tuple[str, Any, Any]]:
    """The entries of two lists, tuples or dictionaries of one form, by name; none of other values."""
    if not isinstance(expected, tuple | list | dict) or _form(expected, came):
        return []
    if isinstance(expected, dict):
        return [(str(key), value, came[key]) for key, value in expected.items()]
    return [(f"{entry} {place}", *both) for place, both in enumerate(zip(expected, came, strict=True))]


def _zero(size: float) -> float:
    """What a difference is measured by besides the expected value: 1 where that is zero, or zero but for rounding."""
    return 1.0 if size < 1e-12 else 0.0


def _tensors(expected: Tensor, came: Any, tolerance: float) -> str | None:
    if not isinstance(came, Tensor):
        return f"What came is {kind(came)}, and a tensor is wanted."
    if came.shape != expected.shape:
        return f"The shape is {tuple(came.shape)}, and should be {tuple(expected.shape)}."
    if came.dtype != expected.dtype:
        return f"The numbers are of type {_name(came.dtype)}, and should be {_name(expected.dtype)}."
    if came.device != expected.device or came.layout != expected.layout:
        return f"What came is a tensor on {came.device}, {came.layout}; a plain one on {expected.device} is wanted."
    if not expected.is_floating_point() and not expected.is_complex():
        return None if torch.equal(came, expected) else "Some values differ."
    if (came.isnan() & ~expected.isnan()).any():
        return "There is nan in it where no nan should be."
    finite = expected[expected.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0  # rounding in a small entry is of the largest one's size
    absolute = tolerance * (largest + _zero(largest))
    close = torch.allclose(came, expected, rtol=tolerance, atol=absolute, equal_nan=True)
    return None if close else "Some values differ."


def kind(value: Any) -> str:
    """What a value is, in a reader's words."""
    name = type(value).__name__
    return NAMES.get(name) or (f"an {name}" if name[0].lower() in "aeiou" else f"a {name}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def show(value: Any, digits: int = 4) -> str:
    """A value in one line: a tensor by its numbers, its shape and, where it is not float32, its type."""
    if isinstance(value, Tensor):
        if value.numel() > MOST or value.device.type == "meta" or value.layout != torch.strided:
            return f"a tensor of shape {tuple(value.shape)}"
        dtype = "" if value.dtype in (torch.float32, torch.int64, torch.bool) else f", {_name(value.dtype)}"
        text = _numbers(value.detach().tolist(), digits)
        return f"{_short(text)}  {tuple(value.shape)}{dtype}" if value.dim() else f"{text}{dtype}"
    if isinstance(value, tuple | list | dict) and len(value) > MOST:
        return f"{kind(value)} of {len(value)}"
    if isinstance(value, dict):
        return _short("{" + ", ".join(f"{key!r}: {show(part, digits)}" for key, part in value.items()) + "}")
    if isinstance(value, tuple | list) and any(isinstance(part, Tensor) for part in value):
        text = ", ".join(show(part, digits) for part in value)
        return _short(f"[{text}]" if isinstance(value, list) else f"({text})")
    if isinstance(value, float | tuple | list):
        return _short(_numbers(value, digits))
    if isinstance(value, str | bytes | int | set | None):
        return _short(repr(value)) if not isinstance(value, int) or abs(value) < 10**MOST else "an enormous integer"
    return kind(value)


def _numbers(value: Any, digits: int) -> str:
    """Nested lists of numbers with so many significant digits, and no -0."""
    if isinstance(value, tuple | list):
        text = ", ".join(_numbers(part, digits) for part in value)
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    return f"{value + 0.0:.{digits}g}" if isinstance(value, float) else repr(value)


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]} ..."
