"""The loss of an encoder that learns to fill in tokens which were hidden or exchanged."""

from collections.abc import Callable, Iterator

from torch import Tensor

from tfm_lib.checkup.listening import listened
from tfm_lib.checkup.subject import Found, Subject

LENGTH, PADS = 8, 4
CHANGED = "ids or labels that it was given are other numbers after its call."


def copies(subject: Subject, loss: Callable[..., Tensor]) -> Iterator[Found]:
    """Whether an encoder is asked for what it was given, or not for what was exchanged, or for padding."""
    heard = listened(subject, loss, ids := subject.tgt.ids(LENGTH, LENGTH + 1, seed=5), ids)
    given = [x for y in heard.inputs for x in (y, y.T) if x.shape == ids.shape]
    if heard.gradient is not None and given:
        read, best = max(given, key=lambda x: int((x == ids).sum())), heard.gradient.argmin(-1)
        asked = heard.gradient.abs().amax(-1) > 1e-12
        if subject.loss is None and not bool(asked[:, ::2].any()):
            yield "loss.wrong_labels", "the label of each token teaches the scores of the token before it."
        elif subject.loss is None and bool(asked[:, 1::2].any()):
            yield "loss.padding", "places whose label is -100, amid a text, get a gradient."
        elif bool(asked.any()) and bool((best == read)[asked].all()):
            seen = f"each of {int(asked.sum())} labels is the token that was put in at its place"
            yield "loss.copies", f"{seen}: input {read[0].tolist()}, labels {shown(best[0], asked[0])}."
        elif subject.loss is not None and bool((lost := (read != ids) & ~asked).any()):
            row = int(lost.sum(1).argmax())
            seen = f"{int(lost[row].sum())} of {len(ids[row])} words are exchanged and have no label"
            yield "loss.unasked", f"{seen}: text {ids[row].tolist()}, input {read[row].tolist()}."
    if subject.changed_labels:
        yield "loss.changes_labels", CHANGED
    if subject.loss is not None and subject.pad_id is not None:
        ids[:, -PADS:] = subject.pad_id
        heard = listened(subject, loss, ids, ids)
        if heard.gradient is not None and bool((heard.gradient[:, -PADS:].abs() > 1e-12).any()):
            yield "loss.padding", "places of padding get a gradient, since a label is asked there."


def shown(labels: Tensor, asked: Tensor) -> list[int | None]:
    """The labels of a row, None where none is asked for."""
    return [int(label) if real else None for label, real in zip(labels, asked, strict=True)]
