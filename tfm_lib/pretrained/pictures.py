"""The Transformers of lesson 18, as they ship: one reads pictures patch by patch, and one describes them."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.data.pictures import SHAPES, SIDE
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.layers import EncoderLayer, FeedForward
from tfm_lib.learning.checkpoints import load_checkpoint
from tfm_lib.masks import causal_mask
from tfm_lib.model import Transformer, TransformerConfig

SHIPPED = Path(__file__).with_name("pictures.safetensors")
PATCH = 6  # pixels a side


def patches(pictures: Tensor, side: int = PATCH) -> Tensor:
    """Cut (B, C, H, W) into squares -> (B, P, C * side * side), row by row from the top left."""
    cut = pictures.unfold(2, side, side).unfold(3, side, side)  # (B, C, H / side, W / side, side, side)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class VisionTransformer(nn.Module):
    """Pictures (B, 3, SIDE, SIDE) -> vectors (B, 1 + P, D): a learned first one, then one for each patch.

    Source: Dosovitskiy et al. 2021, section 3.1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, count = config.d_model, (SIDE // PATCH) ** 2
        self.project = nn.Linear(3 * PATCH**2, width)
        self.first = nn.Parameter(0.02 * torch.randn(width))
        self.places = nn.Parameter(0.02 * torch.randn(1 + count, width))
        depth = config.num_encoder_layers
        self.layers = nn.ModuleList(EncoderLayer(**config.layer) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.project(patches(pictures))  # (B, P, D)
        x = torch.cat([self.first.expand(len(x), 1, -1), x], 1) + self.places  # (B, 1 + P, D)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class GatedCrossAttention(nn.Module):
    """x (B, T, D) looks into memory (B, S, D); two gates, zero at first, say how much that changes -> (B, T, D).

    turned: a knob on both gates, from 0, shut, to 1, as they have learned. Source: Alayrac et al. 2022, section 2.2.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.network_norm = nn.LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.gates = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor, memory: Tensor, turned: float = 1.0) -> Tensor:
        look, work = turned * self.gates.tanh()
        x = x + look * self.cross_attention(self.attention_norm(x), memory, memory)
        return x + work * self.feed_forward(self.network_norm(x))


class Describer(nn.Module):
    """A text model that looks: tokens (B, T), memory (B, S, D) of pictures -> logits of the next tokens (B, T, V).

    Before each of its layers stands a gated cross-attention. With the gates shut it is the text model alone.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.text = Transformer(config).encoder  # with a causal mask it is a decoder-only model
        sizes = (config.d_model, config.num_heads, config.d_ff)
        self.looks = nn.ModuleList(GatedCrossAttention(*sizes) for _ in self.text.layers)
        self.turned = 1.0

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        x, mask = self.text.embedding(tokens), causal_mask(tokens.shape[1])
        for look, layer in zip(self.looks, self.text.layers, strict=True):
            x = layer(look(x, memory, self.turned), mask)
        return self.text.norm(x) @ self.text.embedding.tokens.weight.T


@torch.no_grad()
def describe(describer: nn.Module, memory: Tensor, start_id: int) -> Tensor:
    """The four most probable words of each picture, one after the other: memory (B, S, D) -> tokens (B, 4)."""
    tokens = torch.full((len(memory), 1), start_id)
    for _ in range(4):
        tokens = torch.cat([tokens, describer(tokens, memory)[:, -1:].argmax(-1)], 1)
    return tokens[:, 1:]


class Pictured(nn.Module):
    """What ships: an eye and a head that tell shapes apart, and an eye that met captions, with its describer."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.shape_eye, self.head = VisionTransformer(config), nn.Linear(config.d_model, len(SHAPES))
        self.eye, self.describer = VisionTransformer(config), Describer(config)


def pictures_config(vocabulary: Vocabulary) -> TransformerConfig:
    """The sizes of all models of lesson 18: two layers of width 64."""
    sizes: dict[str, Any] = dict(d_model=64, num_heads=4, d_ff=128, num_encoder_layers=2, num_decoder_layers=1)
    return TransformerConfig(vocab_size=len(vocabulary), dropout=0.0, norm_first=True, max_length=16, **sizes)


def pictures_model() -> tuple[Pictured, Vocabulary]:
    """The shipped models and their vocabulary, ready on the CPU (benchmarks/pictures_and_text trains them anew)."""
    checkpoint = load_checkpoint(SHIPPED, build=Pictured)  # type: ignore[arg-type]
    return checkpoint.model.eval(), checkpoint.vocabulary
