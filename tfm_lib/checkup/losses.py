"""The loss: where it starts, and which labels it asks for."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.checkup.measures import scores, short, spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, Subject

LENGTH = 8
SHIFTS = (  # of labels against the input, all of them wrong
    (0, "loss.no_shift", "that the model has just read"),
    (2, "loss.shifted_twice", "after the next one"),
    (-1, "loss.backwards", "before"),
)


def own_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of labels (B, T) under logits (B, T, V), for a model that brings no loss."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def start(subject: Subject) -> Iterator[Finding]:
    """The loss of random tokens under random tokens, beside ln V."""
    tgt = subject.ids(LENGTH, 4)
    out, blind = subject(tgt, subject.ids(SOURCE, 4, seed=3)), math.log(subject.vocab_size)
    if out.isnan().any() or bool((out >= 0).all() and spread(out.sum(-1)) < 1e-3):
        return
    labels = subject.ids(LENGTH, 4, seed=9)
    loss = float(own_loss(out, labels))
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
    seen = f"loss of two rows of {LENGTH} tokens"
    try:
        with torch.enable_grad():
            loss, grad, inputs = _listened(subject, tgt, src)
    except Exception as error:
        yield Finding.of("loss.fails", f"{seen} raised {short(error)}.")
        return
    if not bool(torch.isfinite(loss).all()) or loss.numel() != 1:
        yield Finding.of("loss.fails", f"{seen} is {loss.tolist()}.")
    elif grad is not None:
        grad = subject.unrolled(grad, len(tgt)).permute(subject.order)
        yield from _judged(subject, tgt, inputs, grad.argmin(-1), asked=grad.abs().amax(-1) > 1e-12)


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
    """The loss, the gradient of the logits, and the ids that went into the model's tables."""
    outputs: list[Tensor] = []
    inputs: list[Tensor] = []

    def on_output(part: nn.Module, args: Any, output: Any) -> None:
        try:
            out = scores(output, subject.vocab_size)
        except TypeError:
            return
        axes, last = (2, 1) if subject.flat else (3, subject.order[2])
        if out.dim() == axes and out.shape[last] == subject.vocab_size and out.requires_grad:
            out.retain_grad()
            outputs.append(out)

    def on_table(part: nn.Module, args: Any, output: Any) -> None:
        inputs.extend(x.detach() for x in args if isinstance(x, Tensor) and not x.is_floating_point() and x.dim() == 2)

    handles = [part.register_forward_hook(on_output) for part in subject.parts]
    handles += [part.register_forward_hook(on_table) for part in subject.parts if isinstance(part, nn.Embedding)]
    try:
        torch.manual_seed(0)
        assert subject.loss is not None
        loss = subject.loss(src, tgt) if subject.two else subject.loss(tgt)
        loss.sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    gradients = [out.grad for out in outputs if out.grad is not None]
    return loss.detach(), gradients[-1] if gradients else None, inputs


def _judged(subject: Subject, tgt: Tensor, inputs: list[Tensor], best: Tensor, asked: Tensor) -> Iterator[Finding]:
    """Which tokens the labels `best` (B, T) are, at the places that are `asked` for."""
    length = best.shape[1]
    fits = [x for x in inputs if x.shape == best.shape and bool(torch.isin(x, tgt).all())]
    given = fits[-1] if fits else tgt[:, :length]
    shown = [int(label) if real else None for real, label in zip(asked[0], best[0], strict=True)]
    first = f"input {given[0].tolist()}, labels {shown}"
    if not bool(asked.any()):
        yield Finding.of("loss.skips", f"no label of two rows has a gradient: {first}.")
        return

    def shifted(by: int) -> bool:
        """Whether nearly all labels are the tokens so many places on."""
        at, seen = slice(max(0, -by), length - max(0, by)), slice(max(0, by), length + min(0, by))
        equal = (best[:, at] == given[:, seen])[asked[:, at]]
        return bool(equal.numel()) and float(equal.float().mean()) >= 0.9

    for by, code, which in SHIFTS:
        if shifted(by):
            yield Finding.of(code, f"each label is the token {which}: {first}.")
            return
    if not shifted(1):
        yield Finding.of("loss.wrong_labels", f"the labels are not the next tokens: {first}.")
        return
    words = set(tgt[0].tolist()) - {subject.start_id, subject.pad_id, subject.eos_id}
    labels = set(best[asked].tolist())
    if subject.pad_id is not None and subject.pad_id != subject.eos_id and subject.pad_id in labels:
        seen = f"of two rows, the second one with padding, pad_id {subject.pad_id} is a label."
        yield Finding.of("loss.padding", seen)
    if subject.eos_id is not None and subject.eos_id not in labels:
        yield Finding.of("loss.no_end", f"two rows end with eos_id {subject.eos_id}, and it is no label: {first}.")
    missing = sorted(words - labels - {int(given[0, 0])})
    if missing:
        yield Finding.of("loss.skips", f"the tokens {missing} are never a label: {first}.")
