"""How a model wants to be called, found out by its signature and by trying: sides, axes, order, vocabularies."""

import inspect
from contextlib import suppress
from itertools import permutations
from typing import Any

import torch
from torch import nn

from tfm_lib.checkup.measures import NoScores, gap, scores, short, spread
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject
from tfm_lib.checkup.watch import LookUps
from tfm_lib.checkup.words import NotExaminable, Words

BATCH = 2
OF_TARGET = ("tgt", "target", "trg", "dec", "summary", "output")
OF_SOURCE = ("src", "source", "enc", "article", "input")


def arguments(model: Any) -> list[inspect.Parameter]:
    """The arguments that a model may be given; none where it hides them."""
    try:
        found = inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters.values()
    except (TypeError, ValueError):
        return []
    return list(found)


def side(name: str) -> str:
    """Which side the name of an argument speaks of: "source", "target", or neither."""
    name = name.lower()
    return "target" if any(w in name for w in OF_TARGET) else "source" if any(w in name for w in OF_SOURCE) else ""


def learn_sides(subject: Subject) -> list[str]:
    """Whether it takes two texts, and in which order; the arguments for masks, those that it needs first."""
    if subject.declared is None and "maskedlm" in type(subject.module).__name__.lower():
        subject.declared, subject.two = "encoder-only", False
    if subject.by_name:
        subject.two = subject.kind == "encoder-decoder" or bool(subject.model.config.is_encoder_decoder)  # type: ignore[attr-defined]
        if not subject.two and subject.declared is None:
            subject.declared = "decoder-only"
    found = [] if subject.by_name else arguments(subject.model)
    ids = [a for a in found if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD) and not is_mask(a.name)]
    needed = [a.name for a in ids if a.default is a.empty]
    if len(needed) > 2:
        fix = "a function of ids alone, such as lambda src, tgt: model(src, tgt, make_mask(src), make_mask(tgt))"
        raise NotExaminable(f"forward wants {len(needed)} arguments ({', '.join(needed)}); give {fix}")
    if subject.declared is None and found:
        second = len(ids) > 1 and side(ids[1].name) == "target" and not _needs_no_second(subject, ids[1])
        subject.two = len(needed) > 1 or second or any(a.kind is a.VAR_POSITIONAL for a in found)
    subject.kind = subject.declared or "encoder-decoder" * subject.two
    if subject.two and len(ids) > 1:
        subject.swapped = (side(ids[0].name), side(ids[1].name)) == ("target", "source")
    masks = [a for a in found if is_mask(a.name)]
    first = ids[: 1 + subject.two]
    if any(a.default is a.empty for a in masks) or (len(first) > subject.two and first != found[: len(first)]):
        subject.names = [a.name for a in first]
    return [a.name for a in sorted(masks, key=lambda a: a.default is not a.empty)]


def _needs_no_second(subject: Subject, argument: inspect.Parameter) -> bool:
    """Whether its second argument is for labels, as in `forward(tokens, targets=None)`: without it, it gives scores."""
    if argument.default is argument.empty or "dec" in argument.name.lower():
        return False
    with suppress(Exception), torch.no_grad():
        tokens = subject.tgt.ids(TARGET, BATCH)
        return sorted(scores(subject.model(tokens), subject.vocab_size).shape) == sorted(
            (BATCH, TARGET, subject.vocab_size)
        )
    return False


def is_mask(name: str) -> bool:
    """Whether an argument of this name is a mask or something that tells padding."""
    return any(word in name.lower() for word in ("mask", "pad", "valid", "len"))


def learn_layout(subject: Subject) -> None:
    """Find out by a few calls how ids and output are laid out. Raises NotExaminable where no output fits."""
    length = TARGET if subject.vocab_size not in (TARGET, BATCH) else TARGET + 4
    src, tgt = subject.src.ids(SOURCE, BATCH, seed=7), subject.tgt.ids(length, BATCH)
    asked = f"ids of shape {f'{(BATCH, SOURCE)} and ' * subject.two}{(BATCH, length)}"
    failed: Exception | None = None
    for turned in (False, True) if subject.two else (False,):
        subject.time_first = turned
        try:
            with torch.no_grad():
                out = scores(subject.raw(tgt, src), subject.vocab_size)
        except NoScores:
            raise
        except Exception as error:
            failed = failed or error
            continue
        if fits(subject, tuple(out.shape), length):
            known(subject, length)
            return
        subject.shape = subject.shape or tuple(out.shape)
    subject.time_first = False
    if not subject.shape:
        fix = "give a function that takes such ids and returns logits, or kind= if it takes another number of inputs"
        if isinstance(failed, IndexError):
            known(subject, length)
        raise NotExaminable(f"given {asked}, it raised {short(failed)}; {fix}") from None  # type: ignore[arg-type]
    right = f"where ({BATCH}, {length}, vocab_size={subject.vocab_size}) is wanted"
    fix = "return the logits of every position, or correct vocab_size"
    if subject.two and subject.shape == (BATCH, SOURCE, subject.vocab_size):
        fix = "give lambda src, tgt: model(tgt, src) if it takes the target first; else it has a row per source word"
    raise NotExaminable(f"given {asked}, it returned shape {subject.shape}, {right}; {fix}")


