"""Whether it can learn a few pairs by heart, and then write them."""

import math
import time
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from tfm_lib.checkup.borrow import borrowed
from tfm_lib.checkup.measures import spread
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import TARGET, OutOfTime, Subject
from tfm_lib.checkup.writing import Pairs, writing

PAIRS, LENGTH, STEPS = 10, 5, 150
RATES = (3e-3, 1e-3, 1e-2, 3e-4)  # what is too fast for one model is too slow for another
LARGE, LARGE_PAIRS, LARGE_RATES = 10**7, 4, (3e-4, 1e-3, 1e-4)  # from so many parameters on, a step takes a second


def by_heart(subject: Subject) -> Iterator[Finding]:
    """Ten random pairs, several learning rates, until one of them knows the pairs."""
    module = subject.module_to("train")
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("there is no module to train; give module=")
    large = sum(p.numel() for p in module.parameters()) >= LARGE
    pairs, rates = _pairs(subject, LARGE_PAIRS if large else PAIRS), LARGE_RATES if large else RATES
    best, first, last = 0.0, 0.0, 0.0
    for rate in rates[: 2 if subject.quick else len(rates)]:
        with borrowed(module):
            right, first, last = _trained(subject, module, pairs, rate)
            best = max(best, right)
            if right >= 0.9 and last < 0.5 * math.log(subject.vocab_size):
                yield from writing(subject, pairs)
                return
    yield from _reasons(subject)
    seen = f"after {STEPS} steps with each of several learning rates, {100 * best:.0f} % of the tokens"
    seen = f"{seen} of {len(pairs.src)} pairs are right; the loss went from {first:.2f} to {last:.2f}."
    yield Finding.of("learning.stuck", seen)


def _reasons(subject: Subject) -> Iterator[Finding]:
    """Why it may be stuck: norms that make all alike, layers that pass nothing on."""
    steps, _ = subject.trace(subject.tgt.ids(TARGET, 2))
    for step in steps:
        if "norm" in type(step.part).__name__.lower() and step.inputs and step.inputs[0].shape == step.output.shape:
            before, after = (spread(x - x.mean((0, 1))) for x in (step.inputs[0], step.output))
            if after < 1e-3 * min(before, 1):
                yield Finding.of("norm.flat", f"{step} makes {after:.1g} of a spread of {before:.2g}.")
                return
    likeness = {
        str(step): float(F.cosine_similarity(step.inputs[0], step.output, -1).mean())
        for step in steps
        if step.name.split(".")[-1].isdigit() and step.inputs and step.inputs[0].shape == step.output.shape
        and any(True for _ in step.part.children())
    }  # fmt: skip
    if likeness and (mean := sum(likeness.values()) / len(likeness)) < 0.25:
        seen = f"the cosine of a layer's output and its input is {mean:.2f}, the mean of {len(likeness)} layers."
        yield Finding.of("residual.none", seen)


def _pairs(subject: Subject, count: int) -> Pairs:
    """So many texts, and what belongs to each: four tokens and an end, or two."""
    src = subject.src.ids(4, count, seed=20)
    tgt = subject.tgt.ids(LENGTH + 1, count, seed=21)
    tgt[:, 0] = subject.tgt.ordinary[torch.arange(count) % len(subject.tgt.ordinary)]
    asked = torch.ones_like(tgt[:, 1:], dtype=torch.bool)
    if subject.two:
        tgt[:, 0] = subject.tgt.ordinary[0] if subject.start_id is None else subject.start_id
        if subject.eos_id is not None:
            tgt[:, -1] = subject.eos_id
            if subject.pad_id is not None:
                tgt[1::2, 3], tgt[1::2, 4:] = subject.eos_id, subject.pad_id
                asked[1::2, 3:] = False
    return Pairs(src, tgt, asked)


def _trained(subject: Subject, module: nn.Module, pairs: Pairs, rate: float) -> tuple[float, float, float]:
    """The share of right tokens, the first loss and the last one."""
    inputs = pairs.tgt[:, 1:] if subject.shifts else pairs.tgt[:, :-1]
    labels, asked = (x.to(subject.device) for x in (pairs.tgt[:, 1:], pairs.asked))
    weights = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=rate, fused=True)
    # What is to be written must be sure, too: a search weighs every text that is left.
    sure = 0.3 * math.log(subject.vocab_size) if subject.generate is None else 0.05
    first, loss, right, began = 0.0, torch.zeros(()), 0.0, time.monotonic()
    for step in range(STEPS):
        logits = subject(inputs, pairs.src, grad=True)
        loss = F.cross_entropy(logits[asked], labels[asked])
        if not loss.requires_grad or loss.isnan():
            break
        first = first if step else float(loss)
        right = float((logits.argmax(-1) == labels)[asked].float().mean())
        if right >= 0.95 and float(loss) < sure:
            break
        if step == 60 and float(loss) > 0.85 * first:
            break  # this rate leads nowhere
        if step == 2 and (time.monotonic() - began) * STEPS / 6 > subject.seconds_left:
            raise OutOfTime  # not even a half of the steps can be made
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return right, first, float(loss)
