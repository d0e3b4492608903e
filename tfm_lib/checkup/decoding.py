"""Writing: a cache must change nothing, and what is generated must not depend on its company."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.given import writer
from tfm_lib.checkup.measures import gap, scores, short, spread
from tfm_lib.checkup.options import options
from tfm_lib.checkup.steps import steps
from tfm_lib.checkup.subject import TARGET, Found, Subject
from tfm_lib.checkup.texts import texts, written
from tfm_lib.checkup.watch import DropoutWatch


def cache(subject: Subject) -> Iterator[Found]:
    """Decode token by token, and in pieces, beside the whole row at once."""
    if subject.decode is None:
        return
    tgt, src = subject.texts(2)
    logits, single = subject(tgt, src), [1] * TARGET
    try:
        steps = _pieces(subject, tgt, src, single)
    except Exception as error:
        yield "cache.fails", f"decoding {TARGET} tokens one by one raised {short(error)}."
        return
    wrong = (gap(logits, steps) > 10 * subject.leak * spread(logits)).any(0)
    if wrong.any():
        place = int(wrong.nonzero()[0])
        if place and _stuck(subject, src):
            yield "cache.positions", f"decoded one by one, {TARGET} equal tokens all get the same scores."
        else:
            yield "cache.differs", f"decoded one by one, the scores differ from position {place} on."
        return
    once = tgt, src, logits
    swapped = tgt.flip(0), src.flip(0), logits.flip(0)
    for code, what, (text, source, wanted), sizes in (
        ("cache.stale", "decoding a second text after the first", swapped, single),
        ("cache.prefill", f"decoding 3, then 1, then {TARGET - 4} tokens", once, [3, 1, TARGET - 4]),
    ):
        try:
            apart = subject.apart(wanted, _pieces(subject, text, source, sizes), 10)
            seen = "gave other scores than the forward pass" * apart
        except Exception as error:
            seen = f"raised {short(error)}"
        if seen:
            yield code, f"{what} {seen}."
            return


def _pieces(subject: Subject, tgt: Tensor, src: Tensor, sizes: list[int]) -> Tensor:
    """The logits (B, T, V) of tgt (B, T), decoded with the cache in pieces of these sizes."""
    assert subject.decode is not None
    pieces = []
    with torch.no_grad():
        torch.manual_seed(0)
        state = subject.encode(src) if subject.encode is not None else None
        for new in tgt.split(sizes, 1):
            out, state = subject.decode(new, state)
            logits = scores(out, subject.vocab_size).float()
            pieces.append(logits if logits.dim() == 3 else logits[:, None])
    return torch.cat(pieces, 1)


def _stuck(subject: Subject, src: Tensor) -> bool:
    """Whether equal tokens get equal scores with the cache, and not without."""
    equal = subject.tgt.ordinary[:1].expand(len(src), TARGET)
    with_cache, without = _pieces(subject, equal, src, [1] * TARGET), subject(equal, src)
    moved = [float(gap(out[:, :-1], out[:, 1:]).max()) / spread(without) for out in (with_cache, without)]
    return moved[0] < 0.1 * subject.leak and moved[1] > subject.leak


def generate(subject: Subject) -> Iterator[Found]:
    """Write for texts in a batch, and for each of them alone; after other texts, and beside longer ones."""
    if subject.generate is None:
        return
    write, single = writer(subject)
    src = subject.src.ids(5, 3, seed=6)
    try:
        with subject.mode(training=True), DropoutWatch() as training:
            written(subject, write, src)
            changed = not all(part.training for part in subject.parts)
    except Exception as error:
        yield "generate.fails", f"for three texts of 5 tokens it raised {short(error)}."
        with subject.mode(training=False):
            yield from (found for found in steps(subject, write) if found[0] != "generate.fails")  # why, if it is seen
        return
    if changed:
        yield "generate.mode", "it was in training mode before it wrote, and is in eval mode after."
    if single:
        yield "generate.single", "three texts at once failed, and each of them alone went through."
    try:
        with DropoutWatch() as watch:
            many = written(subject, write, src)
    except Exception as error:
        yield "generate.stale", f"three texts of 5 tokens went through, and raised {short(error)} the next time."
        return
    if any(part.training for part in subject.parts):
        yield "generate.mode", "it was in eval mode before it wrote, and is in training mode after."
        return
    if watch.drops:
        yield "generate.dropout", "in eval mode, dropout works while it writes."
        return
    if training.drops:
        yield "generate.training", "in training mode, dropout works while it writes."
    found = list(texts(subject, write, single, src, many))
    yield from found
    if {code for code, *_ in found} <= {"generate.dice"}:  # nothing is wrong so far
        yield from options(subject, src)