def known(subject: Subject, length: int) -> None:
    """Raise NotExaminable where its embeddings don't know the last ids."""
    tgt, src = (words.ordinary[-1:].expand(BATCH, length) for words in (subject.tgt, subject.src))
    try:
        with torch.no_grad():
            subject.raw(tgt, src)
    except Exception as error:
        asked = f"ids of shape {tuple(tgt.shape)} from 0 to {subject.vocab_size - 1}"
        fix = "an embedding seems to have fewer rows: correct vocab_size, or the embedding"
        if subject.two:
            fix += "; a source with a vocabulary of its own is told by src_vocab_size="
        raise NotExaminable(f"given {asked}, it raised {short(error)}; {fix}") from None


def fits(subject: Subject, shape: tuple[int, ...], length: int) -> bool:
    """Whether a layout makes logits of this output; then the subject knows it."""
    for t in (length, length - 1):
        wanted, flat = (BATCH, t, subject.vocab_size), shape == (BATCH * t, subject.vocab_size)
        orders = permutations(range(3)) if len(shape) == 3 else ()
        found = [order for order in orders if tuple(shape[axis] for axis in order) == wanted]
        if found or flat:
            subject.order, subject.flat, subject.shortened = found[0] if found else subject.order, flat, t < length
            subject.shape = shape
            return True
    return False


def learn_axis(subject: Subject) -> None:
    """A model of one stack may take its axes in either order: attention tells time from the batch."""
    if subject.two or subject.flat or subject.shortened or subject.by_name:
        return
    if _attends(subject, "rows") and not _attends(subject, "words"):
        before = subject.time_first, subject.order
        subject.time_first, subject.order = True, (1, 0, 2)
        try:
            turned = _attends(subject, "words") and not _attends(subject, "rows") and not _leaks(subject)
        except Exception:
            turned = False
        if not turned:
            subject.time_first, subject.order = before


def _attends(subject: Subject, to: str) -> bool:
    """Whether the last place of the first row depends on other rows, or on other words of its row."""
    tgt = subject.tgt.ids(TARGET, BATCH)
    other = tgt.clone()
    place = (slice(1, None), slice(None)) if to == "rows" else (slice(None), slice(0, -1))
    other[place] = subject.tgt.other(other[place])
    a, b = subject(tgt), subject(other)
    return bool(gap(a, b)[0, -1] > subject.leak * spread(a))


def _leaks(subject: Subject) -> bool:
    tgt = subject.tgt.ids(TARGET, BATCH)
    return subject.apart(subject(tgt)[:, :-1], subject(subject.tgt.changed(tgt, -1))[:, :-1])


def learn_vocabularies(subject: Subject, given: bool) -> str:
    """Take the source's words from its own table, if it has another size; what was seen. Ids beyond it are unknown."""
    if not subject.two or subject.by_name:
        return ""
    few = [words.ordinary[:6] for words in (subject.src, subject.tgt)]
    src, tgt = few[0].repeat(BATCH, 2)[:, :SOURCE], few[1].repeat(BATCH, 2)[:, :TARGET]
    with (
        LookUps() as looks,
        torch.no_grad(),
        suppress(Exception),
    ):
        subject.raw(tgt, src)
    source, target = (next((look.table for look in looks.found if look.reads(ids)), None) for ids in (src, tgt))
    with torch.no_grad(), suppress(Exception):
        subject.raw(*[words.ordinary[-1:].expand(BATCH, TARGET) for words in (subject.tgt, subject.src)])  # type: ignore[arg-type]
        for words, table in ((subject.src, source), (subject.tgt, target)):
            known = words.ordinary < (words.size if table is None else len(table))
            if known.sum() >= len(few[0]):
                words.ordinary, words.unknown = words.ordinary[known], words.ordinary[~known]
    if given or source is None or source is target or len(source) == subject.src.size:
        return ""
    special = {subject.src.pad_id, subject.start_id, subject.eos_id}
    subject.src = Words(len(source), special, subject.src.pad_id)
    return f"the source's embedding has {len(source)} rows, and vocab_size is {subject.vocab_size}."
