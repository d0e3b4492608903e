"""Decoding: how a trained model writes, one token at a time, without doing any work twice."""

import torch
from torch import Tensor

from tfm_lib.masks import padding_mask
from tfm_lib.model import Transformer


class KeyValueCache:
    """The keys and values that one attention has computed so far, in buffers that are allocated once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.key = self.value = torch.empty(0)

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take the new keys and values (B, H, new, K), give back all so far (B, H, length, K).

        Raises ValueError where they exceed the capacity.
        """
        end = self.length + key.shape[2]
        if end > self.capacity:
            raise ValueError(
                f"the cache has room for {self.capacity} positions, got {end}; build it with max_length={end}"
            )
        if not self.length:
            shape = (*key.shape[:2], self.capacity, key.shape[3])
            self.key, self.value = key.new_empty(shape), value.new_empty(shape)
        self.key[:, :, self.length : end] = key
        self.value[:, :, self.length : end] = value
        self.length = end
        return self.key[:, :, :end], self.value[:, :, :end]


class DecoderCache:
    """For each decoder layer, the cache of its self-attention, which grows by a step's tokens, and of its
    cross-attention, which is filled once from the memory."""

    def __init__(self, num_layers: int, max_length: int, memory_length: int) -> None:
        self.layers = [(KeyValueCache(max_length), KeyValueCache(memory_length)) for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Target positions that were decoded so far."""
        return self.layers[0][0].length


@torch.inference_mode()
def greedy(model: Transformer, src: Tensor, max_new_tokens: int, src_mask: Tensor | None = None) -> Tensor:
    """Write the most likely next token, again and again: src (B, S) -> new tokens (B, up to max_new_tokens).

    The start token is not among them. A row that has ended holds eos_id and then pad_id. The encoder runs once, and
    the decoder sees one new token a step. The model decodes as in eval(), whatever its mode, which it keeps.
    Without a mask, the source tokens equal to pad_id are hidden.
    Raises ValueError where max_new_tokens is less than 1 or more than the model has positions for.
    """
    config = model.config
    if not 1 <= max_new_tokens <= config.max_length:
        raise ValueError(
            f"max_new_tokens must lie in 1..{config.max_length}, the model's max_length, got {max_new_tokens}"
        )
    if src_mask is None:
        src_mask = padding_mask(src, config.pad_id)
    was_training = model.training
    model.eval()
    try:
        memory = model.encode(src, src_mask)  # (B, S, D)
        cache = DecoderCache(config.num_decoder_layers, max_new_tokens, src.shape[1])
        token = src.new_full((len(src),), config.start_id)  # (B,)
        finished = torch.zeros_like(token, dtype=torch.bool)
        tokens: list[Tensor] = []
        while len(tokens) < max_new_tokens and not finished.all():
            logits = model.decode(token[:, None], memory, src_mask, cache=cache)[:, -1]  # (B, V)
            token = logits.argmax(-1).masked_fill(finished, config.pad_id)
            finished |= token == config.eos_id
            tokens.append(token)
        return torch.stack(tokens, dim=1)  # (B, T)
    finally:
        model.train(was_training)
