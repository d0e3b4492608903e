"""The exercises of lesson 15."""

from collections.abc import Iterator
from math import ceil, log

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: what is left of 91 %, if no attention at all keeps 82 %?


@exercise(
    difficulty=1,
    minutes=4,
    trains="reading a score beside its control",
    right="About half of the contribution of attention is gone, although 91 of 98.7 sounded like a loss of a tenth.",
    tolerance=0.02,
)
def kept() -> float:
    return (0.91 - 0.82) / (0.987 - 0.82)


@kept.mistake
def of_the_full_score() -> float:
    """That is its share of the whole score, most of which is reached without any attention. Subtract the control's
    score from both."""
    return 0.91 / 0.987


@kept.mistake
def only_the_difference() -> float:
    """That is how far the window is above the control; divide it by how far full attention is above it."""
    return 0.91 - 0.82


@kept.mistake
def lost() -> float:
    """That is the share that is lost; the share that is kept is the rest."""
    return (0.987 - 0.91) / (0.987 - 0.82)


# ----------------------------------------------------------------------------------------------------
# 2: the pairs of a window


@exercise(
    difficulty=1,
    minutes=5,
    trains="counting the pairs of a window",
    right="All but the edges: length times window, where full attention has length times length.",
)
def pairs() -> int:
    return 1000 * 101 - 2 * (50 * 51 // 2)


@pairs.mistake
def no_edges() -> int:
    """Near the two ends of the text a window is cut off: there is no token before the first one, and only one before
    the second."""
    return 1000 * 101


@pairs.mistake
def one_edge() -> int:
    """A text has two ends; you have cut the windows at one of them."""
    return 1000 * 101 - 50 * 51 // 2


@pairs.mistake
def without_oneself() -> int:
    """A token also sees itself."""
    return pairs.reference() - 1000


@pairs.mistake
def one_side() -> int:
    """That is a window which looks back only; here it reaches to both sides."""
    return 1000 * 51 - 50 * 51 // 2


@pairs.mistake
def fifty_in_all() -> int:
    """The window reaches 50 tokens to *either* side."""
    return 1000 * 51 - 2 * (25 * 26 // 2)


@pairs.mistake
def edges_as_whole_windows() -> int:
    """You left out the 50 tokens at each end; they see fewer keys, but they do see some."""
    return 900 * 101


# ----------------------------------------------------------------------------------------------------
# 3: the layers that a window needs


@exercise(
    difficulty=1,
    minutes=4,
    trains="reach, bought with layers",
    right="With windows, a model's reach is its depth times its window, and models with few layers stay near-sighted.",
)
def layers() -> int:
    return ceil(4095 / 128)


@layers.mistake
def both_sides_added() -> int:
    """In one layer, information moves by 128 positions at most. The other half of the window looks in the opposite
    direction and does not help."""
    return ceil(4095 / 256)


@layers.mistake
def not_quite() -> int:
    """After 31 layers, information has moved by 31 times 128 positions only, which is 3,968."""
    return 4095 // 128


@layers.mistake
def one_too_many() -> int:
    """That is one more than needed: the first layer already moves information."""
    return ceil(4095 / 128) + 1


@layers.mistake
def doubling() -> int:
    """That would be right if the reach doubled in each layer; a window adds the same distance in each."""
    return ceil(log(4096 / 128, 2))


# ----------------------------------------------------------------------------------------------------
# 4: two halves become one

Part = tuple[Tensor, Tensor, Tensor]


def halves(draw: Draw) -> Iterator[Inputs]:
    yield {
        "a": (torch.tensor([[1.0]]), torch.tensor([[1.0]]), torch.tensor([[10.0]])),
        "b": (torch.tensor([[3.0]]), torch.tensor([[2.0]]), torch.tensor([[50.0]])),
    }
    for first, second in (((4, 1), (4, 1)), ((2, 5, 1), (2, 5, 1))):
        yield {
            "a": (draw(*first), draw(*first).abs() + 1, draw(*first[:-1], 3)),
            "b": (draw(*second), draw(*second).abs() + 1, draw(*second[:-1], 3)),
        }
    nothing = (torch.full((2, 1), -torch.inf), torch.zeros(2, 1), torch.zeros(2, 3))
    yield {"a": nothing, "b": (draw(2, 1), draw(2, 1).abs() + 1, draw(2, 3))}


@exercise(
    difficulty=3,
    minutes=12,
    trains="the online softmax, in any order",
    right="Halves can be merged in any order, so many processors can each take a part of the keys.",
    cases=halves,
)
def merge(a: Part, b: Part) -> Part:
    top = torch.maximum(a[0], b[0])
    of_a, of_b = (a[0] - top).exp(), (b[0] - top).exp()
    return top, a[1] * of_a + b[1] * of_b, a[2] * of_a + b[2] * of_b


@merge.mistake
def only_added(a: Part, b: Part) -> Part:
    """You add sums that were computed with two different tops. Bring both to the larger one first."""
    return torch.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]


@merge.mistake
def only_first_shrinks(a: Part, b: Part) -> Part:
    """You shrink the first half only. If the larger score is in this half, the second one has to shrink."""
    top = torch.maximum(a[0], b[0])
    of_a = (a[0] - top).exp()
    return top, a[1] * of_a + b[1], a[2] * of_a + b[2]


@merge.mistake
def total_forgotten(a: Part, b: Part) -> Part:
    """You shrink `mixed` and leave `total` as it was; both were computed with the old top."""
    top, _, mixed = merge.reference(a, b)
    return top, a[1] + b[1], mixed


@merge.mistake
def grows(a: Part, b: Part) -> Part:
    """Your factors are the wrong way round: sums computed with a smaller top are too *large* and must shrink."""
    top = torch.maximum(a[0], b[0])
    of_a, of_b = (top - a[0]).exp(), (top - b[0]).exp()
    return top, a[1] * of_a + b[1] * of_b, a[2] * of_a + b[2] * of_b


@merge.mistake
def mixed_divided(a: Part, b: Part) -> Part:
    """You already divide by the total. The division comes once, at the very end, because otherwise a third part could
    not be merged."""
    top, total, mixed = merge.reference(a, b)
    return top, total, mixed / total


# ----------------------------------------------------------------------------------------------------
# 5: a window in blocks


def texts(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.arange(1.0, 5.0).view(1, 4, 1), "window": 2}
    yield {"x": draw(2, 6, 3), "window": 2}
    yield {"x": draw(1, 12, 2), "window": 3}
    yield {"x": draw(2, 5, 2), "window": 5}


@exercise(
    difficulty=3,
    minutes=12,
    trains="a window in blocks",
    right="Three blocks of keys per block of queries, and every product is dense: this is what makes windows fast.",
    cases=texts,
)
def neighbors(x: Tensor, window: int) -> Tensor:
    blocks = F.pad(x, (0, 0, window, window)).unflatten(1, (-1, window))
    return torch.cat([blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:]], dim=2)


