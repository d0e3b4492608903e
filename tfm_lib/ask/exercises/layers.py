"""The exercises of lesson 05."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.attention import attention

EPS = 1e-5  # of nn.LayerNorm
AS_BUILT = "as your module begins"  # in place of a vector that the check loads


@exercise(
    difficulty=1,
    minutes=4,
    trains="how a sum of residuals grows",
    right="After norms, each sub-layer adds 1 to the variance; without them it doubles, so a residual needs a norm.",
)
def growth() -> tuple[float, float]:
    return 9.0, 256.0


@growth.mistake
def deviations() -> tuple[float, float]:
    """Those are the standard deviations; the variances are their squares."""
    return 3.0, 16.0


@growth.mistake
def start_forgotten() -> tuple[float, float]:
    """In the first case you counted only what is added; the vector brought a variance of 1 along."""
    return 8.0, 256.0


@growth.mistake
def sizes_added() -> tuple[float, float]:
    """You added the standard deviations; for independent numbers the variances add."""
    return 81.0, 65536.0


@growth.mistake
def always_one() -> tuple[float, float]:
    """In the second case a sub-layer's output grows with what it reads, so that the variance doubles each time."""
    return 9.0, 9.0


@growth.mistake
def two_each_time() -> tuple[float, float]:
    """The first is right. In the second case the variance doubles eight times, which gives more than 2 · 8."""
    return 9.0, 16.0


@growth.mistake
def normed_on_the_way() -> tuple[float, float]:
    """The second is right. In pre-norm only what a sub-layer reads is normed; the sum goes on as it is, and grows."""
    return 1.0, 256.0


@growth.mistake
def cases_exchanged() -> tuple[float, float]:
    """The numbers are right but exchanged: pre-norm comes first."""
    return 256.0, 9.0


def networks(draw: Draw) -> Iterator[Inputs]:
    for batch, length, width, hidden in ((1, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 6)):
        shapes = {"w1": (hidden, width), "b1": (hidden,), "w2": (width, hidden), "b2": (width,)}
        yield {"x": draw(batch, length, width)} | {name: draw(*shape) for name, shape in shapes.items()}


