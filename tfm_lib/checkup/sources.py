"""Whether all of the source arrives."""

from collections.abc import Iterator

from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject, gap, spread
from tfm_lib.checkup.watch import along, differs, traced


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
    dead = []
    for j in range(SOURCE):
        changed = src.clone()
        changed[:, j] = subject.other(src[:, j])
        if not bool(gap(base, subject(tgt, changed)).max() > silence):
            dead.append(j)
    if dead:
        places = ", ".join(map(str, dead))
        yield Finding.of("source.partial", f"of {SOURCE} words, those at {places} have no effect.")
    yield from _one_way(subject)


def _one_way(subject: Subject) -> Iterator[Finding]:
    """Whether anything on the source's side sees what comes later in it."""
    tgt, src = subject.ids(TARGET), subject.ids(SOURCE, seed=3)
    changed = src.clone()
    changed[:, -1] = subject.other(src[:, -1])
    flipped = src.clone()
    flipped[:, 0] = subject.other(src[:, 0])
    traces = []
    for ids in (src, changed, flipped):
        with traced(subject.module) as steps:
            subject(tgt, ids)
        traces.append(steps)
    backward = forward = ""
    for a, late, early in zip(*traces, strict=False):
        first = [along(step.output, SOURCE, slice(0, 1)) for step in (a, late)]
        last = [along(step.output, SOURCE, slice(SOURCE - 1, SOURCE)) for step in (a, early)]
        if differs(first[0], first[1], subject.leak):
            backward = a.name
        if differs(last[0], last[1], subject.leak):
            forward = forward or f"{a.name} ({type(a.part).__name__})"
    if forward and not backward:
        seen = "the last word of the source changes nothing at its first word, and the first one does at the last."
        yield Finding.of("source.causal", seen, forward)
