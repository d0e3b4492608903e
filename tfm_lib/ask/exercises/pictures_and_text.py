"""The exercises of lesson 18."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: the vectors of a picture


@exercise(
    difficulty=1,
    minutes=3,
    trains="counting the vectors of a picture",
    right="The side counts twice: half as large patches are four times as many, with sixteen times the pairs.",
)
def vectors() -> int:
    return (224 // 16) ** 2 + 1


@vectors.mistake
def without_the_first() -> int:
    """These are the patches. One more vector comes before them: the class token, which is learned."""
    return (224 // 16) ** 2


@vectors.mistake
def one_row() -> int:
    """That is one row of patches and the first vector; there are as many rows as columns."""
    return 224 // 16 + 1


@vectors.mistake
def strips() -> int:
    """You cut along one side only; a patch is 16 pixels wide and 16 high."""
    return 224 * 224 // 16 + 1


@vectors.mistake
def with_colors() -> int:
    """The three colors of a patch share one vector, so they add none."""
    return 3 * (224 // 16) ** 2 + 1


# ----------------------------------------------------------------------------------------------------
# 2: patches back to a picture


def cut_pictures(draw: Draw) -> Iterator[Inputs]:
    yield {"patches": torch.arange(16.0).view(1, 4, 4), "channels": 1}
    yield {"patches": draw(2, 9, 12), "channels": 3}
    yield {"patches": draw(1, 4, 27), "channels": 3}


@exercise(
    difficulty=3,
    minutes=10,
    trains="putting patches back together",
    right="Cutting loses nothing: it is an order of axes, and can be undone.",
    cases=cut_pictures,
)
def put_together(patches: Tensor, channels: int) -> Tensor:
    return _put_together(patches, channels)


def _put_together(patches: Tensor, channels: int, order: tuple[int, ...] = (0, 3, 1, 4, 2, 5)) -> Tensor:
    rows, side = round(patches.shape[1] ** 0.5), round((patches.shape[2] / channels) ** 0.5)
    apart = patches.reshape(len(patches), rows, rows, channels, side, side)
    return apart.permute(order).reshape(len(patches), channels, rows * side, rows * side)


@put_together.mistake
def columns_first(patches: Tensor, channels: int) -> Tensor:
    """Your patches run down the columns; they were cut row by row."""
    return _put_together(patches, channels, (0, 3, 2, 4, 1, 5))


@put_together.mistake
def lying(patches: Tensor, channels: int) -> Tensor:
    """Each patch is in its place, but lies on its side: rows and columns inside it are swapped."""
    return _put_together(patches, channels, (0, 3, 1, 5, 2, 4))


@put_together.mistake
def reshaped_only(patches: Tensor, channels: int) -> Tensor:
    """A reshape alone leaves the numbers in their order. The rows of a picture run through several patches, so the axes
    have to change places first."""
    side = round((patches.shape[1] * patches.shape[2] / channels) ** 0.5)
    return patches.reshape(len(patches), channels, side, side)


@put_together.mistake
def colors_last(patches: Tensor, channels: int) -> Tensor:
    """You took the colors of a pixel to be side by side in a patch; all numbers of one color come first."""
    rows, side = round(patches.shape[1] ** 0.5), round((patches.shape[2] / channels) ** 0.5)
    apart = patches.reshape(len(patches), rows, rows, side, side, channels)
    return apart.permute(0, 5, 1, 3, 2, 4).reshape(len(patches), channels, rows * side, rows * side)


# ----------------------------------------------------------------------------------------------------
# 3: where a caption ends


def captions(draw: Draw) -> Iterator[Inputs]:
    tokens = torch.tensor([[1, 5, 2, 0], [1, 7, 6, 2]])
    yield {"x": torch.arange(16.0).view(2, 4, 2), "tokens": tokens, "end": 2}
    yield {"x": draw(3, 5, 4), "tokens": torch.tensor([[1, 9, 2, 0, 0], [1, 2, 0, 0, 0], [1, 8, 7, 6, 2]]), "end": 2}
    yield {"x": draw(2, 3, 4), "tokens": torch.tensor([[1, 9, 9], [9, 0, 0]]), "end": 9}


@exercise(
    difficulty=2,
    minutes=6,
    trains="taking the vector at the end token",
    right="Padding may follow, but the end token sees only the caption.",
    cases=captions,
)
def ending(x: Tensor, tokens: Tensor, end: int) -> Tensor:
    return x[torch.arange(len(x)), (tokens == end).int().argmax(-1)]


@ending.mistake
def the_last_place(x: Tensor, tokens: Tensor, end: int) -> Tensor:
    """You take the last place; in a short caption that is padding."""
    return x[:, -1]


@ending.mistake
def the_first_place(x: Tensor, tokens: Tensor, end: int) -> Tensor:
    """You take the first place, as in a picture. Under a causal mask it has seen nothing but the start token."""
    return x[:, 0]


@ending.mistake
def the_mean(x: Tensor, tokens: Tensor, end: int) -> Tensor:
    """That is the mean of all positions, including padding; only the vector at the end token is wanted."""
    return x.mean(1)


@ending.mistake
def the_largest_id(x: Tensor, tokens: Tensor, end: int) -> Tensor:
    """You take the place of the largest id. That is the end token in CLIP's own vocabulary, but not in every one."""
    return x[torch.arange(len(x)), tokens.argmax(-1)]


