"""Whether all of the source arrives."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.attending import DRAWS
from tfm_lib.checkup.hidden import hidden_ids
from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject
from tfm_lib.checkup.watch import along, differs


def source(subject: Subject) -> Iterator[Finding]:
    """Change the whole source, then one word of it after the other, then its start and end."""
    if not subject.two:
        return
    moved = _moved(subject)
    if not moved.all():
        with subject.exact():
            moved = torch.stack([_moved(subject, draw, 0) for draw in range(DRAWS)]).any(0)
    if not moved.any():
        yield Finding.of("source.ignored", f"another source of {SOURCE} words gave the very same scores.")
    elif not moved.all():
        dead = ", ".join(str(j) for j in range(SOURCE) if not moved[j])
        yield Finding.of("source.partial", f"of {SOURCE} words, those at {dead} have no effect.")
    else:
        yield from _one_way(subject)
        yield from _hidden(subject)


def _moved(subject: Subject, draw: int = 0, threshold: float | None = None) -> Tensor:
    """Which of the words of the source have an effect, (S,)."""
    tgt, src = subject.tgt.ids(TARGET, seed=draw), subject.src.ids(SOURCE, seed=3 + draw)
    base = subject(tgt, src)
    size = (subject.silence if threshold is None else threshold) * spread(base)
    words = [gap(base, subject(tgt, subject.src.changed(src, j))).max() > size for j in range(SOURCE)]
    return torch.stack(words)


def _hidden(subject: Subject) -> Iterator[Finding]:
    """Tokens that are hidden as padding is, though they are none: no score depends on the vector of such a token."""
    for side, pads in {"source": subject.src.pad_id, "target": subject.pad_id}.items():
        hidden = [i for i in hidden_ids(subject, side) if i != pads]
        if hidden:
            seen = f"in the {side}, no other position depends on the vectors of the tokens {hidden[:6]}."
            yield Finding.of("padding.hides_words", seen)
            return


def _one_way(subject: Subject) -> Iterator[Finding]:
    """Whether anything on the source's side sees what comes later in it."""
    forward, backward = _directions(subject, 0, subject.leak)
    if forward and not backward:
        with subject.exact():
            backward = any(_directions(subject, draw, 0)[1] for draw in range(DRAWS))
    if forward and not backward:
        seen = "the last word of the source changes nothing at its first word, and the first one does at the last."
        yield Finding.of("source.causal", seen, forward)


def _directions(subject: Subject, draw: int, tolerance: float) -> tuple[str, bool]:
    """The first part where an early word of the source reaches a late one; whether a late one reaches an early one."""
    tgt, src = subject.tgt.ids(TARGET, seed=draw), subject.src.ids(SOURCE, seed=3 + draw)
    sources = (src, subject.src.changed(src, -1), subject.src.changed(src, 0))
    forward, backward = "", False
    for a, late, early in zip(*(subject.trace(tgt, ids)[0] for ids in sources), strict=False):
        first = [along(step.output, SOURCE, slice(0, 1)) for step in (a, late)]
        last = [along(step.output, SOURCE, slice(SOURCE - 1, SOURCE)) for step in (a, early)]
        backward = backward or differs(first[0], first[1], tolerance)
        if differs(last[0], last[1], tolerance):
            forward = forward or str(a)
    return forward, backward
