"""What stands beside a model, in whatever form: a loss of texts or of logits, a writer of ids or of words, of one or many."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.checkup.conventions import side
from tfm_lib.checkup.measures import as_list, scores, short
from tfm_lib.checkup.subject import Subject


def scalar(out: Any) -> Tensor:
    """The loss in what a loss returns: a number, the first of several, `.loss` or ["loss"]. TypeError where there is none."""
    if isinstance(out, dict) or hasattr(out, "loss"):
        out = out["loss"] if isinstance(out, dict) and "loss" in out else getattr(out, "loss", out)
    if isinstance(out, tuple | list):
        out = next((part for part in out if isinstance(part, Tensor) and part.is_floating_point()), out)
    if not isinstance(out, Tensor):
        raise TypeError(f"no loss in what it returned, a {type(out).__name__}; return a tensor of one number")
    return out


def text_loss(subject: Subject) -> Callable[..., Tensor]:
    """A loss of (src, tgt), or (tokens), from what was given, which may want (logits, labels) instead."""
    loss: Any = subject.loss
    if _of_logits(loss):
        return lambda *ids: _from_logits(subject, loss, *ids)

    def of_ids(*ids: Tensor) -> Tensor:
        try:
            return scalar(loss(*(x.T.contiguous() for x in ids) if subject.time_first else ids))
        except Exception:
            if not subject.time_first:
                raise
        return scalar(loss(*ids))

    return of_ids


def _of_logits(loss: Callable[..., Any]) -> bool:
    """Whether the first argument of a loss is what a model gives."""
    if isinstance(loss, nn.Module) and type(loss).__module__.startswith("torch.nn"):
        return True
    try:
        names = [name.lower() for name in inspect.signature(loss).parameters]
    except (TypeError, ValueError):
        return False
    words = ("logit", "pred", "out", "score", "prob", "hyp", "y_hat")
    return len(names) > 1 and any(word in names[0] for word in words) and not side(names[0]) == "source"


def _from_logits(subject: Subject, loss: Callable[..., Any], *ids: Tensor) -> Tensor:
    """The loss of the next tokens; of logits (B * T, V) or, where it does not take those, (B, T, V) or (B, V, T)."""
    src, tgt = ids if subject.two else (None, ids[0])
    inputs = tgt if subject.shortened else tgt[:, 1:] if subject.shifts else tgt[:, :-1]
    out = subject.laid_out(scores(subject.raw(inputs, src), subject.vocab_size), len(tgt))
    labels = tgt[:, 1 : 1 + out.shape[1]].to(out.device)
    failed: Exception | None = None
    for a, b in ((out.flatten(0, 1), labels.flatten()), (out, labels), (out.transpose(1, 2), labels)):
        try:
            return scalar(loss(a, b))
        except Exception as error:
            failed = failed or error
    raise ValueError(f"of logits {tuple(out.shape)} and labels {tuple(labels.shape)}: {short(failed)}")  # type: ignore[arg-type]


def writer(subject: Subject) -> tuple[Callable[[Tensor], list[Any]], bool]:
    """A function of texts that gives a row for each, of ids, candidates or words; whether it writes them one by one.

    What was given may take one text at a time, with or without an axis for the batch, or have time first.
    """
    generate: Any = subject.generate
    forms: list[Callable[[Tensor], list[Any]]] = [
        lambda src: _rows(generate(src.contiguous()), len(src)),
        lambda src: _rows(generate(src.T.contiguous()).T, len(src)),
        lambda src: [row for text in src for row in _rows(generate(text[None]), 1)],
        lambda src: [row for text in src for row in _rows(generate(text), 1)],
    ]
    with subject.mode(training=False), torch.no_grad():
        for number, form in enumerate(forms):
            if number != 1 or subject.time_first:
                with suppress(Exception):
                    form(subject.src.ids(5, 3, seed=6))
                    return form, number > 1
    return forms[0], False


def _rows(out: Any, texts: int) -> list[Any]:
    """What it wrote, a row for each text. ValueError where it is a number of rows that does not fit."""
    out = getattr(out, "sequences", out)
    if isinstance(out, tuple) and out and isinstance(out[0], Tensor | list):
        out = out[0]
    rows = [out] if isinstance(out, str) else as_list(out)
    rows = [rows] if rows and isinstance(rows[0], int) else rows  # one text, as its ids
    if len(rows) != texts:
        raise ValueError(f"{len(rows)} rows were written for {texts} texts")
    return [row.split() if isinstance(row, str) else as_list(row) for row in rows]
