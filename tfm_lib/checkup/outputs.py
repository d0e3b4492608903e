"""What comes out: its shape, whether they are logits, whether it is the same twice."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.conventions import learn_sides, learn_vocabularies
from tfm_lib.checkup.masks import learn_masks
from tfm_lib.checkup.measures import short, spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject
from tfm_lib.checkup.words import NotExaminable


def first_look(subject: Subject, src_size_given: bool) -> tuple[list[Finding], bool]:
    """Learn its conventions; what was found, and whether anything else can be asked."""
    masks = learn_sides(subject)
    sizes = learn_vocabularies(subject, src_size_given)
    try:
        hides = learn_masks(subject, masks)
    except NotExaminable:
        shape = subject.shape
        if len(shape) == 3 and shape[0] == 2 and subject.vocab_size not in shape:
            seen = f"the last axis of its output, {shape}, is {shape[-1]}, and vocab_size is {subject.vocab_size}."
            return [Finding.of("shapes.not_vocab", seen)], False
        if hint := list(_what_goes_through(subject)):
            return hint, False
        raise
    out, found = subject(subject.tgt.ids(TARGET, 2)), []
    for finding in _scale(out):
        logs = finding.code == "output.log_probabilities"
        subject.scale = (lambda logits: logits.log_softmax(-1)) if logs else (lambda logits: logits.softmax(-1))
    if sizes:
        found.append(Finding.of("shapes.vocabularies", sizes))
    if hides:
        found.append(Finding.of("shapes.masks", hides))
    if subject.time_first:
        found.append(
            Finding.of("shapes.time_first", "it takes ids of shape (T, B), and fails or mixes texts with (B, T).")
        )
    if subject.swapped:
        found.append(Finding.of("shapes.swapped", "its first argument is the target and its second the source."))
    if subject.order != (1 if subject.time_first else 0, 0 if subject.time_first else 1, 2):
        names = ", ".join("BTV"[subject.order.index(axis)] for axis in range(3))
        found.append(Finding.of("shapes.axes", f"its output is laid out as ({names})."))
    if subject.flat:
        found.append(Finding.of("shapes.flattened", "its output has one axis for texts and places, (B * T, V)."))
    if subject.shortened:
        found.append(Finding.of("shapes.shortened", "from a target of T tokens it gives logits for T - 1."))
    return found, True


def _what_goes_through(subject: Subject) -> Iterator[Finding]:
    """Why two ordinary texts failed, if something less ordinary does not fail."""
    tgt, src = subject.tgt.ids(TARGET, 2), subject.src.ids(SOURCE, 2)
    square = [subject.tgt.ids(TARGET, TARGET), subject.src.ids(TARGET, TARGET)]
    tries = [("batch.axes", square, f"{TARGET} rows of {TARGET} tokens on both sides went through")]
    if subject.src.pad_id is not None:
        padded = src.clone()
        padded[:, -3:] = subject.src.pad_id
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
            subject(subject.tgt.ids(length, rows), subject.src.ids(source, rows, seed=3))
        except Exception as error:
            code = "shapes.single" if rows == 1 or length == 1 else "shapes.length"
            ids = f"tgt {(rows, length)}" + (f" and src {(rows, source)}" if subject.two else "")
            yield Finding.of(code, f"{(2, TARGET)} ids went through, and {ids} raised {short(error)}.")


def values(subject: Subject) -> Iterator[Finding]:
    """Logits, probabilities or their logarithms; NaN; answers that change from call to call."""
    tgt = subject.tgt.ids(TARGET, 2)
    out = subject(tgt)
    if out.isnan().any() or out.isinf().all(-1).any():
        yield Finding.of("output.nan", f"two rows of {TARGET} ordinary tokens gave {int(out.isnan().sum())} NaN.")
        return
    if found := list(_scale(out)):
        yield from found
    elif any(_sums_to_1(part, axis) for part in (out, out.exp()) for axis in (0, 1)):
        yield Finding.of(
            "output.axis", "the scores, or e to their power, sum to 1 over texts or positions, not over tokens."
        )
    if spread(out - out.mean((0, 1))) < 1e-5 * spread(out):
        yield Finding.of("output.constant", "all positions of two different texts got the same scores.")
    if subject.apart(out, subject(tgt, seed=12345)):
        yield Finding.of("dropout.eval", "in eval mode, two calls with the same ids gave different scores.")


def _sums_to_1(out: Tensor, axis: int) -> bool:
    return (
        out.shape[axis] > 1
        and bool((out >= 0).all())
        and torch.allclose(out.sum(axis), torch.ones(()).to(out), atol=1e-3)
    )


def _scale(out: Tensor) -> Iterator[Finding]:
    if _sums_to_1(out, -1):
        yield Finding.of("output.probabilities", "the scores of each position are positive and sum to 1.")
    elif bool((out <= 1e-4).all()) and _sums_to_1(out.exp(), -1):
        yield Finding.of("output.log_probabilities", "e to the power of the scores sums to 1 at each position.")


def memory(subject: Subject) -> Iterator[Finding]:
    """Ask one thing after another, and the second one afresh: what came before must not be remembered."""
    asked = {
        "a source without padding": (subject.tgt.ids(TARGET, 2), subject.src.ids(SOURCE, 2, seed=3)),
        "other texts": (subject.tgt.ids(TARGET, 2, seed=1), subject.src.ids(SOURCE, 2, seed=4)),
        "longer texts": (subject.tgt.ids(TARGET + 3, 2), subject.src.ids(SOURCE + 3, 2, seed=3)),
    }
    src = subject.src.ids(SOURCE, 2, seed=3)
    if subject.src.pad_id is not None:
        src[1, -4:] = subject.src.pad_id
    tgt = subject.tgt.ids(TARGET, 2, seed=5)
    afresh = subject(tgt, src)
    for what, before in asked.items():
        with subject.remembering():
            try:
                subject(*before)
                kept = subject.apart(afresh, subject(tgt, src))
            except Exception:
                kept = True
        if kept:
            yield Finding.of("state.kept", f"after {what}, the same texts get other scores than in a first call.")
            return
