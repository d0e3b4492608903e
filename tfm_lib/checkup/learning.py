"""Whether it can learn a few pairs by heart, and then write them."""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.checkup.borrow import borrowed
from tfm_lib.checkup.given import writer
from tfm_lib.checkup.residuals import flat_norm, passes_on
from tfm_lib.checkup.steps import best, steps, watched
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, OutOfTime, Subject

LENGTH = 5


class Effort(NamedTuple):
    """How hard it is tried: the number of pairs, and of the steps at each rate.

    A rate is dropped unless its `first` steps lower the loss by 15 %, and each later half of as many steps by 10 %.
    """

    pairs: int
    steps: int
    first: int
    rates: tuple[float, ...]  # what is too fast for one model is too slow for another
    growth: float = 0.0  # of the rate at each step, as a share of the first one, up to six times that


SMALL = Effort(10, 150, 40, (3e-3, 1e-3, 1e-2, 3e-4))
LARGE = Effort(4, 60, 20, (1e-4, 3e-5, 1e-3), 0.25)  # from 10 million parameters on, where a step takes a second


class Pairs(NamedTuple):
    """Texts (B, S), what belongs to each, from start to end (B, T), and which of its next tokens count (B, T - 1)."""

    src: Tensor
    tgt: Tensor
    asked: Tensor

    @property
    def words(self) -> list[list[int]]:
        """Of each pair, what is to be written; without an end where all have the same length."""
        return [row[which].tolist() for row, which in zip(self.tgt[:, 1:], self.asked, strict=True)]


def by_heart(subject: Subject) -> Iterator[Found]:
    """Ten random pairs, several learning rates, until one of them knows the pairs."""
    module = subject.module_to("train")
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("there is no module to train; give module=")
    effort = LARGE if sum(p.numel() for p in module.parameters()) >= 10**7 else SMALL
    pairs, most, first, last = _pairs(subject, effort.pairs), 0.0, 0.0, 0.0
    for rate in effort.rates[: 2 if subject.quick else None]:
        with borrowed(module):
            right, first, last = _trained(subject, module, pairs, rate, effort)
            most = max(most, right)
            if right >= 0.9 and last < 0.5 * math.log(subject.vocab_size):
                yield from writing(subject, pairs)
                return
    yield from _reasons(subject)
    seen = f"after {effort.steps} steps with each of several learning rates, {100 * most:.0f} % of the tokens"
    seen = f"{seen} of {len(pairs.src)} pairs are right; the loss went from {first:.2f} to {last:.2f}."
    yield "learning.stuck", seen


def _reasons(subject: Subject) -> Iterator[Found]:
    """Why it may be stuck: norms that make all alike, layers that pass nothing on."""
    if flat := list(flat_norm(subject)):
        yield from flat
        return
    steps, _ = subject.trace(subject.tgt.ids(TARGET, 2))
    likeness = {
        str(step): float(F.cosine_similarity(step.inputs[0], step.output, -1).mean())
        for step in steps
        if step.name.split(".")[-1].isdigit() and step.inputs and step.inputs[0].shape == step.output.shape
        and any(True for _ in step.part.children())
    }  # fmt: skip
    if likeness and (mean := sum(likeness.values()) / len(likeness)) < 0.25 and not passes_on(subject):
        seen = f"the cosine of a layer's output and its input is {mean:.2f}, the mean of {len(likeness)} layers."
        yield "residual.none", seen


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
        more = _prompt(subject)[1:].expand(count, -1)
        tgt = torch.cat([tgt[:, :1], more, tgt[:, 1:]], 1)
        asked = torch.cat([torch.zeros_like(more, dtype=torch.bool), asked], 1)
    return Pairs(src, tgt, asked)


def _prompt(subject: Subject) -> Tensor:
    """The tokens (P,) with which it begins to write: most models with one, some with a language and a task as well."""
    if subject.generate is not None and not subject.shifts:
        write, _ = writer(subject)
        with watched(subject) as taken, suppress(Exception):
            write(subject.src.ids(4, seed=20))
        lengths = [step.read.shape[1] for step in taken[:2]]
        if len({*lengths}) > 1 and taken[0].read[0, 0] == subject.start_id:
            return taken[0].read[0]
    return torch.zeros(1, dtype=torch.long)


