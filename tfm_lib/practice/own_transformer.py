"""An encoder-decoder Transformer with nothing but torch: lesson 13's worked solution.

It shares no code with `tfm_lib.model`, until at the end its weights move there. Lines are
short, as the lesson shows them. Source: Vaswani et al. 2017.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.model import Transformer, TransformerConfig


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention: q (..., T, d), k and v (..., S, d).

    The mask is True where a query may attend.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    """Multi-head: queries from x (B, T, d), keys and values from memory (B, S, d)."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        projected = self.q(x), self.k(memory), self.v(memory)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in projected)
        return self.o(attend(q, k, v, mask).transpose(1, 2).flatten(2))


def positions(length: int, d: int) -> Tensor:
    """Sines and cosines, (length, d)."""
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Layer(nn.Module):
    """A layer of the encoder, or with `cross` of the decoder."""

    def __init__(self, d: int, heads: int, d_ff: int, drop: float, cross: bool) -> None:
        super().__init__()
        self.itself = Attention(d, heads)
        self.other = Attention(d, heads) if cross else None
        self.ff = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Linear(d_ff, d))
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3 if cross else 2)])
        self.drop = nn.Dropout(drop)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        seen: Tensor | None = None,
    ) -> Tensor:
        """x (B, T, d), memory (B, S, d) and its mask `seen`. A norm after each sum."""
        x = self.norms[0](x + self.drop(self.itself(x, x, mask)))
        if self.other is not None:
            x = self.norms[1](x + self.drop(self.other(x, memory, seen)))
        return self.norms[-1](x + self.drop(self.ff(x)))


class OwnTransformer(nn.Module):
    """The whole: source ids (B, S) and target ids (B, T) to logits (B, T, V)."""

    def __init__(
        self,
        vocab_size: int,
        pad_id: int,
        start_id: int,
        eos_id: int,
        *,
        d: int = 64,
        heads: int = 4,
        d_ff: int = 128,
        layers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.pad_id, self.start_id, self.eos_id, self.d = pad_id, start_id, eos_id, d
        self.words = nn.Embedding(vocab_size, d)
        nn.init.normal_(self.words.weight, std=d**-0.5)
        sizes, n = (d, heads, d_ff, dropout), layers
        self.encoder = nn.ModuleList([Layer(*sizes, cross=False) for _ in range(n)])
        self.decoder = nn.ModuleList([Layer(*sizes, cross=True) for _ in range(n)])
        self.out = nn.Linear(d, vocab_size, bias=False)
        self.out.weight = self.words.weight  # tied embeddings (section 3.4)
        self.drop = nn.Dropout(dropout)

    def embed(self, ids: Tensor) -> Tensor:
        x = self.words(ids) * math.sqrt(self.d)
        return self.drop(x + positions(ids.shape[1], self.d).to(x))

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids (B, S) to the memory (B, S, d), and its mask, False at padding."""
        x, seen = self.embed(src), (src != self.pad_id)[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, seen)
        return x, seen

    def decode(self, tgt: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
        """Logits (B, T, V) for the token after each of tgt (B, T)."""
        x = self.embed(tgt)
        length = tgt.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=tgt.device).tril()
        for layer in self.decoder:
            x = layer(x, past, memory, seen)
        return self.out(x)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(tgt, *self.encode(src))

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Rows (B, T) from start to end token: each token predicts the next one."""
        logits = self(src, tgt[:, :-1])
        labels = tgt[:, 1:].flatten()
        return F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=self.pad_id)

    @torch.no_grad()
    def generate(self, src: Tensor, length: int = 12) -> Tensor:
        """Write greedily (B, at most length), without dropout."""
        was_training = self.training
        self.eval()
        state = self.encode(src)
        tgt = torch.full_like(src[:, :1], self.start_id)
        done = torch.zeros_like(tgt[:, 0], dtype=torch.bool)
        while tgt.shape[1] <= length and not done.all():
            new = self.decode(tgt, *state)[:, -1].argmax(-1)
            new = new.masked_fill(done, self.pad_id)
            tgt, done = torch.cat([tgt, new[:, None]], 1), done | (new == self.eos_id)
        self.train(was_training)
        return tgt[:, 1:]


def given(model: OwnTransformer) -> dict[str, Any]:
    """What the check-up wants to know beside the model."""
    return {
        "vocab_size": model.out.out_features, "pad_id": model.pad_id, "start_id": model.start_id,
        "eos_id": model.eos_id, "loss": model.loss, "generate": model.generate,
    }  # fmt: skip


# How its parts are called in tfm_lib.model.
NAMES = {
    "itself": "self_attention", "other": "cross_attention", "q": "query_proj", "k": "key_proj", "v": "value_proj",
    "o": "output_proj", "ff": "feed_forward", "0": "expand", "2": "contract",
}  # fmt: skip


def to_tfm_lib(model: OwnTransformer, max_length: int = 96) -> Transformer:
    """The same model in the course's class, for texts up to `max_length`; ValueError for a size that it refuses."""
    first: Any = model.encoder[0]
    config = TransformerConfig(
        vocab_size=model.out.out_features, d_model=model.d, num_heads=first.itself.heads,
        d_ff=first.ff[0].out_features, num_encoder_layers=len(model.encoder),
        num_decoder_layers=len(model.decoder), dropout=model.drop.p, max_length=max_length,
        pad_id=model.pad_id, start_id=model.start_id, eos_id=model.eos_id,
    )  # fmt: skip
    ours = Transformer(config).train(model.training)
    ours.load_state_dict(_renamed(model.state_dict()))
    return ours


def _renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Its tensors under the names of tfm_lib.model."""
    around = {"encoder": ["self_attention", "feed_forward"],
              "decoder": ["self_attention", "cross_attention", "feed_forward"]}  # fmt: skip
    found = {}
    for name, tensor in state.items():
        if name in ("words.weight", "out.weight"):
            continue
        side, number, part, *rest = name.split(".")
        if part == "norms":
            place, kind = rest
            parts = [f"around_{around[side][int(place)]}", "norm", kind]
        else:
            parts = [NAMES.get(one, one) for one in (part, *rest)]
        found[".".join([side, "layers", number, *parts])] = tensor
    tables = ("encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight", "output.weight")
    return found | dict.fromkeys(tables, state["words.weight"])
