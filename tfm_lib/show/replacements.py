"""Other ways to attend, put in the place of a trained model's own without training it again.

Each is a table of weights (T, S) a head, which then mixes the values. That saves nothing: it shows what such a way does
to a text, not how fast it can be. js/swap_attention.js computes the same, with the same random numbers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import pi, prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tfm_lib.attention import MultiHeadAttention, attention_weights
from tfm_lib.masks import explicit_mask, masked_softmax
from tfm_lib.model import Transformer

# Where attention can be replaced: the beginnings and ends of the names of modules.
PLACES = {
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
    "cross": ("decoder", "cross_attention"),
}


class Heads(NamedTuple):
    """What the heads of one attention look with: query (B, H, T, Dh), key (B, H, S, Dh), seen (B, H, T, S), a mask."""

    query: Tensor
    key: Tensor
    seen: Tensor


def full(heads: Heads, _size: int, _seed: int) -> Tensor:
    """As the model does it itself."""
    return attention_weights(heads.query, heads.key, heads.seen)


def none(heads: Heads, _size: int, _seed: int) -> Tensor:
    """No attention at all: weights of zero, and so an output of zero."""
    return torch.zeros_like(heads.seen, dtype=heads.query.dtype)


def mean(heads: Heads, _size: int, _seed: int) -> Tensor:
    """The plain mean of the values that may be seen, whatever queries and keys are."""
    return masked_softmax(none(heads, 0, 0), heads.seen)


def window(heads: Heads, size: int, _seed: int) -> Tensor:
    """Keys at most `size` places away. The queries stand at the last T of S places. Source: Beltagy et al. 2020."""
    key = torch.arange(heads.seen.shape[-1], device=heads.seen.device)  # (S,)
    query = key[-heads.seen.shape[-2] :, None]  # (T, 1)
    return attention_weights(heads.query, heads.key, heads.seen & ((query - key).abs() <= size))


def top_keys(heads: Heads, size: int, _seed: int) -> Tensor:
    """Of each query the `size` keys with the highest scores."""
    weights = attention_weights(heads.query, heads.key, heads.seen)
    least = weights.topk(min(size, weights.shape[-1])).values[..., -1:]
    largest = weights.masked_fill(weights < least, 0.0)
    return largest / largest.sum(-1, keepdim=True).clamp(min=torch.finfo(largest.dtype).tiny)


def rank(heads: Heads, size: int, _seed: int) -> Tensor:
    """The nearest table of rank `size` to that of the weights; padded queries have no part in it.

    Source: Eckart and Young 1936; that attention has a low rank is the premise of Wang et al. 2020, "Linformer".
    """
    real = heads.seen.transpose(-2, -1).any(-1, keepdim=True)  # the queries that are keys, too
    weights = attention_weights(heads.query, heads.key, heads.seen) * real
    left, values, right = torch.linalg.svd(weights, full_matrices=False)
    return (left[..., :size] * values[..., None, :size]) @ right[..., :size, :]


def features(heads: Heads, size: int, seed: int) -> Tensor:
    """Scores by `size` positive random features, phi(x) = exp(w . x - |x|^2 / 2), one draw of w for all heads.

    In double precision no sum overflows. Source: Choromanski et al. 2021, section 2.3.
    """
    drawn = normals(seed, size, heads.query.shape[-1]).to(heads.query.device)  # (m, Dh)

    def phi(x: Tensor) -> Tensor:
        x = x.double() / x.shape[-1] ** 0.25  # so that a product of two is divided by sqrt(Dh)
        return (x @ drawn.T - x.square().sum(-1, keepdim=True) / 2).exp()  # (..., m)

    weights = (phi(heads.query) @ phi(heads.key).transpose(-2, -1)).masked_fill(~heads.seen, 0.0)
    return (weights / weights.sum(-1, keepdim=True)).to(heads.query.dtype)


def hashing(heads: Heads, size: int, seed: int, rounds: int) -> Tensor:
    """Keys that fall into the query's one of `size` buckets, in any of the rounds; no such key, no weights.

    A bucket is the nearest of `size` random directions and their opposites, the same for queries and keys and for all
    heads. Source: Kitaev et al. 2020, where queries also are the keys.
    """
    drawn = normals(seed, rounds, size // 2, heads.query.shape[-1]).to(heads.query.device)  # (R, b / 2, Dh)

    def buckets(x: Tensor) -> Tensor:
        near = torch.einsum("bhtk,rdk->bhtrd", x.double(), drawn)
        return torch.cat([near, -near], dim=-1).argmax(-1)  # (B, H, T, R)

    shared = (buckets(heads.query)[:, :, :, None] == buckets(heads.key)[:, :, None]).any(-1)
    return attention_weights(heads.query, heads.key, heads.seen & shared)


class Replacement(NamedTuple):
    """A way to attend: from heads, a size and a seed to the weights (B, H, T, S)."""

    weigh: Callable[[Heads, int, int], Tensor]
    sizes: tuple[int, ...] = (0,)  # to choose from; one for a way that has none
    places: tuple[str, ...] = tuple(PLACES)
    random: bool = False


REPLACEMENTS = {
    "full": Replacement(full),
    "none": Replacement(none),
    "mean": Replacement(mean),
    "window": Replacement(window, (1, 2, 4, 8, 16), ("encoder", "decoder")),  # story and headline have no places alike
    "top keys": Replacement(top_keys, (1, 2, 4, 8, 16)),
    "rank": Replacement(rank, (1, 2, 4, 8, 16), ("encoder",)),  # a decoder writes row by row; a row has rank 1
    "features": Replacement(features, (1, 4, 16, 64, 256), random=True),
    "hashing, 1 round": Replacement(partial(hashing, rounds=1), (2, 4, 8, 16, 32), random=True),
    "hashing, 4 rounds": Replacement(partial(hashing, rounds=4), (2, 4, 8, 16, 32), random=True),
}


@contextmanager
def swapped(model: Transformer, place: str, name: str, size: int = 0, seed: int = 0) -> Iterator[None]:
    """Inside the block, the attentions of a place attend in the way of this name; `record_attention` sees its weights.

    place: one of PLACES; name: one of REPLACEMENTS, with one of its sizes; seed: of its chance, where it has some.
    Raises ValueError for a replacement that there is not at this place.
    """
    if name not in REPLACEMENTS or place not in REPLACEMENTS[name].places:
        ways = [name for name, replacement in REPLACEMENTS.items() if place in replacement.places]
        raise ValueError(f"no replacement {name!r} at {place!r}; at {', '.join(PLACES)} there are: {', '.join(ways)}")
    (begin, end), weigh = PLACES[place], REPLACEMENTS[name].weigh
    named = [(name, module) for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    found = [attention for name, attention in named if name.startswith(begin) and name.endswith(end)]

    def attend(attention: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, _: Any, *, causal: bool) -> Tensor:
        seen = explicit_mask(query, key, mask, causal)
        if seen is None:
            seen = torch.ones((), dtype=torch.bool, device=query.device)
        weights = weigh(Heads(query, key, seen.expand(*query.shape[:-1], key.shape[-2])), size, seed)
        if attention.on_weights is not None:
            attention.on_weights(weights)
        return weights @ value

    try:
        for attention in found:
            attention.attend = partial(attend, attention)  # type: ignore[method-assign]
        yield
    finally:
        for attention in found:
            del attention.attend


def normals(seed: int, *shape: int) -> Tensor:
    """Numbers drawn from N(0, 1), in double precision, the same as in js/swap_attention.js (Box and Muller 1958)."""
    even, odd = random_numbers(seed, 2 * prod(shape)).reshape(-1, 2).T
    return torch.from_numpy(np.sqrt(-2 * np.log(1 - even)) * np.cos(2 * pi * odd)).reshape(shape)


def random_numbers(seed: int, count: int) -> np.ndarray:
    """The first numbers in [0, 1) of `randomNumbers` in js/decoding.js, "mulberry32"."""
    state = np.uint32(seed) + np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x6D2B79F5)  # all modulo 2^32
    mixed = (state ^ (state >> 15)) * (state | 1)
    mixed = (mixed + (mixed ^ (mixed >> 7)) * (mixed | 61)) ^ mixed
    return (mixed ^ (mixed >> 14)) / 2**32