@ending.mistake
def the_last_end(x: Tensor, tokens: Tensor, end: int) -> Tensor:
    """If the end token occurs twice, the caption ends at the first one."""
    places = torch.arange(tokens.shape[1]) * (tokens == end)
    return x[torch.arange(len(x)), places.argmax(-1)]


# ----------------------------------------------------------------------------------------------------
# 4: the contrastive loss


def vectors_of_both(draw: Draw) -> Iterator[Inputs]:
    yield {
        "pictures": torch.tensor([[2.0, 0.0], [0.0, 0.5]]),
        "captions": torch.tensor([[0.8, 0.6], [0.28, 0.96]]),
        "scale": 10.0,
    }
    yield {"pictures": draw(4, 3), "captions": draw(4, 3), "scale": 5.0}
    yield {"pictures": draw(3, 8), "captions": draw(3, 8), "scale": 1.0}


def _contrastive(pictures: Tensor, captions: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    logits = scale * F.normalize(pictures, dim=-1) @ F.normalize(captions, dim=-1).T
    right = torch.arange(len(logits))
    return F.cross_entropy(logits, right), F.cross_entropy(logits.T, right)


@exercise(
    difficulty=2,
    minutes=8,
    trains="a loss that looks both ways",
    right="Each picture looks for its caption and each caption for its picture, among all of the batch.",
    cases=vectors_of_both,
)
def contrast(pictures: Tensor, captions: Tensor, scale: float) -> Tensor:
    of_pictures, of_captions = _contrastive(pictures, captions, scale)
    return (of_pictures + of_captions) / 2


@contrast.mistake
def one_direction(pictures: Tensor, captions: Tensor, scale: float) -> Tensor:
    """Your pictures look for their captions; the captions have to look for their pictures, too."""
    return _contrastive(pictures, captions, scale)[0]


@contrast.mistake
def other_direction(pictures: Tensor, captions: Tensor, scale: float) -> Tensor:
    """Your captions look for their pictures; the pictures have to look for their captions, too."""
    return _contrastive(pictures, captions, scale)[1]


@contrast.mistake
def not_of_length_one(pictures: Tensor, captions: Tensor, scale: float) -> Tensor:
    """Your vectors keep their lengths, so a long one is near to everything. Bring each to length 1 first."""
    logits, right = scale * pictures @ captions.T, torch.arange(len(pictures))
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


@contrast.mistake
def divided(pictures: Tensor, captions: Tensor, scale: float) -> Tensor:
    """You divide by the scale. A temperature divides; its inverse, the scale, multiplies."""
    of_pictures, of_captions = _contrastive(pictures, captions, 1 / scale)
    return (of_pictures + of_captions) / 2


@contrast.mistake
def both_summed(pictures: Tensor, captions: Tensor, scale: float) -> Tensor:
    """That is the sum of the two directions; the loss is their mean."""
    of_pictures, of_captions = _contrastive(pictures, captions, scale)
    return of_pictures + of_captions


# ----------------------------------------------------------------------------------------------------
# 5: naming without labels


def pictures_and_names(draw: Draw) -> Iterator[Inputs]:
    yield {
        "pictures": torch.tensor([[3.0, 4.0], [1.0, 0.1]]),
        "names": torch.tensor([[9.0, 0.0], [0.6, 0.9], [0.0, 2.0]]),
    }
    yield {"pictures": draw(4, 5), "names": draw(6, 5)}
    yield {"pictures": draw(5, 2), "names": draw(3, 2)}


def _alike(pictures: Tensor, names: Tensor) -> Tensor:
    return F.normalize(pictures, dim=-1) @ F.normalize(names, dim=-1).T


@exercise(
    difficulty=1,
    minutes=5,
    trains="zero-shot classification",
    right="With other names, the same two encoders answer a different question, which made CLIP famous.",
    cases=pictures_and_names,
)
def name(pictures: Tensor, names: Tensor) -> Tensor:
    return _alike(pictures, names).argmax(-1)


@name.mistake
def longest_wins(pictures: Tensor, names: Tensor) -> Tensor:
    """You compare dot products, in which a long name wins. Compare directions."""
    return (pictures @ names.T).argmax(-1)


@name.mistake
def farthest(pictures: Tensor, names: Tensor) -> Tensor:
    """That is the name that fits worst."""
    return _alike(pictures, names).argmin(-1)


@name.mistake
def the_wrong_way(pictures: Tensor, names: Tensor) -> Tensor:
    """You give each name its best picture; each picture wants its best name."""
    return _alike(pictures, names).argmax(0)


# ----------------------------------------------------------------------------------------------------
# 6: a gate


def gated(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[1.0, 2.0]]), "looked": torch.tensor([[10.0, -10.0]]), "gate": torch.tensor(0.0)}
    yield {"x": draw(3, 4), "looked": draw(3, 4), "gate": torch.tensor(0.8)}
    yield {"x": draw(3, 4), "looked": draw(3, 4), "gate": torch.tensor(-1.5)}


