"""What is read of the target while a model writes, and the scores that come of it, which a probe may replace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tfm_lib.checkup.listening import Products
from tfm_lib.checkup.subject import TARGET, Subject
from tfm_lib.checkup.watch import LookUp, LookUps, called, hooked
from tfm_lib.data.batches import shifted

SURE = 1e4  # added to a score, it decides
LONGEST = 12  # words that are written of a text which need not be longer


@contextmanager
def heard(subject: Subject, put: Callable[[Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Gives `put` what is read of the target (R, t) and its scores (R, t, V) or (R, 1, V), and writes what it returns.

    The scores are what the last matrix returns, which may be a module or a parameter alone.
    """
    ends, reads = ends_of(subject), list[Tensor]()

    def on_read(ids: Tensor) -> None:
        reads.append(ids.detach().cpu())

    def on_look(look: LookUp) -> None:
        if look.table.data_ptr() in ends.tables:
            on_read(look.ids)

    def on_scores(output: Tensor) -> None:
        if not reads or output.shape[-1] != subject.vocab_size:
            return
        read = reads[-1][None] if reads[-1].dim() == 1 else reads[-1].T if ends.turned else reads[-1]
        flat = output.detach().reshape(-1, subject.vocab_size)
        axes = (-1, len(read)) if ends.turned else (len(read), -1)
        scores = flat.unflatten(0, axes).transpose(0, 1) if ends.turned else flat.unflatten(0, axes)
        new = put(read, scores)
        output.data.copy_((new.transpose(0, 1) if ends.turned else new).reshape(output.shape))

    def on_product(output: Any, args: Any) -> None:
        if isinstance(output, Tensor) and _places(args) & ends.head:
            on_scores(output)

    with (
        hooked(*((part, lambda part, args, named, output: on_read(args[0])) for part in ends.readers)),
        hooked(*((part, lambda part, args, named, output: on_scores(output)) for part in ends.last)),
        nullcontext() if ends.readers else LookUps(on_look),  # modes see each call of torch, and take their time
        nullcontext() if ends.last else Products(on_product),
    ):
        yield


class Lengths:
    """How many tokens of a text are known in each call that reads some of it, with what a cache knows."""

    def __init__(self) -> None:
        self.first: Tensor | None = None
        self.now = 0

    def after(self, read: Tensor) -> int:
        """The length with these tokens (R, t); other texts, and another number of them, may begin as the first did."""
        self.first = read if self.first is None else self.first
        begins = read.shape[1] > 1 or bool((read == self.first[0]).all())
        self.now = read.shape[1] if begins else self.now + 1
        return self.now

    def chosen(self, scores: Tensor) -> Tensor:
        """For each of these scores (R, t, V), how many words were chosen before the one that they choose."""
        assert self.first is not None
        return torch.arange(self.now - scores.shape[1], self.now) + 1 - self.first.shape[1]


@contextmanager
def ending(subject: Subject) -> Iterator[None]:
    """Inside, a text that is written ends after `LONGEST` words, where no rule of its own forbids it.

    The start token, by which another text is known to begin, is not written.
    """
    start, end, lengths = subject.start_id, subject.eos_id, Lengths()
    if end is None or start == end or (subject.two and start is None):
        yield
        return

    def put(read: Tensor, scores: Tensor) -> Tensor:
        lengths.after(read)
        scores = scores.clone()
        scores[:, lengths.chosen(scores) >= LONGEST, end] += SURE
        if start is not None:
            scores[..., start] -= SURE
        return scores

    with heard(subject, put):
        yield


class Ends(NamedTuple):
    """Where in memory the matrices lie that read the target, the last one before the scores, and if time is first."""

    tables: set[int]
    readers: set[nn.Module]  # the embeddings whose tables they are; none where one is no module
    last: list[nn.Module]
    head: set[int]  # where it is no module
    turned: bool


def ends_of(subject: Subject) -> Ends:
    """What reads the target, and what gives its scores, as long as its weights lie where they do."""
    places = [p.data_ptr() for part in subject.parts[:1] for p in part.parameters()]
    if subject.ends is None or subject.ends[0] != places:
        subject.ends = places, _looked_up(subject)
    return subject.ends[1]


def _looked_up(subject: Subject) -> Ends:
    tgt = subject.tgt.ids(TARGET)
    read = shifted(tgt, subject.start_id or 0)
    heads = list[set[int]]()

    def on_product(output: Any, args: Any) -> None:
        weights = [
            x for x in args if isinstance(x, Tensor) and isinstance(x if x._base is None else x._base, nn.Parameter)
        ]
        if weights and isinstance(output, Tensor) and output.shape[-1:] == (subject.vocab_size,):
            heads.append(_places(weights))

    with called() as calls, LookUps() as looks, Products(on_product):
        subject(tgt)
    found = [look for look in looks.found if look.reads(tgt, read)]
    ends = [part for part, _, out in calls if isinstance(out, Tensor) and out.shape[-1:] == (subject.vocab_size,)]
    wide = [part for part in ends if [*part.parameters()] and not [*part.children()]]
    turned = any(look.ids.shape == (TARGET, 1) for look in found)
    gave = {id(out): part for part, _, out in reversed(calls)}
    readers = [gave[id(look.vectors)] for look in found if id(look.vectors) in gave]
    tables = {look.table.data_ptr() for look in found}
    return Ends(
        tables, {*readers} if len(readers) == len(found) else set(), wide[-1:], heads[-1] if heads else set(), turned
    )


def _places(args: Any) -> set[int]:
    """Where the tensors among these arguments lie in memory."""
    return {x.data_ptr() for x in args if isinstance(x, Tensor)}
