"""How outputs are read and compared: the scores in what a model returns, how far two of them are apart."""

from pathlib import Path
from traceback import walk_tb
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class NoScores(TypeError):
    """A model ran, and no logits are in what it returned."""


def scores(out: Any, vocab_size: int) -> Tensor:
    """The logits in what a model returns: a tensor, `.logits`, or the first floating one of vocab_size along its last,
    or else any, axis, in a dict, a tuple or an object, whatever its name is.
    """
    out = getattr(out, "logits", out)
    if isinstance(out, Tensor):
        return out
    fields = out if isinstance(out, dict) else getattr(out, "__dict__", {})
    parts = list(out) if isinstance(out, tuple | list) else list(fields.values())
    tensors = [part for part in parts if isinstance(part, Tensor) and part.dim() > 1]
    if not tensors:
        named = f" with {', '.join(map(str, fields))}" * bool(fields)
        raise NoScores(f"no tensor in what it returned, a {type(out).__name__}{named}")
    wide = [x for x in tensors if x.shape[-1] == vocab_size and x.is_floating_point()]
    return next(iter([*wide, *(x for x in tensors if vocab_size in x.shape), *tensors]))


def as_list(row: Any) -> list[Any]:
    """A row of ids, or of candidates, that a model wrote, without tensors."""
    return row.tolist() if isinstance(row, Tensor) else list(row)


def short(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:140]}{'…' * (len(text) > 140)}" if text else type(error).__name__


def spread(logits: Tensor) -> float:
    """How far the scores lie apart: what a difference is measured against."""
    finite = logits[torch.isfinite(logits)]
    return max(float(finite.std()), 1e-12) if finite.numel() > 1 else 1.0


def gap(a: Tensor, b: Tensor) -> Tensor:
    """For each position the largest difference of its scores, (B, T, V) -> (B, T); NaN beside NaN is none."""
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs().nan_to_num(nan=torch.inf)).amax(-1)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of labels (B, T) under logits (B, T, V), for a model that brings no loss."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def of_a_hook(error: Exception) -> bool:
    """Whether a line of the check-up raised it, such as a hook's: that is no fault of the model."""
    frames = [frame.f_code for frame, _ in walk_tb(error.__traceback__) if "__torch_" not in frame.f_code.co_name]
    folders = [Path(code.co_filename).parents for code in frames]  # a mode passes on what a call of torch's raised
    return [up[0] for up in folders if Path(torch.__file__).parent not in up][-1] == Path(__file__).parent
