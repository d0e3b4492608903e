"""Whether all of the source arrives."""

from collections.abc import Iterator

from torch import Tensor

from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject
from tfm_lib.checkup.watch import along, differs


def source(subject: Subject) -> Iterator[Finding]:
    """Change the whole source, then one word of it after the other."""
    if not subject.two:
        return
    tgt, src = subject.ids(TARGET), subject.ids(SOURCE, seed=3)
    base = subject(tgt, src)
    silence = subject.silence * spread(base)
    if not bool(gap(base, subject(tgt, subject.other(src))).max() > silence):
        yield Finding.of("source.ignored", f"another source of {SOURCE} words gave the very same scores.")
        return
    moved = [float(gap(base, subject(tgt, subject.changed(src, j))).max()) for j in range(SOURCE)]
    if dead := [str(j) for j in range(SOURCE) if not moved[j] > silence]:
        yield Finding.of("source.partial", f"of {SOURCE} words, those at {', '.join(dead)} have no effect.")
    yield from _one_way(subject, tgt, src)


def _one_way(subject: Subject, tgt: Tensor, src: Tensor) -> Iterator[Finding]:
    """Whether anything on the source's side sees what comes later in it."""
    sources = (src, subject.changed(src, -1), subject.changed(src, 0))
    backward = forward = ""
    for a, late, early in zip(*(subject.trace(tgt, ids)[0] for ids in sources), strict=False):
        first = [along(step.output, SOURCE, slice(0, 1)) for step in (a, late)]
        last = [along(step.output, SOURCE, slice(SOURCE - 1, SOURCE)) for step in (a, early)]
        if differs(first[0], first[1], subject.leak):
            backward = a.name
        if differs(last[0], last[1], subject.leak):
            forward = forward or str(a)
    if forward and not backward:
        seen = "the last word of the source changes nothing at its first word, and the first one does at the last."
        yield Finding.of("source.causal", seen, forward)
