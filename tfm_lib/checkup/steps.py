"""What a model computes while it writes, step by step, and what it makes of scores that are known."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.checkup.given import Write
from tfm_lib.checkup.listening import Uses
from tfm_lib.checkup.measures import of_a_hook, short, spread
from tfm_lib.checkup.steering import SURE, Lengths, ends_of, heard
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.watch import AttentionWatch, LookUps

WORDS = 5  # of the source
ENOUGH = 6  # words that are written where the scores are known, so that nobody waits for the fiftieth


class Step(NamedTuple):
    """The tokens (R, t) that were read, and the scores (R, V) that came of it at the last place."""

    read: Tensor
    scores: Tensor


def steps(subject: Subject, write: Write) -> Iterator[Found]:
    """Write of one padded text; at each step, the scores must be those of the forward pass for all tokens so far."""
    if subject.two and subject.start_id is None:
        return
    words = subject.src.ids(WORDS, seed=6)
    padded = words if subject.src.pad_id is None or not subject.two else subject.src.padded(words, SOURCE)
    taken, failed = _taken(subject, write, padded)
    if failed and not taken:  # it may only be that it has written all that it can
        return
    if not taken and subject.two and (first := _first_read(subject, write, padded)) not in (None, subject.start_id):
        yield "generate.start", f"its first token is {first}, and start_id is {subject.start_id}."
    if taken and decides(subject, taken[0].read, padded):
        yield from _choice(subject, taken)
    so_far = torch.zeros(0, dtype=torch.long)
    for number, (read, scores) in enumerate(taken[:6]):
        if subject.two and not number and subject.start_id not in read[:, 0]:
            seen = f"its first token is {int(read[0, 0])}, and start_id is {subject.start_id}."
            yield "generate.start", seen
            return
        cached = number > 0 and read.shape[1] == 1
        so_far = torch.cat([so_far, read[0]]) if cached else read[0]  # by its known words, the first beam stays first
        prefix = so_far[None] if cached else read
        scores = scores[:1] if cached else scores
        if same(subject, scores, prefix, padded):
            continue
        code, why = _reason(subject, write, words, padded, taken, number)
        after = f"after {prefix.shape[1]} token{'s' * (prefix.shape[1] > 1)}"
        yield code, f"{after}, the scores with which it writes are not those of its forward pass{why}."
        return
    if failed and len(taken) < 4:
        yield "generate.fails", failed


def _reason(
    subject: Subject, write: Write, words: Tensor, padded: Tensor, taken: list[Step], number: int
) -> tuple[str, str]:
    """Why the scores of this step are others than those of the forward pass."""
    read, scores = taken[number]
    one_by_one = len(taken) > 1 and all(step.read.shape[1] == 1 for step in taken[1:])
    cached = number > 0 and read.shape[1] == 1
    if keys := _more_keys(subject, write, padded):
        return "generate.cache", f", and {keys}: several layers append theirs to one cache"
    if left := _unused(subject, write, padded):
        return "generate.cache" if one_by_one else "generate.differs", f", and it never uses {left}"
    if cached and same(subject, scores[:1], read[:1], padded):
        return "generate.last_token", ", but those of the last token alone"
    if cached:
        return "generate.cache", ", and it reads one token at a time"
    if not number and padded is not words and same(subject, *_taken(subject, write, words)[0][0][::-1], words):
        return "generate.padding", ", if padding follows the source; else they are"
    return "generate.differs", ""


def _taken(subject: Subject, write: Write, src: Tensor) -> tuple[list[Step], str]:
    """The steps, as far as they are seen, of writing for one source (1, S) without an end; and how it failed."""
    with watched(subject) as taken, torch.no_grad():
        try:
            write(src)
        except Exception as error:
            seen = f"where no end is probable, step {len(taken) + 1} raised {short(error)}."
            return [] if of_a_hook(error) else taken, seen
    return taken, ""


def _first_read(subject: Subject, write: Write, src: Tensor) -> int | None:
    """The first token that it reads of what it writes, where all that is read at once is that token."""
    tables = ends_of(subject).tables
    with LookUps() as looks, suppress(Exception):
        write(src)
    tokens = [look.ids.unique() for look in looks.found if look.table.data_ptr() in tables]
    return next((int(ids) for ids in tokens if len(ids) == 1), None)


def _more_keys(subject: Subject, write: Write, src: Tensor) -> str:
    """That its attentions meet more lengths of keys than there are tokens, if it reads one token at a time."""
    with AttentionWatch() as watch:
        taken, failed = _taken(subject, write, src)
    with AttentionWatch() as once:
        subject(subject.tgt.ids(TARGET), src if subject.two else None)
    most = max(watch.lengths - once.lengths, default=0)
    tokens = len(taken) + bool(failed)
    more = most > tokens and all(step.read.shape[1] == 1 for step in taken)
    return f"with {tokens} tokens there are {most} keys" if more else ""


def _unused(subject: Subject, write: Write, src: Tensor) -> str:
    """The weights that the forward pass uses and what writes does not: a norm, a layer, keys that are another's."""
    if subject.module is None:
        return ""
    with Uses() as forward:
        subject(subject.tgt.ids(TARGET), src if subject.two else None)
    with Uses() as writing, suppress(Exception):
        write(src)
    weights = {name: x.untyped_storage().data_ptr() for name, x in subject.module.named_parameters()}
    left = [name for name, place in weights.items() if place in forward.places - writing.places]
    more = f" and {len(left) - 1} more" if left[1:] else ""
    return f"{left[0]}{more}, which the forward pass does" if left else ""