@exercise(
    difficulty=1,
    minutes=4,
    trains="gates that change nothing at first",
    right="At zero nothing changes, and the gate has a gradient all the same.",
    cases=gated,
)
def gate(x: Tensor, looked: Tensor, gate: Tensor) -> Tensor:
    return x + gate.tanh() * looked


@gate.mistake
def half_open(x: Tensor, looked: Tensor, gate: Tensor) -> Tensor:
    """A sigmoid is one half at zero, so your gate starts half open."""
    return x + gate.sigmoid() * looked


@gate.mistake
def instead_of(x: Tensor, looked: Tensor, gate: Tensor) -> Tensor:
    """You replace a part of x by what was seen; it must be added to x, which stays whole."""
    return (1 - gate.tanh()) * x + gate.tanh() * looked


@gate.mistake
def without_a_bound(x: Tensor, looked: Tensor, gate: Tensor) -> Tensor:
    """The gate is used as it is; its hyperbolic tangent keeps it between -1 and 1."""
    return x + gate * looked


@gate.mistake
def all_gated(x: Tensor, looked: Tensor, gate: Tensor) -> Tensor:
    """You gate x as well, and at zero nothing is left of it."""
    return gate.tanh() * (x + looked)


# ----------------------------------------------------------------------------------------------------
# 7: what guessing is worth