@neighbors.mistake
def around_the_corner(x: Tensor, window: int) -> Tensor:
    """Your first block has the text's last block as its neighbor, because `roll` wraps around. There should be zeros
    instead."""
    blocks = x.unflatten(1, (-1, window))
    return torch.cat([blocks.roll(1, 1), blocks, blocks.roll(-1, 1)], dim=2)


@neighbors.mistake
def own_first(x: Tensor, window: int) -> Tensor:
    """The order is wrong: first the block before, then the block itself, then the block after."""
    before, own, after = neighbors.reference(x, window).chunk(3, dim=2)
    return torch.cat([own, before, after], dim=2)


@neighbors.mistake
def after_first(x: Tensor, window: int) -> Tensor:
    """The block before and the block after are exchanged."""
    before, own, after = neighbors.reference(x, window).chunk(3, dim=2)
    return torch.cat([after, own, before], dim=2)


@neighbors.mistake
def no_look_ahead(x: Tensor, window: int) -> Tensor:
    """The block after is missing; the window reaches to both sides."""
    return neighbors.reference(x, window)[:, :, : 2 * window]


@neighbors.mistake
def three_times_itself(x: Tensor, window: int) -> Tensor:
    """You repeat each block three times; two of the three should be its neighbors."""
    return x.unflatten(1, (-1, window)).repeat(1, 1, 3, 1)


# ----------------------------------------------------------------------------------------------------
# 6: random features


def directed(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[2.0, 0.0, 0.0, 0.0]]), "directions": torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0]])}
    yield {"x": draw(5, 4), "directions": draw(3, 4)}
    yield {"x": draw(2, 3, 9), "directions": draw(6, 9)}


@exercise(
    difficulty=3,
    minutes=12,
    trains="random features, with every factor",
    right="Query and key share the scale: each takes the fourth root of the width, so that both take the square root.",
    cases=directed,
)
def features(x: Tensor, directions: Tensor) -> Tensor:
    x = x / x.shape[-1] ** 0.25
    return (x @ directions.T - x.square().sum(-1, keepdim=True) / 2).exp() / len(directions) ** 0.5


@features.mistake
def no_scale(x: Tensor, directions: Tensor) -> Tensor:
    """Your products estimate the exponential of the dot product itself; here it is divided by the square root of the
    width. Divide each of the two vectors by the fourth root."""
    return (x @ directions.T - x.square().sum(-1, keepdim=True) / 2).exp() / len(directions) ** 0.5


