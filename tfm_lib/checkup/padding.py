"""Padding behind a text must change nothing, in the source and in the target."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.watch import along, culprit, differs

WORDS = 5  # of a source, before its padding


def padding(subject: Subject) -> Iterator[Found]:
    """Put padding behind a text, and see whether anything changes; put texts of several lengths into one batch."""
    found = list(_source_padding(subject)) if subject.two or subject.kind == "encoder-only" else []
    if subject.kind != "encoder-only" and subject.pad_id is not None:
        found += _target_padding(subject)
    yield from found
    if all(code == "padding.empty_row" for code, *_ in found):
        yield from _company(subject)


def _inputs(subject: Subject, source: Tensor) -> tuple[Tensor, ...]:
    """What the model is given to read this source."""
    return (subject.tgt.ids(TARGET), source) if subject.two else (source,)


def _source_padding(subject: Subject) -> Iterator[Found]:
    words = subject.src.ids(WORDS, seed=2)

    def run(ids: Tensor) -> Tensor:
        return subject(*_inputs(subject, ids))[:, : None if subject.two else WORDS]

    alone, padded = run(words), run(subject.src.padded(words, SOURCE))
    text = f"{WORDS} words and {SOURCE - WORDS} times pad_id"
    if alone.isnan().all() and not padded.isnan().all():
        yield "padding.inverted", f"a source of {WORDS} words gave NaN, and one of {text} did not."
        return
    dead = dead_words(subject, words)
    if all(dead):
        tgt, src = subject.texts()
        reads = not subject.two or subject.apart(subject(tgt, src), subject(tgt, subject.src.other(src)), 1e-3)
        if reads or subject.apart(alone, padded) or any(map(_inverted, _weights_of_padded(subject, words))):
            yield "padding.inverted", f"in a source of {text}, changing any word changes nothing."
    elif any(dead):
        yield "padding.misplaced", f"in a source of {text}, the word at {dead.index(True)} has no effect."
    elif padded.isnan().any() and not alone.isnan().any():
        yield "output.nan", f"a source of {text} gave NaN, and the {WORDS} words alone did not."
    else:
        if subject.apart(alone, padded):
            code, where = _seen_padding(subject, words)
            seen = f"padding behind a source of {WORDS} words changes the scores by {_size(alone, padded)}."
            yield code, seen, where
        yield from _empty_row(subject, words)


def dead_words(subject: Subject, words: Tensor) -> list[bool]:
    """Which words, with padding behind them, have no effect whatsoever on the scores (of other words)."""
    dead = []
    with subject.exact():
        base = subject(*_inputs(subject, subject.src.padded(words, SOURCE)))
        for j in range(WORDS):
            once = subject.src.changed(words, j)
            texts = (subject.src.padded(ids, SOURCE) for ids in (once, subject.src.changed(once, j)))
            moved = torch.cat([gap(base, subject(*_inputs(subject, text))) for text in texts])
            if not subject.two:  # its own score is not what is asked
                moved = moved[:, [i for i in range(WORDS) if i != j]]
            dead.append(not moved.any())
    return dead


def _weights_of_padded(subject: Subject, words: Tensor) -> list[Tensor]:
    """The weights (…, T, S) of every attention over these words and padding behind them."""
    weights = subject.attention(*_inputs(subject, subject.src.padded(words, SOURCE))).weights
    return [w for w in weights if w.shape[-1] == SOURCE]


def _inverted(weights: Tensor) -> bool:
    """Whether padding is read, and no word."""
    return bool((weights[..., :WORDS] < 1e-6).all() and (weights[..., WORDS:] > 1e-6).any())


def _company(subject: Subject) -> Iterator[Found]:
    """Texts of several lengths in one batch, beside each of them with its padding alone."""
    lengths = {"source": ((SOURCE, 3, 6), (TARGET,) * 3), "target": ((SOURCE,) * 3, (TARGET, 2, 4))}
    for side in lengths if subject.two else ("target",):
        read, real = lengths[side]
        src, tgt = subject.src.mixed(read, seed=3), subject.tgt.mixed(real, seed=4)
        many = subject(tgt, src)
        for row, length in enumerate(real):
            alone, batched = subject(tgt[row : row + 1], src[row : row + 1])[:, :length], many[row : row + 1, :length]
            if subject.apart(alone, batched):
                seen = f"in a batch with {side}s of other lengths, the scores of text {row} differ from those alone"
                yield "padding.company", f"{seen} by {_size(alone, batched)}."
                return


def _size(a: Tensor, b: Tensor) -> str:
    return f"{float(gap(a, b).max()) / spread(a):.2g} standard deviations"


def _seen_padding(subject: Subject, words: Tensor) -> tuple[str, str]:
    """Which of the mistakes shows padding, and the part where words first differ."""
    padded = subject.src.padded(words, SOURCE)
    a, b = (subject.trace(*_inputs(subject, ids))[0] for ids in (words, padded))
    name, _ = culprit(a, b, (WORDS, SOURCE), slice(0, WORDS), subject.leak)
    pairs = [pair for one, two in zip(a, b, strict=False) for pair in zip(one.inputs, two.inputs, strict=False)]
    sides = [[along(x, n, slice(0, WORDS)) for x, n in zip(pair, (WORDS, SOURCE), strict=True)] for pair in pairs]
    code = "padding.source"
    if not name and a and not any(differs(x, y, subject.leak) for x, y in sides):  # it is beyond the encoder
        name, _ = culprit(a, b, (TARGET, TARGET), slice(0, TARGET), subject.leak)
        code = "padding.cross" if subject.two else code
    weights = _weights_of_padded(subject, words)
    if any(_rows_masked(w) for w in weights if w.shape[-2:] == (SOURCE, SOURCE)):
        return "padding.query_rows", name
    read = [w[..., :WORDS, :] if w.shape[-2] == SOURCE else w for w in weights]
    if any(map(_inverted, read)):
        return "padding.inverted", name
    hidden = bool(read) and all(bool((w[..., WORDS:] < 1e-6).all()) for w in read)
    return "padding.length" if hidden else code, name


def _rows_masked(weights: Tensor) -> bool:
    """Whether padding's own rows of weights are flat, and words look at padding."""
    rows, words = weights[..., WORDS:, :], weights[..., :WORDS, :]
    flat = rows.isnan().all() or rows.amax() - rows.amin() < 1e-6
    return bool(flat and words.amax() - words.amin() > 1e-6 and (words[..., WORDS:] > 1e-6).any())