def decides(subject: Subject, read: Tensor, src: Tensor) -> bool:
    """Whether the last matrix has the last word, and no probability of copying is added to its scores."""
    if subject.shifts:
        return True  # its scores are those of other places
    begin, words = read.shape[1], words_of(subject)
    chosen = words[torch.arange(begin - 1, begin - 1 + ENOUGH) % TARGET]
    text = torch.cat([read, chosen.expand(len(read), -1)], 1)
    with watched(subject):
        out = subject(text, src.expand(len(read), -1) if subject.two else None)[:, begin - 1 : -1]
    return bool((out.argmax(-1) == text[:, begin:]).all())


def _choice(subject: Subject, taken: list[Step]) -> Iterator[Found]:
    """Whether the words with by far the best scores are read next; for the first one, a rule may hold."""
    lengths = [step.read.shape[1] for step in taken[:2]]  # of two stacks, it may begin with several tokens
    begin = lengths[0] if taken and (not subject.two or len({*lengths}) > 1) else 1
    at = slice(begin + 1, begin + 3)
    if taken and all(step.read.shape == (1, 1) for step in taken[1:]):
        taken = [Step(torch.cat([step.read for step in taken], 1), taken[-1].scores)]
    rows = [row[at].tolist() for step in taken for row in step.read if len(row) >= begin + 3]
    wanted = words_of(subject)[torch.arange(begin, begin + 2) % TARGET].tolist()
    if rows and wanted not in rows:
        yield "generate.choice", f"the words {wanted} had by far the best scores, and {rows[-1]} were read next."


def best(row: list[Any]) -> list[Any]:
    """The first of several candidates."""
    return row[0] if row and isinstance(row[0], list) else row


def same(subject: Subject, scores: Tensor, read: Tensor, src: Tensor) -> bool:
    """Whether the forward pass has these scores (R, V) after these tokens (R, t)."""
    if subject.shifts:
        read = torch.cat([read[:, 1:], subject.tgt.ordinary[:1].expand(len(read), 1)], 1)
    with watched(subject) as taken:
        subject(read, src.expand(len(read), -1) if subject.two else None)
    return bool((taken[-1].scores - scores).abs().max() <= 10 * subject.leak * spread(scores))


def words_of(subject: Subject) -> Tensor:
    """The words that get by far the best scores, one for each place, again and again."""
    return subject.tgt.ids(TARGET, seed=8)[0]


@contextmanager
def watched(subject: Subject, end: int | None = None) -> Iterator[list[Step]]:
    """Collects a step for each call of the last matrix before the scores, and adds 10,000 to one word at each place.

    So it goes on for a while, with words that tell from which place they were taken; at `end`, the first text stops.
    """
    taken, lengths = list[Step](), Lengths()

    def put(read: Tensor, scores: Tensor) -> Tensor:
        length = lengths.after(read)
        taken.append(Step(read, scores[:, -1].clone()))
        chosen, place = lengths.chosen(scores), torch.arange(length - scores.shape[1], length)
        best = words_of(subject)[place % TARGET].repeat(len(read), 1)
        if subject.eos_id is not None:
            best[:, chosen >= ENOUGH] = subject.eos_id
        if end is not None and subject.eos_id is not None:
            first = taken[0].scores  # by which the beams of the first text are known, wherever they lie
            alike = (first - first[0]).abs().amax(-1) <= 10 * subject.leak * spread(first)
            alike = alike if len(alike) == len(read) else torch.arange(len(read)) < len(read) // 3
            best[alike[:, None] & (place == end - 1)] = subject.eos_id
        return scores + F.one_hot(best, subject.vocab_size).to(scores) * SURE

    with heard(subject, put):
        yield taken
