"""Residual connections: what was read must pass by each sublayer, an attention or a feed-forward network.

Source: Vaswani et al. 2017, section 3.1.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

from tfm_lib.checkup.measures import gap, spread
from tfm_lib.checkup.subject import TARGET, Found, Subject
from tfm_lib.checkup.watch import hooked, last

NUMBERED = re.compile(r"(?:(.*?)\.)?\d+\.(.*)")  # decoder.layers.0.ffn.2: a part of a layer of a stack
ATTENDS = re.compile("at+e?n|mha|head|qkv|cross")


def flat_norm(subject: Subject) -> Iterator[Found]:
    """The first norm of which nearly the same comes out, whatever comes in."""
    for step in subject.trace(subject.tgt.ids(TARGET, 2))[0]:
        if "norm" in type(step.part).__name__.lower() and step.inputs and step.inputs[0].shape == step.output.shape:
            before, after = (spread(x - x.mean((0, 1))) for x in (step.inputs[0], step.output))
            if after < 1e-3 * min(before, 1):
                yield "norm.flat", f"{step} makes {after:.1g} of a spread of {before:.2g}."
                return


class Matrix(NamedTuple):
    """The same matrix in all layers of a stack, and whether a feed-forward network ends with it."""

    parts: list[nn.Module]
    ends_network: bool


def residuals(subject: Subject) -> Iterator[Found]:
    """Silence one matrix after the other, in all layers of a stack, and ask what the last scores still depend on.

    Without an attention, a token still knows itself; it misses its past or the source, and never both. Without a
    feed-forward network, it misses neither.
    """
    if any(_lost(subject, [])):
        return
    for stack, (reads_target, matrices) in _stacks(subject).items():
        for name, (parts, ends_network) in matrices.items():
            own, past, source = _lost(subject, parts)
            seen = f"without {stack}.*.{name}, the scores do not depend on "
            if own if reads_target else source:
                yield "residual.missing", f"{seen}{'the target' if reads_target else 'the source'} at all."
                return
            if reads_target and ((past and source) or (ends_network and (past or source))):
                lost = " and ".join(["earlier tokens"] * past + ["the source"] * source)
                yield "residual.skips", f"{seen}{lost} any more."
                return


def passes_on(subject: Subject) -> bool:
    """Whether what was read passes by each sublayer, as far as that can be asked, however loud the sublayers are."""
    return not any(_lost(subject, [])) and not any(residuals(subject))


def _stacks(subject: Subject) -> dict[str, tuple[bool, dict[str, Matrix]]]:
    """For each stack of layers, whether it reads the target, and its matrices by their names in a layer."""
    stacks: dict[str, tuple[bool, dict[str, Matrix]]] = {}
    widths: dict[str, int] = {}
    for step in subject.trace(*subject.texts(2))[0]:
        place = NUMBERED.fullmatch(step.name)
        if not place or not step.inputs:
            continue
        stack, name = place[1] or "", place[2]
        reads_target, matrices = stacks.setdefault(stack, (False, {}))
        stacks[stack] = reads_target or last(step, TARGET) is not None, matrices
        wide, narrow = step.inputs[0].shape[-1], step.output.shape[-1]
        width = widths.setdefault(stack, wide)
        weight = getattr(step.part, "weight", None)
        leaf = isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(step.part, nn.Embedding)
        if leaf or isinstance(step.part, nn.MultiheadAttention):
            owner = type(subject.module_to("read").get_submodule(step.name.rpartition(".")[0])).__name__
            ends_network = wide > narrow == width and not ATTENDS.search(f"{name} {owner}".lower())
            parts, _ = matrices.setdefault(name, Matrix([], ends_network))
            parts += [step.part] * (step.part not in parts)
    return stacks


def _lost(subject: Subject, silent: list[nn.Module]) -> tuple[bool, bool, bool]:
    """Whether the last scores, without these parts, depend no more on the target, on its past, and on the source."""
    tgt, src = (ids.expand(4, -1).clone() for ids in subject.texts())
    tgt[1] = subject.tgt.other(tgt[1])
    past = slice(0, -1 - subject.shifts)
    tgt[2, past] = subject.tgt.other(tgt[2, past])
    src[3] = subject.src.other(src[3])

    def silence(part: nn.Module, args: Any, named: Any, output: Any) -> None:
        (output[0] if isinstance(output, tuple) else output).data.zero_()

    with hooked(*((part, silence) for part in silent)):  # with a gradient, no path of torch's passes the hooks by
        out = subject(tgt, src, grad=True).detach()[:, -1:]
    same = [bool(gap(out[:1], row[None]).max() <= subject.silence * spread(out)) for row in out[1:]]
    return same[0], same[1], subject.two and same[2]
