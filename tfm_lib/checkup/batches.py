"""Rows of a batch, and positions: what a token's neighbors, its place and its row may change."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, OutOfTime, Subject, gap, short, spread
from tfm_lib.checkup.watch import along, culprit, differs, traced

LENGTHS = (24, 50, 100, 200, 400, 800)


def rows(subject: Subject) -> Iterator[Finding]:
    """Change the other rows of a batch, in eval and in training."""
    where, mixed = _mixed(subject)
    tgt = subject.ids(TARGET)
    if mixed:
        changed = torch.cat([subject.other(tgt[:, :-1]), tgt[:, -1:]], 1)
        same = gap(subject(tgt), subject(changed))[0, -1] <= subject.silence * 100 * spread(subject(tgt))
        seen = "a change of the other rows of a batch changes the scores of the first row"
        if same:
            yield Finding.of("batch.axes", f"{seen}; a change of the other tokens of its own row does not.", where)
        else:
            yield Finding.of("batch.rows", f"{seen}.", where)
    elif subject.training:
        with subject.mode(training=True):
            where, mixed = _mixed(subject)
        if mixed:
            seen = "in training mode, a change of the other rows of a batch changes the scores of the first row."
            yield Finding.of("batch.training", seen, where)


def _mixed(subject: Subject) -> tuple[str, bool]:
    tgt, src = subject.ids(TARGET, 3), subject.ids(SOURCE, 3, seed=3)
    tgt2, src2 = (torch.cat([x[:1], subject.other(x[1:])]) for x in (tgt, src))
    with traced(subject.module) as a:
        one = subject(tgt, src)
    with traced(subject.module) as b:
        two = subject(tgt2, src2)
    if not bool(gap(one, two)[0].max() > subject.leak * spread(one)):
        return "", False
    return culprit(a, b, (3, 3), slice(0, 1), subject.leak)[0], True


def positions(subject: Subject) -> Iterator[Finding]:
    """Put the same row into a batch twice; exchange words of the source, and tokens before the last one."""
    tgt, src = subject.ids(TARGET), subject.ids(SOURCE, seed=3)
    out = subject(tgt.expand(3, -1), src.expand(3, -1))
    if bool(gap(out[:1], out[1:]).max() > subject.leak * spread(out)) and not _mixed(subject)[1]:
        yield Finding.of("positions.batch", "three equal rows of one batch got different scores.")
    if subject.two:
        there, back = subject(tgt, src), subject(tgt, src.flip(1))
        elsewhere = subject(tgt, subject.other(src))
        still = gap(there, back).max() < 0.1 * subject.leak * spread(there)
        if still and bool(gap(there, elsewhere).max() > subject.leak * spread(there)):
            yield Finding.of(
                "positions.none", f"a source of {SOURCE} words and the same backwards give the same scores."
            )
    if subject.kind == "encoder-only":
        there, back = subject(tgt), subject(tgt.flip(1)).flip(1)
        if bool(gap(there, back).max() < 0.1 * subject.leak * spread(there)):
            yield Finding.of("positions.none", f"{TARGET} tokens and the same backwards give the same scores.")
    else:
        yield from _order_of_the_past(subject)


def _order_of_the_past(subject: Subject) -> Iterator[Finding]:
    """Whether the first part in which a token meets its past can tell the past's order.

    Later parts can in any case, since each token of the past has seen a different past itself.
    """
    tgt = subject.ids(TARGET)
    steps = []
    for ids in (tgt, subject.other(tgt), tgt.flip(1)):
        with traced(subject.module) as trace:
            ids = torch.cat([ids[:, :-1], tgt[:, -1:]], 1) if ids is not tgt else tgt
            subject(_exchanged(tgt) if torch.equal(ids[:, 0], tgt[:, -1]) else ids)
        steps.append(trace)
    for a, other, exchanged in zip(*steps, strict=False):
        last = [along(step.output, TARGET, slice(TARGET - 1, TARGET)) for step in (a, other, exchanged)]
        if differs(last[0], last[1], subject.leak):
            if not differs(last[0], last[2], 0.1 * subject.leak):
                code = "positions.target_none" if subject.two else "positions.none"
                seen = "reversing the earlier tokens changes nothing at the last one, when it first sees them."
                yield Finding.of(code, seen, f"{a.name} ({type(a.part).__name__})")
            return


def _exchanged(tgt: Tensor) -> Tensor:
    return torch.cat([tgt[:, :-1].flip(1), tgt[:, -1:]], 1)


def lengths(subject: Subject) -> Iterator[Finding]:
    """Longer and longer texts of one repeated token: until it fails, or gives two places one position."""
    word, longest = subject.words[:1], TARGET
    for length in LENGTHS[: 3 if subject.quick else len(LENGTHS)]:
        ids = word.expand(1, length)
        try:
            with traced(subject.module) as steps:
                subject(ids, ids)
        except OutOfTime:
            return
        except Exception as error:
            yield Finding.of(
                "limits.length",
                f"{_last_that_works(subject, longest, length)} tokens are the most; more raise {short(error)}.",
            )
            return
        for step in steps:
            rows = along(step.output, length, slice(None))
            if rows is not None and differs(rows[:1], rows[1:2], 1e-5):
                twin = (torch.cdist(rows, rows) + torch.eye(length) * 1e9).min(1)
                equal = (twin.values < 1e-5 * float(rows.abs().max())).nonzero().flatten()
                if len(equal):
                    i, j = int(equal[0]), int(twin.indices[equal[0]])
                    yield Finding.of(
                        "positions.silent_end",
                        f"of {length} equal tokens, those at {i} and {j} are one to it.",
                        f"{step.name} ({type(step.part).__name__})",
                    )
                    return
                break
        longest = length


def _last_that_works(subject: Subject, good: int, bad: int) -> int:
    while bad - good > 1:
        middle = (good + bad) // 2
        ids = subject.words[:1].expand(1, middle)
        try:
            subject(ids, ids)
            good = middle
        except OutOfTime:
            raise
        except Exception:
            bad = middle
    return good
