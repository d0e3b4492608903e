"""What a search makes of scores that are known: a word must follow the text that it was scored for."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import torch
from torch import Tensor

from tfm_lib.checkup.batches import LENGTHS
from tfm_lib.checkup.given import Write
from tfm_lib.checkup.measures import spread
from tfm_lib.checkup.steering import heard
from tfm_lib.checkup.steps import ENOUGH, WORDS, Step, best, decides, same, watched, words_of
from tfm_lib.checkup.subject import TARGET, Found, Subject

NEVER = -1e4
LOUD = 50.0
MANY = 60  # words that may come, of a large vocabulary


def pasts(subject: Subject, write: Write) -> Iterator[Found]:
    """Write where the second best word is continued surely, and the best one is not: beams must change places."""
    src, free = unused(subject)
    if len(free) < 8:
        return
    first, second, third, later = free[:4]
    after = {first: [first, second, *free[3:]], second: [third], third: [later], later: [later]}
    try:
        with known(subject, first, second, after) as taken, torch.no_grad():
            row = best(write(src)[0])
        told = _told(subject, taken, [second, third], src)
    except Exception:  # that it fails is told by `generate`
        return
    if (first, third) in pairwise(row):
        yield "generate.beams", f"it writes {third} after {first}, where it was impossible; after {second} it was sure."
    elif told:
        yield (
            "generate.beams",
            f"when {second} has overtaken {first}, the scores after it are not those of its own past.",
        )
    elif taken[1:] and len(beams := taken[1].read) > 1 and bool((beams == beams[0]).all()):
        yield "generate.copies", f"all {len(beams)} beams of one text begin with the same word."


def totals(subject: Subject, write: Write) -> Iterator[Found]:
    """Write where the best word ends the text surely, or is far ahead, and the second best goes on: it must lose.

    A third time the second best is as far behind, but its scores are higher than those after the best one: a search
    that sums them, and not their log-probabilities, prefers it.
    """
    src, free = unused(subject)
    if len(free) < 8 or subject.eos_id is None:
        return
    first, second, third, *others = free
    ends = {first: [subject.eos_id], second: others} | dict.fromkeys(others, others)
    end, (fourth, fifth, *_) = [subject.eos_id], others  # texts of one length, so that no penalty decides
    ahead = {first: [fourth, fifth], second: [others[2]], third: end} | {token: [third] for token in others[:3]}
    alike = {first: [third], second: [fourth], third: end, fourth: end}
    for behind, after, loud in ((-0.1, ends, -1), (-6.0, ahead, -1), (-2.0, alike, second)):
        with suppress(Exception), torch.no_grad(), known(subject, first, second, after, behind, loud):
            row = best(write(src)[0])
            if second in row and first not in row:
                which = f"{first} {'and its end' if after is ends else 'and what followed'} had the best total by far"
                higher = f", although all scores after {second} were {LOUD:.0f} higher" * (loud >= 0)
                yield "generate.beams", f"{which}{higher}, and it returns {row[:6]}."
                return


def unused(subject: Subject) -> tuple[Tensor, list[int]]:
    """A source, and some words that are not in it, from the middle of the vocabulary, which no rule forbids."""
    src, words = subject.src.ids(WORDS, seed=6), subject.tgt.ordinary
    some = words.roll(-(len(words) // 2))[:MANY]
    return src, [i for i in some.tolist() if i not in src.tolist()[0]]


def _told(subject: Subject, taken: list[Step], past: list[int], src: Tensor) -> bool:
    """Whether, with a cache, the best beam's own scores after this past are not those of the forward pass."""
    if len(taken) < 3 or subject.start_id is None or not subject.two:
        return False
    read, scores = taken[2]
    cached = read.shape[1] == 1 and len(read) > 1
    prefix = torch.tensor([[subject.start_id, *past]])
    return cached and int(read[0, -1]) == past[-1] and not same(subject, scores[:1], prefix, src)


