"""What happens inside: the outputs of a model's parts, and where two runs part; the weights of its attentions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch._dynamo
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Step(NamedTuple):
    """One call of one part, in the order in which they end: a part's own parts come before it."""

    name: str
    part: nn.Module
    inputs: list[Tensor]
    output: Tensor

    def __str__(self) -> str:
        return f"{self.name} ({type(self.part).__name__})"


@contextmanager
def hooked(*hooks: tuple[nn.Module, Callable[..., None]]) -> Iterator[None]:
    """Inside, each module's hook is called with it, its arguments, those by name, and its output."""
    handles = [part.register_forward_hook(hook, with_kwargs=True) for part, hook in hooks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def traced(module: nn.Module | None) -> Iterator[list[Step]]:
    """Collects the steps of what runs inside; nothing where there is no module."""
    steps: list[Step] = []
    names = {} if module is None else {part: name or type(part).__name__ for name, part in module.named_modules()}

    def keep(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) and output else output
        if isinstance(first, Tensor) and first.is_floating_point() and first.dim() > 1 and not first.is_nested:
            given = [x.detach() for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim() > 1]
            steps.append(Step(names[part], part, given, first.detach()))

    with hooked(*((part, keep) for part in names)):
        yield steps


@contextmanager
def called() -> Iterator[list[tuple[nn.Module, Any, Any]]]:
    """Collects every module that runs inside, registered or not, with what it was given and what it returned."""
    calls: list[tuple[nn.Module, Any, Any]] = []
    handle = register_module_forward_hook(lambda part, args, output: calls.append((part, args, output)))
    try:
        yield calls
    finally:
        handle.remove()


class LookUp(NamedTuple):
    """Vectors that were looked up by ids in the rows of a matrix, as an embedding does."""

    table: Tensor
    ids: Tensor
    vectors: Tensor

    def reads(self, *texts: Tensor) -> bool:
        """Whether it looked up the ids of one of these texts, in whatever layout, rather than their positions."""
        return any(sorted(self.ids.flatten().tolist()) == sorted(text.flatten().tolist()) for text in texts)

    def learned(self) -> set[int]:
        """The ids whose vectors pass a gradient on to the table: not those of `padding_idx`, and none without one."""
        if not self.vectors.requires_grad:
            return set()
        [grad] = torch.autograd.grad(self.vectors.sum(), self.table, retain_graph=True)
        return set(grad.to_dense().any(1).nonzero().flatten().tolist())


class LookUps(TorchFunctionMode):
    """Collects the look-ups of what runs inside, by modules or by a parameter alone; each is given to `on_read`."""

    def __init__(self, on_read: Callable[[LookUp], None] | None = None) -> None:
        super().__init__()
        self.found = list[LookUp]()
        self.on_read = on_read or self.found.append

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("embedding", "__getitem__", "index_select"):
            given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor)]
            tables = [x for x in given if x.is_floating_point() and x.dim() == 2]
            ids = [x for x in given if not x.is_floating_point() and x.dtype != torch.bool]
            if len(tables) == len(ids) == 1 and out.shape == (*ids[0].shape, tables[0].shape[1]):
                self.on_read(LookUp(tables[0], ids[0], out))
        return out


def along(tensor: Tensor, length: int, keep: slice) -> Tensor | None:
    """Its slice on the first axis of this length, time, as (time, rest); None where it has no such axis."""
    for axis in range(min(tensor.dim(), 2)):
        if tensor.shape[axis] == length:
            rows = tensor.transpose(0, axis)[keep].flatten(1)
            return rows if rows.dtype == torch.float64 else rows.float()
    return None


def last(step: Step, length: int) -> Tensor | None:
    """Its output at the last place of a text of this length."""
    return along(step.output, length, slice(length - 1, length))


def first_apart(a: list[Step], b: list[Step], length: int, tolerance: float) -> int | None:
    """Which step of two runs is the first whose last places differ."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if differs(last(x, length), last(y, length), tolerance)), None)


def differs(a: Tensor | None, b: Tensor | None, tolerance: float) -> bool:
    """Whether two slices are further apart than that, measured by how far their own values lie apart."""
    if a is None or b is None or a.shape != b.shape:
        return False
    size = max(float(a.nan_to_num().abs().max()), 1e-12) if a.numel() else 1.0
    return bool(((a - b).abs() > tolerance * size).any() or (a.isnan() != b.isnan()).any())


def culprit(
    a: list[Step], b: list[Step], lengths: tuple[int, int], keep: slice, tolerance: float
) -> tuple[str, nn.Module | None]:
    """The first part whose output differs at the positions to keep although its inputs do not."""
    for one, two in zip(a, b, strict=False):
        if one.name != two.name:
            break
        if not differs(along(one.output, lengths[0], keep), along(two.output, lengths[1], keep), tolerance):
            continue
        pairs = zip(one.inputs, two.inputs, strict=False)
        if not any(differs(along(x, lengths[0], keep), along(y, lengths[1], keep), tolerance) for x, y in pairs):
            return str(one), one.part
    return "", None


class DropoutWatch(TorchFunctionMode):
    """Sees whether any dropout is at work, in a module, a function or an attention; and a generator of one's own."""

    drops = generator = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, name = kwargs or {}, getattr(func, "__name__", "")
        self.generator = self.generator or named.get("generator") is not None
        place = {"dropout": 1, "scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}.get(name)
        if place is not None:
            p = named.get("p", named.get("dropout_p", args[place] if len(args) > place else 0.0))
            on = named.get("training", named.get("train", args[2] if name == "dropout" and len(args) > 2 else True))
            self.drops = self.drops or (bool(on) and p > 0)
        return func(*args, **named)


class AttentionWatch(TorchDispatchMode):
    """Collects every attention's weights (…, T, S), whoever computes them, by the softmax beneath."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []
        self.axes: list[tuple[tuple[int, ...], int]] = []  # each softmax: the shape of its scores, and over which axis

    @property
    def lengths(self) -> set[int]:
        """Over how many keys, or anything else, each softmax went."""
        return {shape[axis] for shape, axis in self.axes} | {w.shape[-1] for w in self.weights}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("_softmax", "_safe_softmax"):
            axes = args[0].dim()
            self.axes.append((tuple(args[0].shape), args[1] % axes))
            if axes >= 3 and args[1] % axes == axes - 1:  # over the keys
                self.weights.append(out.detach())
        elif name == "_scaled_dot_product_flash_attention_for_cpu":
            query, key = args[0], args[1].repeat_interleave(args[0].shape[1] // args[1].shape[1], 1)
            scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
            mask = (kwargs or {}).get("attn_mask")
            if len(args) > 4 and args[4]:
                scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
            self.weights.append((scores if mask is None else scores + mask).softmax(-1))
        return out
