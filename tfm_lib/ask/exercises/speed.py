"""The exercises of lesson 09."""

from collections.abc import Iterator, Sequence
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: how much memory does an attention matrix take?


@exercise(
    difficulty=1,
    minutes=4,
    trains="counting bytes before running out of them",
    right="That is a quarter of a GiB per attention, and the paper's model has eighteen. A fused kernel saves it all.",
    tolerance=0.001,
)
def table() -> float:
    return 32 * 8 * 512 * 512 * 4 / 2**20


@table.mistake
def half_a_table() -> float:
    """That is half of it. A causal mask sets half of the weights to zero, but the matrix stores its zeros, too; and in
    float32 a number takes 4 bytes."""
    return table.reference() / 2


@table.mistake
def without_heads() -> float:
    """Every head has its own attention matrix, and there are 8 heads."""
    return table.reference() / 8


@table.mistake
def without_texts() -> float:
    """Every text of the batch has its own attention matrices, and there are 32 texts."""
    return table.reference() / 32


@table.mistake
def numbers_not_bytes() -> float:
    """You counted numbers, in units of 2**20; each of them takes 4 bytes."""
    return table.reference() / 4


@table.mistake
def in_gibibytes() -> float:
    """Your result is in GiB. The task asks for MiB, which are 1024 times as many."""
    return table.reference() / 1024


@table.mistake
def in_bytes() -> float:
    """Your result is in bytes. The task asks for MiB, so divide by 2**20."""
    return table.reference() * 2**20


@table.mistake
def in_millions_of_bytes() -> float:
    """Your result is in millions of bytes; a MiB is 2**20 bytes, a little more."""
    return table.reference() * 2**20 / 1e6


@table.mistake
def one_weight_a_key() -> float:
    """That is one weight per key; each of the 512 queries has 512 weights."""
    return table.reference() / 512


# ----------------------------------------------------------------------------------------------------
# 2: a batch that ends. The model is a table: after token i comes best[i].


def tables(draw: Draw) -> Iterator[Inputs]:
    # 0 padding, 1 the end; 2 is followed by the end, 3 by 2, 4 by 3, 5 by itself.
    table = {"best": torch.tensor([4, 3, 1, 2, 3, 5]), "eos": 1, "pad": 0}
    for first, most in (([2], 4), ([2, 3], 4), ([3, 2], 4), ([4, 2, 3], 6), ([5, 2], 3), ([1, 4], 3), ([5], 5)):
        yield {"first": torch.tensor(first), **table, "most": most}


