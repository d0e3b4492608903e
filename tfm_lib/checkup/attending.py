"""Who sees whom: the future, and padding."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject, gap, spread
from tfm_lib.checkup.watch import AttentionWatch, along, culprit, differs, traced


def influence(subject: Subject, tgt: Tensor) -> Tensor:
    """Which token changes which scores, (T, T): row i, column j is True where token j matters at position i."""
    base = subject(tgt)
    columns = []
    for j in range(tgt.shape[1]):
        changed = tgt.clone()
        changed[:, j] = subject.other(tgt[:, j])
        columns.append(gap(base, subject(changed))[0] > subject.leak * spread(base))
    return torch.stack(columns, 1)


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
    full = torch.ones_like(sees)
    if subject.declared == "encoder-only":
        subject.kind = "encoder-only"
        return
    if not subject.two and subject.declared is None and torch.equal(future, full.triu(1)) and past.any():
        yield Finding.of("kind.unclear", f"of {TARGET} tokens, each sees all that come after it.")
        return
    subject.kind = subject.kind or "decoder-only"
    if not sees.fill_diagonal_(False).any() and _rows_mix(subject):
        return  # the batch is attended to instead of time, which `batches.rows` tells
    if not subject.training:
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
    full = torch.ones_like(future)
    length = len(future)
    reach = future.sum(1)  # how many later tokens each position sees
    if future.any():
        where, part = _leaking(subject, tgt, future)
        seen = f"of {length} tokens, {_first(future)}."
        widest = int(reach.max())
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
        missing = (~past & full.tril(-1)).nonzero()[-1].tolist()
        seen = f"of {length} tokens, the scores at position {missing[0]} do not depend on the token at {missing[1]}."
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
    changed = tgt.clone()
    changed[:, j] = subject.other(tgt[:, j])
    with traced(subject.module) as a:
        subject(tgt)
    with traced(subject.module) as b:
        subject(changed)
    return culprit(a, b, (tgt.shape[1],) * 2, slice(0, j), subject.leak)


def _rows_mix(subject: Subject) -> bool:
    pair = subject.ids(TARGET, 2)
    changed = torch.cat([pair[:1], subject.other(pair[1:])])
    a, b = subject(pair), subject(changed)
    return bool(gap(a, b)[0].max() > subject.leak * spread(a))


def padding(subject: Subject) -> Iterator[Finding]:
    """Put padding behind a text, and see whether anything changes."""
    if subject.pad_id is None:
        raise ValueError("without pad_id there is no padding")
    if subject.two or subject.kind == "encoder-only":
        yield from _source_padding(subject)
    if subject.kind != "encoder-only":
        yield from _target_padding(subject)


def _source_padding(subject: Subject) -> Iterator[Finding]:
    real = 5
    words, tgt = subject.ids(real, seed=2), subject.ids(TARGET)
    pads = torch.full((1, SOURCE - real), subject.pad_id or 0)

    def run(ids: Tensor) -> Tensor:
        return subject(tgt, ids) if subject.two else subject(ids)[:, :real]

    alone, padded = run(words), run(torch.cat([words, pads], 1))
    size = subject.leak * spread(padded if alone.isnan().any() else alone)
    dead = []
    for j in range(real):
        changed = words.clone()
        changed[:, j] = subject.other(words[:, j])
        moved = gap(padded, run(torch.cat([changed, pads], 1)))
        if not subject.two:
            moved[:, j] = 0  # its own scores are not what is asked
        dead.append(bool(moved.max() <= subject.silence * spread(padded)))
    text = f"{real} words and {SOURCE - real} times pad_id"
    if all(dead):
        if not subject.two or not _ignored(subject, tgt):
            yield Finding.of("padding.inverted", f"in a source of {text}, changing any word changes nothing.")
        return
    if any(dead):
        yield Finding.of("padding.misplaced", f"in a source of {text}, the word at {dead.index(True)} has no effect.")
        return
    if padded.isnan().any() and not alone.isnan().any():
        yield Finding.of("output.nan", f"a source of {text} gave NaN, and the {real} words alone did not.")
        return
    if bool(gap(alone, padded).max() > size):
        where = _attending_to_padding(subject, tgt, words, pads)
        code = "padding.source"
        if _query_rows(subject, tgt, torch.cat([words, pads], 1), real):
            code = "padding.query_rows"
        elif subject.two and where[1] == "cross":
            code = "padding.cross"
        seen = f"the scores with {text} differ from those with the {real} words alone by {_size(alone, padded)}."
        yield Finding.of(code, seen, where[0])
    yield from _empty_row(subject, tgt, words, pads)


def _size(a: Tensor, b: Tensor) -> str:
    return f"{float(gap(a, b).max()) / spread(a):.2g} of their spread"


def _ignored(subject: Subject, tgt: Tensor) -> bool:
    a, b = subject(tgt, subject.ids(SOURCE, seed=4)), subject(tgt, subject.ids(SOURCE, seed=5))
    return not bool(gap(a, b).max() > subject.silence * spread(a))


def _attending_to_padding(subject: Subject, tgt: Tensor, words: Tensor, pads: Tensor) -> tuple[str, str]:
    """The part where words first differ, and whether that is beyond the encoder."""
    real, whole = words.shape[1], torch.cat([words, pads], 1)
    with traced(subject.module) as a:
        subject(tgt, words) if subject.two else subject(words)
    with traced(subject.module) as b:
        subject(tgt, whole) if subject.two else subject(whole)
    name, _ = culprit(a, b, (real, whole.shape[1]), slice(0, real), subject.leak)
    pairs = [pair for one, two in zip(a, b, strict=False) for pair in zip(one.inputs, two.inputs, strict=False)]
    sides = [[along(x, size, slice(0, real)) for x, size in zip(pair, (real, SOURCE), strict=True)] for pair in pairs]
    if name or not a or any(differs(side[0], side[1], subject.leak) for side in sides):
        return name, "encoder"
    name, _ = culprit(a, b, (tgt.shape[1],) * 2, slice(0, tgt.shape[1]), subject.leak)
    return name, "cross"


def _query_rows(subject: Subject, tgt: Tensor, whole: Tensor, real: int) -> bool:
    """Whether padding's own rows of weights are flat, and words look at padding."""
    with AttentionWatch() as watch:
        subject(tgt, whole, grad=True) if subject.two else subject(whole, grad=True)
    for weights in watch.weights:
        if weights.shape[-2:] == (whole.shape[1],) * 2:
            rows, words = weights[..., real:, :], weights[..., :real, :]
            flat = rows.isnan().all() or (rows.amax() - rows.amin() < 1e-6)
            uneven = words.amax() - words.amin() > 1e-6
            if flat and uneven and bool((words[..., real:] > 1e-6).any()):
                return True
    return False


