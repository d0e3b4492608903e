"""Attention: a query looks things up softly among keys, and returns a mixture of their values."""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.masks import explicit_mask, masked_softmax


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
) -> Tensor:
    """How much each query attends to each key: softmax(query key^T / sqrt(Dh)).

    query (..., T, Dh), key (..., S, Dh), mask broadcastable to (..., T, S)
    -> (..., T, S).
    causal: the queries are the last T of the S positions, and none sees a later key.
    Raises ValueError where the widths differ. Source: Vaswani et al. 2017, equation 1.
    """
    _check_widths(query, key)
    scores = query @ key.transpose(-2, -1) / sqrt(query.shape[-1])  # (..., T, S)
    return masked_softmax(scores, explicit_mask(query, key, mask, causal))


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0, *, causal: bool = False
) -> Tensor:
    """The values, mixed by `attention_weights`, in one fused kernel that never stores the weights.

    query (..., T, Dh), key (..., S, Dh), value (..., S, any width), mask (..., T, S) -> (..., T, width of value).
    dropout: the probability with which a weight is set to zero. A query that may attend to nothing gets zeros.
    Raises ValueError or TypeError for widths, lengths or a mask that don't fit.
    Source: Vaswani et al. 2017, equation 1; Dao et al. 2022 for the kernel.
    """
    _check_widths(query, key)
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"every key needs one value, got {key.shape[-2]} keys and {value.shape[-2]} values")
    if causal and mask is None and query.shape[-2] == key.shape[-2]:  # the kernel does it alone, at half the cost
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
    mask = explicit_mask(query, key, mask, causal)
    if mask is not None and query.device.type != "cpu":
        return _attention_by_any_kernel(query, key, value, mask, dropout)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


def _attention_by_any_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float) -> Tensor:
    """The same where a kernel may give NaN for a query that may attend to nothing, in its output or its gradient.

    Such a query attends to everything, and its result is thrown away. The CPU's kernels need no such help, which costs
    time. Known cases: pytorch issues 163997, 167515 (MPS), 196678 (cuDNN's gradient).
    """
    nothing_seen = ~mask.any(-1, keepdim=True)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask | nothing_seen, dropout_p=dropout)
    return mixed.masked_fill(nothing_seen, 0.0)


def check_heads(d_model: int, num_heads: int) -> None:
    """Raise ValueError unless d_model can be split among the heads."""
    if d_model < 1 or num_heads < 1 or d_model % num_heads:
        step = 2 * max(1, num_heads)  # a multiple of it is even, too, as sinusoids want
        raise ValueError(
            f"num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}; "
            f"choose for example d_model={step * max(1, round(d_model / step))} and num_heads={max(1, num_heads)}"
        )


def check_dropout(dropout: float) -> None:
    """Raise ValueError unless it is a probability that leaves something over."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is a probability in [0, 1), got {dropout}; 0 switches it off")


def _check_widths(query: Tensor, key: Tensor) -> None:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"a dot product needs equal widths, got queries of width {query.shape[-1]} and keys of width "
            f"{key.shape[-1]}; project one of them with nn.Linear, or use AdditiveAttention"
        )


class AdditiveAttention(nn.Module):
    """Attention whose score is a small network: w . tanh(W_q query + W_k key), for widths that differ.

    query (B, T, query_size), key (B, S, key_size), value (B, S, any width), mask (B, T, S) or broadcastable
    -> (B, T, width of value). Source: Bahdanau et al. 2015, appendix A.1.2.
    """

    def __init__(self, query_size: int, key_size: int, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_size, hidden_size, bias=False)
        self.key_proj = nn.Linear(key_size, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def weights(self, query: Tensor, key: Tensor, mask_or_lengths: Tensor | None = None) -> Tensor:
        """How much each query attends to each key -> (B, T, S)."""
        query = self.query_proj(query)[:, :, None, :]  # (B, T, 1, hidden)
        key = self.key_proj(key)[:, None, :, :]  # (B, 1, S, hidden)
        scores = self.score((query + key).tanh()).squeeze(-1)  # (B, T, S): every query with every key
        return masked_softmax(scores, mask_or_lengths)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask_or_lengths: Tensor | None = None) -> Tensor:
        return self.dropout(self.weights(query, key, mask_or_lengths)) @ value  # (B, T, width of value)


class Positions(NamedTuple):
    """The positions of queries (T,) and keys (S,), counted from 0. One entry for all queries, (1,), says that they are
    side by side at one position, as the beams of a source are."""

    query: Tensor
    key: Tensor

    @classmethod
    def counted(cls, queries: int, keys: int, past: int = 0, device: torch.device | str | None = None) -> "Positions":
        """Keys 0, 1, 2, ... and queries that begin after `past` others."""
        return cls(torch.arange(past, past + queries, device=device), torch.arange(keys, device=device))


class Cache(Protocol):
    """All that attention knows of a cache; tfm_lib.writing.cache has one."""

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take the new keys and values (B, H, new, Dh), give back all so far (B, H, S, Dh)."""

    def all(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far (B, H, S, Dh)."""


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each on its own slice of the projected vectors.

    query (B, T, D), key and value (B, S, D), mask broadcastable to (B, H, T, S) -> (B, T, D).
    With a cache, key and value are those that it has not seen: there may be none of them, S = 0.
    causal hides the future: the queries are the last T positions of all keys, the cached ones included.
    positions are passed to `attend`, which variants replace. dropout acts on the attention weights; it is off by
    default, as in the paper (section 5.4). Raises ValueError where num_heads does not divide d_model, or for a dropout
    outside [0, 1). Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(d_model, num_heads)
        check_dropout(dropout)
        self.num_heads = num_heads
        self.width = d_model // num_heads  # Dh
        self.dropout = dropout
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self.on_weights: Callable[[Tensor], None] | None = None  # set by tfm_lib.writing.tracing.record_attention

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        positions: Positions | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        query = self._split(self.query_proj(query))  # (B, H, T, Dh)
        key, value = self._keys_and_values(key, value, cache)  # (B, H, S, Dh)
        mixed = self.attend(query, key, value, mask, positions, causal=causal)  # (B, H, T, Dh)
        return self.output_proj(self._merge(mixed))  # (B, T, D)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        positions: Positions | None,
        *,
        causal: bool,
    ) -> Tensor:
        """Each head's mixture of its values, the one thing that variants replace.

        query (B, H, T, Dh), key and value (B, H, S, Dh), mask broadcastable to (B, H, T, S) -> (B, H, T, Dh).
        positions: where queries and keys stand, if the caller said so; this one does not look.
        causal: the future is hidden besides what the mask hides; `masks.explicit_mask` makes one mask of both.
        """
        dropout = self.dropout if self.training else 0.0
        if self.on_weights is None:
            return attention(query, key, value, mask, dropout, causal=causal)
        # The fused kernel never holds the weights, so a recording takes the formula.
        weights = attention_weights(query, key, mask, causal=causal)  # (B, H, T, S)
        self.on_weights(weights)
        return F.dropout(weights, dropout) @ value

    def _keys_and_values(self, key: Tensor, value: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        if cache is not None and not key.shape[1]:  # nothing is new: all were computed before
            return cache.all()
        key = self._split(self.key_proj(key))
        value = self._split(self.value_proj(value))
        if cache is not None:
            return cache.update(key, value)
        return key, value

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.width).transpose(1, 2)  # (B, T, D) -> (B, T, H, Dh) -> (B, H, T, Dh)

    def _merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)  # (B, H, T, Dh) -> (B, T, H, Dh) -> (B, T, D)
