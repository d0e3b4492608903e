"""The exercises of lesson 01."""

from collections.abc import Iterator
from math import sqrt

from torch import Tensor

from tfm_lib.checks.exercise import Draw, Inputs, exercise


@exercise(
    difficulty=1,
    minutes=3,
    trains="why scores are divided by the square root of d",
    right="It grows with the width, so wide vectors without the division give a softmax that has already decided.",
)
def variance() -> float:
    return 64.0


@variance.mistake
def deviation() -> float:
    """That is the standard deviation; the variance is its square."""
    return 8.0


@variance.mistake
def one_product() -> float:
    """That is the variance of one product; a dot product adds 64 of them."""
    return 1.0


@variance.mistake
def sum_of_both() -> float:
    """Variances add when numbers are added; here the numbers of query and key are multiplied first."""
    return 128.0


def queries_and_keys(draw: Draw) -> Iterator[Inputs]:
    for queries, keys, width in ((1, 2, 2), (2, 3, 4), (3, 3, 8)):
        yield {"query": draw(queries, width), "key": draw(keys, width), "value": draw(keys, 2)}


@exercise(
    difficulty=2,
    minutes=10,
    trains="the matrix form",
    right="These two lines are the heart of every Transformer; all the rest of lesson 01 explains them.",
    cases=queries_and_keys,
)
def scaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = (query @ key.T / sqrt(query.shape[-1])).softmax(-1)
    return weights @ value


@scaled.mistake
def softmax_over_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Your weights sum to 1 over the queries; they should over the keys."""
    return (query @ key.T / sqrt(query.shape[-1])).softmax(0) @ value


@scaled.mistake
def not_divided(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores are not divided by the square root of the width."""
    return (query @ key.T).softmax(-1) @ value


@scaled.mistake
def divided_by_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores are divided by the width itself; the square root of it is wanted."""
    return (query @ key.T / query.shape[-1]).softmax(-1) @ value