def _empty_row(subject: Subject, tgt: Tensor, words: Tensor, pads: Tensor) -> Iterator[Finding]:
    if not subject.two:
        return
    whole = torch.cat([words, pads], 1)
    out = subject(tgt.expand(2, -1), torch.cat([whole, torch.full_like(whole, subject.pad_id or 0)]))
    if out[1].isnan().any():
        yield Finding.of("padding.empty_row", "a source of nothing but pad_id gave NaN.")


def _target_padding(subject: Subject) -> Iterator[Finding]:
    real = 4
    words = subject.ids(real, seed=2)
    if subject.start_id is not None:
        words[:, 0] = subject.start_id
    padded = torch.cat([words, torch.full((1, TARGET - real), subject.pad_id or 0)], 1)
    alone, whole = subject(words), subject(padded)
    if subject.start_id == subject.pad_id:
        changed = words.clone()
        changed[:, 1:] = subject.other(words[:, 1:])
        plain = subject.ids(real, seed=2)
        moved = subject(torch.cat([plain[:, :1], changed[:, 1:]], 1))
        guarded = gap(subject(plain), moved)[0, 0] <= subject.leak * spread(moved)
        leaks = gap(alone, subject(changed))[0, 0] > subject.leak * spread(moved)
        if alone.isnan().any() or (leaks and guarded):
            what = "NaN" if alone.isnan().any() else "scores at 0 that depend on later tokens"
            yield Finding.of("padding.start", f"a target that begins with start_id = pad_id gave {what}.")
            return
    if whole.isnan().any() and not alone.isnan().any():
        yield Finding.of("padding.target_nan", f"{real} tokens and {TARGET - real} times pad_id gave NaN.")
    elif bool(gap(alone, whole[:, :real]).max() > subject.leak * spread(alone)):
        one, two = subject(subject.ids(TARGET, seed=2)), subject(subject.ids(TARGET, seed=2)[:, :real])
        if not bool(gap(one[:, :real], two).max() > subject.leak * spread(one)):  # else the future leaks anyway
            seen = f"the scores at {real} tokens change by {_size(alone, whole[:, :real])} when padding follows."
            yield Finding.of("padding.target", seen)
