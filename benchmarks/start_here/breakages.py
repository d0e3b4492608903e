"""A trained model with one part switched off, as `breaking` in js/model.js does it, without training it again."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.layers import Residual
from tfm_lib.model import Transformer
from tfm_lib.positions import SinusoidalPositions
from tfm_lib.show.machine import PARTS, head_names, layer_names
from tfm_lib.writing.decoding import after_the_end, evaluating, greedy


@contextmanager
def breaking(model: Transformer, off: Sequence[str]) -> Iterator[None]:
    """Inside the block, the model runs without these: of PARTS, `layer_names` and `head_names`.

    positions: nothing is added to the embeddings. causal: the target's words see those after them, so a text must be
    read anew at each step, by `write_anew`: a cache holds what was computed while the later words were not there.
    scaling: scores are not divided by sqrt(Dh). residuals: a sub-layer's output replaces its input instead of being
    added to it. A layer gives back what it was given; a head adds nothing.
    Raises ValueError for another name.
    """
    modules, layers, heads = dict(model.named_modules()), layer_names(model), head_names(model)
    if wrong := [name for name in off if name not in (*PARTS, *layers, *heads)]:
        names = ", ".join((*PARTS, *layers, heads[0]))
        raise ValueError(f"no part is called {', '.join(wrong)}; there are {names}, ...")
    with ExitStack() as changes:

        def change(module: nn.Module, method: str, other: Any) -> None:
            setattr(module, method, other)
            changes.callback(delattr, module, method)  # the class's own is there again

        for name, module in modules.items():
            if isinstance(module, SinusoidalPositions) and "positions" in off:
                change(module, "forward", lambda x, past=0: x)
            if isinstance(module, Residual) and "residuals" in off:
                change(module, "forward", partial(_without_a_way_around, module))
            if name in layers and name in off:
                change(module, "forward", partial(_as_it_came, module.forward))
            if isinstance(module, MultiHeadAttention):
                silent = [head for head in range(module.num_heads) if {name, f"{name}.{head}"} & {*off}]
                sees_all = "causal" in off and name.startswith("decoder") and name.endswith("self_attention")
                if silent or sees_all or "scaling" in off:
                    other = partial(_attend, module.attend, silent, sees_all, "scaling" not in off)
                    change(module, "attend", other)
        yield


def _without_a_way_around(module: Residual, x: Tensor, sublayer: Any) -> Tensor:
    return sublayer(module.norm(x))


def _as_it_came(forward: Any, x: Tensor, *args: Any, **names: Any) -> Tensor:
    forward(x, *args, **names)  # its keys and values go to the cache, whose length counts the words
    return x


def _attend(
    attend: Any, silent: list[int], sees_all: bool, scaled: bool, query: Tensor, *inputs: Any, causal: bool
) -> Tensor:
    """What `attend` gives of the query and its other inputs; silent heads add nothing."""
    if not scaled:
        query = query * sqrt(query.shape[-1])
    mixed = attend(query, *inputs, causal=causal and not sees_all)  # (B, H, T, Dh)
    return mixed.index_fill(1, torch.tensor(silent, dtype=torch.long, device=mixed.device), 0.0)


@torch.inference_mode()
def write_anew(model: Transformer, src: Tensor, most: int) -> Tensor:
    """As `greedy`, without a cache: at each step all that is written is read anew. src (B, S) -> tokens (B, T)."""
    written = src.new_full((len(src), 1), model.config.start_id)
    with evaluating(model):
        for _ in range(most):
            written = torch.cat([written, model(src, written)[:, -1:].argmax(-1)], dim=1)
    tokens = written[:, 1:]
    return tokens.masked_fill(after_the_end(tokens, model.config.eos_id), model.config.pad_id)


def write_broken(model: Transformer, off: Sequence[str], src: Tensor, most: int) -> Tensor:
    """What the model writes greedily without these parts: src (B, S) -> tokens (B, T)."""
    with breaking(model, off):
        return (write_anew if "causal" in off else greedy)(model, src, most)
