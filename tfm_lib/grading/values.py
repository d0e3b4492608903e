"""Values as data, in JSON: what comes back from a process that nobody trusts is read without running any of it."""

import base64
import builtins
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tfm_lib.ask.running import Outcome

MOST = 100_000  # numbers of a tensor, characters of a text; of a larger tensor only the shape is told
DEPTH = 8  # of lists in lists
PLAIN = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool
DTYPES = {str(dtype): dtype for dtype in (*PLAIN, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)}


def to_data(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it. Of what is neither a number, a text, a tensor nor made of these, the type's name."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < 10**300:
        return int(value)
    if isinstance(value, str):
        return value[:MOST]
    if isinstance(value, Tensor) and value.layout == torch.strided and str(value.dtype) in DTYPES:
        about = {"dtype": str(value.dtype), "shape": list(value.shape)}
        if value.numel() > MOST or value.device.type == "meta":
            return about
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return about | {"bytes": base64.b64encode(flat.numpy().tobytes()).decode()}
    if isinstance(value, list | tuple) and depth < DEPTH and len(value) <= MOST:
        return {"list" if isinstance(value, list) else "tuple": [to_data(part, depth + 1) for part in value]}
    if isinstance(value, dict) and depth < DEPTH and len(value) <= MOST:
        return {"dict": [[to_data(part, depth + 1) for part in pair] for pair in value.items()]}
    return {"other": type(value).__name__}


def from_data(data: Any) -> Any:
    """The value. Raises ValueError or TypeError for what `to_data` would not have written."""
    if not isinstance(data, dict):
        if isinstance(data, list):
            raise ValueError("a bare list, which `to_data` does not write")
        return data
    if "dtype" in data:
        return _tensor(**data)
    [(form, parts)] = data.items()
    if form == "other":
        return type(_name(parts), (), {})()
    if form == "dict":
        return {from_data(key): from_data(value) for key, value in parts}
    return {"list": list, "tuple": tuple}[form](map(from_data, parts))


def _tensor(dtype: str, shape: list[int], bytes: str | None = None) -> Tensor:
    kind = DTYPES[dtype]
    if bytes is None:
        return torch.empty(shape, dtype=kind, device="meta")
    content = bytearray(base64.b64decode(bytes, validate=True))
    if len(content) != math.prod(shape) * kind.itemsize or len(content) > 16 * MOST:
        raise ValueError(f"{len(content)} bytes for a tensor of shape {shape}")
    return (torch.frombuffer(content, dtype=kind) if content else torch.empty(0, dtype=kind)).reshape(shape)


def _name(text: object) -> str:
    return text if isinstance(text, str) and text.isidentifier() and len(text) < 60 else "object"


def outcome_to_data(came: Outcome) -> dict[str, Any]:
    """What came of one call of an answer, as JSON has it."""
    error = came.error and {
        "kinds": [kind.__name__ for kind in type(came.error).__mro__],
        "said": str(came.error)[:300] if came.error.args else None,
    }
    about = {"line": came.line[:200], "changed": came.changed, "calls": came.calls[:1000]}
    return about | {"value": to_data(came.value), "error": error}


def outcome_from_data(data: dict[str, Any]) -> Outcome:
    """The outcome. Raises ValueError, TypeError or LookupError for what `outcome_to_data` would not have written."""
    changed, calls, line = ([*map(_name, data["changed"])], [*map(_name, data["calls"])], str(data["line"])[:200])
    error = _error(data["error"]["kinds"], data["error"]["said"]) if data["error"] else None
    return Outcome(from_data(data["value"]), error, changed, calls, line)


def _error(kinds: Iterable[object], said: object) -> BaseException:
    """An error of the nearest kind that Python knows, under the name that it had."""
    names = [_name(kind) for kind in kinds]
    for name in names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            kind = kind if name == names[0] else type(names[0], (kind,), {})
            try:
                return kind() if said is None else kind(str(said))
            except TypeError:  # some want more than a text
                continue
    return Exception(str(said))
