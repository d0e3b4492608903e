"""Pictures of one shape each, drawn by code; a Transformer that reads them patch by patch, one that describes them.

Lesson 18 builds all of it.
"""

from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.checkpoints import load_checkpoint
from tfm_lib.layers import EncoderLayer, FeedForward
from tfm_lib.masks import causal_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.vocabulary import Vocabulary

SHIPPED = Path(__file__).with_name("pictures.safetensors")
SIDE, PATCH = 24, 6  # pixels
SIZES = {"small": 4, "big": 7}  # from its middle to its edge, in pixels
COLORS = {  # red, green and blue
    "red": (0.85, 0.15, 0.15),
    "green": (0.1, 0.6, 0.25),
    "blue": (0.15, 0.3, 0.85),
    "yellow": (0.95, 0.8, 0.1),
    "purple": (0.55, 0.2, 0.65),
    "gray": (0.45, 0.45, 0.45),
}
SHAPES = ("circle", "square", "triangle", "cross", "ring", "diamond")
CAPTIONS = tuple(f"a {size} {color} {shape}" for size, color, shape in product(SIZES, COLORS, SHAPES))
UNSEEN = CAPTIONS[3::7]  # no picture of the training shows one, but each of their words is in captions that it does
SEEN = tuple(caption for caption in CAPTIONS if caption not in UNSEEN)
NOISE = 0.1  # the standard deviation of what is added to a pixel


class Shape(NamedTuple):
    """What a picture shows: size, color and shape by name, and its middle, in pixels from the top left."""

    size: str
    color: str
    shape: str
    x: int = SIDE // 2
    y: int = SIDE // 2


def draw(shown: Shape) -> Tensor:
    """The pixels (3, SIDE, SIDE), red, green and blue in [0, 1], of a shape on white."""
    inside = _inside(shown.shape, SIZES[shown.size], shown.x, shown.y)
    return torch.where(inside, torch.tensor(COLORS[shown.color])[:, None, None], 1.0)


@cache
def _inside(shape: str, radius: int, x: int, y: int) -> Tensor:
    """Which pixels (SIDE, SIDE) are of the shape; kept, since training draws each of them hundreds of times."""
    across = torch.arange(SIDE)[None] + 0.5 - x  # (1, SIDE), from its middle to that of a pixel
    down = torch.arange(SIDE)[:, None] + 0.5 - y  # (SIDE, 1)
    farther, nearer = torch.maximum(across.abs(), down.abs()), torch.minimum(across.abs(), down.abs())
    square = across**2 + down**2
    return {
        "circle": lambda: square <= radius**2,
        "square": lambda: farther <= 0.85 * radius,
        "triangle": lambda: (down.abs() <= radius) & (across.abs() <= (down + radius) / 2),
        "cross": lambda: (farther <= radius) & (nearer <= 0.3 * radius),
        "ring": lambda: (square <= radius**2) & (square > (0.55 * radius) ** 2),
        "diamond": lambda: across.abs() + down.abs() <= radius,
    }[shape]()


def make_pictures(captions: list[str] | tuple[str, ...], draws: torch.Generator) -> Tensor:
    """A picture for each caption, its shape somewhere, with noise -> (B, 3, SIDE, SIDE)."""
    drawn = []
    for caption in captions:
        _, size, color, shape = caption.split()
        margin = SIZES[size]
        x, y = torch.randint(margin, SIDE - margin + 1, (2,), generator=draws).tolist()
        drawn.append(draw(Shape(size, color, shape, x, y)))
    pixels = torch.stack(drawn)
    return (pixels + NOISE * torch.randn(pixels.shape, generator=draws)).clamp(0, 1)


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
def describe(describer: Describer, memory: Tensor, start_id: int) -> Tensor:
    """The four likeliest words of each picture, one after the other: memory (B, S, D) -> tokens (B, 4)."""
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
    return TransformerConfig(
        vocab_size=len(vocabulary),
        d_model=64,
        num_heads=4,
        d_ff=128,
        num_encoder_layers=2,
        num_decoder_layers=1,
        dropout=0.0,
        norm_first=True,
        max_length=16,
    )


def pictures_model() -> tuple[Pictured, Vocabulary]:
    """The shipped models and their vocabulary, ready on the CPU; `python -m benchmarks.pictures` trains them anew."""
    checkpoint = load_checkpoint(SHIPPED, build=Pictured)  # type: ignore[arg-type]
    return checkpoint.model.eval(), checkpoint.vocabulary
