"""What a search makes of scores that are known: a word must follow the text that it was scored for."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.checkup.given import Write
from tfm_lib.checkup.steps import WORDS, best, ends_of, head_heard
from tfm_lib.checkup.subject import Found, Subject
from tfm_lib.checkup.watch import hooked

NEVER = -1e4


def pasts(subject: Subject, write: Write) -> Iterator[Found]:
    """Write where the second best word is continued surely, and the best one is not: beams must change places."""
    src = subject.src.ids(WORDS, seed=6)
    free = [i for i in subject.tgt.ordinary.tolist() if i not in src]
    if len(free) < 8:
        return
    first, second, third = free[:3]
    try:
        with _known(subject, free), torch.no_grad():
            row = best(write(src)[0])
    except Exception:  # that it fails is told by `generate`
        return
    if (first, third) in pairwise(row):
        yield "generate.beams", f"it writes {third} after {first}, where it was impossible; after {second} it was sure."


@contextmanager
def _known(subject: Subject, free: list[int]) -> Iterator[None]:
    """Inside, the scores depend on the last token alone; a head that is no module is known by its tied weights."""
    tables, _, turned = ends_of(subject)
    (first, second, third, later), reads = free[:4], list[Tensor]()

    def row(*ids: int) -> Tensor:
        return torch.full((subject.vocab_size,), NEVER).index_fill(0, torch.tensor(ids), 0)

    start = row(first, second)
    start[second] = -0.1
    after = {first: row(*{*free} - {third}), second: row(third), third: row(later), later: row(later)}

    def on_table(part: nn.Module, args: Any, named: Any, output: Any) -> None:
        reads.append(args[0].detach().cpu())

    def put(output: Tensor) -> None:
        if reads and output.shape[-1] == subject.vocab_size:
            read = reads[-1][None] if reads[-1].dim() == 1 else reads[-1].T if turned else reads[-1]
            rows = torch.stack([after.get(token, start) for token in read[:, -1].tolist()])
            known = rows[:, None].expand(-1, output.numel() // rows.numel(), -1)
            output.data.copy_((known.transpose(0, 1) if turned else known).reshape(output.shape))

    with hooked(*((table, on_table) for table in tables)), head_heard(subject, put):
        yield
