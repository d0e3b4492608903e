"""The exercises of lesson 01."""

from collections.abc import Callable, Iterator
from math import exp, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# Softmax, and the matrix form.


@exercise(
    difficulty=1,
    minutes=3,
    trains="turning scores into weights",
    right="Many poor keys together outweigh one good key, so a longer source needs larger gaps between scores.",
    tolerance=0.01,
)
def crowd() -> float:
    return exp(3) / (exp(3) + 20)


@crowd.mistake
def one_rival() -> float:
    """This is the weight against a single key with the score 0, but here there are twenty of them."""
    return exp(3) / (exp(3) + 1)


@crowd.mistake
def all_of_it() -> float:
    """A score of 0 does not give a weight of 0: each of the twenty keys adds e⁰, which is 1, to the sum."""
    return 1.0


@crowd.mistake
def no_exponential() -> float:
    """You divided the scores themselves. A softmax divides their exponentials, so the one key adds e³ rather than 3."""
    return 3 / (3 + 20)


@crowd.mistake
def not_divided_by_sum() -> float:
    """This is what the one key adds to the sum of the exponentials; its weight is its share of the sum."""
    return exp(3)


@crowd.mistake
def percent() -> float:
    """Your answer is in percent. Weights sum to 1, so give a number between 0 and 1."""
    return 100 * exp(3) / (exp(3) + 20)


@crowd.mistake
def plain_average() -> float:
    """This would be the weight if all 21 scores were equal, but one of them is 3."""
    return 1 / 21


def queries_and_keys(draw: Draw) -> Iterator[Inputs]:
    for batch, queries, keys, width in (((), 1, 2, 2), ((), 2, 3, 4), ((), 3, 3, 8), ((2,), 1, 2, 3), ((2,), 2, 3, 4)):
        yield {
            "query": draw(*batch, queries, width),
            "key": draw(*batch, keys, width),
            "value": draw(*batch, keys, 2),
        }


@exercise(
    difficulty=2,
    minutes=10,
    trains="the matrix form",
    right="These two lines are the core of every Transformer; the rest of lesson 01 explains them.",
    cases=queries_and_keys,
    without=("scaled_dot_product_attention",),
)
def scaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (query @ key.transpose(-2, -1) / sqrt(query.shape[-1])).softmax(-1) @ value


