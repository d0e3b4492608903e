"""Who sees whom: which tokens of a row change which scores."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import TARGET, Subject
from tfm_lib.checkup.watch import AttentionWatch, culprit


def influence(subject: Subject, tgt: Tensor) -> Tensor:
    """Which token changes which scores, (T, T): row i, column j is True where token j matters at position i."""
    base = subject(tgt)
    gaps = torch.stack([gap(base, subject(subject.changed(tgt, j)))[0] for j in range(tgt.shape[1])], 1)
    return gaps > subject.leak * spread(base)


def causality(subject: Subject) -> Iterator[Finding]:
    """Change one token of a row, and see at which positions the scores change, in eval and in training."""
    tgt = subject.ids(TARGET)
    if subject(tgt).isnan().any():
        subject.kind = subject.kind or "one-sided"
        squares = [w.nan_to_num() for w in _squares(subject, tgt)]
        if squares and not squares[0].tril(-1).any() and squares[0].triu(1).any():
            yield Finding.of("causality.inverted", "all attention weights on earlier tokens are 0, on later ones not.")
        return
    sees = influence(subject, tgt)
    future, past = sees.triu(1), sees.tril(-1)
    if subject.declared == "encoder-only":
        subject.kind = "encoder-only"
        return
    if (
        not subject.two
        and subject.declared is None
        and torch.equal(future, torch.ones_like(sees).triu(1))
        and past.any()
    ):
        yield Finding.of("kind.unclear", f"of {TARGET} tokens, each sees all that come after it.")
        return
    subject.kind = subject.kind or "decoder-only"
    if not sees.fill_diagonal_(False).any() and _rows_mix(subject):
        return  # the batch is attended to instead of time, which `batches.rows` tells
    if subject.module is None:
        yield from _named(subject, tgt, future, past)
        return
    with subject.mode(training=True):
        learning = influence(subject, tgt).triu(1)
        if learning.any() and not future.any():
            where, part = _leaking(subject, tgt, learning)
            batch = isinstance(part, nn.modules.batchnorm._BatchNorm)
            pair = f"{_first(learning)}, in training mode and not in eval mode."
            yield Finding.of("batch.training" if batch else "causality.training", pair, where)
    if future.any() and not learning.any():
        yield Finding.of("causality.eval", f"{_first(future)}, in eval mode and not in training mode.")
    else:
        yield from _named(subject, tgt, future, past)


def _named(subject: Subject, tgt: Tensor, future: Tensor, past: Tensor) -> Iterator[Finding]:
    full, length = torch.ones_like(future), len(future)
    if future.any():
        where, part = _leaking(subject, tgt, future)
        seen = f"of {length} tokens, {_first(future)}."
        widest = int(future.sum(1).max())  # how many later tokens a position sees
        band = torch.equal(future, full.triu(1).logical_and(full.tril(widest)))
        if part is not None and "norm" in (type(part).__name__ + where).lower():
            yield Finding.of("causality.norm", seen, where)
        elif torch.equal(future, full.triu(1)) and not past.any():
            yield Finding.of("causality.inverted", seen, where)
        elif part is not None and _weights_are_causal(subject, tgt):
            yield Finding.of("causality.axes", f"{seen[:-1]}, but no attention weight shows the future.", where)
        elif band and widest < length - 1:
            yield Finding.of("causality.off_by_one", f"each token sees {widest} of those that come after it.", where)
        else:
            yield Finding.of("causality.leak", seen, where)
    elif not torch.equal(past, full.tril(-1)):
        i, j = (~past & full.tril(-1)).nonzero()[-1].tolist()
        seen = f"of {length} tokens, the scores at position {i} do not depend on the token at {j}."
        yield Finding.of("causality.blind", seen)


def _squares(subject: Subject, tgt: Tensor) -> list[Tensor]:
    """The attention weights of the target to itself, as far as they can be seen."""
    length = tgt.shape[1]
    with AttentionWatch() as watch:
        subject(tgt, grad=True)  # with a gradient, torch's layers take no path that hides them
    return [w for w in watch.weights if w.shape[-2:] == (length, length)]


def _weights_are_causal(subject: Subject, tgt: Tensor) -> bool:
    squares = _squares(subject, tgt)
    return bool(squares) and not any(bool((w.triu(1) > 1e-6).any()) for w in squares)


def _first(future: Tensor) -> str:
    i, j = future.nonzero()[0].tolist()
    return f"a change of the token at {j} changes the scores at {i}"


def _leaking(subject: Subject, tgt: Tensor, future: Tensor) -> tuple[str, nn.Module | None]:
    j = int(future.any(0).nonzero()[-1])
    steps = subject.trace(tgt)[0], subject.trace(subject.changed(tgt, j))[0]
    return culprit(*steps, (tgt.shape[1],) * 2, slice(0, j), subject.leak)


def _rows_mix(subject: Subject) -> bool:
    pair = subject.ids(TARGET, 2)
    a, b = subject(pair), subject(torch.cat([pair[:1], subject.other(pair[1:])]))
    return bool(gap(a, b)[0].max() > subject.leak * spread(a))
