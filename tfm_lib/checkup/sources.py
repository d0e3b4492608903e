"""Whether all of the source arrives, and which tokens are hidden."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.attending import DRAWS
from tfm_lib.checkup.given import text_loss
from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.watch import LookUps, along, differs, first_apart, last

FIRST = 16  # of the ids: special tokens, unknown words and a few others stand there


def source(subject: Subject) -> Iterator[Found]:
    """Change the whole source, then one word of it after the other, then its start and end."""
    moved = _moved(subject)
    if not moved.all():
        with subject.exact():
            moved = torch.stack([_moved(subject, draw, 0) for draw in range(DRAWS)]).any(0)
    if not moved.any():
        yield "source.ignored", f"another source of {SOURCE} words gave the very same scores."
    elif not moved.all():
        dead = ", ".join(str(j) for j in range(SOURCE) if not moved[j])
        yield "source.partial", f"of {SOURCE} words, those at {dead} have no effect."
    else:
        yield from _one_way(subject)
        yield from _queries(subject)
        yield from _hidden(subject)


def _moved(subject: Subject, draw: int = 0, threshold: float | None = None) -> Tensor:
    """Which of the words of the source have an effect, (S,)."""
    tgt, src = subject.texts(draw=draw)
    base = subject(tgt, src)
    size = (subject.silence if threshold is None else threshold) * spread(base)
    words = [gap(base, subject(tgt, subject.src.changed(src, j))).max() > size for j in range(SOURCE)]
    return torch.stack(words)


def _hidden(subject: Subject) -> Iterator[Found]:
    """Tokens that are hidden as padding is, though they are none: no score depends on the vector of such a token."""
    for side, pads in {"source": subject.src.pad_id, "target": subject.pad_id}.items():
        hidden = [i for i in hidden_ids(subject, side) if i != pads]
        if hidden:
            seen = f"in the {side}, no other position depends on the vectors of the tokens {hidden[:6]}."
            yield "padding.hides_words", seen
            return


def _one_way(subject: Subject) -> Iterator[Found]:
    """Whether anything on the source's side sees what comes later in it."""
    forward, backward = _directions(subject, 0, subject.leak)
    if forward and not backward:
        with subject.exact():
            backward = any(_directions(subject, draw, 0)[1] for draw in range(DRAWS))
    if forward and not backward:
        seen = "the last word of the source changes nothing at its first word, and the first one does at the last."
        yield "source.causal", seen, forward


def _directions(subject: Subject, draw: int, tolerance: float) -> tuple[str, bool]:
    """The first part where an early word of the source reaches a late one; whether a late one reaches an early one."""
    tgt, src = subject.texts(draw=draw)
    sources = (src, subject.src.changed(src, -1), subject.src.changed(src, 0))
    a, late, early = (subject.trace(tgt, ids)[0] for ids in sources)
    forward = first_apart(a, early, SOURCE, tolerance)
    firsts = ([along(step.output, SOURCE, slice(0, 1)) for step in pair] for pair in zip(a, late, strict=False))
    backward = any(differs(one, other, tolerance) for one, other in firsts)
    return "" if forward is None else str(a[forward]), backward


def _queries(subject: Subject) -> Iterator[Found]:
    """Whether the first part where the source meets the target knows what was written before its place."""
    with subject.exact():
        where, past = _meeting(subject, 0)
        blind = where and not past and not any(_meeting(subject, draw)[1] for draw in range(1, DRAWS))
    if blind:
        yield "source.queries", "no earlier token changes what the last one reads of the source there.", where


def _meeting(subject: Subject, draw: int) -> tuple[str, bool]:
    """The first part whose last place depends on the source; whether it depends on earlier tokens as well."""
    tgt, src = subject.texts(draw=draw)
    a = subject.trace(tgt, src)[0]
    meets = first_apart(a, subject.trace(tgt, subject.src.other(src))[0], TARGET, 0)
    if meets is None:
        return "", False
    other = subject.trace(subject.tgt.changed(tgt, slice(0, -1)), src)[0]
    return str(a[meets]), differs(last(a[meets], TARGET), last(other[meets], TARGET), 0)


def hidden_ids(subject: Subject, side: str) -> list[int]:
    """The ids that no other position of the source, or of the target, depends on; [] where no embedding is seen."""
    words = subject.src if side == "source" else subject.tgt
    special = [i for i in (words.pad_id, subject.start_id, subject.eos_id) if i is not None and i < words.size]
    found = _unread(subject, side, sorted({*range(min(FIRST, words.size)), *special}))
    if {*found} <= {words.pad_id}:
        return found
    with subject.exact():  # a sure softmax may leave nothing of a gradient in float32
        return _unread(subject, side, found)


def _unread(subject: Subject, side: str, ids: list[int]) -> list[int]:
    """Those of these ids whose vectors have no gradient from other positions: a row of a batch for each."""
    tgt, src = (text.repeat(len(ids), 1) for text in subject.texts())
    text, place = (src, 2) if side == "source" else (tgt, 0)
    text[:, place] = torch.tensor(ids)
    with LookUps() as looks:
        out = subject(tgt, src, grad=True)
    vectors = [look.vectors for look in looks.found if look.reads(text) and look.vectors.requires_grad]
    if not vectors or not out.requires_grad:
        return []
    vectors[0].retain_grad()
    later = out if side == "source" and subject.two else out[:, 1:]
    # A sum of all scores may not depend on anything, where they are normalized.
    (later * torch.linspace(-1, 1, later[0].numel()).to(later).view(later[0].shape)).sum().backward()
    grad = vectors[0].grad
    if grad is None:
        return []
    grad = grad if len(grad) == len(ids) else grad.transpose(0, 1)
    return [i for i, row in zip(ids, grad[:, place], strict=True) if not row.any()]


def source_is_cut(subject: Subject) -> bool:
    """Whether no gradient of the scores comes to the vectors of the source, where an embedding has read it."""
    tgt, src = subject.texts()
    with LookUps() as looks:
        out = subject(tgt, src, grad=True)
    vectors = [look.vectors for look in looks.found if look.reads(src) and look.vectors.requires_grad]
    if not vectors or not out.requires_grad:
        return False
    return all(x is None for x in torch.autograd.grad(out[..., 0].sum(), vectors, allow_unused=True))


def read_in_training(subject: Subject) -> Iterator[Found]:
    """Whether each end of the source counts for the loss, if it does for the scores."""
    loss = text_loss(subject) if subject.two else None
    if loss is None:
        return

    def costs(src: Tensor) -> list[float]:
        """With several seeds: a loss may hide words by chance."""
        found = []
        for seed in range(4):
            torch.manual_seed(seed)
            found.append(float(loss(src, tgt)))
        return found

    tgt, src = subject.texts(2)
    with torch.no_grad():
        before, scores = costs(src), subject(tgt, src)
        for place, which in ((0, "first"), (-1, "last")):
            other = subject.src.changed(src, place)
            if costs(other) == before and subject.apart(scores, subject(tgt, other)):
                yield "loss.source", f"another {which} word of the source changes the scores, and not the loss."
