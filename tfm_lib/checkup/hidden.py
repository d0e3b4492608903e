"""Which tokens a model hides, told by gradients: nothing depends on the vector of a token that none attends to."""

from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.checkup.subject import SOURCE, TARGET, Subject
from tfm_lib.checkup.watch import reads

FIRST = 16  # of the ids: special tokens, unknown words and a few others stand there


def hidden_ids(subject: Subject, side: str) -> list[int]:
    """The ids that no other position of the source, or of the target, depends on; [] where no embedding is seen."""
    words = subject.src if side == "source" else subject.tgt
    special = [i for i in (words.pad_id, subject.start_id, subject.eos_id) if i is not None and i < words.size]
    found = _hidden(subject, side, sorted({*range(min(FIRST, words.size)), *special}))
    if not found:
        return []
    with subject.exact():
        return _hidden(subject, side, found)


def _hidden(subject: Subject, side: str, ids: list[int]) -> list[int]:
    """Those of these ids whose vectors have no gradient from other positions: a row of a batch for each."""
    tgt, src = subject.tgt.ids(TARGET).repeat(len(ids), 1), subject.src.ids(SOURCE, seed=3).repeat(len(ids), 1)
    text, place = (src, 2) if side == "source" else (tgt, 0)
    text[:, place] = torch.tensor(ids)
    vectors: list[Tensor] = []

    def hook(part: nn.Module, args: Any, output: Tensor) -> None:
        if reads(args, text) and output.requires_grad:
            output.retain_grad()
            vectors.append(output)

    handles = [part.register_forward_hook(hook) for part in subject.parts if isinstance(part, nn.Embedding)]
    try:
        out = subject(tgt, src, grad=True)
    finally:
        for handle in handles:
            handle.remove()
    if not vectors or not out.requires_grad:
        return []
    later = out if side == "source" and subject.two else out[:, 1:]
    # A sum of all scores may not depend on anything, where they are normalized.
    (later * torch.linspace(-1, 1, later[0].numel()).to(later).view(later[0].shape)).sum().backward()
    grad = vectors[0].grad
    if grad is None:
        return []
    grad = grad if len(grad) == len(ids) else grad.transpose(0, 1)
    return [i for i, row in zip(ids, grad[:, place], strict=True) if not row.any()]