@scaled.mistake
def not_turned(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """You did not transpose the keys. The product only ran because there are as many keys as columns."""
    return (query @ key / sqrt(query.shape[-1])).softmax(-1) @ value


@scaled.mistake
def softmax_over_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Your weights sum to 1 over the queries, but they should sum to 1 over the keys."""
    return (query @ key.transpose(-2, -1) / sqrt(query.shape[-1])).softmax(-2) @ value


@scaled.mistake
def softmax_over_first(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Your softmax runs over the first axis: the queries, or the batch if there is one. It should run over the keys."""
    return (query @ key.transpose(-2, -1) / sqrt(query.shape[-1])).softmax(0) @ value


@scaled.mistake
def softmax_over_second(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Axis 1 holds the keys without a batch, and the queries with one. Count from the end: the keys are axis -1."""
    return (query @ key.transpose(-2, -1) / sqrt(query.shape[-1])).softmax(1) @ value


@scaled.mistake
def turned_all_axes(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`.T` is for a single matrix. With a batch, only the last two axes should change places: `.transpose(-2, -1)`."""
    turned = key.permute(*reversed(range(key.dim())))
    return (query @ turned / sqrt(query.shape[-1])).softmax(-1) @ value


@scaled.mistake
def not_divided(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores are not divided by the square root of the width."""
    return (query @ key.transpose(-2, -1)).softmax(-1) @ value


@scaled.mistake
def divided_by_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """You divide the scores by the width itself; divide them by its square root."""
    return (query @ key.transpose(-2, -1) / query.shape[-1]).softmax(-1) @ value


@scaled.mistake
def divided_by_number_of_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """You divide by the square root of the number of keys; take their width, over which a dot product sums."""
    return (query @ key.transpose(-2, -1) / sqrt(key.shape[-2])).softmax(-1) @ value


@scaled.mistake
def divided_by_second_length(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`shape[1]` is the width only without a batch; count from the end: `shape[-1]`."""
    return (query @ key.transpose(-2, -1) / sqrt(query.shape[1])).softmax(-1) @ value


@scaled.mistake
def divided_too_late(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Divide the scores before the softmax; dividing the weights makes their sum smaller than 1."""
    return (query @ key.transpose(-2, -1)).softmax(-1) / sqrt(query.shape[-1]) @ value


@scaled.mistake
def scores_as_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """You mix with scores, which may be negative and need not sum to 1; a softmax over the keys is missing."""
    return query @ key.transpose(-2, -1) / sqrt(query.shape[-1]) @ value


@scaled.mistake
def weights_only(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """These are the right weights; multiply them with the values now."""
    return (query @ key.transpose(-2, -1) / sqrt(query.shape[-1])).softmax(-1)


# ----------------------------------------------------------------------------------------------------
# The divisor of the scores.


@exercise(
    difficulty=2,
    minutes=5,
    trains="what the square root of d is for",
    right="√d is right only for entries of variance 1, so a network's initialization has to provide that variance.",
)
def divisor() -> float:
    return 72.0  # sqrt(64 * 3**2 * 3**2)


@divisor.mistake
def of_variance_one() -> float:
    """This is √d, which is right for entries of variance 1; the standard deviation of these is 3."""
    return 8.0


@divisor.mistake
def one_side_only() -> float:
    """The factor 3 enters each product twice, once from the query and once from the key."""
    return 24.0


@divisor.mistake
def width_itself() -> float:
    """This is d, the variance for entries of variance 1. You need the standard deviation, for entries of 3."""
    return 64.0


@divisor.mistake
def variance_itself() -> float:
    """This is the variance of the dot product; divide by its square root."""
    return 5184.0


@divisor.mistake
def one_side_and_no_root() -> float:
    """This is 64 · 9, the variance if only the query or the key had a deviation of 3; the divisor is a square root."""
    return 576.0


# ----------------------------------------------------------------------------------------------------
# Batched matrix multiplication.


def batches(draw: Draw) -> Iterator[Inputs]:
    for batch, queries, keys, width in ((1, 1, 3, 2), (1, 2, 3, 2), (2, 3, 4, 4), (3, 2, 3, 8)):
        yield {"query": draw(batch, queries, width), "key": draw(batch, keys, width), "value": draw(batch, keys, 1)}


def with_bmm(query: Tensor, turned: Tensor, value: Tensor, divided_by: int, axis: int) -> Tensor:
    """Attention with a softmax over the axis `axis`, from keys that are transposed already."""
    return torch.bmm((torch.bmm(query, turned) / sqrt(divided_by)).softmax(axis), value)


def reshaped(key: Tensor) -> Tensor:
    return key.reshape(len(key), key.shape[2], key.shape[1])


@exercise(
    difficulty=3,
    minutes=10,
    trains="finding mistakes that fit the shapes",
    right="The right shape does not prove the right result: compare with a tiny example by hand, or with a loop.",
    cases=batches,
)
def batched(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return with_bmm(query, key.transpose(1, 2), value, query.shape[2], 2)


@batched.mistake
def all_three(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All three mistakes are still there. Begin with the sum of each row of the weights."""
    return with_bmm(query, reshaped(key), value, key.shape[1], 1)


@batched.mistake
def axis_left(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One mistake is left: your weights sum to 1 over the queries instead of the keys."""
    return with_bmm(query, key.transpose(1, 2), value, query.shape[2], 1)


@batched.mistake
def reshape_left(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One mistake is left: `reshape` gives the right shape but breaks the keys apart; exchange the axes instead."""
    return with_bmm(query, reshaped(key), value, query.shape[2], 2)


@batched.mistake
def divisor_left(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One mistake is left: you divide by the square root of the number of keys instead of the width."""
    return with_bmm(query, key.transpose(1, 2), value, key.shape[1], 2)


@batched.mistake
def root_left(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One mistake is left: you divide by the width instead of its square root."""
    return with_bmm(query, key.transpose(1, 2), value, query.shape[2] ** 2, 2)


@batched.mistake
def axis_mended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The softmax is right now. Two mistakes are left, in the lines of `turned` and `scores`."""
    return with_bmm(query, reshaped(key), value, key.shape[1], 2)


@batched.mistake
def reshape_mended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The keys are transposed correctly now. Two mistakes are left: the divisor, and the axis of the softmax."""
    return with_bmm(query, key.transpose(1, 2), value, key.shape[1], 1)


@batched.mistake
def divisor_mended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The divisor is right now. Two mistakes are left: how the keys are transposed, and the axis of the softmax."""
    return with_bmm(query, reshaped(key), value, query.shape[2], 1)


# ----------------------------------------------------------------------------------------------------
# Kernel regression by dot products.


def measurements(draw: Draw) -> Iterator[Inputs]:
    rain, river = torch.tensor([20.0, 40.0]), torch.tensor([[80.0], [180.0]])
    yield {"query": torch.tensor([25.0]), "key": rain, "value": river, "bandwidth": 10.0}
    for queries, keys, bandwidth in ((2, 3, 1.0), (3, 2, 0.5), (4, 5, 2.0)):
        yield {"query": draw(queries), "key": draw(keys), "value": draw(keys, 2), "bandwidth": bandwidth}


def by_columns(query: tuple[Tensor, Tensor], key: tuple[Tensor, Tensor], value: Tensor) -> Tensor:
    """Torch's attention over queries and keys that are given by their two columns."""
    return F.scaled_dot_product_attention(torch.stack(query, -1), torch.stack(key, -1), value)


@exercise(
    difficulty=4,
    minutes=20,
    trains="the Gaussian score inside the dot product",
    right="One more column contains what a dot product leaves out, so attention can compute kernel regression exactly.",
    cases=measurements,
    without=("exp", "exp2", "expm1", "__rpow__", "softmax", "log_softmax", "softmin", "sigmoid", "tanh"),
)
def kernel(query: Tensor, key: Tensor, value: Tensor, bandwidth: float) -> Tensor:
    return (-((query[:, None] - key) ** 2) / (2 * bandwidth**2)).softmax(-1) @ value


@kernel.mistake
def root_forgotten(query: Tensor, key: Tensor, value: Tensor, bandwidth: float) -> Tensor:
    """Torch divides by the square root of the width, which is √2 with two columns: multiply the queries by it first."""
    return by_columns((query / bandwidth**2, torch.ones_like(query) / bandwidth**2), (key, -key * key / 2), value)


@kernel.mistake
def half_forgotten(query: Tensor, key: Tensor, value: Tensor, bandwidth: float) -> Tensor:
    """The square of the key has to be halved: (q - k)²/2 is q²/2 - q·k + k²/2."""
    root = sqrt(2) / bandwidth**2
    return by_columns((query * root, torch.ones_like(query) * root), (key, -key * key), value)


@kernel.mistake
def wrong_sign(query: Tensor, key: Tensor, value: Tensor, bandwidth: float) -> Tensor:
    """The square of the key has to be subtracted; you add it, which gives long keys even higher scores."""
    root = sqrt(2) / bandwidth**2
    return by_columns((query * root, torch.ones_like(query) * root), (key, key * key / 2), value)


@kernel.mistake
def bandwidth_not_squared(query: Tensor, key: Tensor, value: Tensor, bandwidth: float) -> Tensor:
    """You divide the scores by the bandwidth; divide them by its square."""
    root = sqrt(2) / bandwidth
    return by_columns((query * root, torch.ones_like(query) * root), (key, -key * key / 2), value)


@kernel.mistake
def one_column(query: Tensor, key: Tensor, value: Tensor, bandwidth: float) -> Tensor:
    """This is the plain dot product, which prefers long keys; the square of the key needs a column of its own."""
    return F.scaled_dot_product_attention(query[:, None] / bandwidth**2, key[:, None], value)


# ----------------------------------------------------------------------------------------------------
# Additive attention.


def states_and_matrices(draw: Draw) -> Iterator[Inputs]:
    for batch, queries, keys, hidden in ((1, 1, 2, 1), (1, 2, 3, 2), (2, 1, 2, 2), (2, 3, 3, 4), (3, 3, 4, 2)):
        yield {
            "query": draw(batch, queries, 2),
            "key": draw(batch, keys, 3),
            "value": draw(batch, keys, 1),
            "W_q": draw(hidden, 2),
            "W_k": draw(hidden, 3),
            "w": draw(hidden),
        }


@exercise(
    difficulty=3,
    minutes=15,
    trains="additive attention, broadcasting",
    right="Query and key only interact inside the tanh. Without it, every query gets the same weights.",
    cases=states_and_matrices,
)
def additive(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    pairs = (query @ W_q.T)[:, :, None, :] + (key @ W_k.T)[:, None, :, :]  # (B, T, S, hidden)
    return (pairs.tanh() @ w).softmax(-1) @ value


@additive.mistake
def no_softmax(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    """You mix with scores, which may be negative and need not sum to 1; a softmax over the keys is missing."""
    return ((query @ W_q.T)[:, :, None, :] + (key @ W_k.T)[:, None, :, :]).tanh() @ w @ value


@additive.mistake
def no_tanh(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    """Without tanh a query adds the same number to all its scores. The softmax ignores it, so all queries are equal."""
    return (((query @ W_q.T)[:, :, None, :] + (key @ W_k.T)[:, None, :, :]) @ w).softmax(-1) @ value


@additive.mistake
def tanh_before_the_sum(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    """Take the tanh of the sum. If you apply it to each part alone, the softmax ignores the query's part."""
    parts = (query @ W_q.T).tanh()[:, :, None, :] + (key @ W_k.T).tanh()[:, None, :, :]
    return (parts @ w).softmax(-1) @ value


@additive.mistake
def over_queries(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    """Your weights sum to 1 over the queries, but they should sum to 1 over the keys."""
    pairs = (query @ W_q.T)[:, :, None, :] + (key @ W_k.T)[:, None, :, :]
    return (pairs.tanh() @ w).softmax(1) @ value


@additive.mistake
def divided(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    """Additive scores are not divided, because tanh bounds them for vectors of any width."""
    pairs = (query @ W_q.T)[:, :, None, :] + (key @ W_k.T)[:, None, :, :]
    return (pairs.tanh() @ w / sqrt(len(w))).softmax(-1) @ value


@additive.mistake
def axes_of_the_lesson(query: Tensor, key: Tensor, value: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> Tensor:
    """With a batch axis in front, the new axes move by one place: `[:, :, None, :]` and `[:, None, :, :]`."""
    pairs = (query @ W_q.T)[:, None, :] + (key @ W_k.T)[None, :, :]
    return (pairs.tanh() @ w).softmax(-1) @ value


# ----------------------------------------------------------------------------------------------------
# How the gradient vanishes.


def slope(gap: float) -> float:
    """The derivative of the first of two weights by its score, which lies `gap` above the other."""
    return exp(-gap) / (1 + exp(-gap)) ** 2


@exercise(
    difficulty=3,
    minutes=10,
    trains="why large scores stop the learning",
    right="The division costs the gradient a factor of 8 and gains nearly a million, so the query can still learn.",
    tolerance=0.01,
)
def gradient() -> float:
    return slope(16 / 8) / 8 / slope(16)


@gradient.mistake
def no_chain_rule() -> float:
    """This is the derivative for the score after the division; the chain rule adds a factor of 1/8."""
    return slope(2) / slope(16)


@gradient.mistake
def in_32_bits() -> float:
    """In float32, 1 minus a weight of almost 1 loses its digits: take the other key's weight, or float64."""
    first = torch.tensor([16.0, 0.0]).softmax(0)[0]
    return slope(2) / 8 / (first * (1 - first)).item()


@gradient.mistake
def in_32_bits_without_chain_rule() -> float:
    """Two mistakes: 1 minus a weight of almost 1 loses its digits in float32, and the chain rule's 1/8 is missing."""
    return 8 * in_32_bits()


@gradient.mistake
def only_exponentials() -> float:
    """You compare e to the minus gap. The product of the two weights is close to it at a gap of 16, but not at 2."""
    return exp(16 - 2) / 8


@gradient.mistake
def only_exponentials_without_chain_rule() -> float:
    """Two mistakes: e to the minus gap is a poor approximation at a gap of 2, and the chain rule's 1/8 is missing."""
    return exp(16 - 2)


@gradient.mistake
def scores_compared() -> float:
    """This is the ratio of the scores; the gradient changes almost exponentially with them."""
    return 8.0


# ----------------------------------------------------------------------------------------------------
# Keys in pieces.


def sources_in_pieces(draw: Draw) -> Iterator[Inputs]:
    for queries, pieces, width, size in ((1, (1, 1), 1, 1), (1, (2, 1), 2, 1), (3, (4,), 2, 1), (2, (1, 3, 2), 4, 1)):
        keys, values = [draw(n, width) for n in pieces], [draw(n, 2) for n in pieces]
        yield {"query": size * draw(queries, width), "keys": keys, "values": values}
    far = [torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.01, 0.0]])]
    for query in ([[300.0, 0.0]], [[-300.0, 0.0]], [[300.0, 0.0], [0.0, 1.0]]):
        yield {"query": torch.tensor(query), "keys": far, "values": [draw(1, 1), draw(2, 1)]}


def merged(query: Tensor, keys: list[Tensor], values: list[Tensor], subtract: Callable) -> Tensor:
    """Attention over joined pieces; `subtract` says what is taken off the scores of each before the exponential."""
    scores = [query @ key.T / sqrt(query.shape[-1]) for key in keys]
    grown = [(own - subtract(own, torch.cat(scores, -1))).exp() for own in scores]
    return torch.cat(grown, -1) @ torch.cat(values) / torch.cat(grown, -1).sum(-1, keepdim=True)


def walked(
    query: Tensor, keys: list[Tensor], values: list[Tensor], rescale_sums: bool = True, rescale_mixture: bool = True
) -> Tensor:
    """The online softmax, which may forget to rescale its sums or its mixture."""
    top, total, mixed = torch.tensor(-torch.inf), torch.tensor(0.0), torch.tensor(0.0)
    for key, value in zip(keys, values, strict=True):
        scores = query @ key.T / sqrt(query.shape[-1])
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        grown, keep, top = (scores - new_top).exp(), (top - new_top).exp(), new_top
        total = (keep if rescale_sums else 1.0) * total + grown.sum(-1, keepdim=True)
        mixed = (keep if rescale_mixture else 1.0) * mixed + grown @ value
    return mixed / total


@exercise(
    difficulty=5,
    minutes=30,
    trains="the online softmax",
    right="With this, a source of any length fits: FlashAttention does the same and never stores the attention matrix.",
    cases=sources_in_pieces,
    without=("cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "column_stack"),
)
def pieces(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    return scaled.reference(query, torch.cat(keys), torch.cat(values))


@pieces.mistake
def averaged(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """You average the pieces' outputs equally; weight each piece by its sum of exponentials."""
    return torch.stack([scaled.reference(query, key, value) for key, value in zip(keys, values, strict=True)]).mean(0)


@pieces.mistake
def added(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """You add finished mixtures, so your weights sum to the number of pieces instead of 1."""
    return torch.stack([scaled.reference(query, key, value) for key, value in zip(keys, values, strict=True)]).sum(0)


@pieces.mistake
def last_piece(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Your result contains only the last piece, because each round overwrites the results of the earlier rounds."""
    return scaled.reference(query, keys[-1], values[-1])


@pieces.mistake
def no_largest(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """This is right for small scores, but the exponentials of these overflow in float32. Subtract the largest first."""
    return merged(query, keys, values, lambda own, all_of_them: 0.0)


@pieces.mistake
def own_largest(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Each piece has subtracted its own largest score; rescale them to a common one before you add."""
    return merged(query, keys, values, lambda own, all_of_them: own.amax(-1, keepdim=True))


@pieces.mistake
def one_for_all_queries(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """With one largest score for all queries, a query with much lower scores underflows to 0: take one per row."""
    return merged(query, keys, values, lambda own, all_of_them: all_of_them.max())


@pieces.mistake
def largest_from_zero(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Your largest score starts at 0, so it cannot become negative as it should here: start at minus infinity."""
    return merged(query, keys, values, lambda own, all_of_them: all_of_them.amax(-1, keepdim=True).clamp(min=0))


@pieces.mistake
def sums_not_rescaled(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """You rescale the mixture when the largest score changes; the sum of the exponentials needs the same factor."""
    return walked(query, keys, values, rescale_sums=False)


@pieces.mistake
def mixture_not_rescaled(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """You rescale the sum of the exponentials when the largest score changes; the mixture needs the same factor."""
    return walked(query, keys, values, rescale_mixture=False)


@pieces.mistake
def undivided(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """The pieces are merged correctly, but the scores are not divided by the square root of the width."""
    return scaled.reference(query * sqrt(query.shape[-1]), torch.cat(keys), torch.cat(values))
