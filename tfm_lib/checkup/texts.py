"""What is written for several texts: the same each time, by the scores of the forward pass, in any company."""

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tfm_lib.checkup.beams import beginnings, crops, kept, pasts, totals
from tfm_lib.checkup.given import Write
from tfm_lib.checkup.measures import as_list, of_a_hook, short
from tfm_lib.checkup.steering import ending
from tfm_lib.checkup.steps import WORDS, best, steps, watched
from tfm_lib.checkup.subject import Found, Subject
from tfm_lib.checkup.watch import DropoutWatch, hooked


def texts(subject: Subject, write: Write, single: bool, src: Tensor, many: list[Any]) -> Iterator[Found]:
    """What is written: the same the next time, by the scores of the forward pass, and in any company."""
    yield from crops(subject, write)
    if many != written(subject, write, src, seed=1):
        with DropoutWatch() as watch:
            again = written(subject, write, src)
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
    if stale := list(_stale(subject, write, src, many)):
        yield from stale
        return
    found = list(steps(subject, write))
    yield from found
    if "generate.fails" in (code for code, *_ in found):
        return
    yield from pasts(subject, write)
    yield from totals(subject, write)
    if not found:
        yield from beginnings(subject, write)
        yield from kept(subject, write)
    try:
        yield from _company(subject, write, src, many)
    except Exception as error:
        if of_a_hook(error):
            raise
        seen = f"three texts of 5 tokens went through; alone, or with padding, it raised {short(error)}."
        yield "generate.fails", seen
    if not single and subject.eos_id is not None:
        yield from _ends(subject, write)


def _stale(subject: Subject, write: Write, src: Tensor, many: list[Any]) -> Iterator[Found]:
    """What happens to a text that is written after others, if it is not what is written of it alone."""
    text, same = subject.src.ids(4, 1, seed=7), False
    try:
        same = many == written(subject, write, subject.src.ids(5, 3, seed=16))
        alone = written(subject, write, text)
    except Exception as error:
        seen = f"{'three others got the same, ' * same}and the next ones raised {short(error)}"
        yield "generate.stale" if same else "generate.fails", f"three texts of 5 tokens went through, {seen}."
        return
    try:
        with subject.remembering():
            written(subject, write, src)
            seen = "is another than alone" * (written(subject, write, text) != alone)
    except Exception as error:
        seen = f"raised {short(error)}"
    if seen:
        yield "generate.stale", f"a second text, written after three others, {seen}."


def _company(subject: Subject, write: Write, src: Tensor, many: list[Any]) -> Iterator[Found]:
    """Each text alone, beside what was written in a batch of equal lengths, and of different ones."""
    alone = [written(subject, write, src[i : i + 1])[0] for i in range(len(src))]
    if any(_cut(subject, a) != _cut(subject, b) for a, b in zip(alone, many, strict=True)):
        yield "generate.batch", "a text gets another summary alone than in a batch of three."
    elif not subject.two and subject.src.pad_id is not None:
        yield from _prompts(subject, write)
    elif subject.src.pad_id is not None and not subject.quick:
        lengths = (5, 2, 3)
        mixed = written(subject, write, subject.src.mixed(lengths, seed=6))
        alone[1:] = [written(subject, write, src[i : i + 1, : lengths[i]])[0] for i in (1, 2)]
        if any(_cut(subject, a) != _cut(subject, b) for a, b in zip(alone, mixed, strict=True)):
            yield "generate.padding", "a text gets another summary alone than beside longer ones, with padding."