def _trained(
    subject: Subject, module: nn.Module, pairs: Pairs, rate: float, effort: Effort
) -> tuple[float, float, float]:
    """The share of right tokens, the first loss and the last one."""
    inputs = pairs.tgt[:, 1:] if subject.shifts else pairs.tgt[:, :-1]
    labels, asked = (x.to(subject.device) for x in (pairs.tgt[:, 1:], pairs.asked))
    weights = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1 + effort.growth * step, 6))
    # What is to be written must be sure, too: a search weighs every text that is left.
    sure = 0.3 * math.log(subject.vocab_size) if subject.generate is None else 0.05
    costs, half, right, left = list[float](), effort.first // 2, 0.0, subject.left()
    for step in range(effort.steps):
        logits = subject(inputs, pairs.src, grad=True)
        loss = F.cross_entropy(logits[asked], labels[asked])
        costs.append(float(loss))
        if not loss.requires_grad or loss.isnan():
            break
        right = float((logits.argmax(-1) == labels)[asked].float().mean())
        if right >= 0.95 and costs[-1] < sure:
            break
        if step >= effort.first and step % half == 0 and costs[-1] > min(0.9 * costs[-1 - half], 0.85 * costs[0]):
            break  # this rate leads nowhere
        if step == 2 and (left - subject.left()) * effort.steps / 6 > subject.left():
            raise OutOfTime  # not even a half of the steps can be made
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
    return right, costs[0], costs[-1]


def writing(subject: Subject, pairs: Pairs) -> Iterator[Found]:
    """Write what is known, alone and in a batch; with padding behind the source."""
    if subject.generate is None or not subject.two or subject.start_id is None:
        return
    write, _ = writer(subject)
    padded = pairs.src if subject.src.pad_id is None else subject.src.padded(pairs.src, SOURCE)
    prompt = pairs.tgt[0, : 1 + int(pairs.asked[0].logical_not().sum())].tolist()
    try:
        rows = [_plain(prompt, row) for row in write(pairs.src)]
        alone = [_plain(prompt, row) for text in pairs.src.split(1) for row in write(text)]
        behind = [_plain(prompt, row) for row in write(padded)]
    except Exception:  # the part that looks at `generate` says so
        return
    known = f"of {len(rows)} pairs that it knows by heart"
    ended = [(row, words) for row, words in zip(alone, pairs.words, strict=True) if words[-1] == subject.eos_id]
    right = [row for row, words in ended if row[: len(words) - 1] == words[:-1]]
    silent = len(right) > len(ended) // 2 and not any(subject.eos_id in row for row in alone)  # it writes no ends
    if silent and all(sum(i != subject.pad_id for i in row) < LENGTH for row in right):  # its ends are taken off
        pairs = pairs._replace(asked=pairs.asked & (pairs.tgt[:, 1:] != subject.eos_id))
        silent = False
    if any(isinstance(word, str) for row in rows for word in row):
        few, many, after = 0, *(sum(a != b for a, b in zip(alone, texts, strict=True)) for texts in (rows, behind))
    else:
        few, many, after = (_missed(pairs, found) for found in (alone, rows, behind))
    if silent:
        yield "generate.no_end", f"{known}, it writes no eos_id {subject.eos_id} behind any."
    elif few > 2:
        yield "learning.unwritten", f"{known}, {few} are not what it writes."
    elif many > few + 2:
        yield "generate.batch", f"{known}, it writes {few} wrong alone, and {many} in a batch."
    elif after > many + 2:
        yield "generate.padding", f"{known}, it writes {many} wrong, and {after} with padding behind the source."
    else:  # a mask that is missing in one place hardly moves the scores of an untrained model
        yield from (found for found in steps(subject, write) if found[0] == "generate.padding")


def _plain(prompt: list[int], row: Any) -> list[Any]:
    """The best candidate's words, without the prompt, such as the start token."""
    words = best(row)
    return words[len(prompt) * (words[: len(prompt)] == prompt) :]


def _missed(pairs: Pairs, rows: list[list[Any]]) -> int:
    """How many of the pairs are written otherwise; an end may be missing where a text has the greatest length."""
    longest = max(map(len, pairs.words))
    cut = [words[: longest - 1] for words in pairs.words]
    return sum(row[: len(words)] != words for row, words in zip(rows, cut, strict=True))