def beginnings(subject: Subject, write: Write) -> Iterator[Found]:
    """Write of texts of several lengths: the first scores of each beam are those of one of them."""
    if subject.src.pad_id is None or not subject.two or subject.shifts:
        return
    src = subject.src.mixed((WORDS, 2, 3), seed=6)
    with suppress(Exception), torch.no_grad():  # that it fails is told by `generate`
        with watched(subject) as taken:
            write(src)
        read, scores = taken[0]
        with watched(subject) as own:
            subject(read[:1].expand(len(src), -1), src)
        apart = (scores[:, None] - own[-1].scores).abs().amax(-1).amin(1)  # from the nearest of them
        if bool((read == read[0]).all()) and float(apart.max()) > 10 * subject.leak * spread(scores):
            yield (
                "generate.batch",
                "of three texts of several lengths, a beam begins with scores that none of them has.",
            )


def kept(subject: Subject, write: Write) -> Iterator[Found]:
    """Write where no end is probable, and one word is the best by far at each place: it goes on, and returns them."""
    src = subject.src.ids(WORDS, seed=6)
    with watched(subject) as taken, torch.no_grad(), suppress(Exception):
        begin = 0 if subject.two else WORDS
        row = [token for token in best(write(src)[0]) if token != subject.pad_id]
        place = torch.arange(len(taken)) + max(begin - 1, 0)  # of the scores from which each word was chosen
        words = words_of(subject)[place % TARGET].tolist()
        if len(taken) == 1 and len(row) <= begin + 2:
            yield "generate.early", "where no end is probable, it stops after the first word."
        chosen = list(pairwise(words[:ENOUGH]))
        missing = [pair for pair in chosen if pair not in pairwise(row)]
        read = [step.read.shape[1] for step in taken]  # with the last word before the end, or its limit cuts the text
        ended = subject.eos_id is not None and (read[-1] - read[0] >= ENOUGH or read[1 : ENOUGH + 1] == [1] * ENOUGH)
        lost = missing == chosen or (ended and missing in (chosen[-1:], chosen[-2:]))  # more is a limit of its own
        is_seen = len(taken) > 3 and not any(isinstance(token, str) for token in row)
        if is_seen and lost and decides(subject, taken[0].read, src):
            yield "generate.lost", f"in {len(taken)} steps it chose {words[:ENOUGH]}, and it returns {row[:9]}."


def crops(subject: Subject, write: Write) -> Iterator[Found]:
    """Go on with a text of one stack that is too long for it: if it is cut, its end must be left."""
    if subject.two:
        return
    for length in LENGTHS[:3]:
        try:
            subject(subject.tgt.ordinary[:1].expand(1, length))
        except Exception:
            break
    else:
        return
    text = subject.src.ids(length, seed=6)
    text = subject.src.changed(text, slice(length // 2, None))  # nothing in it comes again
    with watched(subject) as taken, torch.no_grad(), suppress(Exception):  # it may refuse it
        write(text)
    row = taken[0].read[0] if taken else text[0]
    if len(row) > 1 and row.equal(text[0, : len(row)]) and not row.equal(text[0, -len(row) :]):
        yield "generate.last_token", f"of a text of {length} tokens, it goes on from the first {len(row)}."


@contextmanager
def known(
    subject: Subject, first: int, second: int, after: dict[int, list[int]], behind: float = -0.1, loud: int = -1
) -> Iterator[list[Step]]:
    """Collects the model's own steps. Inside, the scores that it writes with depend on the last token alone.

    After the token `loud` all are higher by `LOUD`, which changes no probability.
    """
    taken = list[Step]()

    def row(ids: list[int]) -> Tensor:
        return torch.full((subject.vocab_size,), NEVER).index_fill(0, torch.tensor(ids), 0)

    start, known_after = row([first, second]), {token: row(ids) for token, ids in after.items()}
    start[second] = behind
    if loud in known_after:
        known_after[loud] += LOUD

    def put(read: Tensor, scores: Tensor) -> Tensor:
        taken.append(Step(read, scores[:, -1].clone()))
        rows = torch.stack([known_after.get(token, start) for token in read[:, -1].tolist()])
        return rows[:, None].expand_as(scores)

    with heard(subject, put):
        yield taken
