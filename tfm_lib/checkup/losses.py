"""The loss: where it starts, and which labels it asks for."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.checkup.given import text_loss
from tfm_lib.checkup.listening import listened
from tfm_lib.checkup.masked import CHANGED, copies, shown
from tfm_lib.checkup.measures import cross_entropy, short, spread
from tfm_lib.checkup.subject import SOURCE, Found, Subject

LENGTH = 8
SHIFTS = (  # of labels against the input, all of them wrong
    (0, "loss.no_shift", "that the model has just read"),
    (2, "loss.shifted_twice", "after the next one"),
    (-1, "loss.backwards", "before"),
)


def start(subject: Subject) -> Iterator[Found]:
    """The loss of random tokens under random tokens, beside ln V."""
    tgt = subject.tgt.ids(LENGTH, 4)
    out, blind = subject(tgt, subject.src.ids(SOURCE, 4, seed=3)), math.log(subject.vocab_size)
    if out.isnan().any() or bool((out >= 0).all() and spread(out.sum(-1)) < 1e-3):
        return
    labels = subject.tgt.ids(LENGTH, 4, seed=9)
    loss = float(cross_entropy(out, labels))
    if abs(loss - blind) > 1 + 0.3 * blind:
        at_input = float(out.gather(-1, tgt.to(out.device)[..., None]).mean() - out.mean()) / spread(out)
        seen = f"the loss of random tokens is {loss:.1f}, where a blind guess has ln V = {blind:.1f}; "
        if at_input > 2:
            yield "loss.echo", f"{seen}the token that was just read gets {at_input:.1f} spreads too much."
        else:
            yield "loss.start", f"{seen}the scores of one position lie {spread(out):.1f} apart."


def labels(subject: Subject) -> Iterator[Found]:
    """The labels that a loss asks for, read from its gradient: at a label it is negative, elsewhere it is not."""
    loss = text_loss(subject)
    if loss is None:
        return
    if subject.kind == "encoder-only":
        yield from copies(subject, loss)
        return
    tgt, src = _rows(subject), subject.src.ids(SOURCE, 2, seed=3)
    seen = f"loss of two rows of {LENGTH} tokens"
    try:
        heard = listened(subject, loss, tgt, src)
    except Exception as error:
        yield "loss.fails", f"{seen} raised {short(error)}."
        return
    if not bool(torch.isfinite(heard.loss).all()) or heard.loss.numel() != 1:
        yield "loss.fails", f"{seen} is {heard.loss.tolist()}."
    elif heard.gradient is not None:
        with subject.mode(training=True):
            loss(*((src, tgt) if subject.two else (tgt,)))
            if not all(part.training for part in subject.parts):
                yield "loss.mode", "a model in training mode is in eval mode after its call."
        if subject.changed_labels:
            yield "loss.changes_labels", CHANGED
        heard = listened(subject, loss, tgt, src, put=torch.zeros_like(heard.gradient))  # a blind guess hides no label
        assert heard.gradient is not None
        asked = heard.gradient.abs().amax(-1) > 1e-12
        if other_axis := list(_other_axis(heard.gradient)):
            yield from other_axis
            return
        found = list(_judged(subject, tgt, heard.inputs, heard.gradient.argmin(-1), asked))
        if found and not list(_judged(subject, tgt, heard.inputs, heard.gradient.argmax(-1), asked)):
            yield "loss.sign", "the gradient pushes the next token down, and all others up."
            return
        yield from found or _diluted(subject, loss, tgt, src)
        if not found:
            yield from _priced(subject, loss, tgt, src, heard.gradient, asked)


def _other_axis(gradient: Tensor) -> Iterator[Found]:
    """Whether its softmax compares texts or places: the gradient (B, T, V) of log-softmax sums to 0 along its axis."""
    sums: dict[object, float] = {axis: float(gradient.sum(axis).abs().max()) for axis in (2, 0, 1, (0, 1))}
    over = {0: "texts", 1: "places", (0, 1): "texts and places"}
    flat = [which for axis, which in over.items() if sums[axis] < 1e-4 * sums[2]]
    if flat and sums[2] > 1e-6:
        yield "loss.axis", f"the gradient of its logits sums to 0 over the {flat[0]}, and not over the vocabulary."


def _diluted(subject: Subject, loss: Callable[..., Tensor], tgt: Tensor, src: Tensor) -> Iterator[Found]:
    """Whether columns of padding change what it says of the same words."""
    if subject.pad_id in (None, subject.eos_id):
        return

    def cost(ids: Tensor, seed: int = 0) -> float:
        torch.manual_seed(seed)
        return float(loss(*((src, ids) if subject.two else (ids,))))

    with suppress(Exception):  # it may have a greatest length
        few, again, many = cost(tgt), cost(tgt, seed=1), cost(F.pad(tgt, (0, 4), value=subject.pad_id))
        if few == again and abs(many - few) > 0.05 * abs(few):
            yield "loss.padding", f"of two rows it is {few:.2f}, and {many:.2f} with 4 more columns of padding."


def _priced(
    subject: Subject, loss: Callable[..., Tensor], tgt: Tensor, src: Tensor, gradient: Tensor, asked: Tensor
) -> Iterator[Found]:
    """What the loss says of logits that are known: of a blind guess, and of the right words, ever surer."""
    right = gradient.argmin(-1, keepdim=True)
    if subject.scale is None and float(gradient.scatter(-1, right, 0)[asked].abs().max()) < 1e-12:
        yield "loss.no_softmax", "its gradient lifts the right words, and pushes no other word down."
        return
    sure = torch.zeros_like(gradient).scatter(-1, right, 1)
    costs = [float(listened(subject, loss, tgt, src, put=scale * sure).loss) for scale in (0, 1, 2, 4, 8, 16)]
    blind, best = costs[0], min(costs[1:])
    if len({*costs}) == 1:
        return  # a head that is no module: what was put in came too late for the loss
    if best < -1e-3 * abs(blind):
        yield "loss.no_softmax", f"of sure and right logits it is {best:.2f}, and no surprise is below 0."
    elif best > 0.6 * blind and costs[-1] > 1.2 * blind:
        yield (
            "loss.smoothing",
            f"of a blind guess it is {blind:.2f}, and of right words, ever surer, up to {costs[-1]:.2f}.",
        )
    elif best > 0.6 * blind:
        seen = f"of a blind guess it is {blind:.2f}, and of right words, however sure, {best:.2f} or more."
        yield "loss.softmax_twice", seen


def _rows(subject: Subject) -> Tensor:
    """Two whole targets from start to end token, the second with padding behind it where there is any."""
    tgt = subject.tgt.ids(LENGTH, 2, seed=5)
    if subject.start_id is not None:
        tgt[:, 0] = subject.start_id
    if subject.eos_id is not None:
        tgt[0, -1] = subject.eos_id
    if subject.pad_id is not None:
        tgt[1, -2:] = subject.pad_id
        if subject.eos_id is not None:
            tgt[1, -3] = subject.eos_id
    return tgt


def _judged(subject: Subject, tgt: Tensor, inputs: list[Tensor], best: Tensor, asked: Tensor) -> Iterator[Found]:
    """Which tokens the labels `best` (B, T) are, at the places that are `asked` for."""
    length = best.shape[1]
    turned = [x for y in inputs for x in (y, y.T) if x.shape == best.shape]
    words = [len(x[torch.isin(x, tgt)].unique()) for x in turned]  # token types have few, and a prompt has others
    fits = [x for _, x in sorted(zip(words, turned, strict=True), key=lambda one: one[0])]
    given = fits[-1] if fits and max(words) > len(tgt.unique()) / 2 else tgt[:, :length]
    first = f"input {given[0].tolist()}, labels {shown(best[0], asked[0])}"
    if not bool(asked.any()):
        yield "loss.skips", f"no label of two rows has a gradient: {first}."
        return

    if not bool(asked.any(1).all()):
        rows = asked.any(1).logical_not().nonzero().flatten().tolist()
        yield "loss.rows", f"of {len(asked)} rows, no label of those at {rows} has a gradient: {first}."
        return

    def shifted(by: int) -> bool:
        """Whether nearly all labels are the tokens so many places on."""
        first = by == 0  # where a start may stand
        at, seen = slice(max(first, -by), length - max(0, by)), slice(max(first, by), length + min(0, by))
        equal = (best[:, at] == given[:, seen])[asked[:, at]]
        return bool(equal.numel()) and float(equal.float().mean()) >= 0.9

    for by, code, which in SHIFTS:
        if shifted(by) and not (by == 0 and subject.shifts):
            yield code, f"each label is the token {which}: {first}."
            return
    if not shifted(1) and not (subject.shifts and shifted(0)):
        yield "loss.wrong_labels", f"the labels are not the next tokens: {first}."
        return
    yield from _asked_for(subject, tgt, given, best, asked, first)


def _asked_for(
    subject: Subject, tgt: Tensor, given: Tensor, best: Tensor, asked: Tensor, first: str
) -> Iterator[Found]:
    """Whether the end and every word are labels, and padding is none."""
    words = set(tgt[0].tolist()) - {subject.start_id, subject.pad_id, subject.eos_id}
    labels = set(best[asked].tolist())
    if subject.eos_id is not None and subject.eos_id not in labels:
        yield "loss.no_end", f"two rows end with eos_id {subject.eos_id}, and it is no label: {first}."
    unasked = (given[:, 1:] == subject.pad_id) & asked[:, : best.shape[1] - 1] & (not subject.shifts)
    if subject.pad_id is not None and subject.pad_id != subject.eos_id and (subject.pad_id in labels or unasked.any()):
        yield (
            "loss.padding",
            f"of two rows, the second one with padding, places of pad_id {subject.pad_id} are asked for.",
        )
    begins = {int(token) for token in given[:, 0]}
    if subject.start_id is not None and begins != {subject.start_id} and not subject.shifts:
        yield (
            "loss.first_token",
            f"the input begins with {sorted(begins)}, and start_id is {subject.start_id}: {first}.",
        )
    missing = sorted(words - labels - {int(given[0, 0])})
    if missing:
        yield "loss.skips", f"the tokens {missing} are never a label: {first}."
