"""Looking inside a model while it runs: attention weights, shapes, and what was copied from where."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.model import SourceMask, Transformer
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import token_log_probs


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the attention weights of the last forward pass inside the `with` block, before dropout.

    Yields a dictionary that fills up, {"decoder.layers.0.cross_attention": (B, H, T, S), ...}, detached, on the CPU.
    Inside the block attention follows the explicit formula. Blocks may nest: each collects on its own, and an
    `on_weights` that was set before is called, too, and stays.
    """
    maps: dict[str, Tensor] = {}
    modules = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    callers = {name: module.on_weights for name, module in modules.items()}  # of an outer block, or of your own

    def record(name: str, weights: Tensor) -> None:
        maps[name] = weights.detach().cpu()
        if (caller := callers[name]) is not None:
            caller(weights)

    try:
        for name, module in modules.items():
            module.on_weights = partial(record, name)
        yield maps
    finally:
        for name, module in modules.items():
            module.on_weights = callers[name]


@dataclass(frozen=True)
class ShapeTrace:
    """One row for each module, in the order of the calls. Prints as a table."""

    rows: list[tuple[str, str, str, str, int]]  # name, class, shapes in, shape out, parameters inside

    def __str__(self) -> str:
        table = [("module", "class", "in", "out", "parameters")]
        table += [(*row[:4], f"{row[4]:,}") for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join(lines)

    __repr__ = __str__


@torch.no_grad()
def trace_shapes(model: Transformer, src: Tensor, tgt: Tensor, depth: int = 3) -> ShapeTrace:
    """Run the model once on src (B, S) and tgt (B, T) and write down each module's shapes in and out.

    depth: how deep to look into the tree of modules; 1 shows only the two stacks and the output.
    """
    passive = (nn.Identity, nn.Dropout)
    modules = {name: module for name, module in model.named_modules() if name and name.count(".") < depth}
    modules = {name: module for name, module in modules.items() if not isinstance(module, passive)}
    shapes_in: dict[str, str] = {}  # in the order of the calls: a module comes before its parts
    shapes_out: dict[str, str] = {}

    def shapes(values: tuple) -> str:
        return " ".join(str(tuple(v.shape)) for v in values if isinstance(v, Tensor) and v.dtype != torch.bool)

    def enter(name: str, module: nn.Module, args: tuple) -> None:
        shapes_in[name] = shapes(args)

    def leave(name: str, module: nn.Module, args: tuple, out: Tensor | tuple) -> None:
        shapes_out[name] = shapes(out if isinstance(out, tuple) else (out,))

    with ExitStack() as hooks:
        for name, module in modules.items():
            hooks.enter_context(module.register_forward_pre_hook(partial(enter, name)))
            hooks.enter_context(module.register_forward_hook(partial(leave, name)))
        model(src, tgt)
    sizes = {name: sum(p.numel() for p in modules[name].parameters()) for name in shapes_in}
    kinds = {name: type(modules[name]).__name__ for name in shapes_in}
    return ShapeTrace([(name, kinds[name], shapes_in[name], shapes_out[name], sizes[name]) for name in shapes_in])


class Copied(NamedTuple):
    """For each token of a text (B, T): the gate, how much of the token's probability is copied, and from where."""

    gate: Tensor  # the share of copying in the choice of any token here
    share: Tensor  # the share of copying in the probability of this token
    position: Tensor  # of the same word in the source, the one with the most weight; -1 where it has none


@torch.inference_mode()
def copied_from(model: CopyingTransformer, src: Tensor, tokens: Tensor, src_mask: SourceMask = "padding") -> Copied:
    """Which word of the source (B, S) each of the tokens (B, T), as `greedy` returns them, was copied from.

    One pass with teacher forcing, as in `token_log_probs`. What follows a row's first eos_id says nothing.
    """
    outputs: list[tuple[Tensor, Tensor]] = []
    with model.pointer.register_forward_hook(lambda module, args, out: outputs.append(out)):
        log_probs = token_log_probs(model, src, tokens, src_mask)  # (B, T)
    [(gate, weights)] = outputs  # (B, T, 1), (B, T, S)
    gate = gate.sigmoid().squeeze(2)
    same = weights.masked_fill(src[:, None] != tokens[:, :, None], 0.0)  # (B, T, S)
    most, position = same.max(-1)
    share = gate * same.sum(-1) / log_probs.exp()
    return Copied(gate, share, position.masked_fill(most == 0, -1))