@features.mistake
def scaled_twice(x: Tensor, directions: Tensor) -> Tensor:
    """You divide by the square root of the width. Query and key both do, and their product is divided by the width
    itself: take the fourth root."""
    x = x / x.shape[-1] ** 0.5
    return (x @ directions.T - x.square().sum(-1, keepdim=True) / 2).exp() / len(directions) ** 0.5


@features.mistake
def no_norm(x: Tensor, directions: Tensor) -> Tensor:
    """Half of the squared length is missing in the exponent. Without it long vectors get too much weight."""
    return (x / x.shape[-1] ** 0.25 @ directions.T).exp() / len(directions) ** 0.5


@features.mistake
def sum_not_mean(x: Tensor, directions: Tensor) -> Tensor:
    """The dot product of your features is a *sum* over the directions. For a mean, divide each side by the square root
    of their number."""
    return features.reference(x, directions) * len(directions) ** 0.5


@features.mistake
def divided_twice(x: Tensor, directions: Tensor) -> Tensor:
    """You divide both sides by the number of directions, so their product is divided by its square. Take the square
    root."""
    return features.reference(x, directions) / len(directions) ** 0.5


@features.mistake
def norm_of_unscaled(x: Tensor, directions: Tensor) -> Tensor:
    """The squared length in your exponent is that of the vector before it was scaled."""
    scaled = x / x.shape[-1] ** 0.25
    return (scaled @ directions.T - x.square().sum(-1, keepdim=True) / 2).exp() / len(directions) ** 0.5


# ----------------------------------------------------------------------------------------------------
# 7: the backward pass through a softmax, with one number per row


def ways_back(draw: Draw) -> Iterator[Inputs]:
    yield {
        "weights": torch.tensor([[0.5, 0.5]]),
        "value": torch.tensor([[1.0], [3.0]]),
        "upstream": torch.tensor([[1.0]]),
    }
    yield {"weights": draw(3, 4).softmax(-1), "value": draw(4, 2), "upstream": draw(3, 2)}
    yield {"weights": draw(2, 3, 5).softmax(-1), "value": draw(2, 5, 4), "upstream": draw(2, 3, 4)}


@exercise(
    difficulty=4,
    minutes=15,
    trains="the backward pass through a softmax",
    right="A row needs only one number about all its keys, so each block of keys can be processed separately.",
    cases=ways_back,
)
def d_scores(weights: Tensor, value: Tensor, upstream: Tensor) -> Tensor:
    inner = (upstream * (weights @ value)).sum(-1, keepdim=True)
    return weights * (upstream @ value.mT - inner)


@d_scores.mistake
def weights_only(weights: Tensor, value: Tensor, upstream: Tensor) -> Tensor:
    """That is the gradient of the *weights*. One step is missing, back through the softmax to the scores."""
    return upstream @ value.mT


@d_scores.mistake
def no_inner(weights: Tensor, value: Tensor, upstream: Tensor) -> Tensor:
    """Nothing is subtracted. The weights of a row sum to 1, so the gradients of its scores must sum to 0."""
    return weights * (upstream @ value.mT)


@d_scores.mistake
def like_a_sigmoid(weights: Tensor, value: Tensor, upstream: Tensor) -> Tensor:
    """That treats each weight as a sigmoid, w (1 - w); in a softmax, a score also changes the weights of all the
    others."""
    return weights * (1 - weights) * (upstream @ value.mT)


@d_scores.mistake
def plain_average(weights: Tensor, value: Tensor, upstream: Tensor) -> Tensor:
    """You subtract the plain mean over the keys; subtract the mean that is weighted by the attention weights."""
    back = upstream @ value.mT
    return weights * (back - back.mean(-1, keepdim=True))


@d_scores.mistake
def not_weighted(weights: Tensor, value: Tensor, upstream: Tensor) -> Tensor:
    """The difference is right; multiply it by the weight of the key."""
    return upstream @ value.mT - (upstream * (weights @ value)).sum(-1, keepdim=True)


# ----------------------------------------------------------------------------------------------------
# 8: strides


def strides(draw: Draw) -> Iterator[Inputs]:
    for length, stride in ((4, 2), (6, 3), (9, 2), (5, 1), (3, 4)):
        yield {"length": length, "stride": stride}


@exercise(
    difficulty=2,
    minutes=6,
    trains="the pattern of a Sparse Transformer",
    right="Together with the last few tokens, two layers of this reach all earlier tokens.",
    cases=strides,
)
def strided(length: int, stride: int) -> Tensor:
    t = torch.arange(length)
    back = t[:, None] - t
    return (back >= 0) & (back % stride == 0)