def _empty_row(subject: Subject, words: Tensor) -> Iterator[Found]:
    padded, nothing = subject.src.padded(words, SOURCE), subject.src.padded(words[:, :0], SOURCE)
    if subject.two and subject(subject.tgt.ids(TARGET).expand(2, -1), torch.cat([padded, nothing]))[1].isnan().any():
        yield "padding.empty_row", "a source of nothing but pad_id gave NaN."


def _target_padding(subject: Subject) -> Iterator[Found]:
    real = 4
    plain = words = subject.tgt.ids(real, seed=2)
    if subject.start_id is not None:
        words = words.clone()
        words[:, 0] = subject.start_id
    alone, padded = subject(words), subject(subject.tgt.padded(words, TARGET))
    if subject.start_id == subject.pad_id:
        later = slice(1, None)
        changed, moved = subject(subject.tgt.changed(words, later)), subject(subject.tgt.changed(plain, later))
        guarded = gap(subject(plain), moved)[0, 0] <= subject.leak * spread(moved)
        leaks = gap(alone, changed)[0, 0] > subject.leak * spread(moved)
        if alone.isnan().any() or (leaks and guarded):
            what = "NaN" if alone.isnan().any() else "scores at 0 that depend on later tokens"
            yield "padding.start", f"a target that begins with start_id = pad_id gave {what}."
            return
    if alone.isnan().all():
        return  # that is no matter of padding
    if padded.isnan().any() and not alone.isnan().any():
        yield "padding.target_nan", f"{real} tokens and {TARGET - real} times pad_id gave NaN."
    elif subject.apart(alone, padded[:, :real]):
        longer = subject.tgt.ids(TARGET, seed=2)
        if not subject.apart(subject(longer)[:, :real], subject(longer[:, :real])):  # else the future leaks anyway
            seen = f"the scores at {real} tokens change by {_size(alone, padded[:, :real])} when padding follows."
            yield "padding.target", seen
