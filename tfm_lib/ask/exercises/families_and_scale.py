"""The exercises of lesson 16."""

from collections.abc import Iterator
from math import floor, log

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: the parameters of GPT-2 medium


@exercise(
    difficulty=1,
    minutes=6,
    trains="counting parameters",
    right="That is the published file, to the unit; the paper's 345 million are not.",
    tolerance=1e-9,
)
def medium() -> int:
    return (50257 + 1024) * 1024 + 24 * (12 * 1024**2 + 13 * 1024) + 2 * 1024


@medium.mistake
def no_positions() -> int:
    """The positions are learned, too: their matrix has 1,024 rows."""
    return medium.reference() - 1024 * 1024


@medium.mistake
def untied() -> int:
    """The output uses the embedding matrix again; it has no matrix of its own."""
    return medium.reference() + 50257 * 1024


@medium.mistake
def matrices_only() -> int:
    """You counted the matrices of the layers; each layer also has 13 vectors of the width: biases and norms."""
    return medium.reference() - 24 * 13 * 1024


@medium.mistake
def no_last_norm() -> int:
    """With pre-norm, there is one more norm after the last layer."""
    return medium.reference() - 2 * 1024


@medium.mistake
def no_embeddings() -> int:
    """Those are the layers and the last norm; the two embedding matrices are missing."""
    return medium.reference() - (50257 + 1024) * 1024


# ----------------------------------------------------------------------------------------------------
# 2: the mask of a prefix language model


def some_prefixes(draw: Draw) -> Iterator[Inputs]:
    yield {"length": 4, "prefix": 2}
    for length, prefix in ((5, 0), (5, 5), (6, 3), (1, 1)):
        yield {"length": length, "prefix": prefix}


@exercise(
    difficulty=2,
    minutes=6,
    trains="one mask for three families",
    right="One number turns GPT's mask into BERT's.",
    cases=some_prefixes,
)
def prefix(length: int, prefix: int) -> Tensor:
    t = torch.arange(length)
    return (t <= t[:, None]) | (t < prefix)


@prefix.mistake
def causal_only(length: int, prefix: int) -> Tensor:
    """Within the prefix, tokens also see those that come later."""
    t = torch.arange(length)
    return t <= t[:, None]


@prefix.mistake
def rows_see_all(length: int, prefix: int) -> Tensor:
    """Your first rows see everything, so the prefix knows the text that is to be predicted. Open the first columns
    to all rows instead."""
    t = torch.arange(length)
    return (t <= t[:, None]) | (t[:, None] < prefix)


@prefix.mistake
def both(length: int, prefix: int) -> Tensor:
    """A key may be seen if it is in the past *or* in the prefix; you require both."""
    t = torch.arange(length)
    return (t <= t[:, None]) & (t < prefix)


@prefix.mistake
def transposed(length: int, prefix: int) -> Tensor:
    """Rows are queries and columns are keys; yours is the other way around."""
    t = torch.arange(length)
    return ((t <= t[:, None]) | (t < prefix)).T


@prefix.mistake
def one_too_many(length: int, prefix: int) -> Tensor:
    """That prefix has one token too many: counting from 0, its last token is `prefix - 1`."""
    t = torch.arange(length)
    return (t <= t[:, None]) | (t <= prefix)


# ----------------------------------------------------------------------------------------------------
# 3: from one order of rotary pairs to the other


def some_vectors(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])}
    yield {"x": draw(2, 3, 8)}


@exercise(
    difficulty=3,
    minutes=8,
    trains="two orders of rotary pairs",
    right="With their rows in this order, weights that were trained with neighbors as pairs fit the library's Llama.",
    cases=some_vectors,
)
def halves(x: Tensor) -> Tensor:
    return torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)


@halves.mistake
def the_way_back(x: Tensor) -> Tensor:
    """That is the inverse: it makes neighbors of entries that are half the width apart."""
    return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)


@halves.mistake
def seconds_first(x: Tensor) -> Tensor:
    """The first entry of each pair belongs to the first half; otherwise all pairs are rotated in reverse."""
    return torch.cat([x[..., 1::2], x[..., 0::2]], dim=-1)


