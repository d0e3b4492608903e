"""The encoder-decoder Transformer: embeddings, two stacks, and one path through them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from tfm_lib.attention import Cache, Positions, check_dropout, check_heads
from tfm_lib.layers import DecoderLayer, EncoderLayer, check_activation
from tfm_lib.masks import check_rank, padding_mask
from tfm_lib.positions import LearnedPositions, SinusoidalPositions, check_sinusoids

# What is hidden of a source: what a mask (B, 1, 1, S) hides, "padding", the tokens equal to pad_id, or None: nothing.
SourceMask = Tensor | Literal["padding"] | None


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Everything that decides a model's shape. The defaults are the base model of the 2017 paper (table 3).

    Raises ValueError where the values can't be or don't fit each other.
    """

    vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float = 0.1
    max_length: int = 512  # positions, on either side
    norm_first: bool = False  # pre-norm, which adds a norm at the end of each stack
    activation: str = "relu"  # or gelu, silu
    positions: str = "sinusoidal"  # or learned
    interleaved: bool = True  # sinusoids: sine and cosine alternate; False: in halves
    endpoint: bool = False  # the slowest sinusoid turns by exactly 1 / 10000, as in Marian's own files
    position_offset: int = 0  # position p reads row p + offset of its table
    embed_scale: float | None = None  # None: sqrt(d_model)
    embed_norm: bool = False  # a LayerNorm after embedding plus position
    tied: bool = True  # one table for source, target and output
    logits_bias: bool = False  # a bias on the logits
    pad_id: int = 0  # the three ids may equal each other, as in BART and Marian
    start_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        sizes = "vocab_size d_model num_heads d_ff num_encoder_layers num_decoder_layers max_length"
        least = dict.fromkeys(sizes.split(), 1) | dict.fromkeys(("position_offset", "pad_id", "start_id", "eos_id"), 0)
        for name, smallest in least.items():
            if not isinstance(value := getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number, got {value!r}; round it")
            if value < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {value}")
        check_heads(self.d_model, self.num_heads)
        check_dropout(self.dropout)
        check_activation(self.activation)
        if self.positions not in ("sinusoidal", "learned"):
            raise ValueError(f"positions must be 'sinusoidal' or 'learned', got {self.positions!r}")
        if self.positions == "sinusoidal":
            check_sinusoids(self.d_model, self.endpoint, self.num_heads)  # both are odd here, so that their sum is even
        for name in ("pad_id", "start_id", "eos_id"):
            if (i := getattr(self, name)) >= self.vocab_size:
                raise ValueError(f"{name} must be an id of the vocabulary, 0..{self.vocab_size - 1}, got {i}")

    @property
    def layer(self) -> dict[str, Any]:
        """The arguments of EncoderLayer and DecoderLayer."""
        names = ("d_model", "num_heads", "d_ff", "dropout", "norm_first", "activation")
        return {name: getattr(self, name) for name in names}

    @property
    def scale(self) -> float:
        """What a token's embedding is multiplied by (section 3.4)."""
        return sqrt(self.d_model) if self.embed_scale is None else self.embed_scale


class InputEmbedding(nn.Module):
    """Token ids (B, T) to vectors (B, T, D): scaled embedding, plus position, norm if wanted, dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.scale = config.scale
        sizes = (config.d_model, config.max_length, config.position_offset)
        if config.positions == "learned":
            self.positions: nn.Module = LearnedPositions(*sizes)
        else:
            self.positions = SinusoidalPositions(*sizes, config.interleaved, config.endpoint)
        self.norm = nn.LayerNorm(config.d_model) if config.embed_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, past: int = 0) -> Tensor:
        x = self._look_up(ids) * self.scale  # (B, T, D)
        return self.dropout(self.norm(self.positions(x, past)))  # (B, T, D)

    def _look_up(self, ids: Tensor) -> Tensor:
        if not ids.numel():
            raise ValueError(f"token ids of shape {tuple(ids.shape)} hold no token; a text needs one at least")
        if ids.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"token ids must be integers, int64 or int32, got {ids.dtype}; use ids.long()")
        check_rank(ids)
        try:
            return self.tokens(ids)
        except IndexError:
            raise ValueError(
                f"token ids must lie in 0..{self.tokens.num_embeddings - 1}, got {ids.min()} to {ids.max()}; "
                "encode the text with the vocabulary that this model was built for"
            ) from None


class Encoder(nn.Module):
    """The source side: ids (B, S), mask broadcastable to (B, H, S, S) -> memory (B, S, D)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = InputEmbedding(config)
        self.layers = nn.ModuleList([EncoderLayer(**config.layer) for _ in range(config.num_encoder_layers)])
        self.norm = nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embedding(ids)  # (B, S, D)
        positions = Positions.counted(ids.shape[1], ids.shape[1], device=ids.device)
        for layer in self.layers:
            x = layer(x, mask, positions=positions)
        return self.norm(x)


class Past(Protocol):
    """What the decoder asks of a cache; tfm_lib.writing.cache.DecoderCache is one."""

    @property
    def length(self) -> int: ...  # positions that were decoded before

    @property
    def layers(self) -> Sequence[tuple[Cache, Cache]]: ...  # for each: self-attention, cross-attention

    def positions(self, new: int, device: torch.device) -> Positions: ...  # of `new` more tokens, and of all keys


class Decoder(nn.Module):
    """The target side: ids (B, T), memory (B, S, D) and two masks -> (B, T, D). The future is hidden besides."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = InputEmbedding(config)
        self.layers = nn.ModuleList([DecoderLayer(**config.layer) for _ in range(config.num_decoder_layers)])
        self.norm = nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def forward(
        self,
        ids: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Past | None = None,
    ) -> Tensor:
        length = ids.shape[-1]
        past = 0
        positions = Positions.counted(length, length, device=ids.device)
        if cache is not None:
            past = cache.length
            positions = cache.positions(length, ids.device)
        memory_positions = Positions(positions.query, torch.arange(memory.shape[1], device=ids.device))
        rows = ids if len(positions.query) == length else ids.view(-1, 1)  # tokens side by side: one in each row
        x = self.embedding(rows, past).view(*ids.shape, -1)  # (B, T, D)
        causal = len(positions.query) > 1  # a position that comes last has no future to hide
        if past:
            memory = memory[:, :0]  # nothing in the memory is new: its keys and values are in the cache
        for i, layer in enumerate(self.layers):
            self_cache: Cache | None = None
            memory_cache: Cache | None = None
            if cache is not None:
                self_cache, memory_cache = cache.layers[i]
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, causal=causal, cache=self_cache,
                      memory_cache=memory_cache, positions=positions, memory_positions=memory_positions)  # fmt: skip
        return self.norm(x)


class Transformer(nn.Module):
    """The whole model. `encode` and `decode` are the only way through it, for both training and decoding.

    At the start: embeddings N(0, 1 / d_model), learned positions as wide as a scaled embedding, an untied output
    N(0, 0.02^2), every other matrix Xavier uniform, biases 0, LayerNorm 1 and 0.
    Source: Vaswani et al. 2017; Glorot and Bengio 2010 for Xavier.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.logits_bias)
        self.tie()
        self._initialize()

    def tie(self) -> None:
        """Make source, target and output one table, where the configuration says so (section 3.4).

        `load_state_dict(..., assign=True)` puts tensors of their own in its place: call it again after that.
        """
        if self.config.tied:  # one storage, three uses
            self.decoder.embedding.tokens.weight = self.output.weight = self.encoder.embedding.tokens.weight

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # An output row this small starts the loss near ln V. A tied one is set with the embeddings below.
        nn.init.normal_(self.output.weight, std=0.02)
        for embedding in (self.encoder.embedding, self.decoder.embedding):
            nn.init.normal_(embedding.tokens.weight, std=self.config.d_model**-0.5)
            if isinstance(embedding.positions, LearnedPositions):
                nn.init.normal_(embedding.positions.table, std=self.config.scale * self.config.d_model**-0.5)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """src (B, S) and the decoder's input tgt (B, T) -> logits of every next token (B, T, V).

        Source padding is hidden. Targets are padded on the right, where the causal mask
        protects the real rows.
        """
        src_mask = padding_mask(src, self.config.pad_id)
        return self.decode(tgt, self.encode(src, src_mask), src_mask=src_mask)

    def encode(self, src: Tensor, src_mask: SourceMask = "padding") -> Tensor:
        """src (B, S) -> memory (B, S, D). Without a mask, the tokens equal to pad_id are hidden; None hides nothing."""
        if isinstance(src_mask, str) and src_mask == "padding":
            src_mask = padding_mask(src, self.config.pad_id)
        return self.encoder(src, src_mask)

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        *,
        src_mask: Tensor | None,
        tgt_mask: Tensor | None = None,
        cache: Past | None = None,
    ) -> Tensor:
        """tgt (B, T), memory (B, S, D), src_mask broadcastable to (B, 1, 1, S) -> logits (B, T, V).

        The mask by which `encode` hid padding can't be guessed from the memory, so it must be given. None says that
        nothing in the memory is hidden, and is faster than a mask that says so. The future is always hidden; pass
        tgt_mask to hide more. With a cache, tgt holds only the tokens that it has not seen.
        """
        x = self.decoder(tgt, memory, mask=tgt_mask, memory_mask=src_mask, cache=cache)  # (B, T, D)
        return self.output(x)  # (B, T, V)