@strided.mistake
def sees_the_future(length: int, stride: int) -> Tensor:
    """Your strides go in both directions; a decoder looks back only."""
    t = torch.arange(length)
    return (t[:, None] - t) % stride == 0


@strided.mistake
def fixed_columns(length: int, stride: int) -> Tensor:
    """Your strides are counted from the beginning of the text, the same for all queries; count from the query."""
    t = torch.arange(length)
    return (t[:, None] >= t) & (t % stride == 0)


@strided.mistake
def not_itself(length: int, stride: int) -> Tensor:
    """A query also sees itself, at a distance of 0, and the first one would see nothing otherwise."""
    t = torch.arange(length)
    back = t[:, None] - t
    return (back > 0) & (back % stride == 0)


@strided.mistake
def the_last_few(length: int, stride: int) -> Tensor:
    """That is the other kind of head, which sees the last few tokens; this one sees every stride-th token."""
    t = torch.arange(length)
    back = t[:, None] - t
    return (back >= 0) & (back < stride)


@strided.mistake
def transposed(length: int, stride: int) -> Tensor:
    """That is the mask with rows and columns exchanged: rows are queries, columns keys."""
    return strided.reference(length, stride).T


# ----------------------------------------------------------------------------------------------------
# 9: rounds of hashing


@exercise(
    difficulty=2,
    minutes=5,
    trains="the chance of missing a near key",
    right="Each round multiplies the probability by the same factor, and each costs as much as the first.",
)
def rounds() -> int:
    return ceil(log(0.001) / log(0.4))


@rounds.mistake
def found_for_missed() -> int:
    """You took the probability of *finding* it in each round. It is missed in the end only if every round misses it,
    with 0.4 each."""
    return ceil(log(0.001) / log(0.6))


@rounds.mistake
def not_yet() -> int:
    """After 7 rounds the probability is 0.4 to the power of 7, which is 0.0016 and still too much."""
    return 7


@rounds.mistake
def one_more() -> int:
    """That is one more than needed."""
    return 9


@rounds.mistake
def divided() -> int:
    """Probabilities of independent rounds are multiplied: 0.4 times 0.4 and so on. They are not divided by the number
    of rounds."""
    return 400


@rounds.mistake
def one_in_a_hundred() -> int:
    """That is enough for one in a hundred; the question asks for one in a thousand."""
    return ceil(log(0.01) / log(0.4))


# ----------------------------------------------------------------------------------------------------
# 10: causal, by running sums


def featured(draw: Draw) -> Iterator[Inputs]:
    yield {
        "q": torch.tensor([[1.0], [1.0]]),
        "k": torch.tensor([[1.0], [3.0]]),
        "v": torch.tensor([[4.0], [8.0]]),
    }
    yield {"q": draw(5, 3).abs() + 0.1, "k": draw(5, 3).abs() + 0.1, "v": draw(5, 2)}
    yield {"q": draw(2, 6, 3).abs() + 0.1, "k": draw(2, 6, 3).abs() + 0.1, "v": draw(2, 6, 4)}


@exercise(
    difficulty=4,
    minutes=12,
    trains="attention as a recurrence",
    right="Two running sums of fixed size replace a KV cache that grows, so this attention is a recurrent network.",
    cases=featured,
    without=("tril", "triu", "tril_", "triu_"),
)
def running(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    sums = (k[..., None] * v[..., None, :]).cumsum(-3)
    return (q[..., None, :] @ sums).squeeze(-2) / (q * k.cumsum(-2)).sum(-1, keepdim=True)


@running.mistake
def all_of_it(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every query sees the whole text, including the future. Each position needs the sums up to itself."""
    return q @ (k.mT @ v) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)


@running.mistake
def not_divided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The sums of the values are right; divide by those of the weights."""
    sums = (k[..., None] * v[..., None, :]).cumsum(-3)
    return (q[..., None, :] @ sums).squeeze(-2)


@running.mistake
def divided_by_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Your numerator sums up to each position and your denominator over the whole text; both have to be running
    sums."""
    sums = (k[..., None] * v[..., None, :]).cumsum(-3)
    return (q[..., None, :] @ sums).squeeze(-2) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)


@running.mistake
def from_the_end(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Your sums run from the end of the text; a position should see the tokens before it."""
    parts = (x.flip(-2) for x in (q, k, v))
    return running.reference(*parts).flip(-2)


@running.mistake
def summed_apart(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """You sum keys and values separately and multiply the sums. Multiply each key by its own value, then sum."""
    sums = k.cumsum(-2)[..., None] * v.cumsum(-2)[..., None, :]
    return (q[..., None, :] @ sums).squeeze(-2) / (q * k.cumsum(-2)).sum(-1, keepdim=True)