@exercise(
    difficulty=2,
    minutes=6,
    trains="one network for all positions",
    right="All three loops are gone: no position waits for another, which is why this part is so fast.",
    cases=networks,
    most_calls=3,
)
def network(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return F.linear(F.linear(x, w1, b1).relu(), w2, b2)


@network.mistake
def no_relu(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """The ReLU is missing, and without it two maps are no more than one."""
    return F.linear(F.linear(x, w1, b1), w2, b2)


@network.mistake
def relu_at_the_end(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """Your ReLU acts on what is written; it should act on the neurons, between the two maps."""
    return F.linear(F.linear(x, w1, b1), w2, b2).relu()


@network.mistake
def relu_twice(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """There is one ReLU too many: what the neurons write may be negative."""
    return F.linear(F.linear(x, w1, b1).relu(), w2, b2).relu()


@network.mistake
def bias_of_each_neuron(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """You add `b2` once for each neuron; it belongs to the position, once."""
    return F.linear(F.linear(x, w1, b1).relu(), w2) + len(w1) * b2


@network.mistake
def no_bias(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """The biases are missing."""
    return F.linear(F.linear(x, w1).relu(), w2)


def rows_to_norm(draw: Draw) -> Iterator[Inputs]:
    flooded = torch.tensor([[2.0, 0.0, 0.0, 2.0]])
    small, plain = [{"weight": torch.ones(width), "bias": torch.zeros(width)} for width in (2, 4)]
    yield {"x": torch.tensor([[4.0, 0.0], [1.0, 1.0]]), **small, "eps": EPS}  # as many rows as columns, one constant
    yield {"x": flooded, "weight": AS_BUILT, "bias": AS_BUILT, "eps": EPS}
    yield {"x": 0.1 * flooded, **plain, "eps": 0.01}
    yield {"x": draw(4, 4), "weight": draw(4), "bias": draw(4), "eps": EPS}
    yield {"x": draw(2, 3, 4) + 5, "weight": draw(4), "bias": draw(4), "eps": EPS}


def with_weights(answer: Callable, x: Tensor, weight: Tensor | str, bias: Tensor | str, eps: float) -> Any:
    """What a learner's module gives once its `weight` and `bias` have these values, or those that it begins with."""
    module = answer(x.shape[-1], eps)
    names = [name for name, _ in module.named_parameters()]
    if sorted(names) != ["bias", "weight"]:
        came = f"the parameters {' and '.join(names)}" if names else "no parameters"
        raise ValueError(f"your module has {came}; wanted are two nn.Parameter, called `weight` and `bias`")
    if weight is not AS_BUILT:
        module.load_state_dict({"weight": weight, "bias": bias})
    return module(x)


@exercise(
    difficulty=2,
    minutes=15,
    trains="which numbers a LayerNorm looks at",
    right="Its parameters have torch's names, so that yours could take the place of nn.LayerNorm in any trained model.",
    cases=rows_to_norm,
    call=with_weights,
    without=("layer_norm", "native_layer_norm"),
)
def norm(width: int, eps: float = EPS) -> nn.Module:
    return nn.LayerNorm(width, eps)


def scaled_and_shifted(y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return weight * y + bias


class Norm(nn.Module):
    """A LayerNorm that norms in a way of its own."""

    def __init__(
        self, width: int, normed: Callable, weight: float = 1, bias: float = 0, joined: Callable = scaled_and_shifted
    ) -> None:
        super().__init__()
        self.normed, self.joined = normed, joined
        self.weight, self.bias = (nn.Parameter(torch.full((width,), float(first))) for first in (weight, bias))

    def forward(self, x: Tensor) -> Tensor:
        return self.joined(self.normed(x), self.weight, self.bias)


def centered(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


@norm.mistake
def unbiased(width: int, eps: float = EPS) -> nn.Module:
    """Your variance divides by n - 1, as `torch.var` does unless told otherwise; LayerNorm divides by n."""
    return Norm(width, lambda x: centered(x) / (x.var(-1, keepdim=True) + eps).sqrt())


@norm.mistake
def eps_outside(width: int, eps: float = EPS) -> nn.Module:
    """You add eps to the standard deviation; it belongs inside the square root, to the variance."""
    return Norm(width, lambda x: centered(x) / (x.std(-1, keepdim=True, unbiased=False) + eps))


@norm.mistake
def eps_fixed(width: int, eps: float = EPS) -> nn.Module:
    """You always take 1e-5; your module should use the `eps` that it was built with."""
    return nn.LayerNorm(width)


@norm.mistake
def no_eps(width: int, eps: float = EPS) -> nn.Module:
    """Without eps, a row of equal numbers is divided by 0."""
    return Norm(width, lambda x: centered(x) / x.std(-1, keepdim=True, unbiased=False))


@norm.mistake
def unbiased_without_eps(width: int, eps: float = EPS) -> nn.Module:
    """`x.std` divides by n - 1 unless told otherwise, and without eps a row of equal numbers is divided by 0."""
    return Norm(width, lambda x: centered(x) / x.std(-1, keepdim=True))


@norm.mistake
def no_root(width: int, eps: float = EPS) -> nn.Module:
    """You divide by the variance; its square root is wanted."""
    return Norm(width, lambda x: centered(x) / (x.var(-1, keepdim=True, unbiased=False) + eps))


@norm.mistake
def over_tokens(width: int, eps: float = EPS) -> nn.Module:
    """Mean and variance are taken over the tokens; normalize each token alone, over its own numbers."""
    return Norm(width, lambda x: (x - x.mean(-2, True)) / (x.var(-2, unbiased=False, keepdim=True) + eps).sqrt())


@norm.mistake
def over_everything(width: int, eps: float = EPS) -> nn.Module:
    """Mean and variance are taken over all tokens together; each token should be normed alone."""
    return Norm(width, lambda x: (x - x.mean()) / (x.var(unbiased=False) + eps).sqrt())


def along(axis: int, eps: float, keepdim: bool = True) -> Callable[[Tensor], Tensor]:
    """A norm whose mean and variance are taken along that axis."""
    return lambda x: (x - x.mean(axis, keepdim)) / (x.var(axis, unbiased=False, keepdim=keepdim) + eps).sqrt()


@norm.mistake
def over_first_axis(width: int, eps: float = EPS) -> nn.Module:
    """Mean and variance are taken along axis 0, over tokens or sentences; a token's own numbers lie along axis -1."""
    return Norm(width, along(0, eps))


@norm.mistake
def over_second_axis(width: int, eps: float = EPS) -> nn.Module:
    """Axis 1 is the last one only where x has two axes; a token's own numbers always lie along axis -1."""
    return Norm(width, along(1, eps))


@norm.mistake
def axis_lost(width: int, eps: float = EPS) -> nn.Module:
    """Without `keepdim=True` the means lose their axis, and meet the wrong numbers of `x`, or none."""
    return Norm(width, along(-1, eps, keepdim=False))


@norm.mistake
def axis_of_variance_lost(width: int, eps: float = EPS) -> nn.Module:
    """The mean keeps its axis; without `keepdim=True` the variance loses it, and lands under the wrong numbers."""
    return Norm(width, lambda x: centered(x) / (x.var(-1, unbiased=False) + eps).sqrt())


@norm.mistake
def vectors_unused(width: int, eps: float = EPS) -> nn.Module:
    """The norm is right; its result must still be multiplied by `weight`, and `bias` added."""
    return Norm(width, along(-1, eps), joined=lambda y, weight, bias: y)


@norm.mistake
def no_shift(width: int, eps: float = EPS) -> nn.Module:
    """The norm is right, and `weight` is in it; `bias` must still be added."""
    return Norm(width, along(-1, eps), joined=lambda y, weight, bias: weight * y)


@norm.mistake
def weight_begins_at_zero(width: int, eps: float = EPS) -> nn.Module:
    """Your `weight` begins at 0, so that a new module gives 0 whatever it reads; it should begin at 1."""
    return Norm(width, along(-1, eps), weight=0)


@norm.mistake
def bias_begins_at_one(width: int, eps: float = EPS) -> nn.Module:
    """Your `bias` begins at 1, so that a new module moves what it norms; it should begin at 0."""
    return Norm(width, along(-1, eps), bias=1)


@norm.mistake
def beginnings_exchanged(width: int, eps: float = EPS) -> nn.Module:
    """Your `weight` begins at 0 and your `bias` at 1; exchange the two."""
    return Norm(width, along(-1, eps), weight=0, bias=1)


def deep_stacks(draw: Draw) -> Iterator[Inputs]:
    for length, width, depth in ((1, 3, 1), (2, 4, 2), (3, 4, 3)):
        yield {"x": draw(length, width), "weights": [draw(width, width) for _ in range(depth)]}


def normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


@exercise(
    difficulty=2,
    minutes=8,
    trains="where a norm stands in pre-norm",
    right="No norm lies on the residual connections, from the words to the top; one norm at the end fixes the size.",
    cases=deep_stacks,
)
def prenorm(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = x + (normed(x) @ weight).relu()
    return normed(x)


@prenorm.mistake
def as_it_was(x: Tensor, weights: list[Tensor]) -> Tensor:
    """That is the stack as it was, with two mistakes. If all weights are 0, what comes out, and what should?"""
    for weight in weights:
        x = normed(x)
        x = x + (x @ weight).relu()
    return x


@prenorm.mistake
def no_final_norm(x: Tensor, weights: list[Tensor]) -> Tensor:
    """The residual connection is right now; the stack still needs one norm at its end."""
    for weight in weights:
        x = x + (normed(x) @ weight).relu()
    return x


@prenorm.mistake
def norm_on_the_way_and_at_the_end(x: Tensor, weights: list[Tensor]) -> Tensor:
    """The norm at the end is right; your residual still adds to the normed vector instead of the unchanged `x`."""
    return normed(as_it_was(x, weights))


@prenorm.mistake
def postnorm(x: Tensor, weights: list[Tensor]) -> Tensor:
    """That is post-norm: the sum is normed. In pre-norm the sub-layer reads a normed vector, and the sum stays."""
    for weight in weights:
        x = normed(x + (x @ weight).relu())
    return x


@prenorm.mistake
def each_sum_normed_too(x: Tensor, weights: list[Tensor]) -> Tensor:
    """You norm after each layer; the one norm at the end comes after the last layer only."""
    for weight in weights:
        x = normed(x + (normed(x) @ weight).relu())
    return x


@prenorm.mistake
def first_layer_alone(x: Tensor, weights: list[Tensor]) -> Tensor:
    """Only your first layer runs: is `return` inside the loop?"""
    return prenorm.reference(x, weights[:1])


def target_and_memory(draw: Draw) -> Iterator[Inputs]:
    for target, source, width, hidden in ((2, 2, 3, 2), (1, 3, 4, 6), (4, 6, 4, 8)):
        yield {
            "x": draw(target, width),
            "memory": draw(source, width),
            "w1": draw(hidden, width),
            "w2": draw(width, hidden),
        }


def think(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    return normed(x + (x @ w1.T).relu() @ w2.T)


class AxisLost(Exception):
    """A query has no axis of words; an error of its own, so that no other one is taken for it."""


class Rows(TorchFunctionMode):
    """Notes how many rows at most ask in attention, or are read by a norm or a ReLU, at a time."""

    most = 1

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ in ("scaled_dot_product_attention", "softmax", "layer_norm", "relu") and args:
            rows, asks = args[0], func is F.scaled_dot_product_attention
            if asks and rows.dim() == 1:
                raise AxisLost("attention wants queries of shape (T, D)")
            self.most = max(self.most, rows.numel() // rows.shape[-1])
        return func(*args, **(kwargs or {}))


def with_rows(answer: Callable, **inputs: Tensor) -> dict[str, Any]:
    """What a learner's layer gives, and how many rows of it were computed."""
    with Rows() as rows:
        last = answer(**inputs)
    return {"the last row": last, "rows at a time": rows.most}


@exercise(
    difficulty=3,
    minutes=18,
    trains="the three sub-layers of the decoder",
    right="The last word needs no mask and no other word's row, so generating text takes one row per step.",
    cases=target_and_memory,
    call=with_rows,
)
def last_word(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    last = x[-1:]
    last = normed(last + attention(last, x, x))
    last = normed(last + attention(last, memory, memory))
    return think(last, w1, w2)


@last_word.mistake
def sees_itself(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """In self-attention your last word sees only itself; its keys and values are all words of the target so far."""
    return last_word.reference(x[-1:], memory, w1, w2)


@last_word.mistake
def sees_the_first(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """A causal mask of one row lets your last word see only the first one; it may see all, and needs no mask."""
    last = normed(x[-1:] + attention(x[-1:], x[:1], x[:1]))
    return think(normed(last + attention(last, memory, memory)), w1, w2)


@last_word.mistake
def swapped(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The memory sends your queries here; queries come from the target, keys and values from the memory."""
    last = normed(x[-1:] + attention(x[-1:], x, x))
    return think(normed(last + attention(memory, last, last)), w1, w2)


@last_word.mistake
def asks_too_early(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The query of cross-attention is the word as it came in; it should be the output of self-attention."""
    last = normed(x[-1:] + attention(x[-1:], x, x))
    return think(normed(last + attention(x[-1:], memory, memory)), w1, w2)


@last_word.mistake
def replaced_by_memory(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Around cross-attention the residual is missing, so the word keeps nothing but the mixture from the memory."""
    last = normed(x[-1:] + attention(x[-1:], x, x))
    return think(normed(attention(last, memory, memory)), w1, w2)


@last_word.mistake
def replaced_by_network(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Around the feed-forward network the residual is missing: what it writes is added to what it read."""
    last = normed(x[-1:] + attention(x[-1:], x, x))
    last = normed(last + attention(last, memory, memory))
    return normed((last @ w1.T).relu() @ w2.T)


@last_word.mistake
def linear_network(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The two attentions are right; in the feed-forward network the ReLU is missing."""
    last = normed(x[-1:] + attention(x[-1:], x, x))
    last = normed(last + attention(last, memory, memory))
    return normed(last + last @ w1.T @ w2.T)


@last_word.mistake
def no_network(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The two attentions are right; the third sub-layer, the feed-forward network, is missing."""
    last = normed(x[-1:] + attention(x[-1:], x, x))
    return normed(last + attention(last, memory, memory))


@last_word.mistake
def all_rows(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The row is right, but other rows were computed with it and dropped: start from `x[-1:]` as the query."""
    causal = torch.ones(len(x), len(x)).tril().bool()
    x = normed(x + attention(x, x, x, causal))
    return think(normed(x + attention(x, memory, memory)), w1, w2)[-1:]


@last_word.mistake
def axis_taken_away(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """`x[-1]` removes the axis of the words; `x[-1:]` keeps it, with the shape (1, D)."""
    return normed(x[-1] + attention(x[-1], x, x))


@last_word.mistake
def normed_first(x: Tensor, memory: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """That is pre-norm; here each sum is normed, and what a sub-layer reads is not normed again."""
    last, asked = x[-1:], normed(x)
    last = last + attention(asked[-1:], asked, asked)
    last = last + attention(normed(last), memory, memory)
    return last + (normed(last) @ w1.T).relu() @ w2.T


def normed_rows(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[2.0, 0.0, 0.0, 2.0]]), "upstream": torch.tensor([[1.0, 2.0, 0.0, 0.0]])}
    yield {"x": draw(2, 3), "upstream": draw(2, 3)}
    yield {"x": draw(1, 4) / 100, "upstream": draw(1, 4)}
    yield {"x": draw(2, 3, 8), "upstream": draw(2, 3, 8)}


def parts(x: Tensor, eps: float = EPS) -> tuple[Tensor, Tensor]:
    """What LayerNorm gives, and what it divided by."""
    size = (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
    return centered(x) / size, size


@exercise(
    difficulty=5,
    minutes=30,
    trains="how a gradient passes a norm",
    right="A LayerNorm takes two directions out of every gradient, so a sum as loss has none: the trap of section 4.",
    cases=normed_rows,
    without=("grad", "backward"),
)
def gradient(x: Tensor, upstream: Tensor) -> Tensor:
    y, size = parts(x)
    return (centered(upstream) - y * (upstream * y).mean(-1, keepdim=True)) / size


@gradient.mistake
def constants(x: Tensor, upstream: Tensor) -> Tensor:
    """You treat mean and standard deviation as constants; both change when a number of the row does."""
    return upstream / parts(x)[1]


@gradient.mistake
def deviation_constant(x: Tensor, upstream: Tensor) -> Tensor:
    """The path through the mean is there; the path through the standard deviation is missing."""
    return centered(upstream) / parts(x)[1]


@gradient.mistake
def mean_constant(x: Tensor, upstream: Tensor) -> Tensor:
    """The path through the standard deviation is there; the path through the mean is missing."""
    y, size = parts(x)
    return (upstream - y * (upstream * y).mean(-1, keepdim=True)) / size


@gradient.mistake
def wrong_sign(x: Tensor, upstream: Tensor) -> Tensor:
    """The path through the standard deviation is added; a larger deviation makes outputs smaller: subtract it."""
    y, size = parts(x)
    return (centered(upstream) + y * (upstream * y).mean(-1, keepdim=True)) / size


@gradient.mistake
def summed(x: Tensor, upstream: Tensor) -> Tensor:
    """You sum over the row where a mean is wanted: each number has a share of 1 / D in mean and variance."""
    y, size = parts(x)
    return (upstream - upstream.sum(-1, keepdim=True) - y * (upstream * y).sum(-1, keepdim=True)) / size


@gradient.mistake
def without_eps(x: Tensor, upstream: Tensor) -> Tensor:
    """The eps under the square root is missing, which shows where a row is almost constant."""
    y, size = parts(x, eps=0.0)
    return (centered(upstream) - y * (upstream * y).mean(-1, keepdim=True)) / size


@gradient.mistake
def not_divided(x: Tensor, upstream: Tensor) -> Tensor:
    """The two directions are gone; what is left must still be divided by the standard deviation, as `x` was."""
    y, _ = parts(x)
    return centered(upstream) - y * (upstream * y).mean(-1, keepdim=True)
