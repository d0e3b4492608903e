"""Writing: a cache must change nothing, and what is generated must not depend on its company."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tfm_lib.checkup.beams import beginnings, crops, ended, ends, kept, pasts
from tfm_lib.checkup.given import Write, writer
from tfm_lib.checkup.measures import gap, scores, short, spread
from tfm_lib.checkup.steps import steps
from tfm_lib.checkup.subject import TARGET, Found, Subject
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
            _written(write, src)
            changed = not all(part.training for part in subject.parts)
    except Exception as error:
        yield "generate.fails", f"for three texts of 5 tokens it raised {short(error)}."
        return
    if changed:
        yield "generate.mode", "it was in training mode before it wrote, and is in eval mode after."
    if single:
        yield "generate.single", "three texts at once failed, and each of them alone went through."
    try:
        with DropoutWatch() as watch:
            many = _written(write, src)
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
    yield from _texts(subject, write, single, src, many)


def _texts(subject: Subject, write: Write, single: bool, src: Tensor, many: list[Any]) -> Iterator[Found]:
    """What is written: the same the next time, by the scores of the forward pass, and in any company."""
    yield from crops(subject, write)
    if many != _written(write, src, seed=1):
        with DropoutWatch() as watch:
            again = _written(write, src)
        if again != many and not watch.generator:
            yield (
                "generate.stale",
                "with the same random numbers, the same three texts get other summaries the next time.",
            )
            return
        yield "generate.dice", "in eval mode, it writes another text for the same source the next time."
        yield from steps(subject, write)
        return
    beams = len(many[0]) if many[0] and isinstance(many[0][0], list) else 1
    if beams > 1 and all(len({str(beam) for beam in row}) == 1 for row in many):
        yield "generate.copies", f"all {beams} candidates of each of three texts are equal."
    if stale := list(_stale(subject, write)):
        yield from stale
        return
    found = list(steps(subject, write))
    yield from found
    if "generate.fails" in (code for code, *_ in found):
        return
    yield from pasts(subject, write)
    yield from ended(subject, write)
    if not found:
        yield from beginnings(subject, write)
        yield from kept(subject, write)
    yield from _company(subject, write, src, many)
    if not single and subject.eos_id is not None:
        yield from ends(subject, write)


def _stale(subject: Subject, write: Write) -> Iterator[Found]:
    """What happens to a text that is written after others, if it is not what is written of it alone."""
    text = subject.src.ids(4, 1, seed=7)
    try:
        alone = _written(write, text)
    except Exception as error:
        yield "generate.fails", f"three texts of 5 tokens went through, and one of 4 raised {short(error)}."
        return
    try:
        with subject.remembering():
            _written(write, subject.src.ids(5, 3, seed=6))
            seen = "is another than alone" * (_written(write, text) != alone)
    except Exception as error:
        seen = f"raised {short(error)}"
    if seen:
        yield "generate.stale", f"a second text, written after three others, {seen}."


def _company(subject: Subject, write: Write, src: Tensor, many: list[Any]) -> Iterator[Found]:
    """Each text alone, beside what was written in a batch of equal lengths, and of different ones."""
    alone = [_written(write, src[i : i + 1])[0] for i in range(len(src))]
    if any(_cut(subject, a) != _cut(subject, b) for a, b in zip(alone, many, strict=True)):
        yield "generate.batch", "a text gets another summary alone than in a batch of three."
    elif subject.two and subject.src.pad_id is not None and not subject.quick:
        lengths = (5, 2, 3)
        mixed = _written(write, subject.src.mixed(lengths, seed=6))
        alone = [_written(write, src[i : i + 1, :length])[0] for i, length in enumerate(lengths)]
        if any(_cut(subject, a) != _cut(subject, b) for a, b in zip(alone, mixed, strict=True)):
            yield "generate.padding", "a text gets another summary alone than beside longer ones, with padding."


def _written(write: Write, src: Tensor, seed: int = 0) -> list[Any]:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return write(src)


def _cut(subject: Subject, row: list[Any]) -> list[Any]:
    """Up to the end token: what stands behind it in a batch is padding."""
    if row and isinstance(row[0], list):
        return [_cut(subject, beam) for beam in row]
    row = row[: row.index(subject.eos_id, 1) + 1] if subject.eos_id in row[1:] else row
    while row and row[-1] == subject.pad_id != subject.eos_id:
        row = row[:-1]
    return row
