"""Rows of a batch, and positions: what a token's neighbors, its place and its row may change."""

from collections.abc import Iterator
from contextlib import suppress

import torch

from tfm_lib.checkup.measures import gap, short, spread
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.watch import along, culprit, differs, first_apart, last

LENGTHS = (24, 50, 100, 200, 400, 800)


def rows(subject: Subject) -> Iterator[Found]:
    """Change the other rows of a batch, in eval and in training."""
    where, mixed = _mixed(subject)
    seen = "a change of the other rows of a batch changes the scores of a row"
    if not mixed and _mixed(subject, (subject.start_id, subject.eos_id))[1]:
        yield "batch.rows", f"{seen}, if they have a start or an end in their middle."
    elif mixed:
        tgt, src = subject.texts(3)
        own = torch.cat([subject.tgt.changed(tgt[:1], slice(0, -1)), tgt[1:]])
        before, after = subject(tgt, src), subject(own, src)
        if gap(before, after)[0, -1] <= subject.silence * 100 * spread(before):
            yield "batch.axes", f"{seen}; a change of the other tokens of its own row does not.", where
        else:
            yield "batch.rows", f"{seen}.", where
    elif subject.module is not None:
        with subject.mode(training=True):
            where, mixed = _mixed(subject)
        if mixed:
            yield "batch.training", f"in training mode, {seen}.", where


def _mixed(subject: Subject, special: tuple[int | None, ...] = ()) -> tuple[str, bool]:
    """The part in which a row first depends on the others, with special tokens among them or not; whether it does."""
    ids = subject.texts(3)
    a, one = subject.trace(*ids)
    sides = subject.tgt, subject.src
    others = [side.other(x) for x, side in zip(ids, sides, strict=True)]
    for x, other in zip(ids, others, strict=True):
        for place, token in enumerate(special, 3):
            other[:, place] = other[:, place] if token is None else token
        other[1] = x[1]
    b, two = subject.trace(*others)
    if not subject.apart(one[1:2], two[1:2]):
        return "", False
    return culprit(a, b, (3, 3), slice(1, 2), subject.leak)[0], True


def positions(subject: Subject) -> Iterator[Found]:
    """Put the same row into a batch twice; exchange words of the source, and tokens before the last one."""
    tgt, src = subject.texts()
    out = subject(tgt.expand(3, -1), src.expand(3, -1))
    if subject.apart(out[:1], out[1:]) and not _mixed(subject)[1]:
        yield "positions.batch", "three equal rows of one batch got different scores."
    if subject.two:
        before = subject(tgt, src)
        same = [not subject.apart(before, subject(tgt, words), 0.1) for words in (src.flip(1), src.roll(2, 1))]
        if same[0] and subject.apart(before, subject(tgt, subject.src.other(src))):
            seen = f"a source of {SOURCE} words and the same backwards give the same scores"
            yield (
                ("positions.none", f"{seen}.")
                if same[1]
                else ("positions.mirror", f"{seen}; rolled by two, it does not.")
            )
    if subject.kind != "encoder-only":
        yield from _order_of_the_past(subject)
    elif not subject.apart(subject(tgt), subject(tgt.flip(1)).flip(1), 0.1):
        seen = f"{TARGET} tokens and the same backwards give the same scores"
        rolled = subject.apart(subject(tgt), subject(tgt.roll(2, 1)).roll(-2, 1), 0.1)
        yield ("positions.mirror", f"{seen}; rolled by two, they do not.") if rolled else ("positions.none", f"{seen}.")


def _order_of_the_past(subject: Subject) -> Iterator[Found]:
    """Whether the first part in which a token meets its past can tell the past's order.

    Later parts can in any case, since each token of the past has seen a different past itself.
    """
    tgt, past = subject.tgt.ids(TARGET), -1 - subject.shifts  # the last place reads the token before, where it shifts
    reversed_past = torch.cat([tgt[:, :past].flip(1), tgt[:, past:]], 1)
    inputs = tgt, subject.tgt.changed(tgt, slice(0, past)), reversed_past
    a, changed, backwards = (subject.trace(ids)[0] for ids in inputs)
    meets = first_apart(a, changed, TARGET, subject.leak)
    if meets is None:
        return
    if differs(last(a[meets], TARGET), last(backwards[meets], TARGET), 0.1 * subject.leak):
        yield from _last_two(subject)
        return
    code = "positions.target_none" if subject.two else "positions.none"
    yield code, "reversing the order of the earlier tokens does not change the output for the last one.", str(a[meets])


def _last_two(subject: Subject) -> Iterator[Found]:
    """Whether a token knows the order of the two before it, in a long text: relative positions may be clipped, too."""
    with subject.exact(), suppress(Exception):  # it may have a greatest length
        where = ""  # in one of several texts at least, a saturated softmax looks at one of the two
        if all(where := _blind_to_two(subject, draw) for draw in range(4, 12)):
            seen = f"of {LENGTHS[0]} tokens, the last one does not depend on the order of the two before it."
            yield "positions.silent_end", seen, where


def _blind_to_two(subject: Subject, draw: int) -> str:
    """The part where the two tokens before the last one surely matter to it, if their order does not; else ""."""
    length, order, texts = LENGTHS[0], torch.arange(LENGTHS[0]), [subject.tgt.ids(LENGTHS[0], seed=draw)]
    order[-3:-1] = order[-3:-1].flip(0)
    for _ in range(4):
        texts.append(subject.tgt.changed(texts[-1], slice(-3, -1)))
    a, swapped, *others = (subject.trace(text)[0] for text in (texts[0], texts[0][:, order], *texts[1:]))
    meets = first_apart(a, others[0], length, subject.leak)
    if meets is None or any(first_apart(a, other, length, subject.leak) is None for other in others):
        return ""
    knows = differs(last(a[meets], length), last(swapped[meets], length), 1e-9)
    return "" if knows else str(a[meets])


def lengths(subject: Subject) -> Iterator[Found]:
    """Longer and longer texts of one repeated token: until it fails, or gives two places one position."""
    longest = TARGET
    for length in LENGTHS[: 3 if subject.quick else len(LENGTHS)]:
        ids, src = (side.ordinary[:1].expand(1, length) for side in (subject.tgt, subject.src))
        try:
            steps, _ = subject.trace(ids, src)
        except Exception as error:
            yield "limits.length", f"{longest} tokens went through, and {length} raised {short(error)}."
            return
        for step in steps:
            rows = along(step.output, length, slice(None))
            if rows is not None and differs(rows[:1], rows[1:2], 1e-5):  # the first part that knows places
                twin = (torch.cdist(rows, rows) + torch.eye(length) * 1e9).min(1)
                equal = (twin.values < 1e-5 * float(rows.abs().max())).nonzero().flatten()
                if len(equal):
                    i, j = int(equal[0]), int(twin.indices[equal[0]])
                    seen = f"of {length} equal tokens, those at {i} and {j} are one to it."
                    yield "positions.silent_end", seen, str(step)
                    return
                break
        longest = length
