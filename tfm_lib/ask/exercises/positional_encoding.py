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
    """How far each hand turns from one position to the next -> (D/2,), radians, float64."""
    return 10000 ** (-2 * torch.arange(d_model // 2, dtype=torch.double) / d_model)


def positions(num_positions: int) -> Tensor:
    """The numbers of the positions as a column -> (P, 1), float64."""
    return torch.arange(num_positions, dtype=torch.double)[:, None]


# ----------------------------------------------------------------------------------------------------
# 1: how slow is the slowest hand?


@exercise(
    difficulty=1,
    minutes=3,
    trains="reading the exponent",
    right="With two hands the slower one takes a hundredth of the limit 10000 · 2π that the paper gives.",
    tolerance=0.01,
)
def slowest() -> float:
    return 2 * pi * 10000 ** (2 / 4)


@slowest.mistake
def the_limit() -> float:
    """That is the limit 10000 · 2π, which the last hand never reaches, because its i is d/2 - 1 rather than d/2."""
    return 2 * pi * 10000


@slowest.mistake
def without_a_turn() -> float:
    """Within that many positions the hand turns by one radian, but a full turn takes 2π radians."""
    return 10000 ** (2 / 4)


@slowest.mistake
def the_divisor() -> float:
    """The 10000 is first raised to the power of 2i/d and then divides, and a full turn takes 2π radians."""
    return 10000


@slowest.mistake
def the_fastest() -> float:
    """That is the first hand, which turns by one radian per position; the slowest hand is the last one."""
    return 2 * pi


@slowest.mistake
def one_for_two() -> float:
    """Your exponent is i / d; it should be 2i / d."""
    return 2 * pi * 10000 ** (1 / 4)


@slowest.mistake
def counts_columns() -> float:
    """Your i is the number of the last column, 3, but i counts hands, and there are only two of them, 0 and 1."""
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
    """Summed row by row, so that rounding is the same on every machine."""

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
    """A third of the orders of four words keep a ring, and a third of the orders of three words keep the first word."""
    x = draw.integers(1, 10, 6, 2) / 10
    for layer in (Doubled, RowsNumbered, MeanOfAll, SelfAttention, MeanSoFar, Sorted):
        yield {"layer": layer(), "x": x, "asked": 1}
    yield {"layer": NeighborsInARing(), "x": draw.integers(1, 10, 4, 2) / 10, "asked": 20}
    yield {"layer": FirstWordDoubled(), "x": torch.tensor([[0.1, 0.2], [0.4, 0.3], [0.5, 0.8]]), "asked": 20}


def fooled_once(answer: Callable, layer: Callable[[Tensor], Tensor], x: Tensor, asked: int) -> bool:
    """What a test says when it is called `asked` times: True if it says so once, so that chance does not decide."""
    return max([answer(layer, x) for _ in range(asked)])


def turned_and_swapped(rows: int) -> list[list[int]]:
    """All rows shifted by one, and the first two swapped: these two generate all orders."""
    return [[rows - 1, *range(rows - 1)], [1, 0, *range(2, rows)]]


@exercise(
    difficulty=2,
    minutes=12,
    trains="permutation equivariance, and how to test a property",
    right="Three lines show for any layer whether it needs positions. The ring shows that one order is not enough.",
    cases=layers,
    call=fooled_once,
)
def equivariant(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    return all(torch.allclose(layer(x[o]), layer(x)[o], atol=1e-5) for o in turned_and_swapped(len(x)))


@equivariant.mistake
def invariant(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You test whether the result stays the same, which is invariance. With equivariance, the result is shuffled in the
    same way as the input."""
    return all(torch.allclose(layer(x[o]), layer(x), atol=1e-5) for o in turned_and_swapped(len(x)))


@equivariant.mistake
def reversed_only(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """A ring keeps its neighbors under every shift and every reversal, so it passes your test. Try more orders, and
    some that separate neighbors."""
    return torch.allclose(layer(x.flip(0)), layer(x).flip(0), atol=1e-5)


@equivariant.mistake
def last_two_swapped(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """A layer that treats the first word differently passes your test, because your order leaves that word in place.
    Try more orders, so that each word moves in some of them."""
    order = [*range(len(x) - 2), len(x) - 1, len(x) - 2]
    return torch.allclose(layer(x[order]), layer(x)[order], atol=1e-5)


@equivariant.mistake
def one_random_order(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """In 20 calls, your test accepted both the ring and the doubled first word. With one or two orders the result
    depends on chance, and with `any` one lucky order is enough. Try many orders, and require that all of them agree."""
    order = torch.randperm(len(x))
    return torch.allclose(layer(x[order]), layer(x)[order], atol=1e-5)


@equivariant.mistake
def bit_by_bit(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You compare bit by bit, but a sum in a different order is rounded differently; allow for a small difference."""
    orders = [torch.randperm(len(x)) for _ in range(10)]
    return all(torch.equal(layer(x[order]), layer(x)[order]) for order in orders)


@equivariant.mistake
def shuffled_twice(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You return False for a layer that treats each row by itself. Compare `layer(x[order])` with `layer(x)[order]`:
    shuffling one side twice does not undo the shuffle, because that takes the inverse, `order.argsort()`."""
    return all(torch.allclose(layer(x[o])[o], layer(x), atol=1e-5) for o in turned_and_swapped(len(x)))


@equivariant.mistake
def not_shuffled(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """You return True for a layer that is not equivariant. Check that the rows are really shuffled, and that you
    compare all values rather than shapes or sums."""
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
    right="A cosine is a sine a quarter turn ahead, so the table is one bank of waves, not two kinds of columns.",
    cases=sizes,
    without=("cos", "cos_"),
)
def one_sine(num_positions: int, d_model: int) -> Tensor:
    return sinusoidal_table(num_positions, d_model)


@one_sine.mistake
def cosine_first(num_positions: int, d_model: int) -> Tensor:
    """Sine and cosine are swapped: the even columns should be the sines."""
    return sinusoidal_table(num_positions, d_model).unflatten(1, (-1, 2)).flip(2).flatten(1)


@one_sine.mistake
def quarter_back(num_positions: int, d_model: int) -> Tensor:
    """Your odd columns are minus the cosine: the quarter turn has to be added, not subtracted."""
    return sinusoidal_table(num_positions, d_model) * torch.tensor([1.0, -1.0]).repeat(d_model // 2)


@one_sine.mistake
def half_turn(num_positions: int, d_model: int) -> Tensor:
    """You add π, which is half a turn and makes minus the sine; a quarter turn is π / 2."""
    angle = positions(num_positions) * speeds(d_model).repeat_interleave(2)
    return (angle + columns(d_model) % 2 * pi).sin().float()


@one_sine.mistake
def no_quarter(num_positions: int, d_model: int) -> Tensor:
    """All your columns are sines without a quarter turn; the odd columns should be a quarter turn, π / 2, ahead."""
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
    """The square root of 1 - sin² is never negative, but a cosine is negative half of the time."""
    sine = (positions(num_positions) * speeds(d_model)).sin()
    return torch.stack([sine, (1 - sine**2).sqrt()], -1).flatten(1).float()


@one_sine.mistake
def ever_faster(num_positions: int, d_model: int) -> Tensor:
    """Your hands get faster from left to right: the power of 10000 divides, so its exponent has a minus."""
    angle = positions(num_positions) / speeds(d_model).repeat_interleave(2)
    return (angle + columns(d_model) % 2 * pi / 2).sin().float()


@one_sine.mistake
def in_halves(num_positions: int, d_model: int) -> Tensor:
    """In your table all sines come before all cosines; here they should alternate."""
    return sinusoidal_table(num_positions, d_model, interleaved=False)


@one_sine.mistake
def speed_of_each_column(num_positions: int, d_model: int) -> Tensor:
    """Each of your columns has a speed of its own, but columns 2i and 2i + 1 belong to one hand and share its speed."""
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
    right="One matrix serves all positions in every layout, so a head can learn to look back by a fixed offset.",
    cases=offsets,
)
def turn(offset: int, d_model: int) -> Tensor:
    return in_blocks(offset * speeds(d_model))


@turn.mistake
def turns_back(offset: int, d_model: int) -> Tensor:
    """Your matrix leads from pos to pos - k, or it expects rows on its left. For `matrix @ row` the minus belongs to
    the other sine."""
    return in_blocks(-offset * speeds(d_model))


@turn.mistake
def mirror(offset: int, d_model: int) -> Tensor:
    """Both of your sines have the same sign, so the matrix is no rotation: one of them needs a minus."""
    return in_blocks(offset * speeds(d_model), lower=1)


@turn.mistake
def mirror_back(offset: int, d_model: int) -> Tensor:
    """Both of your sines have a minus, so the matrix is no rotation: in the formula, the first row has a plus."""
    return in_blocks(offset * speeds(d_model), upper=-1)


@turn.mistake
def for_alternating(offset: int, d_model: int) -> Tensor:
    """That matrix is right where sines and cosines alternate, but here all sines come before all cosines."""
    order = torch.arange(d_model).view(2, -1).T.flatten()
    return in_blocks(offset * speeds(d_model))[order][:, order]


@turn.mistake
def all_alike(offset: int, d_model: int) -> Tensor:
    """All your hands turn by the same angle; hand i turns by the offset times its own speed."""
    return in_blocks(offset * torch.ones(d_model // 2, dtype=torch.double))


@turn.mistake
def one_position(offset: int, d_model: int) -> Tensor:
    """Your matrix leads one position further for every offset; the angles are the offset times the speeds."""
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
    """What an answer returns; with random dropout, only the set of values, since their places differ from run to
    run."""
    came = answer(**inputs)
    return came if inputs["dropout"] in (0, 1) else {"values that occur": came.unique()}


@exercise(
    difficulty=3,
    minutes=12,
    trains="scale, position and dropout, in the paper's order",
    right="None of the three raises an error, and the loss falls in spite of them, so they are easily overlooked.",
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
    """The factor is right now, and two mistakes are left. One shows at `past = 2`: which row of the table belongs
    there?"""
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
    """One mistake is left: the rows begin at 0, so that a text written token by token stays at position 0."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[: ids.shape[1]], dropout)


@embedded.mistake
def dropout_on_positions(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """One mistake is left: dropout is applied to the positions alone, but it should be applied to the sum."""
    return weight[ids] * sqrt(weight.shape[1]) + F.dropout(table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def dropout_on_words(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Dropout is applied to the words alone, but it should be applied to the sum."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]), dropout) + table[past : past + ids.shape[1]]


@embedded.mistake
def dropout_on_each(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Dropout is applied to words and positions separately, so that one can be missing where the other is not. Apply it
    once, to the sum."""
    words = weight[ids] * sqrt(weight.shape[1])
    return F.dropout(words, dropout) + F.dropout(table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def sum_scaled(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You multiply the sum by √d, but only the words are multiplied, before the positions are added."""
    return F.dropout((weight[ids] + table[past : past + ids.shape[1]]) * sqrt(weight.shape[1]), dropout)


@embedded.mistake
def one_row_for_all(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """All tokens get the row of position `past`, but the second token is one position further, and so on."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[past], dropout)


@embedded.mistake
def times_d(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You multiply the words by d, but the factor is the square root of d."""
    return F.dropout(weight[ids] * weight.shape[1] + table[past : past + ids.shape[1]], dropout)


@embedded.mistake
def slice_too_short(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """Your slice of the table begins at `past` and ends at T, but it should end T rows further, at `past + T`."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[past : ids.shape[1]], dropout)


@embedded.mistake
def a_row_a_text(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You take as many rows as there are texts; the number of tokens per text is `ids.shape[1]`."""
    return F.dropout(weight[ids] * sqrt(weight.shape[1]) + table[past : past + ids.shape[0]], dropout)


@embedded.mistake
def rows_of_words(ids: Tensor, weight: Tensor, table: Tensor, past: int, dropout: float) -> Tensor:
    """You choose rows of the table by the ids of the words; choose them by the positions of the words."""
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
    right="Two rows contain their distance and its sign, and a head that looks back needs nothing more.",
    cases=two_rows,
)
def apart(first: Tensor, second: Tensor) -> int:
    s, c, t, d = last_hand(first, second)
    return round(atan2(t * c - d * s, d * c + t * s) / slowest_speed(first))


@apart.mistake
def by_the_fastest(first: Tensor, second: Tensor) -> int:
    """You read the fastest hand, which completes a turn after 6.28 positions, so only short distances are right. Read a
    slower hand."""
    s, c, t, d = last_hand(first[:2], second[:2])
    return round(atan2(t * c - d * s, d * c + t * s))


@apart.mistake
def without_sign(first: Tensor, second: Tensor) -> int:
    """Your distance has no sign: a dot product, and therefore its `acos`, is the same in both directions. Use the
    sine."""
    s, c, t, d = last_hand(first, second)
    return round(acos(max(-1.0, min(1.0, d * c + t * s))) / slowest_speed(first))


@apart.mistake
def by_the_sine(first: Tensor, second: Tensor) -> int:
    """`asin` returns a quarter turn at most, so larger distances are wrong. `atan2` takes sine and cosine and covers
    all four quarters."""
    s, c, t, d = last_hand(first, second)
    return round(asin(max(-1.0, min(1.0, t * c - d * s))) / slowest_speed(first))


@apart.mistake
def backward(first: Tensor, second: Tensor) -> int:
    """Your sign is inverted: it should be positive where the second row comes after the first."""
    return -apart.reference(first, second)


@apart.mistake
def not_wrapped(first: Tensor, second: Tensor) -> int:
    """The difference of two angles from `atan2` can be more than half a turn, if the hand has passed the bottom in
    between. In that case, add or subtract a full turn."""
    s, c, t, d = last_hand(first, second)
    return round((atan2(t, d) - atan2(s, c)) / slowest_speed(first))


@apart.mistake
def speed_of_the_limit(first: Tensor, second: Tensor) -> int:
    """You use the speed 1 / 10000 for the slowest hand, which is the limit; its exponent is (d - 2) / d."""
    return round(apart.reference(first, second) * slowest_speed(first) * 10000)


@apart.mistake
def always_forward(first: Tensor, second: Tensor) -> int:
    """Your angle is between 0 and a full turn, so that a small step back becomes nearly a full turn forward. It should
    be between minus half a turn and half a turn."""
    s, c, t, d = last_hand(first, second)
    return round(atan2(t * c - d * s, d * c + t * s) % (2 * pi) / slowest_speed(first))


@apart.mistake
def cosine_before_sine(first: Tensor, second: Tensor) -> int:
    """`atan2` takes the sine first and the cosine second; in the opposite order it returns a quarter turn minus the
    angle."""
    s, c, t, d = last_hand(first, second)
    return round(atan2(d * c + t * s, t * c - d * s) / slowest_speed(first))


# ----------------------------------------------------------------------------------------------------
# 7: how loud are positions beside N(0, 1)?


@exercise(
    difficulty=2,
    minutes=5,
    trains="how loud words and positions are",
    right="It is one third at every width: N(0, 1) is N(0, 1/d) times √d, so only both together drown the positions.",
    tolerance=0.02,
)
def share() -> float:
    return 256 / (512 + 256)


@share.mistake
def drowned() -> float:
    """That is the share if the embeddings are also multiplied by √d, but here there is no such factor."""
    return 256 / (512**2 + 256)


@share.mistake
def small_words() -> float:
    """That is the share for words of length 1, which start as N(0, 1/d); here they start as N(0, 1)."""
    return 256 / (1 + 256)


@share.mistake
def position_to_word() -> float:
    """A row of the table has a squared length of 256, and its share refers to the sum of both squared lengths."""
    return 256 / 512


@share.mistake
def of_the_word() -> float:
    """That is the word's share; the rest is the position's."""
    return 512 / (512 + 256)


@share.mistake
def lengths() -> float:
    """You compare lengths, but the lengths of perpendicular vectors do not add up, only their squares do."""
    return 16 / (16 + sqrt(512))


@share.mistake
def percent() -> float:
    """Your answer is in percent; write it as a number between 0 and 1."""
    return 100 * 256 / (512 + 256)


# ----------------------------------------------------------------------------------------------------
# 8: from halves back to alternating.


def in_half_layout(draw: Draw) -> Iterator[Inputs]:
    yield {"halves": torch.tensor([10.0, 20.0, 11.0, 21.0])}
    yield {"halves": torch.tensor([10.0, 20.0, 30.0, 11.0, 21.0, 31.0])}
    yield {"halves": draw(2, 6)}
    yield {"halves": draw(2, 3, 10)}


def sines_and_cosines_in_turn(halves: Tensor) -> Tensor:
    """Which column of the halves is at each place -> (D,)."""
    return torch.arange(halves.shape[-1]).view(2, -1).T.flatten()


@exercise(
    difficulty=2,
    minutes=8,
    trains="two layouts of one table, and the inverse of an order",
    right="Loading weights of other libraries takes such a reordering, and no error says so if you forget it.",
    cases=in_half_layout,
)
def alternating(halves: Tensor) -> Tensor:
    return halves.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)


@alternating.mistake
def halved_again(halves: Tensor) -> Tensor:
    """You go from alternating to halves once more, which is its own inverse only at a width of 4. Go the other way."""
    return halves.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)


@alternating.mistake
def only_reshaped(halves: Tensor) -> Tensor:
    """Nothing has moved, because a reshape alone never changes the order of the numbers. Put a transpose between two
    reshapes."""
    return halves.unflatten(-1, (-1, 2)).flatten(-2)


@alternating.mistake
def second_half_first(halves: Tensor) -> Tensor:
    """Your pairs begin with the number from the right half, but the sine comes first, and it is in the left half."""
    return alternating.reference(halves).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


@alternating.mistake
def one_axis_only(halves: Tensor) -> Tensor:
    """Your answer is right for a single axis. If there are more axes, reorder the last one."""
    return halves[sines_and_cosines_in_turn(halves)]


@alternating.mistake
def two_axes_only(halves: Tensor) -> Tensor:
    """There may be any number of axes before the last one, including none. Index with `[..., order]`, or count axes
    from the end."""
    return halves[:, sines_and_cosines_in_turn(halves)]