@halves.mistake
def halves_swapped(x: Tensor) -> Tensor:
    """You swapped the two halves, but the pairs are still neighbors."""
    return torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1)


@halves.mistake
def unchanged(x: Tensor) -> Tensor:
    """Nothing has moved. Entries 0 and 1 are a pair, and must be half the width apart."""
    return x


# ----------------------------------------------------------------------------------------------------
# 4: RMSNorm


def some_rows(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[3.0, 4.0]]), "weight": torch.tensor([1.0, 2.0])}
    yield {"x": draw(2, 3, 6), "weight": draw(6)}


@exercise(
    difficulty=2,
    minutes=6,
    trains="RMSNorm",
    right="It is LayerNorm without the mean and the bias: only the length of a vector is normalized.",
    cases=some_rows,
    tolerance=1e-3,
    without=("rms_norm",),
)
def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


@rms.mistake
def centered(x: Tensor, weight: Tensor) -> Tensor:
    """Do not subtract the mean; only LayerNorm does that."""
    x = x - x.mean(-1, keepdim=True)
    return rms.reference(x, weight)


@rms.mistake
def sum_for_mean(x: Tensor, weight: Tensor) -> Tensor:
    """You divided by the length, the square root of the *sum* of squares; take the mean of the squares."""
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() * weight


@rms.mistake
def no_weight(x: Tensor, weight: Tensor) -> Tensor:
    """The lengths are right; each entry is then multiplied by its learned weight."""
    return rms.reference(x, torch.ones_like(weight))


@rms.mistake
def no_root(x: Tensor, weight: Tensor) -> Tensor:
    """That divides by the mean square; divide by its square root."""
    return x / (x.square().mean(-1, keepdim=True) + 1e-6) * weight


# ----------------------------------------------------------------------------------------------------
# 5: SwiGLU


def a_network(draw: Draw) -> Iterator[Inputs]:
    yield {"x": draw(1, 2), "gate": draw(3, 2), "up": draw(3, 2), "down": draw(2, 3)}
    yield {"x": draw(2, 4, 4), "gate": draw(6, 4), "up": draw(6, 4), "down": draw(4, 6)}


@exercise(
    difficulty=2,
    minutes=6,
    trains="a gated network",
    right="A product of two views of the same input, which a plain layer cannot form.",
    cases=a_network,
)
def gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


