"""The exercises of lesson 12."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise


def orders(draw: Draw) -> Iterator[Inputs]:
    yield {"order": torch.tensor([2, 0, 1])}
    yield {"order": torch.arange(8).view(-1, 2).T.flatten()}
    yield {"order": torch.randperm(12, generator=draw.generator)}


@exercise(
    difficulty=1,
    minutes=5,
    trains="the inverse of an order",
    right="Numbers that were only moved can be moved back, to the last bit.",
    cases=orders,
)
def undone(order: Tensor) -> Tensor:
    return order.argsort()


@undone.mistake
def the_same_again(order: Tensor) -> Tensor:
    """The order itself undoes only swaps of two; find the positions of 0, 1, 2 in it."""
    return order


@undone.mistake
def from_behind(order: Tensor) -> Tensor:
    """That is the order read backward; find the positions of 0, 1, 2 in it."""
    return order.flip(0)


@undone.mistake
def sorted_order(order: Tensor) -> Tensor:
    """That is the order, sorted, which is 0, 1, 2 and so on; return the positions where they were."""
    return order.sort().values


@undone.mistake
def largest_first(order: Tensor) -> Tensor:
    """You ask for the position of the largest number first; begin with that of 0."""
    return order.argsort(descending=True)


# Theirs, ours, in the order in which they may be replaced.
RENAMED = {
    "self_attn_layer_norm": "around_self_attention.norm",
    "encoder_attn_layer_norm": "around_cross_attention.norm",
    "final_layer_norm": "around_feed_forward.norm",
    "self_attn": "self_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "query_proj",
    "k_proj": "key_proj",
    "v_proj": "value_proj",
    "out_proj": "output_proj",
    "fc1": "feed_forward.expand",
    "fc2": "feed_forward.contract",
}


def names(draw: Draw) -> Iterator[Inputs]:
    projections = [f"{side}.{part}_proj" for side in ("self_attn", "encoder_attn") for part in ("q", "k", "v", "out")]
    norms = ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]
    for n, part in enumerate([*projections, "fc1", "fc2", *norms]):
        yield {"name": f"model.decoder.layers.{n}.{part}.{('weight', 'bias')[n % 2]}"}


def replaced(name: str, pairs: dict[str, str]) -> str:
    for theirs, ours in pairs.items():
        name = name.replace(theirs, ours)
    return name


@exercise(
    difficulty=2,
    minutes=12,
    trains="renaming, and the order in which to replace",
    right="Thirteen names of a layer, eleven lines: most of loading is a dictionary, and the rest is proof.",
    cases=names,
)
def renamed(name: str) -> str:
    return replaced(name, RENAMED).removeprefix("model.")


@renamed.mistake
def attentions_first(name: str) -> str:
    """`self_attn` is the beginning of `self_attn_layer_norm`: replace the norms before the attentions."""
    late = ("self_attn_layer_norm", "encoder_attn_layer_norm")
    pairs = {theirs: ours for theirs, ours in RENAMED.items() if theirs not in late}
    return replaced(name, pairs).removeprefix("model.")


@renamed.mistake
def model_kept(name: str) -> str:
    """Your names still begin with `model.`; ours do not."""
    return replaced(name, RENAMED)


@renamed.mistake
def final_norm_of_the_stack(name: str) -> str:
    """`final_layer_norm` is the last norm of a layer, after its feed-forward network; it is not that of the stack."""
    return replaced(name, RENAMED | {"final_layer_norm": "norm"}).removeprefix("model.")


@renamed.mistake
def memory_of_the_encoder(name: str) -> str:
    """`encoder_attn` is the attention to the encoder's memory, our `cross_attention`; it belongs to the decoder."""
    pairs = RENAMED | {"encoder_attn": "self_attention", "encoder_attn_layer_norm": "around_self_attention.norm"}
    return replaced(name, pairs).removeprefix("model.")


@renamed.mistake
def output_of_the_model(name: str) -> str:
    """Your `out_proj` stays as it is; the last matrix of each attention is our `output_proj`."""
    return replaced(name, RENAMED | {"out_proj": "out_proj"}).removeprefix("model.")


@renamed.mistake
def expanded_last(name: str) -> str:
    """`fc1` comes first, and expands; `fc2` contracts."""
    pairs = RENAMED | {"fc1": "feed_forward.contract", "fc2": "feed_forward.expand"}
    return replaced(name, pairs).removeprefix("model.")


