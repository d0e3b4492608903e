"""What comes out: its shape, whether they are logits, whether it is the same twice."""

import math
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor

from tfm_lib.checkup.conventions import learn_sides, learn_vocabularies
from tfm_lib.checkup.given import text_loss
from tfm_lib.checkup.listening import listened
from tfm_lib.checkup.masks import learn_masks
from tfm_lib.checkup.measures import short, spread
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.words import NotExaminable


def first_look(subject: Subject, src_size_given: bool) -> tuple[list[Found], bool]:
    """Learn its conventions; what was found, and whether anything else can be asked."""
    masks = learn_sides(subject)
    sizes = learn_vocabularies(subject, src_size_given)
    try:
        hides = learn_masks(subject, masks)
    except NotExaminable:
        shape = subject.shape
        if len(shape) == 3 and 2 in shape[:2] and subject.vocab_size not in shape:
            seen = f"the last axis of its output, {shape}, is {shape[-1]}, and vocab_size is {subject.vocab_size}"
            seen += "; the source's vocabulary has that size." if shape[-1] == subject.src.size else "."
            return [("shapes.not_vocab", seen)], False
        if hint := list(_what_goes_through(subject)):
            return hint, False
        raise
    for code, _ in _scale(subject(subject.tgt.ids(TARGET, 2))):
        subject.scale = torch.log_softmax if code == "output.log_probabilities" else torch.softmax
        with suppress(Exception):  # else what they are meant for can't be seen
            subject.means_probabilities = code == "output.probabilities" and _takes_logarithm(subject)
    usual = (1, 0, 2) if subject.time_first else (0, 1, 2)
    names = ", ".join("BTV"[subject.order.index(axis)] for axis in range(3))
    conventions = {
        "shapes.vocabularies": (sizes, sizes),
        "shapes.masks": (hides, hides),
        "shapes.attention_mask": ("attention_mask" in hides and "not look" in hides, hides),
        "shapes.time_first": (subject.time_first, "it takes ids of shape (T, B); it fails or mixes texts with (B, T)."),
        "shapes.swapped": (subject.swapped, "its first argument is the target and its second the source."),
        "shapes.axes": (subject.order != usual, f"its output is laid out as ({names})."),
        "shapes.flattened": (subject.flat, "its output has one axis for texts and places, (B * T, V)."),
        "shapes.shortened": (subject.shortened, "from a target of T tokens it gives logits for T - 1."),
    }
    return [(code, seen) for code, (met, seen) in conventions.items() if met], True


def _what_goes_through(subject: Subject) -> Iterator[Found]:
    """Why two ordinary texts failed, if something less ordinary does not fail."""
    square = subject.tgt.ids(TARGET, TARGET), subject.src.ids(TARGET, TARGET)
    tries = [("batch.axes", square, f"{TARGET} rows of {TARGET} tokens went through")]
    if subject.src.pad_id is not None and subject.two:
        padded = subject.tgt.ids(TARGET, 2), subject.src.padded(subject.src.ids(SOURCE - 3, 2), SOURCE)
        tries.append(("padding.inverted", padded, "a source that ends in padding went through"))
    for code, ids, seen in tries:
        try:
            out = subject(*ids)
            others = [
                torch.cat([x[:1], side.other(x[1:])]) for x, side in zip(ids, (subject.tgt, subject.src), strict=True)
            ]
            if code == "batch.axes" and subject.two and not subject.apart(out[:1], subject(*others)[:1]):
                code, seen = "shapes.length", f"a source and a target of {TARGET} tokens went through"
        except Exception:
            continue
        yield code, f"{seen}, and 2 rows of {SOURCE if subject.two else TARGET} failed."
        return


def shapes(subject: Subject) -> Iterator[Found]:
    """Single texts, single tokens, other lengths."""
    for rows, length, source in ((1, TARGET, SOURCE), (3, 1, SOURCE), (1, 1, 1), (2, 4, 3), (3, 3, 11), (2, 11, 4)):
        try:
            subject(subject.tgt.ids(length, rows), subject.src.ids(source, rows, seed=3))
        except Exception as error:
            code = "shapes.single" if rows == 1 or length == 1 else "shapes.length"
            ids = f"tgt {(rows, length)}" + (f" and src {(rows, source)}" if subject.two else "")
            yield code, f"{(2, TARGET)} ids went through, and {ids} raised {short(error)}."