@gated.mistake
def gate_on_the_other(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """SiLU belongs to the gate; you applied it to the values that pass."""
    return ((x @ gate.T) * F.silu(x @ up.T)) @ down.T


@gated.mistake
def sigmoid(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """That is GLU, with a sigmoid; SwiGLU uses SiLU, which is x times its sigmoid."""
    return (torch.sigmoid(x @ gate.T) * (x @ up.T)) @ down.T


@gated.mistake
def added(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A gate multiplies; you added."""
    return (F.silu(x @ gate.T) + x @ up.T) @ down.T


@gated.mistake
def after_the_product(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Apply SiLU before the product, to the gate alone."""
    return F.silu((x @ gate.T) * (x @ up.T)) @ down.T


# ----------------------------------------------------------------------------------------------------
# 6: the cache of Llama 3 8B


@exercise(
    difficulty=2,
    minutes=5,
    trains="what grouped heads save",
    right="With a set of keys and values per head, one text would take four times as much.",
    tolerance=1e-9,
)
def cache() -> int:
    return 2 * 32 * 8 * 128 * 2 * 8192


@cache.mistake
def all_heads() -> int:
    """The cache has as many heads as there are sets of keys and values, 8 of them, not 32."""
    return 4 * cache.reference()


@cache.mistake
def keys_alone() -> int:
    """Keys *and* values are kept."""
    return cache.reference() // 2


@cache.mistake
def one_layer() -> int:
    """Each of the 32 layers has a cache."""
    return cache.reference() // 32


@cache.mistake
def four_bytes() -> int:
    """A number takes two bytes here."""
    return 2 * cache.reference()


# ----------------------------------------------------------------------------------------------------
# 7: spans, put back


def some_cuts(draw: Draw) -> Iterator[Inputs]:
    yield {"source": [5, 90, 8], "target": [90, 6, 7], "first": 90}
    yield {"source": [5, 90, 8, 91], "target": [90, 6, 7, 91, 9], "first": 90}
    yield {"source": [90, 4, 91, 5, 92, 6], "target": [90, 7, 91, 8, 9, 92, 3], "first": 90}


@exercise(
    difficulty=3,
    minutes=10,
    trains="span corruption, both ways",
    right="Nothing is lost: input and target together are the text.",
    cases=some_cuts,
)
def restored(source: list[int], target: list[int], first: int) -> list[int]:
    spans: dict[int, list[int]] = {}
    for token in target:
        if token >= first:
            spans[token] = []
            last = token
        else:
            spans[last].append(token)
    text: list[int] = []
    for token in source:
        text += spans[token] if token >= first else [token]
    return text


@restored.mistake
def sentinels_stay(source: list[int], target: list[int], first: int) -> list[int]:
    """The spans are back, but the sentinels are still there before them."""
    text: list[int] = []
    for token in source:
        text += [token, *restored.reference([token], target, first)] if token >= first else [token]
    return text


@restored.mistake
def at_the_end(source: list[int], target: list[int], first: int) -> list[int]:
    """All spans are at the end; each belongs in the place of its sentinel."""
    return [token for token in [*source, *target] if token < first]


@restored.mistake
def one_token_each(source: list[int], target: list[int], first: int) -> list[int]:
    """A span may have several tokens; you put back the first one of each."""
    return [target[target.index(token) + 1] if token >= first else token for token in source]


@restored.mistake
def only_removed(source: list[int], target: list[int], first: int) -> list[int]:
    """The sentinels are gone, but their spans have not come back."""
    return [token for token in source if token < first]


# ----------------------------------------------------------------------------------------------------
# 8: how long may an answer be?


@exercise(
    difficulty=1,
    minutes=4,
    trains="reading a cliff",
    right="With half the mistakes, answers may be twice as long: the cliff only moves.",
)
def longest() -> int:
    return floor(log(0.5) / log(0.98))


@longest.mistake
def a_line() -> int:
    """That adds up 2 % per token. Probabilities are multiplied: 0.98 times 0.98, and so on."""
    return 25


@longest.mistake
def one_mistake() -> int:
    """With 50 tokens one mistake is to be expected, and only 36 % of the answers are right."""
    return 50


@longest.mistake
def rounded_up() -> int:
    """That is one token too many: 0.98 to the power of 35 is a little below one half."""
    return 35


@longest.mistake
def in_halves() -> int:
    """That is the length for which 1 % of the answers are right; here half of them must be."""
    return floor(log(0.01) / log(0.98))


# ----------------------------------------------------------------------------------------------------
# 9: ALiBi, with the right sign


def some_slopes(draw: Draw) -> Iterator[Inputs]:
    yield {"length": 3, "slope": 0.5}
    yield {"length": 6, "slope": 0.125}


@exercise(
    difficulty=3,
    minutes=8,
    trains="ALiBi and its sign",
    right="Near keys lose little and distant ones much. The opposite sign looks as plausible, but rewards distance.",
    cases=some_slopes,
)
def bias(length: int, slope: float) -> Tensor:
    t = torch.arange(length)
    ahead = t - t[:, None]
    return (slope * ahead).masked_fill(ahead > 0, -torch.inf)


@bias.mistake
def rewards_distance(length: int, slope: float) -> Tensor:
    """The farther back a key is, the more you add. That rewards distance, which must cost."""
    t = torch.arange(length)
    ahead = t - t[:, None]
    return (-slope * ahead).masked_fill(ahead > 0, -torch.inf)


@bias.mistake
def sees_the_future(length: int, slope: float) -> Tensor:
    """The future gets a bonus; hide it with minus infinity."""
    t = torch.arange(length)
    return slope * (t - t[:, None])


@bias.mistake
def future_at_zero(length: int, slope: float) -> Tensor:
    """Zero hides nothing: the softmax gives it the largest share of all. The future gets minus infinity."""
    t = torch.arange(length)
    return (slope * (t - t[:, None])).clamp(max=0)


@bias.mistake
def no_slope(length: int, slope: float) -> Tensor:
    """That is the distance itself; multiply it by the slope."""
    return bias.reference(length, 1.0)
