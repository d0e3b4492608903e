"""Whether all of the source arrives."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.attending import DRAWS
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
        yield from _signs(subject)


def _moved(subject: Subject, draw: int = 0, threshold: float | None = None) -> Tensor:
    """Which of the words of the source have an effect, (S,)."""
    tgt, src = subject.tgt.ids(TARGET, seed=draw), subject.src.ids(SOURCE, seed=3 + draw)
    base = subject(tgt, src)
    size = (subject.silence if threshold is None else threshold) * spread(base)
    words = [gap(base, subject(tgt, subject.src.changed(src, j))).max() > size for j in range(SOURCE)]
    return torch.stack(words)


def _signs(subject: Subject) -> Iterator[Finding]:
    """Whether a start or an end token is hidden as padding is: whether padding in its place would change nothing."""
    if subject.src.pad_id is None or subject.pad_id is None:
        return
    tgt, src = subject.tgt.ids(TARGET), subject.src.ids(SOURCE, seed=3)
    for name, sign in {"start_id": subject.start_id, "eos_id": subject.eos_id}.items():
        ends = [x.clone() for x in (src, src, tgt, tgt)]
        if sign is None or sign in (subject.src.pad_id, subject.pad_id) or sign >= subject.src.size:
            continue
        ends[0][:, -1], ends[1][:, -1], ends[2][:, 0], ends[3][:, 0] = sign, subject.src.pad_id, sign, subject.pad_id
        with subject.exact():
            of_source = gap(subject(tgt, ends[0]), subject(tgt, ends[1]))
            of_target = gap(subject(ends[2], src), subject(ends[3], src))[:, 1:]
        for side, moved in {"source": of_source, "target": of_target}.items():
            if not moved.any():
                seen = f"{name} {sign} in the {side} is hidden: with padding in its place the scores are the same."
                yield Finding.of("padding.hides_signs", seen)
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
    """The first part in which an early word of the source reaches a late one, and whether a late one reaches an early."""
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
