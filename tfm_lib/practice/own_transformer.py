"""An encoder-decoder Transformer with nothing but torch, as somebody might write it: the check-up is tried on it.

The model of Vaswani et al. (2017), section 3; it shares no code with `tfm_lib.model`.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention (section 3.2.1): (..., T, d), (..., S, d) twice and a mask, True where visible."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    """Several heads (section 3.2.2): x (B, T, d) asks, memory (B, S, d) answers."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (self.q(x), self.k(memory), self.v(memory))
        )
        return self.o(attend(q, k, v, mask).transpose(1, 2).flatten(2))


def positions(length: int, d: int) -> Tensor:
    """Sines and cosines (section 3.5), (length, d)."""
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Layer(nn.Module):
    """A layer of the encoder, or with `cross` of the decoder (section 3.1), norm after each sum."""

    def __init__(self, d: int, heads: int, d_ff: int, dropout: float, cross: bool) -> None:
        super().__init__()
        self.itself = Attention(d, heads)
        self.other = Attention(d, heads) if cross else None
        self.ff = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Linear(d_ff, d))
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3 if cross else 2)])
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
        x = self.norms[0](x + self.drop(self.itself(x, x, mask)))
        if self.other is not None:
            x = self.norms[1](x + self.drop(self.other(x, memory, seen)))
        return self.norms[-1](x + self.drop(self.ff(x)))


class OwnTransformer(nn.Module):
    """The whole: source ids (B, S) and target ids (B, T) to logits (B, T, V)."""

    def __init__(
        self, vocab_size: int, pad_id: int, start_id: int, eos_id: int, *, d: int = 64, heads: int = 4,
        d_ff: int = 128, layers: int = 2, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.pad_id, self.start_id, self.eos_id, self.d = pad_id, start_id, eos_id, d
        self.words = nn.Embedding(vocab_size, d)
        nn.init.normal_(self.words.weight, std=d**-0.5)
        self.encoder = nn.ModuleList([Layer(d, heads, d_ff, dropout, cross=False) for _ in range(layers)])
        self.decoder = nn.ModuleList([Layer(d, heads, d_ff, dropout, cross=True) for _ in range(layers)])
        self.out = nn.Linear(d, vocab_size, bias=False)
        self.out.weight = self.words.weight  # one table for reading and writing (section 3.4)
        self.drop = nn.Dropout(dropout)

    def embed(self, ids: Tensor) -> Tensor:
        x = self.words(ids) * math.sqrt(self.d)
        return self.drop(x + positions(ids.shape[1], self.d).to(x))

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids (B, S) to what the decoder looks at: (B, S, d), and which of it is no padding."""
        x, seen = self.embed(src), (src != self.pad_id)[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, seen)
        return x, seen

    def decode(self, tgt: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
        """Logits (B, T, V) for the token after each of tgt (B, T)."""
        x = self.embed(tgt)
        past = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
        for layer in self.decoder:
            x = layer(x, past, memory, seen)
        return self.out(x)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(tgt, *self.encode(src))

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Of whole rows (B, T), from start sign to end sign: each token predicts the next one, padding none."""
        logits = self(src, tgt[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=self.pad_id)

    @torch.no_grad()
    def generate(self, src: Tensor, length: int = 12) -> Tensor:
        """Write greedily (B, at most length), in the mode the model is in; padding after the end sign."""
        state = self.encode(src)
        tgt = torch.full_like(src[:, :1], self.start_id)
        done = torch.zeros_like(tgt[:, 0], dtype=torch.bool)
        while tgt.shape[1] <= length and not done.all():
            new = self.decode(tgt, *state)[:, -1].argmax(-1).masked_fill(done, self.pad_id)
            tgt, done = torch.cat([tgt, new[:, None]], 1), done | (new == self.eos_id)
        return tgt[:, 1:]


def given(model: OwnTransformer) -> dict[str, Any]:
    """What the check-up wants to know beside the model."""
    return {
        "vocab_size": model.out.out_features, "pad_id": model.pad_id, "start_id": model.start_id,
        "eos_id": model.eos_id, "loss": model.loss, "generate": model.generate,
    }  # fmt: skip
