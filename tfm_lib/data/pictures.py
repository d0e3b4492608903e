"""Pictures of one shape each, drawn by code, and their captions."""

from functools import cache
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

SIDE = 24  # pixels
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
        "circle": square <= radius**2,
        "square": farther <= 0.85 * radius,
        "triangle": (down.abs() <= radius) & (across.abs() <= (down + radius) / 2),
        "cross": (farther <= radius) & (nearer <= 0.3 * radius),
        "ring": (square <= radius**2) & (square > (0.55 * radius) ** 2),
        "diamond": across.abs() + down.abs() <= radius,
    }[shape]


def make_pictures(captions: list[str] | tuple[str, ...], draws: torch.Generator) -> Tensor:
    """A picture for each caption, its shape somewhere, with noise -> (B, 3, SIDE, SIDE)."""
    shapes = []
    for caption in captions:
        _, size, color, shape = caption.split()
        margin = SIZES[size]
        x, y = torch.randint(margin, SIDE - margin + 1, (2,), generator=draws).tolist()
        shapes.append(Shape(size, color, shape, x, y))
    pixels = torch.stack([draw(shape) for shape in shapes])
    return (pixels + NOISE * torch.randn(pixels.shape, generator=draws)).clamp(0, 1)
