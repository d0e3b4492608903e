"""Looking inside a model while it runs: attention weights, shapes, and what was copied from where."""

from collections.abc import Iterator
from contextlib import contextmanager
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
    Inside the block attention follows the explicit formula; outside it the fused kernel runs. Blocks may nest: each
    collects on its own, and an `on_weights` that was set before is called, too, and stays.
    """
    maps: dict[str, Tensor] = {}
    recorded = {name: m for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    before = {name: module.on_weights for name, module in recorded.items()}  # another block's, or a caller's own

    def keep(name: str, weights: Tensor) -> None:
        maps[name] = weights.detach().cpu()
        if (also := before[name]) is not None:
            also(weights)

    try:
        for name, module in recorded.items():
            module.on_weights = partial(keep, name)
        yield maps
    finally:
        for name, module in recorded.items():
            module.on_weights = before[name]


@dataclass(frozen=True)
class ShapeTrace:
    """The journey of a tensor: one row for each module in the order of the calls. Prints as a table."""

    rows: list[tuple[str, str, str, str, int]]  # name, class, shapes in, shape out, parameters inside

    def __str__(self) -> str:
        header = ("module", "class", "in", "out", "parameters")
        table = [header, *[(*row[:4], f"{row[4]:,}") for row in self.rows]]
        widths = [max(len(row[i]) for row in table) for i in range(5)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join(lines)

    __repr__ = __str__


@torch.no_grad()
def trace_shapes(model: Transformer, src: Tensor, tgt: Tensor, depth: int = 3) -> ShapeTrace:
    """Run the model once on src (B, S) and tgt (B, T) and write down each module's shapes in and out.

    depth: how deep to look into the tree of modules; 1 shows only the two stacks and the output.
    """
    rows: list[tuple[str, str, str, str, int]] = []

    def shapes(values: tuple) -> str:
        return " ".join(str(tuple(v.shape)) for v in values if isinstance(v, Tensor) and v.dtype != torch.bool)

    def watch(name: str, module: nn.Module) -> list:
        size = sum(p.numel() for p in module.parameters())
        entered: list[int] = []

        def enter(module: nn.Module, args: tuple) -> None:
            entered.append(len(rows))  # a module stands before its parts, so its row is taken on the way in
            rows.append((name, type(module).__name__, shapes(args), "", size))

        def leave(module: nn.Module, args: tuple, out: Tensor) -> None:
            rows[entered[-1]] = (*rows[entered[-1]][:3], shapes(out if isinstance(out, tuple) else (out,)), size)

        return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]

    passive = (nn.Identity, nn.Dropout)
    chosen = [(n, m) for n, m in model.named_modules() if n and n.count(".") < depth and not isinstance(m, passive)]
    handles = [handle for name, module in chosen for handle in watch(name, module)]
    try:
        model(src, tgt)
    finally:
        for handle in handles:
            handle.remove()
    return ShapeTrace(rows)


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
    seen: list[tuple[Tensor, Tensor]] = []
    watch = model.pointer.register_forward_hook(lambda module, args, out: seen.append(out))
    try:
        log_probs = token_log_probs(model, src, tokens, src_mask)  # (B, T)
    finally:
        watch.remove()
    [(gate, weights)] = seen  # (B, T, 1), (B, T, S)
    gate = gate.sigmoid().squeeze(2)
    same = weights.masked_fill(src[:, None] != tokens[:, :, None], 0.0)  # (B, T, S)
    most, position = same.max(-1)
    share = gate * same.sum(-1) / log_probs.exp()
    return Copied(gate, share, position.masked_fill(most == 0, -1))
