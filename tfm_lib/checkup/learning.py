"""Whether it can learn a few pairs by heart, and then write them."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tfm_lib.checkup.borrow import borrowed
from tfm_lib.checkup.losses import own_loss
from tfm_lib.checkup.measures import as_list
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import Subject

PAIRS, LENGTH, STEPS = 10, 5, 150
RATES = (3e-3, 1e-3, 1e-2, 3e-4)  # what is too fast for one model is too slow for another


def by_heart(subject: Subject) -> Iterator[Finding]:
    """Ten random pairs, several learning rates, until one of them knows the pairs."""
    if not any(p.requires_grad for p in subject.module_to("train").parameters()):
        raise ValueError("there is no module to train; give module=")
    src = subject.ids(4, PAIRS, seed=20)
    tgt = subject.ids(LENGTH + 1, PAIRS, seed=21)
    tgt[:, 0] = subject.words[torch.arange(PAIRS) % len(subject.words)]
    if subject.two:
        tgt[:, 0] = subject.words[0] if subject.start_id is None else subject.start_id
        if subject.eos_id is not None:
            tgt[:, -1] = subject.eos_id
    best, first = 0.0, 0.0
    for rate in RATES[: 2 if subject.quick else len(RATES)]:
        right, first, last, unwritten = _trained(subject, src, tgt, rate)
        best = max(best, right)
        if right >= 0.9 and last < 0.5 * math.log(subject.vocab_size):
            if unwritten > PAIRS // 2:
                seen = f"of {PAIRS} pairs that it knows by heart, {unwritten} are not what it writes."
                yield Finding.of("learning.unwritten", seen)
            return
    seen = f"after {STEPS} steps with each of several learning rates, {100 * best:.0f} % of the tokens"
    seen = f"{seen} of {PAIRS} pairs are right; the loss went from {first:.2f} to {last:.2f}."
    yield Finding.of("learning.stuck", seen)


def _unwritten(subject: Subject, src: Tensor, tgt: Tensor) -> int:
    """How many of the pairs begin otherwise when it writes; 0 where it can't write."""
    if subject.generate is None or not subject.two or subject.start_id is None:
        return 0
    try:
        with torch.no_grad():
            rows = subject.generate(src)
        count = 0
        for words, wanted in zip(map(as_list, rows), tgt[:, 1:LENGTH].tolist(), strict=True):
            words = words[0] if words and isinstance(words[0], list) else words
            words = words[words[:1] == [subject.start_id] :]
            count += list(words)[: len(wanted)] != wanted
        return count
    except Exception:  # the part that looks at `generate` says so
        return 0


def _trained(subject: Subject, src: Tensor, tgt: Tensor, rate: float) -> tuple[float, float, float, int]:
    """The share of right tokens, the first loss, the last one, and the pairs that it then doesn't write."""
    inputs, labels = tgt[:, :-1], tgt[:, 1:].to(subject.device)
    module = subject.module_to("train")
    with borrowed(module):
        weights = [p for p in module.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(weights, lr=rate, fused=True)
        first, loss, right = 0.0, torch.zeros(()), 0.0
        for step in range(STEPS):
            logits = subject(inputs, src, grad=True)
            loss = own_loss(logits, labels)
            if not loss.requires_grad or loss.isnan():
                break
            first = first if step else float(loss)
            right = float((logits.argmax(-1) == labels).float().mean())
            if right >= 0.95 and float(loss) < 0.3 * math.log(subject.vocab_size):
                break
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
        unwritten = _unwritten(subject, src, tgt) if right >= 0.9 else 0
    return right, first, float(loss), unwritten
