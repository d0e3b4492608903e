"""Copying: a Transformer whose next word is written by itself or taken from the source, as a gate decides."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.attention import attention_weights
from tfm_lib.model import Past, SourceMask, Transformer, TransformerConfig


@dataclass(frozen=True)
class CopyMemory:
    """What a copying model remembers of its sources: `memory[rows]` is that of some of them."""

    states: Tensor  # (B, S, D), the encoder's output
    keys: Tensor  # (B, S, D), by which words are found to copy, computed once a source
    ids: Tensor  # (B, S), the words themselves

    def __getitem__(self, rows: Tensor) -> "CopyMemory":
        return CopyMemory(self.states[rows], self.keys[rows], self.ids[rows])


class Pointer(nn.Module):
    """Cross-attention's twin as output: where to copy from, and whether.

    x (B, T, D), the decoder's output, keys (B, S, D), mask broadcastable to (B, 1, T, S)
    -> the gate before its sigmoid (B, T, 1), and weights over the source (B, T, S) that sum to 1, in float32 at least.
    Source: See et al. 2017, "Get To The Point", section 2.2; Gu et al. 2016, "Incorporating Copying Mechanism".
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.gate = nn.Linear(d_model, 1)
        for layer in (self.query_proj, self.key_proj, self.gate):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, dtype = self.query_proj(x), torch.promote_types(x.dtype, torch.float32)
        weights = attention_weights(query.to(dtype)[:, None], keys.to(dtype)[:, None], mask)  # (B, 1, T, S)
        return self.gate(x).to(dtype), weights[:, 0]


def log_mixture(logits: Tensor, gate: Tensor, weights: Tensor, ids: Tensor) -> Tensor:
    """log((1 - g) softmax(logits) + g copied), in float32 at least, where copied is the sum of each word's weights.

    logits (B, T, V), gate (B, T, 1) before its sigmoid g, weights (B, T, S) of the source's words, ids (B, S)
    -> (B, T, V), logits whose softmax is the mixture, and which equal their log-softmax. (A source that is completely
    hidden has nothing to copy: then they sum to less than 1, and only the softmax makes up for it.)
    No word is -inf, since the softmax gives it a share: label smoothing keeps the gate from closing the vocabulary off.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    generated = logits.log_softmax(-1, dtype=dtype) + F.logsigmoid(-gate)  # (B, T, V)
    same = ids[:, :, None] == ids[:, None]  # (B, S, S)
    copied = weights @ same.to(weights.dtype)  # (B, T, S), of the word at each place, wherever else it stands
    # log 0 has no gradient, and below the smallest normal number 1 / copied, the gradient of log, overflows.
    nothing = copied < torch.finfo(dtype).tiny
    log_copied = copied.masked_fill(nothing, 1.0).log().masked_fill(nothing, -torch.inf) + F.logsigmoid(gate)
    words = ids[:, None].expand(copied.shape)  # (B, T, S)
    mixed = torch.logaddexp(generated.gather(2, words), log_copied)  # (B, T, S)
    # Words that are not in the source stay as they are, which saves most of the work. A word's places hold the same
    # value, and the first one alone hands the gradient on.
    again = same.tril(-1).any(-1)[:, None]  # (B, 1, S)
    return generated.scatter(2, words, mixed.detach().where(again, mixed))


class CopyingTransformer(Transformer):
    """A Transformer that can copy: p = (1 - g) softmax(logits) + g attention over the source's words.

    It learns, writes and is saved as every Transformer. `encode` returns a `CopyMemory`, `decode` the logarithms of the
    probabilities (see `log_mixture`). Words outside the vocabulary are copied by its slots.
    `tfm_lib.writing.tracing.copied_from` says what was copied from where.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.pointer = Pointer(config.d_model)

    @torch.no_grad()
    def start_alike(self, slots: Sequence[int]) -> None:
        """Let the embeddings of these ids begin as nearly one, at a distance of about a tenth of their length.

        All unknown words play the same roles: what is learned of one slot then soon holds for all of them.
        """
        if not slots:
            return
        tables = {self.encoder.embedding.tokens.weight, self.decoder.embedding.tokens.weight, self.output.weight}
        for table in tables:  # one of them, where they are tied
            # Two random rows are nearly at right angles, so this leaves their length as it was; only the first slot,
            # which is added to itself, grows by 9.5 %.
            table[slots] = 0.99**0.5 * table[slots[0]] + 0.1 * table[slots]

    def encode(self, src: Tensor, src_mask: SourceMask = "padding") -> CopyMemory:  # type: ignore[override]
        """src (B, S) -> memory; src_mask as in `Transformer`."""
        states = super().encode(src, src_mask)
        return CopyMemory(states, self.pointer.key_proj(states), src)

    def decode(  # type: ignore[override]
        self,
        tgt: Tensor,
        memory: CopyMemory,
        *,
        src_mask: Tensor | None,
        tgt_mask: Tensor | None = None,
        cache: Past | None = None,
    ) -> Tensor:
        """tgt (B, T), the memory that `encode` gave -> log-probabilities (B, T, V); all else as in `Transformer`."""
        x = self.decoder(tgt, memory.states, mask=tgt_mask, memory_mask=src_mask, cache=cache)  # (B, T, D)
        gate, weights = self.pointer(x, memory.keys, src_mask)
        return log_mixture(self.output(x), gate, weights, memory.ids)  # (B, T, V)
