"""The exercises of lesson 04."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import acos, asin, atan2, pi, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.positions import sinusoidal_table


def speeds(d_model: int) -> Tensor:
    """How far each hand turns from a position to the next -> (D/2,), radians, float64."""
    return 10000 ** (-2 * torch.arange(d_model // 2, dtype=torch.double) / d_model)


def positions(num_positions: int) -> Tensor:
    """The numbers of the positions, below each other -> (P, 1), float64."""
    return torch.arange(num_positions, dtype=torch.double)[:, None]


# ----------------------------------------------------------------------------------------------------
# 1: how slow is the slowest hand?


@exercise(
    difficulty=1,
    minutes=3,
    trains="reading the exponent",
    right="With two hands the slower one needs a hundredth of the 10000 · 2π that the paper names as the limit.",
    tolerance=0.01,
)
def slowest() -> float:
    return 2 * pi * 10000 ** (2 / 4)


@slowest.mistake
def the_limit() -> float:
    """That is the limit 10000 · 2π, which the last hand never reaches: it has i = d/2 - 1, not d/2."""
    return 2 * pi * 10000


@slowest.mistake
def without_a_turn() -> float:
    """After so many positions the hand has turned by one radian; a full turn takes 2π of them."""
    return 10000 ** (2 / 4)


@slowest.mistake
def the_divisor() -> float:
    """The 10000 is raised to the power of 2i/d before it divides, and a full turn takes 2π radians."""
    return 10000


@slowest.mistake
def the_fastest() -> float:
    """That is the first hand, which turns by one radian per position; the slowest is the last."""
    return 2 * pi


@slowest.mistake
def one_for_two() -> float:
    """Your exponent is i / d; it should be 2i / d."""
    return 2 * pi * 10000 ** (1 / 4)


@slowest.mistake
def counts_columns() -> float:
    """Your i is the number of the last column, 3; it should count hands, of which there are two, 0 and 1."""
    return 2 * pi * 10000 ** (6 / 4)


# ----------------------------------------------------------------------------------------------------
# 2: is this layer blind to order? Layers, (T, D) -> (T, D), with names that a diagnosis can show.


@dataclass(frozen=True)
class Doubled:
    def __call__(self, x: Tensor) -> Tensor:
        return 2 * x


@dataclass(frozen=True)
class RowsNumbered:
    def __call__(self, x: Tensor) -> Tensor:
        return x + torch.arange(len(x))[:, None]


@dataclass(frozen=True)
class MeanOfAll:
    """In one order after the other, since rounding then differs in the same way on every machine."""

    def __call__(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x[0])
        for row in x:
            total = total + row
        return (total / len(x)).expand_as(x)


@dataclass(frozen=True)
class SelfAttention:
    def __call__(self, x: Tensor) -> Tensor:
        return (x @ x.T).softmax(-1) @ x


@dataclass(frozen=True)
class MeanSoFar:
    def __call__(self, x: Tensor) -> Tensor:
        return x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None]


@dataclass(frozen=True)
class NeighborsInARing:
    def __call__(self, x: Tensor) -> Tensor:
        return x.roll(1, 0) + x + x.roll(-1, 0)


@dataclass(frozen=True)
class FirstWordDoubled:
    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([2 * x[:1], x[1:]])


@dataclass(frozen=True)
class Sorted:
    def __call__(self, x: Tensor) -> Tensor:
        return x.sort(0).values


def layers(draw: Draw) -> Iterator[Inputs]:
    """A third of the orders of four words leave a ring as it is, a third of those of three words the first in place."""
    x = draw.integers(1, 10, 6, 2) / 10
    for layer in (Doubled, RowsNumbered, MeanOfAll, SelfAttention, MeanSoFar, Sorted):
        yield {"layer": layer(), "x": x, "asked": 1}
    yield {"layer": NeighborsInARing(), "x": draw.integers(1, 10, 4, 2) / 10, "asked": 20}
    yield {"layer": FirstWordDoubled(), "x": torch.tensor([[0.1, 0.2], [0.4, 0.3], [0.5, 0.8]]), "asked": 20}


def fooled_once(answer: Callable, layer: Callable[[Tensor], Tensor], x: Tensor, asked: int) -> bool:
    """What a test says, asked so many times: True if it says so once, for chance must not decide."""
    return max([answer(layer, x) for _ in range(asked)])


def turned_and_swapped(rows: int) -> list[list[int]]:
    """All rows moved on by one, and the first two swapped: of these two, all orders can be made."""
    return [[rows - 1, *range(rows - 1)], [1, 0, *range(2, rows)]]


@exercise(
    difficulty=2,
    minutes=12,
    trains="permutation equivariance, and how to test a property",
    right="Three lines tell of any layer whether it needs positions; the ring shows that one order is no test.",
    cases=layers,
    call=fooled_once,
)
def equivariant(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    return all(torch.allclose(layer(x[o]), layer(x)[o], atol=1e-5) for o in turned_and_swapped(len(x)))


@equivariant.mistake
def invariant(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You test whether the result stays the same, which is invariance; equivariant means that it is shuffled alike."""
    return all(torch.allclose(layer(x[o]), layer(x), atol=1e-5) for o in turned_and_swapped(len(x)))


