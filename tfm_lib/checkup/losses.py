"""The loss: where it starts, and which labels it asks for."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, OutOfTime, Subject, scores, short, spread

LENGTH = 8


def own_loss(subject: Subject, logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of labels (B, T) under the model's logits, for a model that brings no loss."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def start(subject: Subject) -> Iterator[Finding]:
    """The loss of random tokens under random tokens, beside ln V."""
    tgt = subject.ids(LENGTH, 4)
    out, blind = subject(tgt, subject.ids(SOURCE, 4, seed=3)), math.log(subject.vocab_size)
    if out.isnan().any() or bool((out >= 0).all() and spread(out.sum(-1)) < 1e-3):
        return
    labels = subject.ids(LENGTH, 4, seed=9)
    loss = float(own_loss(subject, out, labels))
    if abs(loss - blind) > 1 + 0.3 * blind:
        at_input = float(out.gather(-1, tgt.to(out.device)[..., None]).mean() - out.mean()) / spread(out)
        seen = f"the loss of random tokens is {loss:.1f}, where a blind guess has ln V = {blind:.1f}; "
        if at_input > 2:
            yield Finding.of("loss.echo", f"{seen}the token that was just read gets {at_input:.1f} spreads too much.")
        else:
            yield Finding.of("loss.start", f"{seen}the scores of one position lie {spread(out):.1f} apart.")


def labels(subject: Subject) -> Iterator[Finding]:
    """The labels that a loss asks for, read from its gradient: at a label it is negative, elsewhere it is not."""
    if subject.loss is None or subject.kind == "encoder-only":
        return
    tgt, src = _rows(subject), subject.ids(SOURCE, 2, seed=3)
    with torch.enable_grad():
        try:
            loss, out, inputs = _listened(subject, tgt, src)
        except OutOfTime:
            raise
        except Exception as error:
            yield Finding.of("loss.fails", f"loss of two rows of {tgt.shape[1]} tokens raised {short(error)}.")
            return
    if not bool(torch.isfinite(loss).all()) or loss.numel() != 1:
        yield Finding.of("loss.fails", f"loss of two rows of {tgt.shape[1]} tokens is {loss.tolist()}.")
        return
    if out is None or out.grad is None:
        return
    grad = subject.unrolled(out.grad, len(tgt)).permute(subject.order)
    asked = grad.abs().amax(-1) > 1e-12
    best = grad.argmin(-1)
    yield from _judged(subject, tgt, inputs, best, asked)


def _rows(subject: Subject) -> Tensor:
    """Two whole targets from start to end sign, the second with padding behind it where there is any."""
    tgt = subject.ids(LENGTH, 2, seed=5)
    if subject.start_id is not None:
        tgt[:, 0] = subject.start_id
    if subject.eos_id is not None:
        tgt[0, -1] = subject.eos_id
    if subject.pad_id is not None:
        tgt[1, -2:] = subject.pad_id
        if subject.eos_id is not None:
            tgt[1, -3] = subject.eos_id
    return tgt


def _listened(subject: Subject, tgt: Tensor, src: Tensor) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """The loss, the logits with their gradient, and the ids that went into the model's tables."""
    kept: list[Tensor] = []
    inputs: list[Tensor] = []

    def on_output(part: nn.Module, args: Any, output: Any) -> None:
        try:
            out = scores(output, subject.vocab_size)
        except TypeError:
            return
        laid_out = out.dim() == 2 if subject.flat else out.dim() == 3
        if laid_out and out.shape[-1 if subject.flat else subject.order[2]] == subject.vocab_size and out.requires_grad:
            out.retain_grad()
            kept.append(out)

    def on_table(part: nn.Module, args: Any, output: Any) -> None:
        inputs.extend(x.detach() for x in args if isinstance(x, Tensor) and not x.is_floating_point() and x.dim() == 2)

    parts = [] if subject.module is None else list(subject.module.modules())
    handles = [part.register_forward_hook(on_output) for part in parts]
    handles += [part.register_forward_hook(on_table) for part in parts if isinstance(part, nn.Embedding)]
    try:
        torch.manual_seed(0)
        assert subject.loss is not None
        loss = subject.loss(src, tgt) if subject.two else subject.loss(tgt)
        loss.sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    with_grad = [out for out in kept if out.grad is not None]
    return loss.detach(), with_grad[-1] if with_grad else None, inputs


def _judged(subject: Subject, tgt: Tensor, inputs: list[Tensor], best: Tensor, asked: Tensor) -> Iterator[Finding]:
    length = best.shape[1]
    fits = [x for x in inputs if x.shape == best.shape and bool(torch.isin(x, tgt).all())]
    given = fits[-1] if fits else tgt[:, :length]
    real = asked & (best != -1)
    first = (
        f"input {given[0].tolist()}, labels {[int(b) if a else None for a, b in zip(real[0], best[0], strict=True)]}"
    )
    if not bool(real.any()):
        yield Finding.of("loss.skips", f"no label of two rows has a gradient: {first}.")
        return

    def share(label: Tensor, seen: Tensor) -> float:
        return float((label == seen).float().mean()) if label.numel() else 0.0

    def shifted(by: int) -> float:
        a, b = (slice(0, length - by), slice(by, length)) if by >= 0 else (slice(-by, length), slice(0, length + by))
        return share(best[:, a][real[:, a]], given[:, b][real[:, a]])

    if shifted(0) > 0.9:
        yield Finding.of("loss.no_shift", f"each label is the token that the model has just read: {first}.")
        return
    if shifted(2) > 0.9:
        yield Finding.of("loss.shifted_twice", f"each label is the token after the next one: {first}.")
        return
    if shifted(-1) > 0.9:
        yield Finding.of("loss.backwards", f"each label is the token before: {first}.")
        return
    if shifted(1) < 0.9:
        yield Finding.of("loss.wrong_labels", f"the labels are not the next tokens: {first}.")
        return
    words = set(tgt[0].tolist()) - {subject.start_id, subject.pad_id, subject.eos_id}
    labels = set(best[real].tolist())
    if subject.pad_id is not None and subject.pad_id != subject.eos_id and subject.pad_id in labels:
        yield Finding.of(
            "loss.padding", f"of two rows, the second one with padding, pad_id {subject.pad_id} is a label."
        )
    if subject.eos_id is not None and subject.eos_id not in labels:
        yield Finding.of("loss.no_end", f"two rows end with eos_id {subject.eos_id}, and it is no label: {first}.")
    missing = sorted(words - labels - {int(given[0, 0])})
    if missing:
        yield Finding.of("loss.skips", f"the tokens {missing} are never a label: {first}.")