def _ends(subject: Subject, write: Write) -> Iterator[Found]:
    """Write of three texts, and again with the best score for the first one's end: it ends, and no other one does."""
    src = subject.src.ids(WORDS, 3, seed=6)
    with watched(subject) as taken:
        free = [best(row) for row in write(src)]
    with watched(subject, (1 if subject.two else WORDS) + 2):
        first, *rest = [best(row) for row in write(src)]
    for row in [*free, first]:
        after = row[row.index(subject.eos_id, 1) + 1 :] if subject.eos_id in row[1:] else []
        if any(token not in (subject.pad_id, subject.eos_id) for token in after):
            padded = after[0] == subject.pad_id != subject.eos_id
            code = "generate.revived" if padded else "generate.after_end"
            yield code, f"after eos_id {subject.eos_id} it goes on: {after}."
            break
    soon = subject.eos_id in first[1:] and subject.eos_id not in free[0][1 : first.index(subject.eos_id, 1) + 1]
    if soon and [_cut(subject, row) for row in rest] != [_cut(subject, row) for row in free[1:]]:
        with watched(subject) as alone:
            write(src[:1])
        if len(taken) > 2 * len(alone):  # it writes one after the other, and ends the first beams of each
            return
        yield (
            "generate.batch",
            f"when the first of three texts has ended, another one becomes {rest[0]}, not {free[1]}.",
        )


def _prompts(subject: Subject, write: Write) -> Iterator[Found]:
    """Go on with prompts of several lengths, if it tells which are shorter: by moving their padding, or by a mask."""
    lengths, told = (WORDS, 2, 3), False
    behind = subject.src.mixed(lengths, seed=6)
    before = torch.stack([row.roll(WORDS - n) for row, n in zip(behind, lengths, strict=True)])
    alone = [_goes_on(subject, write, text[text != subject.pad_id][None])[0] for text in behind]
    for prompts in (behind, before):
        try:
            together = _goes_on(subject, write, prompts)
        except Exception:  # it may refuse them
            continue
        pairs = zip(alone, together, lengths, strict=True)
        if all(
            b.row == a.row[: len(b.row)] and len(a.row) - len(b.row) <= WORDS - n  # the limit may be of the whole
            and (a.scores is None or b.scores is None or not subject.apart(a.scores, b.scores, 10))
            for a, b, n in pairs
        ):  # fmt: skip
            return
        told = told or _told_lengths(subject, write, prompts)
    if told:
        yield "generate.padding", "prompts of several lengths, padded behind or in front, go on otherwise than alone."


class Continued(NamedTuple):
    """What is written of a prompt, without padding, and the scores (1, 1, V) of its first new token, if it was seen."""

    row: list[Any]
    scores: Tensor | None


def _goes_on(subject: Subject, write: Write, prompts: Tensor) -> list[Continued]:
    with watched(subject) as taken:
        write(prompts)
    seen = taken[0].scores[:, None].split(1) if taken else ()
    seen = seen if len(seen) == len(prompts) else [None] * len(prompts)
    return [Continued(_bare(subject, row), s) for row, s in zip(written(subject, write, prompts), seen, strict=True)]


def _told_lengths(subject: Subject, write: Write, prompts: Tensor) -> bool:
    """Whether what writes for padded prompts (B, P) moves their padding, or gives the model more than ids of each."""
    given = list[list[Tensor]]()

    def on_call(part: nn.Module, args: Any, named: Any, output: Any) -> None:
        tensors = [x for x in (*args, *named.values()) if isinstance(x, Tensor) and not x.is_floating_point()]
        given.append([x for x in tensors if x.shape[:1] == prompts.shape[:1]])

    with hooked(*((part, on_call) for part in subject.parts[:1])), suppress(Exception):
        write(prompts)
    ids, *more = next(filter(None, given), [prompts])
    moved = not ids.equal(prompts) and _bare(subject, ids[1]) == _bare(subject, prompts[1])
    return moved or any(not x.equal(x[:1].expand_as(x)) for x in more)


def _bare(subject: Subject, row: Any) -> list[Any]:
    """Without padding, wherever it stands."""
    return [word for word in best(as_list(row)) if word != subject.pad_id]


def written(subject: Subject, write: Write, src: Tensor, seed: int = 0) -> list[Any]:
    """What it writes for these texts (B, S), with this seed of every generator of random numbers."""
    with ending(subject):
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