def sizes(draw: Draw) -> Iterator[Inputs]:
    yield {"vocab": 10, "d": 2, "d_ff": 4, "layers": 1, "positions": 3}
    yield {"vocab": 50265, "d": 768, "d_ff": 3072, "layers": 6, "positions": 1024}
    yield {"vocab": 50264, "d": 1024, "d_ff": 4096, "layers": 12, "positions": 1024}


def counted(vocab: int, d: int, d_ff: int, layers: int, positions: int, cross: int = 1, norms: int = 5) -> int:
    attention, feed_forward = 4 * d * d + 4 * d, 2 * d * d_ff + d_ff + d
    both = (2 + cross) * attention + 2 * feed_forward + norms * 2 * d
    return vocab * d + 2 * ((positions + 2) * d + 2 * d) + layers * both


@exercise(
    difficulty=2,
    minutes=12,
    trains="counting parameters",
    right="For bart-large-cnn this gives 406,290,432 parameters.",
    cases=sizes,
)
def bart_size(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    return counted(vocab, d, d_ff, layers, positions)


@bart_size.mistake
def no_offset_or_embedding_norms(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """You lack 4 d: the two additional rows in each table of positions, or the norm after each embedding."""
    return counted(vocab, d, d_ff, layers, positions - 2)


@bart_size.mistake
def neither_offset_nor_embedding_norms(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """You lack 8 d: each table of positions has two additional rows, and a norm follows each embedding."""
    return counted(vocab, d, d_ff, layers, positions - 4)


@bart_size.mistake
def three_tables(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """Source, target and output share one table of tokens; count it once."""
    return counted(vocab, d, d_ff, layers, positions) + 2 * vocab * d


@bart_size.mistake
def two_tables(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """The output shares the table of tokens, and so do both sides; count it once."""
    return counted(vocab, d, d_ff, layers, positions) + vocab * d


@bart_size.mistake
def no_cross_attention(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """A decoder layer has two attentions, and a norm after each."""
    return counted(vocab, d, d_ff, layers, positions, cross=0, norms=4)


@bart_size.mistake
def four_norms(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """A decoder layer has three norms, one after each of its sub-layers."""
    return counted(vocab, d, d_ff, layers, positions, norms=4)


@bart_size.mistake
def no_biases(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """Each linear layer also has a bias: 4 d in an attention, d_ff + d in a feed-forward network."""
    biases = 3 * 4 * d + 2 * (d_ff + d)
    return counted(vocab, d, d_ff, layers, positions) - layers * biases


@bart_size.mistake
def one_side_of_positions(vocab: int, d: int, d_ff: int, layers: int, positions: int) -> int:
    """Encoder and decoder have a table of positions each."""
    return counted(vocab, d, d_ff, layers, positions) - (positions + 2) * d


def steps_of_writing(draw: Draw) -> Iterator[Inputs]:
    yield {"logits": torch.tensor([[1.0, 2.0, 3.0]]), "step": 1, "steps": 4, "banned": [2], "first": 0, "last": 1}
    yield {"logits": draw(2, 5), "step": 0, "steps": 4, "banned": [3], "first": 0, "last": 2}
    yield {"logits": draw(2, 5), "step": 3, "steps": 4, "banned": [], "first": 0, "last": 2}
    yield {"logits": draw(2, 5), "step": 2, "steps": 4, "banned": [1, 4], "first": None, "last": 0}
    yield {"logits": draw(2, 5), "step": 0, "steps": 4, "banned": [0, 4], "first": None, "last": None}
    yield {"logits": draw(2, 5), "step": 3, "steps": 4, "banned": [2], "first": None, "last": 2}
    yield {"logits": draw(1, 5), "step": 0, "steps": 1, "banned": [], "first": 3, "last": 2}


Token = int | None


def forced(logits: Tensor, token: int) -> Tensor:
    alone = torch.full_like(logits, -torch.inf)
    alone[:, token] = 0.0
    return alone


@exercise(
    difficulty=2,
    minutes=10,
    trains="the rules by which published models write",
    right="The same rules are the package's `Rules`, which read them from any published folder.",
    cases=steps_of_writing,
)
def ruled(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    logits = logits.clone()
    logits[:, banned] = -torch.inf
    if step == 0 and first is not None:
        logits = forced(logits, first)
    if step == steps - 1 and last is not None:
        logits = forced(logits, last)
    return logits


@ruled.mistake
def token_0_missed(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """`if first:` is false for the token 0, which is BART's; ask `is not None`."""
    return ruled.reference(logits, step, steps, banned, first or None, last or None)


@ruled.mistake
def ban_wins(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """You ban after you force, so a forced token can be lost; ban first."""
    logits = ruled.reference(logits, step, steps, [], first, last).clone()
    logits[:, banned] = -torch.inf
    return logits


@ruled.mistake
def last_too_late(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """Steps count from 0, so the last of them is `steps - 1`."""
    return ruled.reference(logits, step, steps + 1, banned, first, last)


@ruled.mistake
def always_first(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """You force `first` at every step; only at step 0 is it the only choice."""
    return ruled.reference(logits, 0 if step < steps - 1 else step, steps, banned, first, last)


@ruled.mistake
def first_wins(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """In a text of one step both are forced, and `last` must win."""
    alone = step == 0 and first is not None
    return ruled.reference(logits, step, steps, banned, first, None if alone else last)


@ruled.mistake
def zeroed(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """A logit of 0 is a logit like any other, often a high one; tokens that are ruled out get minus infinity."""
    found = ruled.reference(logits, step, steps, banned, first, last)
    return found.masked_fill(found.isneginf(), 0.0)


@ruled.mistake
def own_logit(logits: Tensor, step: int, steps: int, banned: list[int], first: Token, last: Token) -> Tensor:
    """A forced token gets 0, so it costs nothing; yours keeps its logit."""
    found = ruled.reference(logits, step, steps, banned, first, last)
    return torch.where(found == 0, logits, found)


def small_layers(draw: Draw) -> Iterator[Inputs]:
    for width, order in ((3, [2, 0, 1]), (6, [0, 2, 4, 1, 3, 5])):
        weights = {f"{name}.{kind}": draw(width) for name in ("norm", "read", "write") for kind in ("weight", "bias")}
        weights |= {f"{name}.weight": draw(width, width) for name in ("read", "write")}
        yield {"weights": weights, "order": torch.tensor(order)}


@exercise(
    difficulty=3,
    minutes=15,
    trains="which axis reads or writes the stream",
    right="The layer computes the same: this is one of the many ways to write it down.",
    cases=small_layers,
)
def reordered(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    new = {name: weight[order] for name, weight in weights.items()}
    return new | {"read.weight": weights["read.weight"][:, order], "read.bias": weights["read.bias"]}


@reordered.mistake
def hidden_moved(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """`read.bias` is added to the hidden vector, which keeps its order."""
    return reordered.reference(weights, order) | {"read.bias": weights["read.bias"][order]}


@reordered.mistake
def norm_left(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """The norm multiplies each entry by a weight of its own, and adds a bias: both move along."""
    return reordered.reference(weights, order) | {n: w for n, w in weights.items() if n.startswith("norm")}


@reordered.mistake
def first_axes(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """You order the rows of `read.weight`, which are hidden entries; the stream is along its last axis."""
    rows = {"read.weight": weights["read.weight"][order]}
    return reordered.reference(weights, order) | rows


@reordered.mistake
def last_axes(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """You order the columns of `write.weight`, which are hidden entries; it writes the stream, a row for each entry."""
    columns = {"write.weight": weights["write.weight"][:, order]}
    return reordered.reference(weights, order) | columns


@reordered.mistake
def both_axes(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """You order both axes of the matrices; one of the two counts hidden entries, and stays."""
    both = {name: weights[name][order][:, order] for name in ("read.weight", "write.weight")}
    return reordered.reference(weights, order) | both


@reordered.mistake
def bias_left(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """`write.bias` is added to the stream, so it moves along."""
    return reordered.reference(weights, order) | {"write.bias": weights["write.bias"]}


@reordered.mistake
def undone_instead(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """That is the inverse order; the new layer meets `x[order]`."""
    return reordered.reference(weights, order.argsort())


Seen = list[tuple[str, Tensor]]


def seen(*values: Tensor) -> Seen:
    return [(name, value) for name, value in zip(("tokens", "layer 0", "layer 1"), values, strict=False)]


def traces(draw: Draw) -> Iterator[Inputs]:
    first, second, third = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    right, wrong = seen(first, second, third), third + 4
    yield {"ours": right, "theirs": seen(first, second + 0.1, wrong), "tolerance": 1e-3}
    yield {"ours": right, "theirs": right, "tolerance": 1e-3}
    yield {"ours": seen(1000 * first, second / 100), "theirs": seen(1000 * first + 0.1, second / 99), "tolerance": 1e-3}
    yield {"ours": seen(-first, second), "theirs": seen(-first - 0.5, second), "tolerance": 1e-3}
    yield {"ours": right, "theirs": seen(first, second * torch.nan, wrong), "tolerance": 1e-3}
    yield {"ours": right, "theirs": seen(first, second[None], wrong), "tolerance": 1e-3}


@exercise(
    difficulty=3,
    minutes=15,
    trains="debugging by comparing",
    right="Fix the part that comes right before it, run again, and go on until no part differs.",
    cases=traces,
)
def first_difference(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape or not (a - b).abs().max() <= tolerance * a.abs().max():
            return name
    return None


@first_difference.mistake
def blind_to_nan(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    """No comparison with NaN is true, so `gap > limit` lets it pass; ask whether it is close, and negate that."""
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape or (a - b).abs().max() > tolerance * a.abs().max():
            return name
    return None


@first_difference.mistake
def not_relative(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    """You compare with the tolerance itself; multiply it by the largest size of an entry of our tensor."""
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape or not (a - b).abs().max() <= tolerance:
            return name
    return None


@first_difference.mistake
def broadcast(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    """Where shapes differ, torch may stretch one to the other without an error: compare the shapes first."""
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        if not (a - b).abs().max() <= tolerance * a.abs().max():
            return name
    return None


@first_difference.mistake
def the_largest(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    """You name the part that differs most; the first one is the cause, and the others follow from it."""
    off = {}
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        gap = (a - b).abs().max()
        if a.shape != b.shape or not gap <= tolerance * a.abs().max():
            off[name] = gap.nan_to_num(torch.inf).item()
    return max(off, key=off.__getitem__, default=None)


@first_difference.mistake
def the_last(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    """You name the last part that differs; the first one is the cause, and the others follow from it."""
    return first_difference.reference(ours[::-1], theirs[::-1], tolerance)


@first_difference.mistake
def signs_count(ours: Seen, theirs: Seen, tolerance: float) -> str | None:
    """A difference may be negative: take its size before the largest one."""
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape or not (b - a).max() <= tolerance * a.abs().max():
            return name
    return None


def normed(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[1.0, 2.0, 6.0]]), "weight": torch.ones(3), "bias": torch.zeros(3)}
    yield {"x": draw(2, 3, 5) * 4 + 3, "weight": draw(5), "bias": draw(5)}


def rms(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


@exercise(
    difficulty=2,
    minutes=8,
    trains="what RMSNorm leaves out",
    right="RMSNorm equals LayerNorm without a bias for vectors whose mean is already 0.",
    cases=normed,
    without=("layer_norm", "var", "std", "var_mean", "std_mean"),
)
def centered(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return rms(x - x.mean(-1, keepdim=True), weight) + bias


@centered.mistake
def not_centered(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """That is RMSNorm with a bias; LayerNorm subtracts the mean first."""
    return rms(x, weight) + bias


@centered.mistake
def centered_late(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """You subtract the mean after dividing; the mean square is a different number then."""
    x = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return (x - x.mean(-1, keepdim=True)) * weight + bias


@centered.mistake
def mean_of_all(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """You subtract the mean of everything; each position has its own mean, over the last axis."""
    return rms(x - x.mean(), weight) + bias


@centered.mistake
def without_bias(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm adds its bias at the end."""
    return rms(x - x.mean(-1, keepdim=True), weight)


@centered.mistake
def bias_normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """You add the bias before the norm; it comes at the end."""
    return rms(x - x.mean(-1, keepdim=True) + bias, weight)


@exercise(
    difficulty=3,
    minutes=10,
    trains="relative positions in buckets",
    right="Near words are told apart one by one, and far words only by their rough distance.",
)
def buckets() -> list[int]:
    return [3, 16, 23, 31, 31]


@buckets.mistake
def equal_steps() -> list[int]:
    """Your steps are equally wide; from 16 on they grow by a constant factor, so equal steps of the logarithm."""
    return [3, 16, 19, 31, 31]


@buckets.mistake
def not_capped() -> list[int]:
    """There are 32 buckets, 0 to 31; all longer distances share the last one."""
    return [3, 16, 23, 31, 47]


@buckets.mistake
def rounded_up() -> list[int]:
    """Round down: 40 lies 7 steps and a bit beyond 16."""
    return [3, 16, 24, 31, 31]


@buckets.mistake
def counted_from_one() -> list[int]:
    """Buckets count from 0, which is the distance of a word to itself."""
    return [4, 17, 24, 32, 32]


@buckets.mistake
def both_ways() -> list[int]:
    """That is the encoder's: it has 16 buckets for each direction, and the decoder uses all 32 for earlier keys."""
    return [3, 10, 12, 15, 15]
