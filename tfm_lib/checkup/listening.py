"""What a loss or a writer does with a model: which ids it puts in, what it uses, what gradient its logits get."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tfm_lib.checkup.measures import scores
from tfm_lib.checkup.subject import Subject
from tfm_lib.checkup.watch import LookUp, LookUps, hooked


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