@exercise(
    difficulty=1,
    minutes=4,
    trains="the baseline for a score",
    right="Compare with this number, not with 1 in 72: a model that sees only colors and sizes gets the rest by luck.",
)
def by_guessing() -> float:
    return 1 / 6


@by_guessing.mistake
def of_all_captions() -> float:
    """That is for a model that sees nothing. Size and color are known here."""
    return 1 / 72


@by_guessing.mistake
def of_size_and_shape() -> float:
    """The size is known as well as the color; only the shape is guessed."""
    return 1 / 12


@by_guessing.mistake
def of_colors() -> float:
    """Nothing but the shape is left to guess, and each of them is as likely: how many are there?"""
    return 1 / 36


# ----------------------------------------------------------------------------------------------------
# 8: a caption that occurs twice


def batches(draw: Draw) -> Iterator[Inputs]:
    yield {"logits": torch.tensor([[2.0, 0.0], [0.0, 2.0]]), "caption": torch.tensor([4, 7])}
    yield {"logits": draw(3, 3), "caption": torch.tensor([5, 1, 5])}
    yield {"logits": draw(4, 4), "caption": torch.tensor([2, 2, 2, 0])}


@exercise(
    difficulty=3,
    minutes=10,
    trains="targets with several right answers",
    right="A picture is no longer pushed away from a caption that matches it.",
    cases=batches,
)
def several(logits: Tensor, caption: Tensor) -> Tensor:
    right = (caption[:, None] == caption).float()
    right = right / right.sum(-1, keepdim=True)
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


@several.mistake
def only_its_own(logits: Tensor, caption: Tensor) -> Tensor:
    """You count only the caption in a picture's own place as right, although the same one may occur elsewhere, too."""
    right = torch.arange(len(logits))
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


@several.mistake
def too_much(logits: Tensor, caption: Tensor) -> Tensor:
    """Your targets of a row add up to more than 1 where a caption occurs twice: divide each row by its sum."""
    right = (caption[:, None] == caption).float()
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


@several.mistake
def one_way_only(logits: Tensor, caption: Tensor) -> Tensor:
    """That is one direction; the captions look for their pictures as well."""
    right = (caption[:, None] == caption).float()
    return F.cross_entropy(logits, right / right.sum(-1, keepdim=True))


@several.mistake
def the_first_of_them(logits: Tensor, caption: Tensor) -> Tensor:
    """You count the first place of a caption as right and not the others; all of them are, in equal parts."""
    right = (caption[:, None] == caption).int().argmax(-1)
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


# ----------------------------------------------------------------------------------------------------
# 9: the size of a published eye


def _vit(layer: int, places: int = 197, norm: int = 2 * 768) -> int:
    return (16 * 16 * 3 + 1) * 768 + 768 + places * 768 + 12 * layer + norm + (768 + 1) * 1000


LAYER = 12 * 768**2 + 13 * 768


@exercise(
    difficulty=3,
    minutes=10,
    trains="counting the parameters of a vision Transformer",
    right="86,567,656, to the unit, as torchvision and transformers have it.",
)
def size() -> int:
    return _vit(LAYER)


@size.mistake
def places_of_patches() -> int:
    """You are 768 short: the class token has a position of its own, so there are 197 positions."""
    return _vit(LAYER, places=196)


@size.mistake
def no_bias_of_the_head() -> int:
    """You are 1,000 short, as many as there are classes: the head has a bias for each of them."""
    return _vit(LAYER) - 1000


@size.mistake
def no_last_norm() -> int:
    """You are 1,536 short: one more norm follows the last layer, with a weight and a bias."""
    return _vit(LAYER, norm=0)


@size.mistake
def no_biases() -> int:
    """Your layers have no biases and no norms: 4 and 5 D of biases and 4 D in two norms make 13 D a layer."""
    return _vit(12 * 768**2)