@equivariant.mistake
def reversed_only(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """A ring gets along with every shift and every reversal, so it passes your test; try orders that tear neighbors
    apart, and more of them."""
    return torch.allclose(layer(x.flip(0)), layer(x).flip(0), atol=1e-5)


@equivariant.mistake
def last_two_swapped(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """A layer that treats the first word in its own way passes your test, as it does wherever an order leaves that word
    in place; try more orders, so that each word moves in some."""
    order = [*range(len(x) - 2), len(x) - 1, len(x) - 2]
    return torch.allclose(layer(x[order]), layer(x)[order], atol=1e-5)


@equivariant.mistake
def one_random_order(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Asked 20 times, your test let both the ring and the doubled first word through: with one order or two it
    depends on chance, and with `any` one lucky order is enough. Try many orders, and demand that all of them agree."""
    order = torch.randperm(len(x))
    return torch.allclose(layer(x[order]), layer(x)[order], atol=1e-5)


@equivariant.mistake
def bit_by_bit(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You compare bit by bit, but a sum in another order is rounded differently; allow for a small difference."""
    orders = [torch.randperm(len(x)) for _ in range(10)]
    return all(torch.equal(layer(x[order]), layer(x)[order]) for order in orders)


@equivariant.mistake
def shuffled_twice(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You say no of a layer that treats each row alone. Compare `layer(x[order])` with `layer(x)[order]`: to shuffle
    one side twice does not undo it, for that takes the inverse, `order.argsort()`."""
    return all(torch.allclose(layer(x[o])[o], layer(x), atol=1e-5) for o in turned_and_swapped(len(x)))


@equivariant.mistake
def not_shuffled(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You find a layer equivariant that is not. Are the rows really shuffled, and do you compare all values, not
    shapes or sums?"""
    return layer(x).shape == x.shape


# ----------------------------------------------------------------------------------------------------
# 3: one sine is enough.


def sizes(draw: Draw) -> Iterator[Inputs]:
    for num_positions, d_model in ((2, 2), (2, 4), (4, 6), (50, 16)):
        yield {"num_positions": num_positions, "d_model": d_model}


def columns(d_model: int) -> Tensor:
    return torch.arange(d_model, dtype=torch.double)


@exercise(
    difficulty=3,
    minutes=12,
    trains="the table, and what a cosine is",
    right="A cosine is a sine a quarter turn ahead, so the table is one bank of waves, and not two kinds of column.",
    cases=sizes,
    without=("cos", "cos_"),
)
def one_sine(num_positions: int, d_model: int) -> Tensor:
    return sinusoidal_table(num_positions, d_model)


@one_sine.mistake
def cosine_first(num_positions: int, d_model: int) -> Tensor:
    """Sine and cosine have changed places: the even columns are the sines."""
    return sinusoidal_table(num_positions, d_model).unflatten(1, (-1, 2)).flip(2).flatten(1)


@one_sine.mistake
def quarter_back(num_positions: int, d_model: int) -> Tensor:
    """Your odd columns are minus the cosine: the quarter turn has to be added, not taken away."""
    return sinusoidal_table(num_positions, d_model) * torch.tensor([1.0, -1.0]).repeat(d_model // 2)


@one_sine.mistake
def half_turn(num_positions: int, d_model: int) -> Tensor:
    """You add π, which is half a turn and makes minus the sine; a quarter turn is π / 2."""
    angle = positions(num_positions) * speeds(d_model).repeat_interleave(2)
    return (angle + columns(d_model) % 2 * pi).sin().float()


@one_sine.mistake
def no_quarter(num_positions: int, d_model: int) -> Tensor:
    """All your columns are sines without a quarter turn; the odd ones should be a quarter turn, π / 2, ahead."""
    return (positions(num_positions) * speeds(d_model).repeat_interleave(2)).sin().float()


@one_sine.mistake
def quarter_times_position(num_positions: int, d_model: int) -> Tensor:
    """You add the quarter turn to the speed, so that the position multiplies it; add it to the angle."""
    ahead = columns(d_model) % 2 * pi / 2
    return (positions(num_positions) * (speeds(d_model).repeat_interleave(2) + ahead)).sin().float()


@one_sine.mistake
def degrees(num_positions: int, d_model: int) -> Tensor:
    """You add 90 as if angles were degrees; `sin` takes radians, and a quarter turn is π / 2 of them."""
    angle = positions(num_positions) * speeds(d_model).repeat_interleave(2)
    return (angle + columns(d_model) % 2 * 90).sin().float()


@one_sine.mistake
def never_negative(num_positions: int, d_model: int) -> Tensor:
    """The root of 1 - sin² is never negative, but a cosine is, half of the time."""
    sine = (positions(num_positions) * speeds(d_model)).sin()
    return torch.stack([sine, (1 - sine**2).sqrt()], -1).flatten(1).float()


@one_sine.mistake
def ever_faster(num_positions: int, d_model: int) -> Tensor:
    """Your hands get faster from left to right: the power of 10000 divides, so its exponent has a minus."""
    angle = positions(num_positions) / speeds(d_model).repeat_interleave(2)
    return (angle + columns(d_model) % 2 * pi / 2).sin().float()


@one_sine.mistake
def in_halves(num_positions: int, d_model: int) -> Tensor:
    """All your sines stand before all cosines; here they should alternate."""
    return sinusoidal_table(num_positions, d_model, interleaved=False)


@one_sine.mistake
def speed_of_each_column(num_positions: int, d_model: int) -> Tensor:
    """Each of your columns has a speed of its own; columns 2i and 2i + 1 belong to one hand and share its speed."""
    angle = positions(num_positions) * 10000 ** (-columns(d_model) / d_model)
    return (angle + columns(d_model) % 2 * pi / 2).sin().float()


@one_sine.mistake
def i_counts_columns(num_positions: int, d_model: int) -> Tensor:
    """Your i runs over all columns; it should count hands, from 0 to d/2 - 1, and be the same for a sine and its
    cosine."""
    angle = positions(num_positions) * 10000 ** (-2 * columns(d_model) / d_model)
    return (angle + columns(d_model) % 2 * pi / 2).sin().float()


@one_sine.mistake
def half_the_exponent(num_positions: int, d_model: int) -> Tensor:
    """Your exponent is i / d; it should be 2i / d, so that the last hand is nearly 10000 times slower than the
    first."""
    angle = positions(num_positions) * speeds(d_model).sqrt().repeat_interleave(2)
    return (angle + columns(d_model) % 2 * pi / 2).sin().float()


@one_sine.mistake
def from_one(num_positions: int, d_model: int) -> Tensor:
    """Your first position is number 1; positions count from 0, where all hands are upright."""
    return sinusoidal_table(num_positions + 1, d_model)[1:]


# ----------------------------------------------------------------------------------------------------
# 4: the matrix of an offset, in halves.


def offsets(draw: Draw) -> Iterator[Inputs]:
    for offset, d_model in ((1, 2), (1, 4), (-2, 4), (3, 6), (0, 4), (5, 16)):
        yield {"offset": offset, "d_model": d_model}


def in_blocks(angle: Tensor, upper: int = 1, lower: int = -1) -> Tensor:
    """Four diagonal blocks, cosines on the diagonal, sines of these signs beside it: (D/2,) -> (D, D)."""
    cosine, sine = angle.cos().diag(), angle.sin().diag()
    return torch.cat([torch.cat([cosine, upper * sine], 1), torch.cat([lower * sine, cosine], 1)]).float()


@exercise(
    difficulty=3,
    minutes=15,
    trains="the rotation of an offset",
    right="One matrix serves all positions, in every layout, which is why a head can learn to look a fixed way back.",
    cases=offsets,
)
def turn(offset: int, d_model: int) -> Tensor:
    return in_blocks(offset * speeds(d_model))


@turn.mistake
def turns_back(offset: int, d_model: int) -> Tensor:
    """Your matrix leads from p to p - k, or expects rows on its left; for `matrix @ row` the minus belongs to the
    other sine."""
    return in_blocks(-offset * speeds(d_model))


@turn.mistake
def mirror(offset: int, d_model: int) -> Tensor:
    """Both of your sines have the same sign, so the matrix is no rotation: one of them needs a minus."""
    return in_blocks(offset * speeds(d_model), lower=1)


@turn.mistake
def mirror_back(offset: int, d_model: int) -> Tensor:
    """Both of your sines have a minus, so the matrix is no rotation: the sine's row of the formula has a plus."""
    return in_blocks(offset * speeds(d_model), upper=-1)


@turn.mistake
def for_alternating(offset: int, d_model: int) -> Tensor:
    """That matrix is right where sines and cosines alternate; here all sines stand before all cosines."""
    order = torch.arange(d_model).view(2, -1).T.flatten()
    return in_blocks(offset * speeds(d_model))[order][:, order]


@turn.mistake
def all_alike(offset: int, d_model: int) -> Tensor:
    """All your hands turn by the same angle; hand i turns by the offset times its own speed."""
    return in_blocks(offset * torch.ones(d_model // 2, dtype=torch.double))


@turn.mistake
def one_position(offset: int, d_model: int) -> Tensor:
    """Your matrix leads one position further, whatever the offset; the angles are the offset times the speeds."""
    return in_blocks(speeds(d_model))


@turn.mistake
def half_exponent_of_turn(offset: int, d_model: int) -> Tensor:
    """Your speeds have the exponent i / d; it should be 2i / d, with i from 0 to d/2 - 1."""
    return in_blocks(offset * speeds(d_model).sqrt())


# ----------------------------------------------------------------------------------------------------
# 5: three mistakes in an embedding.


def texts(draw: Draw) -> Iterator[Inputs]:
    rows = torch.tensor([[0.1] * 4, [0.2] * 4, [0.3] * 4])
    small = {"weight": torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]]), "table": rows}
    for past, dropout in ((0, 0.0), (2, 0.0), (0, 1.0)):
        yield {"ids": torch.tensor([[1]]), **small, "past": past, "dropout": dropout}
    yield {"ids": torch.tensor([[0, 1]]), **small, "past": 1, "dropout": 0.0}
    yield {"ids": draw.integers(0, 3, 2, 3), "weight": draw(3, 2), "table": draw(4, 2), "past": 1, "dropout": 0.0}
    ones = {"weight": torch.ones(3, 4), "table": torch.ones(9, 4)}
    yield {"ids": draw.integers(0, 3, 2, 6), **ones, "past": 0, "dropout": 0.5}


def numbers_of(answer: Callable, **inputs: object) -> Tensor | dict[str, Tensor]:
    """What an answer returns; of random numbers, which differ from answer to answer, only which of them there are."""
    came = answer(**inputs)
    return came if inputs["dropout"] in (0, 1) else {"values that occur": came.unique()}


@exercise(
    difficulty=3,
    minutes=12,
    trains="scale, position and dropout, in the paper's order",
    right="None of the three raises an error, and the loss falls all the same: that is why they are so common.",
    cases=texts,
    call=numbers_of,
)
def embedded(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    words = weight[ids] * sqrt(weight.shape[1])
    return F.dropout(words + table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def all_three(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """All three mistakes are still there. Begin with one token at position 0: which factor does its word lack?"""
    return weight[ids] + F.dropout(table[: ids.shape[1]], dropout)


@embedded.mistake
def scaled_only(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """The factor is right now. Of two more mistakes one shows at `past = 2`: which row of the table is due there?"""
    return weight[ids] * sqrt(weight.shape[1]) + F.dropout(table[: ids.shape[1]], dropout)


@embedded.mistake
def shifted_only(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """The rows of the table are right now. Two mistakes are left: the factor √d, and what dropout is applied to."""
    return weight[ids] + F.dropout(table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def dropped_only(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Dropout is right now. Two mistakes are left: the factor √d, and `past`, which nothing uses."""
    return F.dropout(weight[ids] + table[: ids.shape[1]], dropout)


@embedded.mistake
def not_scaled(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """One mistake is left: the words are not multiplied by √d."""
    return F.dropout(weight[ids] + table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def not_past(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """One mistake is left: the rows begin at 0, so that a text written token by token stands still at position 0."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[: ids.shape[1]], dropout)


@embedded.mistake
def dropout_on_positions(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """One mistake is left: dropout is applied to the positions alone; it should be to the sum."""
    return weight[ids] * sqrt(weight.shape[1]) + F.dropout(table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def dropout_on_words(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Dropout is applied to the words alone; it should be to the sum."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]), dropout) + table[past : past + ids.shape[1]]


@embedded.mistake
def dropout_on_each(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Words and positions are dropped each by themselves, so that one can be missing where the other is not; apply
    dropout once, to the sum."""
    words = weight[ids] * sqrt(weight.shape[1])
    return F.dropout(words, dropout) + F.dropout(table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def sum_scaled(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You multiply the sum by √d; only the words are multiplied, before the positions are added."""
    return F.dropout((weight[ids] + table[past : past + ids.shape[1]]) * sqrt(weight.shape[1]), dropout)


@embedded.mistake
def one_row_for_all(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """All tokens get the row of position `past`; the second one stands one further, and so on."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[past], dropout)


@embedded.mistake
def times_d(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You multiply the words by d; the square root of it is wanted."""
    return F.dropout(weight[ids] * weight.shape[1] + table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def slice_too_short(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Your slice of the table begins at `past` and ends at T; it should end T rows further, at `past + T`."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[past : ids.shape[1]], dropout)


@embedded.mistake
def a_row_a_text(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You take as many rows as there are texts; the number of tokens in each of them is `ids.shape[1]`."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[past : past + ids.shape[0]], dropout)


@embedded.mistake
def rows_of_words(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Your rows of the table are chosen by what the words are; they should be by where they stand."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[ids], dropout)


@embedded.mistake
def no_dropout(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """One mistake is left: nothing is dropped."""
    return weight[ids] * sqrt(weight.shape[1]) + table[past : past + ids.shape[1]]


# ----------------------------------------------------------------------------------------------------
# 6: how far apart are two rows?


def two_rows(draw: Draw) -> Iterator[Inputs]:
    for position, offset, d_model in ((0, 1, 2), (2, -1, 2), (0, 5, 4), (300, 20, 4), (203, -200, 4), (123, 700, 16)):
        table = sinusoidal_table(max(position, position + offset) + 1, d_model)
        yield {"first": table[position], "second": table[position + offset]}


def last_hand(first: Tensor, second: Tensor) -> list[float]:
    """Sine and cosine of the slowest hand, before and after."""
    return [*first[-2:].tolist(), *second[-2:].tolist()]


def slowest_speed(row: Tensor) -> float:
    """Radians per position."""
    return speeds(len(row))[-1].item()


@exercise(
    difficulty=5,
    minutes=30,
    trains="reading the clock: hands, turns and their sign",
    right="Two rows hold their distance and its sign: this is all that a head needs to look a fixed way back.",
    cases=two_rows,
)
def apart(first: Tensor, second: Tensor) -> int:
    s, c, t, d = last_hand(first, second)
    return round(atan2(t * c - d * s, d * c + t * s) / slowest_speed(first))


@apart.mistake
def by_the_fastest(first: Tensor, second: Tensor) -> int:
    """You read the fastest hand, which is back after 6.28 positions, so only short distances are right; read a slower
    one."""
    s, c, t, d = last_hand(first[:2], second[:2])
    return round(atan2(t * c - d * s, d * c + t * s))


@apart.mistake
def without_sign(first: Tensor, second: Tensor) -> int:
    """Your distance has no sign: a dot product, and so `acos` of it, is the same to both sides. The sine knows it."""
    s, c, t, d = last_hand(first, second)
    return round(acos(max(-1.0, min(1.0, d * c + t * s))) / slowest_speed(first))


@apart.mistake
def by_the_sine(first: Tensor, second: Tensor) -> int:
    """`asin` returns a quarter turn at most, so distances beyond it are wrong; `atan2` takes sine and cosine, and knows
    all four quarters."""
    s, c, t, d = last_hand(first, second)
    return round(asin(max(-1.0, min(1.0, t * c - d * s))) / slowest_speed(first))


@apart.mistake
def backward(first: Tensor, second: Tensor) -> int:
    """Your sign is the wrong way round: it is positive where the second row stands after the first."""
    return -apart.reference(first, second)


@apart.mistake
def not_wrapped(first: Tensor, second: Tensor) -> int:
    """The difference of two angles from `atan2` can be more than half a turn, where the hand has passed the bottom
    in between; add or take away a full turn then."""
    s, c, t, d = last_hand(first, second)
    return round((atan2(t, d) - atan2(s, c)) / slowest_speed(first))


@apart.mistake
def speed_of_the_limit(first: Tensor, second: Tensor) -> int:
    """You take the slowest hand for one of speed 1 / 10000, which is the limit; its exponent is (d - 2) / d."""
    return round(apart.reference(first, second) * slowest_speed(first) * 10000)


@apart.mistake
def always_forward(first: Tensor, second: Tensor) -> int:
    """You take the angle between 0 and a full turn, so that a small step back becomes nearly a full turn forward; it
    should lie between minus half a turn and half a turn."""
    s, c, t, d = last_hand(first, second)
    return round(atan2(t * c - d * s, d * c + t * s) % (2 * pi) / slowest_speed(first))


@apart.mistake
def cosine_before_sine(first: Tensor, second: Tensor) -> int:
    """`atan2` takes the sine first and the cosine second; the other way round it gives a quarter turn minus the
    angle."""
    s, c, t, d = last_hand(first, second)
    return round(atan2(d * c + t * s, t * c - d * s) / slowest_speed(first))


# ----------------------------------------------------------------------------------------------------
# 7: how loud are positions beside N(0, 1)?


@exercise(
    difficulty=2,
    minutes=5,
    trains="how loud words and positions are",
    right="One third, at every width: N(0, 1) is N(0, 1/d) times √d, so what drowns positions is to do both.",
    tolerance=0.02,
)
def share() -> float:
    return 256 / (512 + 256)


@share.mistake
def drowned() -> float:
    """That is the share if the embeddings are also multiplied by √d; here nobody multiplies."""
    return 256 / (512**2 + 256)


@share.mistake
def small_words() -> float:
    """That is the share beside words of length 1, which start as N(0, 1/d); here they start as N(0, 1)."""
    return 256 / (1 + 256)


@share.mistake
def position_to_word() -> float:
    """A row of the table has the squared length 256, not 512, and its share is of the sum of both, not of the word."""
    return 256 / 512


@share.mistake
def of_the_word() -> float:
    """That is the word's share; the rest is the position's."""
    return 512 / (512 + 256)


@share.mistake
def lengths() -> float:
    """You compare lengths; lengths of perpendicular vectors do not add up, but their squares do."""
    return 16 / (16 + sqrt(512))


@share.mistake
def percent() -> float:
    """Your answer is in percent; a share between 0 and 1 is wanted."""
    return 100 * 256 / (512 + 256)


# ----------------------------------------------------------------------------------------------------
# 8: from halves back to alternating.


def in_half_layout(draw: Draw) -> Iterator[Inputs]:
    yield {"halves": torch.tensor([10.0, 20.0, 11.0, 21.0])}
    yield {"halves": torch.tensor([10.0, 20.0, 30.0, 11.0, 21.0, 31.0])}
    yield {"halves": draw(2, 6)}
    yield {"halves": draw(2, 3, 10)}


def sines_and_cosines_in_turn(halves: Tensor) -> Tensor:
    """Which column of the halves stands at each place -> (D,)."""
    return torch.arange(halves.shape[-1]).view(2, -1).T.flatten()


@exercise(
    difficulty=2,
    minutes=8,
    trains="two layouts of one table, and the inverse of an order",
    right="Such a reordering is what loading foreign weights takes; where it is forgotten, nothing raises an error.",
    cases=in_half_layout,
)
def alternating(halves: Tensor) -> Tensor:
    return halves.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)


@alternating.mistake
def halved_again(halves: Tensor) -> Tensor:
    """You go from alternating to halves once more, which undoes itself at a width of 4 only; go the other way."""
    return halves.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)


@alternating.mistake
def only_reshaped(halves: Tensor) -> Tensor:
    """Nothing has moved: a reshape alone never changes the order of the numbers. Between two of them belongs a
    transpose."""
    return halves.unflatten(-1, (-1, 2)).flatten(-2)


@alternating.mistake
def second_half_first(halves: Tensor) -> Tensor:
    """Your pairs begin with the number from the right half; the sine, which stands in the left one, comes first."""
    return alternating.reference(halves).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


@alternating.mistake
def one_axis_only(halves: Tensor) -> Tensor:
    """You are right where there is one axis. Where there are more, reorder the last one, whatever stands before it."""
    return halves[sines_and_cosines_in_turn(halves)]


@alternating.mistake
def two_axes_only(halves: Tensor) -> Tensor:
    """There may be any number of axes before the last one, none as well as two: index with `[..., order]`, or count
    axes from the end."""
    return halves[:, sines_and_cosines_in_turn(halves)]
