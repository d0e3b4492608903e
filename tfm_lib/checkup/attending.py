"""Who sees whom: which tokens of a row change which scores."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.watch import culprit

DRAWS = 4  # of tokens: an influence that one of them happens to hide is seen with another


def influence(subject: Subject, tgt: Tensor, threshold: float) -> Tensor:
    """Which token changes which scores, (T, T): row i, column j is True where token j matters at position i."""
    base = subject(tgt)
    gaps = torch.stack([gap(base, subject(subject.tgt.changed(tgt, j)))[0] for j in range(tgt.shape[1])], 1)
    return gaps > threshold * spread(base)


def causality(subject: Subject) -> Iterator[Found]:
    """Change one token of a row, and see at which positions the scores change, in eval and in training."""
    named, turned = _axis(subject)
    if named:
        yield named
    tgt = subject.tgt.ids(TARGET)
    if subject(tgt).isnan().any():
        yield from _of_nan(subject, tgt)
        return
    sees = influence(subject, tgt, subject.leak)
    own = sees.diagonal()[1:].clone()
    future, past = sees.triu(1), sees.tril(-1)
    if subject.declared == "encoder-only":
        subject.kind = "encoder-only"
        if past.any() and not future.any():
            yield "source.causal", "the last token changes nothing at the first one, and the first does at the last."
        return
    all_seen = torch.equal(future, torch.ones_like(sees).triu(1)) and bool(past.any())
    writes = subject.two or subject.generate is not None or subject.decode is not None
    if all_seen and not writes and subject.declared is None:
        yield "kind.unclear", f"of {TARGET} tokens, each sees all that come after it."
        return
    subject.kind = subject.kind or "decoder-only"
    if not sees.fill_diagonal_(False).any() and _rows_mix(subject):
        return  # the batch is attended to instead of time, which `batches.rows` tells
    if subject.module is None:
        yield from _named(subject, tgt, future, past, turned)
        return
    with subject.mode(training=True):
        then = influence(subject, tgt, subject.leak)
    if own.any() and not then.diagonal()[1:].any():
        yield "causality.blind", "in training mode, no score depends on its own token; in eval mode, they do."
    learning = then.triu(1)
    if learning.any() and not future.any():
        yield _in_training(subject, tgt, learning)
    if future.any() and not learning.any():
        yield "causality.eval", f"{_first(future)}, in eval mode and not in training mode."
    else:
        yield from _named(subject, tgt, future, past, turned)


def _of_nan(subject: Subject, tgt: Tensor) -> Iterator[Found]:
    subject.kind = subject.kind or "one-sided"
    squares = [w.nan_to_num() for w in _squares(subject, tgt)]
    if squares and not squares[0].tril(-1).any() and squares[0].triu(1).any():
        yield "causality.inverted", "all attention weights on earlier tokens are 0, on later ones not."


def _in_training(subject: Subject, tgt: Tensor, learning: Tensor) -> Found:
    """What shows the future in training mode alone: batch statistics, or a mask that is missing."""
    with subject.mode(training=True):
        where, part = _leaking(subject, tgt, learning)
    code = "batch.training" if isinstance(part, nn.modules.batchnorm._BatchNorm) else "causality.training"
    return code, f"{_first(learning)}, in training mode and not in eval mode.", where


def _named(subject: Subject, tgt: Tensor, future: Tensor, past: Tensor, turned: Found | None) -> Iterator[Found]:
    full, length = torch.ones_like(future), len(future)
    if future.any() and turned:
        yield turned
    squares = _squares(subject, tgt)
    if any(bool(w.tril(-1).any()) and not bool(w.diagonal(0, -2, -1)[..., 1:].any()) for w in squares):
        yield "causality.hides_itself", f"of {length} tokens, each attends to earlier ones, and not to itself."
    if future.any():
        where, part = _leaking(subject, tgt, future)
        seen = f"of {length} tokens, {_first(future)}."
        widest = int(future.sum(1).max())  # how many later tokens a position sees
        band = torch.equal(future, full.triu(1).logical_and(full.tril(widest)))
        if part is not None and (_has_gains_alone(part) or "norm" in where.lower()):
            yield "causality.norm", seen, where
        elif torch.equal(future, full.triu(1)) and not past.any():
            yield "causality.inverted", seen, where
        elif part is not None and _weights_are_causal(subject, tgt):
            yield "causality.axes", f"{seen[:-1]}, but no attention weight shows the future.", where
        elif band and widest < length - 1:
            yield "causality.off_by_one", f"each token sees {widest} of those that come after it.", where
        else:
            yield "causality.leak", seen, where
    elif not torch.equal(past, full.tril(-1)):
        unseen = (~_any_influence(subject)).tril(-1)
        if unseen.any():
            i, j = unseen.nonzero()[-1].tolist()
            seen = f"of {length} tokens, the scores at position {i} do not depend on the token at {j}."
            yield "causality.blind", seen


def _any_influence(subject: Subject) -> Tensor:
    """Which token has any influence at all on which scores, (T, T), in any of several draws."""
    with subject.exact():
        return torch.stack([influence(subject, subject.tgt.ids(TARGET, seed=draw), 0) for draw in range(DRAWS)]).any(0)


def _axis(subject: Subject) -> tuple[Found | None, Found | None]:
    """A softmax of attention over another axis than the keys, told by its size: three rows, 7 tokens, 9 words.

    The second finding is for one over the first of two equal axes, which is wrong only if the future is seen.
    """
    sizes = (TARGET, SOURCE) if subject.two else (TARGET,)
    turned = None
    for shape, over in subject.attention(*subject.texts(3)).axes:
        times = [size for size in shape if size in sizes]
        if subject.vocab_size in shape or len(times) != 2:
            continue
        seen = f"scores of shape {shape}, of {times[0]} x {times[1]} tokens, have their softmax over axis {over}"
        finding = "attention.axis", f"{seen}, which is {shape[over]} long, and not the one of the keys."
        keys = times[1] if times[0] == times[1] else SOURCE  # in cross-attention, the source's words
        if shape[over] != keys:
            return finding, None
        if times[0] == times[1] and over == shape.index(keys):
            turned = finding
    return None, turned


def _squares(subject: Subject, tgt: Tensor) -> list[Tensor]:
    """The attention weights of the target to itself, as far as they can be seen."""
    return [w for w in subject.attention(tgt).weights if w.shape[-2:] == (tgt.shape[1],) * 2]


def _weights_are_causal(subject: Subject, tgt: Tensor) -> bool:
    squares = _squares(subject, tgt)
    return bool(squares) and not any(bool((w.triu(1) > 1e-6).any()) for w in squares)


def _has_gains_alone(part: nn.Module) -> bool:
    """Whether it is a norm, under whatever name: its weights are vectors."""
    weights = list(part.parameters())
    return bool(weights) and all(weight.dim() == 1 for weight in weights)


def _first(future: Tensor) -> str:
    i, j = future.nonzero()[0].tolist()
    return f"a change of token {j} changes the scores at position {i}"


def _leaking(subject: Subject, tgt: Tensor, future: Tensor) -> tuple[str, nn.Module | None]:
    j = int(future.any(0).nonzero()[-1])
    steps = subject.trace(tgt)[0], subject.trace(subject.tgt.changed(tgt, j))[0]
    return culprit(*steps, (tgt.shape[1],) * 2, slice(0, j), subject.leak)


def _rows_mix(subject: Subject) -> bool:
    pair = subject.tgt.ids(TARGET, 2)
    return subject.apart(subject(pair)[:1], subject(torch.cat([pair[:1], subject.tgt.other(pair[1:])]))[:1])
