"""What a loss or a writer does with a model: which ids it puts in, what gradient its logits get, and other scores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tfm_lib.checkup.measures import scores
from tfm_lib.checkup.subject import TARGET, Subject
from tfm_lib.checkup.watch import LookUp, LookUps, called, hooked


class Heard(NamedTuple):
    """A loss, the gradient (B, T, V) of the logits that it came from, and what ids the embeddings were given."""

    loss: Tensor
    gradient: Tensor | None
    inputs: list[Tensor]


class Products(TorchFunctionMode):
    """Gives `put` what each product of matrices returns, and its factors: a head may be no module."""

    def __init__(self, put: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.put = put

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("linear", "matmul", "__matmul__", "einsum"):
            self.put(out, args)
        return out


class Uses(TorchFunctionMode):
    """Where in memory the tensors lie with which torch's functions are called: whether a weight is used."""

    def __init__(self) -> None:
        super().__init__()
        self.places = set[int]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for given in (*args, *(kwargs or {}).values()):
            for x in given if isinstance(given, list | tuple) else (given,):
                if isinstance(x, Tensor) and not x.is_nested:
                    self.places.add(x.untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))


def listened(
    subject: Subject, loss_of: Callable[..., Tensor], tgt: Tensor, src: Tensor, put: Tensor | None = None
) -> Heard:
    """What the loss says of these texts; with other logits `put` (B, T, V) in the place of the model's."""
    outputs, inputs = list[Tensor](), list[Tensor]()

    def shown(out: Any, scale: Callable[[Tensor, int], Tensor] | None = None) -> bool:
        """Whether these are logits that learn; then they are those that were put."""
        turned = _turned(subject, out, len(tgt)) if isinstance(out, Tensor) and out.requires_grad else None
        if turned is not None and put is not None and turned.shape == put.shape:
            turned.data.copy_(scale(put, -1) if scale else put)
        return turned is not None

    def on_output(part: nn.Module, args: Any, named: Any, output: Any) -> None:
        with suppress(TypeError):
            if shown(out := scores(output, subject.vocab_size), subject.scale):
                out.retain_grad()
                outputs.append(out)

    def on_read(look: LookUp) -> None:
        if look.ids.dim() == 2:
            inputs.append(look.ids.detach())

    with (
        hooked(*((part, on_output) for part in subject.parts)),
        LookUps(on_read),
        torch.enable_grad(),
        Products(lambda out, args: shown(out)),
    ):
        torch.manual_seed(0)
        loss = loss_of(*((src, tgt) if subject.two else (tgt,)))
        loss.sum().backward()
    found = [_turned(subject, out.grad, len(tgt)) for out in outputs if out.grad is not None]
    return Heard(loss.detach(), found[-1] if found else None, inputs)


def _turned(subject: Subject, out: Tensor, rows: int) -> Tensor | None:
    """The same numbers as (B, T, V), whichever order a module inside has; None where they are no logits."""
    if subject.flat and out.dim() == 2 and out.shape[1] == subject.vocab_size and len(out) % rows == 0:
        return subject.laid_out(out, rows)
    for order in (subject.order, (0, 1, 2), (1, 0, 2), (0, 2, 1)):
        if out.dim() == 3 and out.shape[order[2]] == subject.vocab_size and out.shape[order[0]] == rows:
            return out.permute(order)
    return None


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


class Ends(NamedTuple):
    """Where in memory the matrices lie that read the target, the last one before the scores, and if time is first."""

    tables: set[int]
    readers: set[nn.Module]  # the embeddings whose tables they are; none where one is no module
    last: list[nn.Module]
    head: set[int]  # where it is no module
    turned: bool


def ends_of(subject: Subject) -> Ends:
    """What reads the target, and what gives its scores."""
    tgt = subject.tgt.ids(TARGET)
    shifted = torch.cat([torch.full_like(tgt[:, :1], subject.start_id or 0), tgt[:, :-1]], 1)
    heads = list[set[int]]()

    def on_product(output: Any, args: Any) -> None:
        weights = [
            x for x in args if isinstance(x, Tensor) and isinstance(x if x._base is None else x._base, nn.Parameter)
        ]
        if weights and isinstance(output, Tensor) and output.shape[-1:] == (subject.vocab_size,):
            heads.append(_places(weights))

    with called() as calls, LookUps() as looks, Products(on_product):
        subject(tgt)
    found = [look for look in looks.found if look.reads(tgt, shifted)]
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
