"""The round through a model: which questions are asked, in which order, and what happens when one fails."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from tfm_lib.checkup import (
    attending,
    batches,
    decoding,
    gradients,
    learning,
    losses,
    outputs,
    padding,
    residuals,
    sources,
    weights,
)
from tfm_lib.checkup.borrow import borrowed, find_modules, random_state_restored
from tfm_lib.checkup.conventions import arguments
from tfm_lib.checkup.given import as_writer
from tfm_lib.checkup.measures import short
from tfm_lib.checkup.report import Report
from tfm_lib.checkup.subject import KINDS, Found, OutOfTime, Subject
from tfm_lib.checkup.words import NotExaminable, Words

Probe = Callable[[Subject], Iterator[Found]]


class Part(NamedTuple):
    """What is asked in one part of a check-up, and of which subjects it can be asked."""

    probes: list[Probe]
    applies: Callable[[Subject], bool] = lambda subject: True


# In the order in which they are asked: what comes first explains what comes later.
PROBES = {
    "shapes": Part([outputs.shapes, outputs.values, outputs.memory]),
    "causality": Part([attending.causality]),
    "padding": Part([padding.padding], lambda subject: subject.src.pad_id is not None),
    "batch": Part([batches.rows]),
    "positions": Part([batches.positions, batches.lengths]),
    "source": Part([sources.source], lambda subject: subject.two),
    "gradients": Part([gradients.gradients, weights.sharing]),
    "loss": Part([losses.start, losses.labels, sources.read_in_training]),
    "learning": Part([residuals.residuals, learning.by_heart]),
    "cache": Part([decoding.cache, decoding.generate], lambda subject: bool(subject.decode or subject.generate)),
    "saving": Part([weights.saving]),
    "precision": Part([weights.precision]),
}
PARTS = tuple(PROBES)


def checkup(
    model: Callable[..., Any],
    *,
    vocab_size: int,
    src_vocab_size: int | None = None,
    pad_id: int | None = None,
    src_pad_id: int | None = None,
    start_id: int | None = None,
    eos_id: int | None = None,
    kind: str | None = None,
    module: nn.Module | None = None,
    encode: Callable[..., Any] | None = None,
    decode: Callable[..., Any] | None = None,
    loss: Callable[..., Any] | None = None,
    generate: Callable[..., Any] | None = None,
    parts: str | list[str] | tuple[str, ...] | None = None,
    quick: bool = False,
    time_limit: float = 60.0,
) -> Report:
    """Examine a Transformer from outside, and report what is wrong with it. It changes nothing, and never raises.

    model: (src, tgt) -> logits (B, T, V), or (tokens) -> logits; src (B, S), tgt and tokens (B, T) are ids, padded
    on the right. An nn.Module, or a function that refers to one by name; `module` names it where it can't be seen.
    Other orders of axes and arguments, and masks as arguments, are found out by trying.
    vocab_size, pad_id: of the target, and of the source where src_vocab_size and src_pad_id are not given.
    kind: "encoder-decoder", "decoder-only" or "encoder-only"; without it, it is found out where that is possible.
    encode: src -> state, whatever `decode` needs. decode: (new tokens (B, n), state) -> (logits (B, n, V), state);
    a decoder-only model's first state is None. They let the cache be examined.
    loss: (src, tgt), or (tokens), whole rows from start to end token, or (logits, labels) -> what is trained on.
    generate: src, or the beginning of a text, and a number of tokens if it needs one -> ids (B, n), candidates
    (B, beams, n) or strings.
    parts: which of PARTS to try, all by default. quick: without long lengths and with fewer steps of learning.
    time_limit: seconds of computing after which no new question is asked, or ten times as many by the clock.
    """
    report, special = Report(), {"pad_id": pad_id, "start_id": start_id, "eos_id": eos_id}
    with _undisturbed(report, time_limit):
        chosen = _chosen(parts)
        sizes = vocab_size if src_vocab_size is None else src_vocab_size, vocab_size
        pads = pad_id if src_pad_id is None else src_pad_id, pad_id
        _check(model, sizes, special, pads[0], kind)
        module = find_modules(model) if module is None else module
        words = [Words(size, {*special.values(), pad}, pad) for size, pad in zip(sizes, pads, strict=True)]
        with borrowed(module):
            subject = Subject(model, module, (words[0], words[1]), kind, time_limit)
            subject.start_id, subject.eos_id, subject.quick = start_id, eos_id, quick
            subject.encode, subject.decode, subject.loss, subject.generate = encode, decode, loss, as_writer(generate)
            _examine(subject, chosen, report, src_vocab_size is not None)
            report.kind = subject.kind or "one-sided"
            report.not_given = _not_given(subject)
    return report


@contextmanager
def _undisturbed(report: Report, time_limit: float) -> Iterator[None]:
    """Nothing is raised, warned of or drawn: what ends an examination stands in the report as its problem."""
    threads = torch.get_num_threads()
    with random_state_restored(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)  # on tiny inputs, several only wait for each other
        try:
            yield
        except NotExaminable as error:
            report.problem = str(error)
        except OutOfTime:
            report.problem = f"{time_limit:g} s of computing were over before its first answer; give time_limit="
        except Exception as error:  # it never raises: what it can't do, it says
            report.problem = f"{short(error)}; give a function of ids that returns logits"
        finally:
            torch.set_num_threads(threads)


def _not_given(subject: Subject) -> list[str]:
    """What would let it ask more: no encoder writes, and one stack has no cache of another."""
    if subject.kind == "encoder-only":
        return ["pad_id"] * (subject.pad_id is None)
    calls = {"pad_id": "pad_id", "start_id": "start_id", "eos_id": "eos_id", "loss": "loss", "generate": "generate"}
    calls["decode"] = "encode and decode" if subject.two else "decode"
    if any(argument.name == "labels" for argument in arguments(subject.model)):
        del calls["loss"]  # it has its own
    return [words for name, words in calls.items() if getattr(subject, name) is None]


def _chosen(parts: Any) -> list[str]:
    names = list(PARTS) if parts is None else [parts] if isinstance(parts, str) else list(parts)
    for name in names:
        if name not in PROBES:
            raise NotExaminable(f"there is no part {name!r}; the parts are {', '.join(PARTS)}")
    return [name for name in PARTS if name in names]


def _check(model: Any, sizes: tuple[Any, Any], special: dict[str, Any], src_pad_id: Any, kind: Any) -> None:
    if not callable(model):
        raise NotExaminable(f"a {type(model).__name__} can't be called; give the model or a function of ids")
    for name, size in zip(("src_vocab_size", "vocab_size"), sizes, strict=True):
        if not isinstance(size, int) or size < 1:
            raise NotExaminable(f"{name} must be a whole number from 1 on, got {size!r}")
    for name, value in (*special.items(), ("src_pad_id", src_pad_id)):
        size = sizes[name != "src_pad_id"]
        if value is not None and not (isinstance(value, int) and 0 <= value < size):
            raise NotExaminable(f"{name} must be an id of the vocabulary, 0..{size - 1}, got {value!r}")
    if kind is not None and kind not in KINDS:
        raise NotExaminable(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")


def _examine(subject: Subject, chosen: list[str], report: Report, src_size_given: bool) -> None:
    with subject.mode(training=False):
        found, go_on = outputs.first_look(subject, src_size_given)
        for finding in found:
            report.add(*finding)
        if not go_on:
            report.tried, report.failed = ["shapes"], ["shapes"]
            return
        for name in chosen:
            if not PROBES[name].applies(subject):
                continue
            before = report.sick
            try:
                for probe in PROBES[name].probes:
                    for finding in probe(subject):  # those before a probe trips count
                        report.add(*finding)
                report.tried.append(name)
                report.failed += [name] * (report.sick > before)
            except OutOfTime:
                report.not_tried.append(f"{name} (out of time)")
            except Exception as error:  # a probe that trips says so, and the next one goes on
                report.not_tried.append(f"{name} ({short(error)})")
