"""Layers: attention and a small network, each wrapped in a residual with a norm."""

from collections.abc import Callable

from torch import Tensor, nn

from tfm_lib.attention import Cache, MultiHeadAttention, Positions

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


def check_activation(name: str) -> None:
    """Raise ValueError unless it is one of `ACTIVATIONS`."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {name!r}")


class FeedForward(nn.Module):
    """The same two-layer network at every position: (..., D) -> (..., d_ff) -> (..., D).

    Raises ValueError for an unknown activation. Source: Vaswani et al. 2017, section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu") -> None:
        super().__init__()
        check_activation(activation)
        self.expand = nn.Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.contract = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))  # (..., D)


class Residual(nn.Module):
    """A way around a sub-layer, with dropout on what the sub-layer adds, and a LayerNorm.

    Post-norm (the paper): norm(x + dropout(sublayer(x))).
    Pre-norm: x + dropout(sublayer(norm(x))); a stack of such layers needs one more norm at its end.
    Source: Vaswani et al. 2017, sections 3.1 and 5.4; Xiong et al. 2020 for the two orders.
    """

    def __init__(self, d_model: int, dropout: float = 0.1, norm_first: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self._drop(sublayer(self.norm(x)))
        return self.norm(x + self._drop(sublayer(x)))

    def _drop(self, x: Tensor) -> Tensor:
        return self.dropout(x) if self.training else x  # at inference not even the call, of which there are many


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward: x (B, T, D), mask broadcastable to (B, H, T, S) -> (B, T, D).

    Without a cache S is T. With causal=True, or a causal mask, it is the layer of a decoder-only model, and `cache`
    holds what came before. Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.around_self_attention = Residual(d_model, dropout, norm_first)
        self.around_feed_forward = Residual(d_model, dropout, norm_first)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        positions: Positions | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        def look_around(y: Tensor) -> Tensor:
            return self.self_attention(y, y, y, mask, cache, positions, causal=causal)

        x = self.around_self_attention(x, look_around)
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target, cross-attention to the memory, then feed-forward.

    x (B, T, D), memory (B, S, D), mask and memory_mask broadcastable to (B, H, T, T) and (B, H, T, S) -> (B, T, D).
    causal: self-attention hides the future. A layer alone does not know that it is a decoder's: the decoder says so.
    cache and positions are self-attention's, the other two cross-attention's. Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.around_self_attention = Residual(d_model, dropout, norm_first)
        self.around_cross_attention = Residual(d_model, dropout, norm_first)
        self.around_feed_forward = Residual(d_model, dropout, norm_first)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        causal: bool = False,
        cache: Cache | None = None,
        memory_cache: Cache | None = None,
        positions: Positions | None = None,
        memory_positions: Positions | None = None,
    ) -> Tensor:
        def look_back(y: Tensor) -> Tensor:
            return self.self_attention(y, y, y, mask, cache, positions, causal=causal)

        def look_into_memory(y: Tensor) -> Tensor:
            return self.cross_attention(y, memory, memory, memory_mask, memory_cache, memory_positions)

        x = self.around_self_attention(x, look_back)
        x = self.around_cross_attention(x, look_into_memory)
        return self.around_feed_forward(x, self.feed_forward)