def values(subject: Subject) -> Iterator[Found]:
    """Logits, probabilities or their logarithms; NaN; answers that change from call to call."""
    tgt = subject.tgt.ids(TARGET, 2)
    out = subject(tgt)
    if out.isnan().any() or out.isinf().all(-1).any():
        yield "output.nan", f"two rows of {TARGET} ordinary tokens gave {int(out.isnan().sum())} NaN."
        return
    if subject.means_probabilities:
        pass
    elif found := list(_scale(out)):
        yield from found
    elif any(_sums_to_1(part, axis) for part in (out, out.exp()) for axis in (0, 1)):
        yield "output.axis", "the scores, or e to their power, sum to 1 over texts or positions, not over tokens."
    yield from _mass(subject, tgt)
    if spread(out - out.mean((0, 1))) < 1e-5 * spread(out):
        yield "output.constant", "all positions of two different texts got the same scores."
    if subject.apart(out, subject(tgt, seed=12345)):
        yield "dropout.eval", "in eval mode, two calls with the same ids gave different scores."
    if subject.module is not None:
        with subject.mode(training=True):
            zeros, dropped = (int((scores == 0).sum()) for scores in (out, subject(tgt)))
        if dropped > zeros:
            yield "dropout.logits", f"of {out.numel()} scores {zeros} are exactly 0, and {dropped} in training mode."


def _sums_to_1(out: Tensor, axis: int) -> bool:
    sums = out.sum(axis)
    most = max(1e-3, 1e-6 * out.shape[axis])  # what keeps each from zero, as in log(p + 1e-7), adds up
    return out.shape[axis] > 1 and bool((out >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=most)


def _scale(out: Tensor) -> Iterator[Found]:
    if _sums_to_1(out, -1):
        yield "output.probabilities", "the scores of each position are positive and sum to 1."
    elif bool((out <= 1e-4).all()) and _sums_to_1(out.exp(), -1):
        yield "output.log_probabilities", "e to the power of the scores sums to 1 at each position."


def _takes_logarithm(subject: Subject) -> bool:
    """Whether the loss falls as -log p does, from blind guesses to p = 1/2 for the right words, smoothed or not."""
    tgt, src = subject.texts(2)
    if (loss := text_loss(subject)) is None or (gradient := listened(subject, loss, tgt, src).gradient) is None:
        return False
    half = torch.zeros_like(gradient).scatter(-1, gradient.argmin(-1, keepdim=True), math.log(subject.vocab_size - 1))
    blind, right = (float(listened(subject, loss, tgt, src, put=put).loss) for put in (half * 0, half))
    return right < 0.65 * blind  # else, as of probabilities that are taken for logits, more than 0.8 is left


def _mass(subject: Subject, tgt: Tensor) -> Iterator[Found]:
    """Whether the probabilities of a model that copies are less than 1 where all words of the source are one word."""
    out = subject(tgt, subject.src.ordinary[:1].expand(len(tgt), SOURCE))
    mass = (out if bool((out >= 0).all()) else out.exp()).sum(-1)
    if float(mass.min()) > 0.1 and float(mass.max()) < 0.999:
        seen = f"if all {SOURCE} words of the source are one, the probabilities sum to {mass.mean():.2f}, not to 1."
        yield "output.mass", seen
    for word in subject.src.unknown[:1] if subject.scale else ():
        if float(subject(tgt, word.expand(len(tgt), SOURCE)).exp()[..., word].max()) < 1e-6:
            yield "output.mass", f"a source of {word} alone, which no embedding has a row for, gives it no probability."


def memory(subject: Subject) -> Iterator[Found]:
    """Ask one thing after another, and the second one afresh: what came before must not be remembered."""
    asked = {
        "a source without padding": subject.texts(2),
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
                differs = subject.apart(afresh, subject(tgt, src))
            except Exception:
                differs = True
        if differs:
            yield "state.kept", f"after {what}, the same texts get other scores than in a first call."
            return
