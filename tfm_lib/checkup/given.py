"""What is given beside a model, in whatever form: a loss of texts or of logits, a writer of ids or of strings."""

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tfm_lib.checkup.conventions import arguments
from tfm_lib.checkup.measures import as_list, scores, short
from tfm_lib.checkup.steering import ending
from tfm_lib.checkup.subject import Subject
from tfm_lib.checkup.watch import LookUp, LookUps, called
from tfm_lib.checkup.words import NotExaminable


def scalar(out: Any) -> Tensor:
    """What a loss returns, its first tensor, its `.loss` or its ["loss"]; TypeError where there is none of them."""
    if isinstance(out, dict) or hasattr(out, "loss"):
        out = out["loss"] if isinstance(out, dict) and "loss" in out else getattr(out, "loss", out)
    if isinstance(out, tuple | list):
        out = next((part for part in out if isinstance(part, Tensor) and part.is_floating_point()), out)
    if not isinstance(out, Tensor):
        raise TypeError(f"no loss in what it returned, a {type(out).__name__}; return a tensor of one number")
    return out


Write = Callable[[Tensor], list[Any]]
MOST = 20  # tokens that a writer may write which wants to be told how many


def text_loss(subject: Subject) -> Callable[..., Tensor] | None:
    """A loss of (src, tgt), or (tokens), from what was given, which may want (logits, labels) instead.

    Where nothing was given, a model that takes `labels` has a loss of its own. None where there is none.
    """
    loss: Any = subject.loss
    if loss is None:
        if any(argument.name == "labels" for argument in arguments(subject.model)):
            if subject.kind == "encoder-only":
                return lambda ids: _of_hidden(subject, ids)
            return _of_labels(subject) if subject.two else None
        return None
    form, runs = _of_texts(subject, loss)
    if subject.parts and not runs and len(arguments(loss)) != 1:
        return lambda *ids: _from_logits(subject, loss, *ids)
    return form


def _of_labels(subject: Subject) -> Callable[..., Tensor] | None:
    """What the model itself returns for labels, the words behind the start: it may shift them itself, or want the words
    before them, too; and padding as -100, or as it is. None where it takes them in no such way.
    """

    def of(alone: bool, fill: Any) -> Callable[..., Tensor]:
        def loss(src: Tensor, tgt: Tensor) -> Tensor:
            labels = tgt[:, 1:].clone()
            masks = {"attention_mask": subject.src.seen(src)} if subject.by_name else {}
            masks = subject.masks(src, labels) if subject.masks else masks
            if subject.pad_id is not None:
                labels[labels == subject.pad_id] = fill
            before = labels.clone()
            out = subject.model(src, labels=labels, **masks) if alone else subject.raw(tgt[:, :-1], src, labels=labels)
            subject.changed_labels |= not labels.equal(before)
            return scalar(out)

        return loss

    src, tgt = subject.src.ids(5, 2), subject.tgt.ids(4, 2)
    for alone in (True, False):
        found = list[tuple[bool, Callable[..., Tensor]]]()
        for fill in (-100, subject.pad_id):
            with suppress(Exception), torch.no_grad():
                form = of(alone, fill)
                once, padded = form(src, tgt), form(src, subject.tgt.padded(tgt, 6))
                found.append((bool(torch.isclose(once, padded, rtol=1e-3).all()), form))
        if found:
            return max(found, key=lambda one: one[0])[1]  # by which padding counts for nothing, if there is one
    return None


def _of_hidden(subject: Subject, ids: Tensor) -> Tensor:
    """What an encoder returns where every second token is exchanged and asked for: labels of the rest are -100."""
    asked = torch.arange(ids.shape[1]) % 2 == 0
    return scalar(subject.model(torch.where(asked, subject.tgt.other(ids), ids), labels=ids.masked_fill(~asked, -100)))


