"""What comes out: its shape, whether they are logits, whether it is the same twice."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.measures import short, spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, NotExaminable, Subject


def first_look(subject: Subject) -> tuple[list[Finding], bool]:
    """Learn its conventions; what was found, and whether anything else can be asked."""
    try:
        subject.learn_conventions()
    except NotExaminable:
        shape = subject.shape
        if len(shape) == 3 and shape[0] == 2:
            seen = f"the last axis of its output, {shape}, is {shape[-1]}, and vocab_size is {subject.vocab_size}."
            return [Finding.of("shapes.not_vocab", seen)], False
        if hint := list(_what_goes_through(subject)):
            return hint, False
        raise
    found = []
    if subject.order != (0, 1, 2):
        names = ", ".join("BTV"[subject.order.index(axis)] for axis in range(3))
        found.append(Finding.of("shapes.axes", f"its output is laid out as ({names})."))
    if subject.flat:
        found.append(Finding.of("shapes.flattened", "its output has one axis for texts and places, (B * T, V)."))
    if subject.shortened:
        found.append(Finding.of("shapes.shortened", "from a target of T tokens it gives logits for T - 1."))
    return found, True


def _what_goes_through(subject: Subject) -> Iterator[Finding]:
    """Why two ordinary texts failed, if something less ordinary does not fail."""
    tgt, src = subject.ids(TARGET, 2), subject.ids(SOURCE, 2)
    square = [subject.ids(TARGET, TARGET)] * 2
    tries = [("batch.axes", square, f"{TARGET} rows of {TARGET} tokens on both sides went through")]
    if subject.pad_id is not None:
        padded = src.clone()
        padded[:, -3:] = subject.pad_id
        tries.append(("padding.inverted", [tgt, padded], "a source that ends in padding went through"))
    for code, ids, seen in tries if subject.two else []:
        try:
            subject(*ids)
        except Exception:
            continue
        yield Finding.of(code, f"{seen}, and 2 rows of {SOURCE} words failed.")
        return


def shapes(subject: Subject) -> Iterator[Finding]:
    """Single texts, single tokens, other lengths."""
    for rows, length, source in ((1, TARGET, SOURCE), (3, 1, SOURCE), (1, 1, 1), (2, 4, 3), (3, 3, 11), (2, 11, 4)):
        try:
            subject(subject.ids(length, rows), subject.ids(source, rows, seed=3))
        except Exception as error:
            code = "shapes.single" if rows == 1 or length == 1 else "shapes.length"
            ids = f"tgt {(rows, length)}" + (f" and src {(rows, source)}" if subject.two else "")
            yield Finding.of(code, f"{(2, TARGET)} ids went through, and {ids} raised {short(error)}.")


def values(subject: Subject) -> Iterator[Finding]:
    """Logits, probabilities or their logarithms; NaN; answers that change from call to call."""
    tgt = subject.ids(TARGET, 2)
    out = subject(tgt)
    if out.isnan().any() or out.isinf().all(-1).any():
        yield Finding.of("output.nan", f"two rows of {TARGET} ordinary tokens gave {int(out.isnan().sum())} NaN.")
        return
    yield from _scale(out)
    if spread(out - out.mean((0, 1))) < 1e-5 * spread(out):
        yield Finding.of("output.constant", "all positions of two different texts got the same scores.")
    if subject.apart(out, subject(tgt, seed=12345)):
        yield Finding.of("dropout.eval", "in eval mode, two calls with the same ids gave different scores.")


def _scale(out: Tensor) -> Iterator[Finding]:
    if bool((out >= 0).all()) and torch.allclose(out.sum(-1), torch.ones(()), atol=1e-3):
        yield Finding.of("output.probabilities", "the scores of each position are positive and sum to 1.")
    elif bool((out <= 1e-4).all()) and torch.allclose(out.logsumexp(-1), torch.zeros(()), atol=1e-3):
        yield Finding.of("output.log_probabilities", "e to the power of the scores sums to 1 at each position.")