@exercise(
    difficulty=2,
    minutes=10,
    trains="rows that end at different times",
    right="A batch continues until its last row has ended, and a row that has ended is filled with padding.",
    cases=tables,
)
def ending(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    written, ended = [first], first == eos
    while len(written) < most and not ended.all():
        token = best[written[-1]].masked_fill(ended, pad)
        written.append(token)
        ended = ended | (token == eos)
    return torch.stack(written, dim=1)


@ending.mistake
def any_ends_all(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """Both mistakes are still there. The first one: the loop stops as soon as *any* row has ended, so the others are
    cut off."""
    written = [first]
    while len(written) < most and not (written[-1] == eos).any():
        written.append(best[written[-1]])
    return torch.stack(written, dim=1)


@ending.mistake
def writes_on(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """The loop now waits for every row. One mistake is left: a row that has ended continues to write, but it should
    get padding."""
    written, ended = [first], first == eos
    while len(written) < most and not ended.all():
        written.append(best[written[-1]])
        ended = ended | (written[-1] == eos)
    return torch.stack(written, dim=1)


@ending.mistake
def all_at_once(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """You wait for a step in which *all* rows write the end. Each ends at its own step, so remember which have
    ended."""
    written = [first]
    while len(written) < most and not (written[-1] == eos).all():
        written.append(best[written[-1]])
    return torch.stack(written, dim=1)


@ending.mistake
def always_most(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """You never stop before `most` tokens. Stop as soon as every row has ended."""
    written, ended = [first], first == eos
    while len(written) < most:
        written.append(best[written[-1]].masked_fill(ended, pad))
        ended = ended | (written[-1] == eos)
    return torch.stack(written, dim=1)


@ending.mistake
def never_ends(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """Your rows never end: nothing stops at `eos`, and nothing is padded."""
    written = [first]
    while len(written) < most:
        written.append(best[written[-1]])
    return torch.stack(written, dim=1)


@ending.mistake
def one_token_too_many(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """Your rows may have one token more than `most`, because the first token counts, too."""
    return ending.reference(first, best, eos, pad, most + 1)


@ending.mistake
def the_last_step_only(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """You pad only the first token after the end, and then the row continues. A row that has ended stays ended."""
    written = [first]
    while len(written) < most and not ((written[-1] == eos) | (written[-1] == pad)).all():
        written.append(best[written[-1]].masked_fill(written[-1] == eos, pad))
    return torch.stack(written, dim=1)


@ending.mistake
def end_instead_of_padding(first: Tensor, best: Tensor, eos: int, pad: int, most: int) -> Tensor:
    """Your ended rows repeat the end token. It should come once, with padding after it."""
    written, ended = [first], first == eos
    while len(written) < most and not ended.all():
        token = best[written[-1]].masked_fill(ended, eos)
        written.append(token)
        ended = ended | (token == eos)
    return torch.stack(written, dim=1)


# ----------------------------------------------------------------------------------------------------
# 3: one fused call


def hidden_keys(draw: Draw) -> Iterator[Inputs]:
    yield {
        "query": torch.ones(1, 1, 2, 4),
        "key": torch.tensor([[[[1.0, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0]]]]),
        "value": torch.tensor([[[[8.0], [0], [100]]]]),
        "hidden": torch.tensor([[False, False, True]]),
    }
    yield {
        "query": draw(2, 2, 3, 4),
        "key": draw(2, 2, 5, 4),
        "value": draw(2, 2, 5, 4),
        "hidden": torch.tensor([[False, False, False, True, True], [False, False, False, False, False]]),
    }
    yield {
        "query": draw(1, 3, 1, 9),
        "key": draw(1, 3, 2, 9),
        "value": draw(1, 3, 2, 2),
        "hidden": torch.zeros(1, 2) > 0,
    }


def _formula(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, scale: float) -> Tensor:
    scores = query @ key.mT * scale  # (B, H, T, S)
    return scores.masked_fill(hidden[:, None, None, :], -torch.inf).softmax(-1) @ value


@exercise(
    difficulty=3,
    minutes=10,
    trains="reading a formula before fusing it",
    right="Before you replace a formula by a fused kernel, read its scale and its mask.",
    cases=hidden_keys,
    most_calls=3,
    without=("softmax", "matmul", "__matmul__", "bmm", "einsum", "exp"),
)
def fused(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden[:, None, None, :], scale=1.0)


@fused.mistake
def mask_not_inverted(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """The scale is right, but the mask is inverted: here True hides, while in torch's function True may attend."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=hidden[:, None, None, :], scale=1.0)


@fused.mistake
def default_scale(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Your scores are divided by the square root of the width, as torch's function does; the formula does not."""
    return _formula(query, key, value, hidden, query.shape[-1] ** -0.5)


@fused.mistake
def both_unread(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Two things differ from the formula: its mask is True for hidden keys, and its scores are not divided."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=hidden[:, None, None, :])


@fused.mistake
def no_mask(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Your hidden keys are not hidden: the mask is missing."""
    return _formula(query, key, value, torch.zeros_like(hidden), 1.0)


@fused.mistake
def mask_added(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Your mask consists of floats, which are added to the scores, so a 1 changes them only a little. Pass booleans."""
    shown = (~hidden[:, None, None, :]).to(query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=shown, scale=1.0)


@fused.mistake
def rank_too_low(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Your mask is (B, S), so its rows are taken for queries. Add an axis for the heads and one for the queries."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden, scale=1.0)


@fused.mistake
def texts_taken_for_heads(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Your mask is (B, 1, S), so its texts are taken for heads. It needs two axes of size 1: (B, 1, 1, S)."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden[:, None, :], scale=1.0)


# ----------------------------------------------------------------------------------------------------
# 4: the batch in parts


def parts_of_a_batch(draw: Draw) -> Iterator[Inputs]:
    one = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    yield {"weight": torch.zeros(2, 2), "parts": [(one[:2], torch.tensor([0, 1])), (one[2:], torch.tensor([1]))]}
    yield {"weight": draw(3, 2), "parts": [(draw(4, 2), torch.tensor([0, 1, 2, 2]))]}
    sizes = (5, 1, 2)
    yield {"weight": draw(4, 3), "parts": [(draw(size, 3), draw.integers(0, 4, size)) for size in sizes]}


Parts = Sequence[tuple[Tensor, Tensor]]


def _gradient(weight: Tensor, parts: Parts, shares: Sequence[float]) -> Tensor:
    weight = weight.clone().requires_grad_()
    for (x, labels), share in zip(parts, shares, strict=True):
        (share * F.cross_entropy(x @ weight.T, labels)).backward()
    assert weight.grad is not None
    return weight.grad


def _counts(parts: Parts) -> list[int]:
    return [len(labels) for _, labels in parts]


@exercise(
    difficulty=3,
    minutes=10,
    trains="gradient accumulation, to the last label",
    right="Every label counts the same in every part. Workers that share a batch follow the same rule.",
    cases=parts_of_a_batch,
)
def accumulated(weight: Tensor, parts: Parts) -> Tensor:
    return _gradient(weight, parts, [count / sum(_counts(parts)) for count in _counts(parts)])


@accumulated.mistake
def as_it_stood(weight: Tensor, parts: Parts) -> Tensor:
    """Two mistakes are left. Only the last part's gradient survives, because each round clears it. Also, in a mean of
    means a label of a short part counts for more."""
    return _gradient(weight, parts[-1:], [1 / len(parts)])


@accumulated.mistake
def mean_of_means(weight: Tensor, parts: Parts) -> Tensor:
    """One mistake is left: each part counts the same, so a label of a short part counts for more. Weight each part's
    mean by its share of the labels."""
    return _gradient(weight, parts, [1 / len(parts)] * len(parts))


@accumulated.mistake
def sum_of_means(weight: Tensor, parts: Parts) -> Tensor:
    """You add up the parts' means, so the result grows with the number of parts. Weight each mean by its share of the
    labels."""
    return _gradient(weight, parts, [1.0] * len(parts))


@accumulated.mistake
def sum_of_losses(weight: Tensor, parts: Parts) -> Tensor:
    """That is the gradient of the sum over all labels. The task asks for the mean, so divide by their number."""
    return _gradient(weight, parts, _counts(parts))


@accumulated.mistake
def divided_by_parts_too(weight: Tensor, parts: Parts) -> Tensor:
    """There is one division too many: the shares of the labels already sum to 1."""
    return accumulated.reference(weight, parts) / len(parts)


@accumulated.mistake
def last_part_by_labels(weight: Tensor, parts: Parts) -> Tensor:
    """The shares are right now. One mistake is left: the gradient is cleared before each part, so only the last one's
    survives."""
    return _gradient(weight, parts[-1:], [len(parts[-1][1]) / sum(_counts(parts))])


@accumulated.mistake
def sum_over_parts(weight: Tensor, parts: Parts) -> Tensor:
    """You add up the losses of all labels and divide by the number of parts; divide by the number of labels."""
    return _gradient(weight, parts, [count / len(parts) for count in _counts(parts)])


# ----------------------------------------------------------------------------------------------------
# 5: how many layers between two checkpoints?


@exercise(
    difficulty=3,
    minutes=12,
    trains="what checkpointing keeps",
    right="The best number is sqrt(layers / units per layer): the more a layer keeps, the shorter the segments.",
)
def segment() -> int:
    return min(range(1, 73), key=lambda size: 72 / size + 8 * size)


@segment.mistake
def root_of_layers() -> int:
    """That is the square root of 72, which is right only if a layer keeps no more than its input. Here it keeps 8 times
    as much."""
    return round(sqrt(72))


@segment.mistake
def every_layer() -> int:
    """With one layer per segment, all 72 inputs are kept, and 8 units in the backward pass: 80. Less is possible."""
    return 1


@segment.mistake
def all_of_them() -> int:
    """With one segment, all layers are in memory at once when it runs again: 1 + 72 times 8 units."""
    return 72


@segment.mistake
def units_not_layers() -> int:
    """That is the least memory. The task asks for the number of layers in a segment."""
    return 48


@segment.mistake
def number_of_segments() -> int:
    """That is the number of segments. Compute how many layers each of them has."""
    return 24


@segment.mistake
def one_too_many() -> int:
    """That is close: 72 / 4 + 8 times 4 is 50, and there is a number that gives less."""
    return 4


@segment.mistake
def one_too_few() -> int:
    """That is close: 72 / 2 + 8 times 2 is 52, and there is a number that gives less."""
    return 2


# ----------------------------------------------------------------------------------------------------
# 6: the share of padding


def plans(draw: Draw) -> Iterator[Inputs]:
    yield {"lengths": [3, 9, 4, 10], "plan": [[0, 1], [2, 3]]}
    yield {"lengths": [3, 9, 4, 10], "plan": [[0, 2], [1, 3]]}
    yield {"lengths": [5, 5, 5], "plan": [[0], [1, 2]]}
    yield {"lengths": [2, 8, 1, 1, 7, 3], "plan": [[1], [0, 2, 3], [5, 4]]}
    lengths = draw.integers(1, 60, 40).tolist()
    order = sorted(range(40), key=lambda index: lengths[index])
    yield {"lengths": lengths, "plan": [order[i : i + 7] for i in range(0, 40, 7)]}


@exercise(
    difficulty=2,
    minutes=8,
    trains="what padding costs",
    right="One number tells whether buckets are worth their code for your data, before anything is trained.",
    cases=plans,
)
def padding(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    places = sum(len(rows) * max(lengths[i] for i in rows) for rows in plan)
    return 1 - sum(lengths) / places


@padding.mistake
def used_not_padded(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """That is the share of positions that hold text; the share of padding is the rest."""
    return 1 - padding.reference(lengths, plan)


@padding.mistake
def mean_of_shares(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """You take the mean of the batches' shares, in which a small batch counts as much as a large one. Count the
    positions of all batches and divide once."""
    shares = [1 - sum(lengths[i] for i in rows) / (len(rows) * max(lengths[i] for i in rows)) for rows in plan]
    return sum(shares) / len(shares)


@padding.mistake
def widest_of_all(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """You pad every text to the longest one of all; a batch is as wide as its own longest text."""
    return 1 - sum(lengths) / (len(lengths) * max(lengths))


@padding.mistake
def padding_to_text(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """You divide the padding by the text. Divide it by all positions, text and padding together."""
    places = sum(len(rows) * max(lengths[i] for i in rows) for rows in plan)
    return places / sum(lengths) - 1


@padding.mistake
def widest_index(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """`max(rows)` is the largest index in the batch; you need the largest length, `lengths[i]` of its rows."""
    return 1 - sum(lengths) / sum(len(rows) * max(rows) for rows in plan)


@padding.mistake
def last_is_widest(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """You use the last text as the width of a batch, which is right only if it is sorted. Use the longest one."""
    return 1 - sum(lengths) / sum(len(rows) * lengths[rows[-1]] for rows in plan)


@padding.mistake
def number_of_places(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> float:
    """That is the number of positions that hold padding. Divide it by the number of all positions."""
    return sum(len(rows) * max(lengths[i] for i in rows) for rows in plan) - sum(lengths)


# ----------------------------------------------------------------------------------------------------
# 7: a loss scale that finds itself


def scaled_gradients(draw: Draw) -> Iterator[Inputs]:
    yield {"gradient": torch.tensor([2.0, -4.0], dtype=torch.float16), "scale": 4.0}
    yield {"gradient": torch.tensor([1.0, torch.inf], dtype=torch.float16), "scale": 8.0}
    yield {"gradient": torch.tensor([torch.nan, 1.0], dtype=torch.float16), "scale": 8.0}
    yield {"gradient": torch.tensor([-torch.inf, 1.0], dtype=torch.float16), "scale": 2.0}
    yield {"gradient": torch.tensor([6e-4, 1.0], dtype=torch.float16), "scale": 2.0**16}
    yield {"gradient": draw(2, 3).half(), "scale": 1024.0}


@exercise(
    difficulty=3,
    minutes=12,
    trains="loss scaling, and why the division is in float32",
    right="The scale may start at a very large number: if it is too large, a step is skipped and the scale is halved.",
    cases=scaled_gradients,
    tolerance=1e-6,
)
def unscaled(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    if not gradient.isfinite().all():
        return torch.zeros_like(gradient, dtype=torch.float32), scale / 2
    return gradient.float() / scale, scale


@unscaled.mistake
def divided_in_half(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You divide in float16, where the result is again too small for the format. Divide in float32."""
    if not gradient.isfinite().all():
        return torch.zeros_like(gradient, dtype=torch.float32), scale / 2
    return (gradient / scale).float(), scale


@unscaled.mistake
def left_in_half(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """Your gradient is still in float16. The optimizer needs it in float32, or small numbers are lost."""
    if not gradient.isfinite().all():
        return torch.zeros_like(gradient), scale / 2
    return gradient / scale, scale


@unscaled.mistake
def never_skipped(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """An infinite gradient makes its weights infinite. If one number is not finite, return zeros and half the scale."""
    return gradient.float() / scale, scale


@unscaled.mistake
def scale_stays(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You skip the step, but the scale stays too large, so every later step overflows as well. Halve it."""
    if not gradient.isfinite().all():
        return torch.zeros_like(gradient, dtype=torch.float32), scale
    return gradient.float() / scale, scale


@unscaled.mistake
def only_bad_numbers(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You remove the numbers that are not finite and keep the others. Skip the whole step, since the rest would be a
    step in a different direction."""
    good = gradient.isfinite()
    return torch.where(good, gradient.float() / scale, 0.0), scale if good.all() else scale / 2


@unscaled.mistake
def infinite_only(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You only look for infinities, but overflow also causes NaN (infinity minus infinity). `isfinite` covers both."""
    if gradient.isinf().any():
        return torch.zeros_like(gradient, dtype=torch.float32), scale / 2
    return gradient.float() / scale, scale


@unscaled.mistake
def one_sign_only(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You miss minus infinity. `isfinite` covers both signs."""
    if (gradient == torch.inf).any() or gradient.isnan().any():
        return torch.zeros_like(gradient, dtype=torch.float32), scale / 2
    return gradient.float() / scale, scale


@unscaled.mistake
def always_halved(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You halve the scale at every step. Halve it only if the step is skipped."""
    return unscaled.reference(gradient, scale)[0], scale / 2


@unscaled.mistake
def multiplied(gradient: Tensor, scale: float) -> tuple[Tensor, float]:
    """You multiply by the scale, but the loss was already multiplied by it. Divide."""
    if not gradient.isfinite().all():
        return torch.zeros_like(gradient, dtype=torch.float32), scale / 2
    return gradient.float() * scale, scale