def _of_texts(subject: Subject, loss: Callable[..., Any]) -> tuple[Callable[..., Tensor], bool]:
    """The loss of texts (B, T), which may want them as (T, B), and whether it runs the model; else it wants logits.

    It is called in both ways; the right one gives the embeddings ids in the layout that they have in a forward pass.
    """
    tgt, src = subject.texts(2)
    with LookUps() as looks:
        subject(tgt, src)
    usual, runs, tried = _axes(looks.found), False, list[tuple[tuple[bool, bool], Callable[..., Tensor]]]()

    def on_copies(*ids: Tensor) -> Tensor:
        copies = [x.clone() for x in ids]
        out = scalar(loss(*copies))
        subject.changed_labels |= any(not torch.equal(*pair) for pair in zip(copies, ids, strict=True))
        return out

    forms = (on_copies, lambda *ids: on_copies(*(x.T.contiguous() for x in ids)))
    for form in forms:
        works = False
        with called() as calls, LookUps() as looks, suppress(Exception):
            form(*(src, tgt)[not subject.two :])
            works = True
        runs = runs or bool({part for part, *_ in calls} & {*subject.parts})
        tried.append(((_axes(looks.found) == usual, works), form))
        if all(tried[-1][0]):
            break
    return max(tried, key=lambda one: one[0])[1], runs


def _axes(looks: list[LookUp]) -> set[int]:
    """Along which axes of the ids that embeddings read two texts lie."""
    return {look.ids.shape.index(2) for look in looks if look.ids.dim() == 2 and 2 in look.ids.shape}


def _from_logits(subject: Subject, loss: Callable[..., Any], *ids: Tensor) -> Tensor:
    """The loss of the next tokens; of logits (B * T, V) or, where it does not take those, (B, T, V) or (B, V, T)."""
    src, tgt = ids if subject.two else (None, ids[0])
    inputs = tgt if subject.shortened else tgt[:, 1:] if subject.shifts else tgt[:, :-1]
    out = subject.laid_out(scores(subject.raw(inputs, src), subject.vocab_size), len(tgt))
    labels = tgt[:, 1 : 1 + out.shape[1]].to(out.device)
    failed: Exception | None = None
    turned = [(out.transpose(0, 1), labels.T.contiguous())] if subject.time_first else []
    for a, b in (*turned, (out, labels), (out.flatten(0, 1), labels.flatten()), (out.transpose(1, 2), labels)):
        try:
            return scalar(loss(a, b))
        except Exception as error:
            failed = failed or error
    raise ValueError(f"of logits {tuple(out.shape)} and labels {tuple(labels.shape)}: {short(failed)}")  # type: ignore[arg-type]


def as_writer(generate: Any) -> Any:
    """A writer of the source alone, which is told a number of tokens if it must be; NotExaminable for others."""
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [a.name for a in arguments(generate) if a.default is a.empty and a.kind not in many]
    if len(needed) < 2:
        return generate
    if len(needed) == 2 and re.search(r"len|max|step|tokens|^n$", needed[1]):
        return partial(generate, **{needed[1]: MOST})  # whose other arguments can be seen
    fix = f"a function of the source alone, such as lambda src: generate(src, make_mask(src), {MOST})"
    raise NotExaminable(f"generate wants {len(needed)} arguments ({', '.join(needed)}); give {fix}")


def writer(subject: Subject) -> tuple[Write, bool]:
    """A function of texts that gives a row for each, of ids, candidates or words; whether it writes them one by one.

    What was given may take one text at a time, with or without an axis for the batch, or have time first.
    """
    generate: Any = subject.generate
    forms: list[Write] = [
        lambda src: _rows(generate(src.contiguous()), len(src)),
        lambda src: _rows(generate(src.T.contiguous()).T, len(src)),
        lambda src: _rows(generate(src.T.contiguous()), len(src)),
        lambda src: [row for text in src for row in _rows(generate(text[None]), 1)],
        lambda src: [row for text in src for row in _rows(generate(text), 1)],
    ]
    found, once = subject.writes, list[tuple[Write, bool]]()
    with subject.mode(training=False), torch.no_grad(), ending(subject):
        for number, form in enumerate(forms):
            if not found and (number not in (1, 2) or subject.time_first):
                with suppress(Exception):
                    for texts in (3, 4):  # it may write as many words as there are texts, but not twice
                        subject.forget()
                        form(subject.src.ids(5, texts, seed=6))
                        once.append((form, number > 2))
                    found = subject.writes = form, number > 2
    write, single = found or next(iter(once), (forms[0], False))

    def afresh(src: Tensor) -> list[Any]:
        subject.forget()
        with torch.no_grad():
            return write(src)

    return afresh, single


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
