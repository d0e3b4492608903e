"""The exercises of lesson 03."""

from collections.abc import Iterator
from math import inf, sqrt

import torch
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.attention import attention


@exercise(
    difficulty=1,
    minutes=5,
    trains="counting parameters from shapes",
    right="Only the sum of the two widths matters: a number less in each key pays for a number more in each value.",
)
def parameters() -> int:
    width, heads, of_keys, of_values = 8, 2, 2, 5
    return 2 * width * heads * of_keys + 2 * width * heads * of_values


@parameters.mistake
def usual_widths() -> int:
    """These are four square matrices, which is right only if queries, keys and values are all D / H wide."""
    return 4 * 8 * 8


@parameters.mistake
def one_head() -> int:
    """This is one head with its slice of the output matrix, but there are two heads."""
    return parameters.reference() // 2


@parameters.mistake
def no_output() -> int:
    """The queries, keys and values are right; the output matrix is missing."""
    return 8 * 2 * (2 + 2 + 5)


@parameters.mistake
def square_output() -> int:
    """Your output matrix is square, but it takes in 5 numbers from each of both heads, and its output is 8 wide."""
    return 8 * 2 * (2 + 2 + 5) + 8 * 8


@parameters.mistake
def with_biases() -> int:
    """This counts biases as well, but the layer has none."""
    return parameters.reference() + 4 + 4 + 10 + 8


def projected_words(draw: Draw) -> Iterator[Inputs]:
    for batch, queries, keys, width, heads in ((1, 2, 2, 2, 2), (1, 1, 2, 4, 2), (1, 3, 2, 6, 3), (2, 3, 4, 8, 2)):
        words = {"query": draw(batch, queries, width)}
        yield words | {"key": draw(batch, keys, width), "value": draw(batch, keys, width), "heads": heads}


def cut(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@exercise(
    difficulty=2,
    minutes=8,
    trains="what stays the same with one head",
    right="With one head, neither of the two mistakes has an effect. This is why they passed their test.",
    cases=projected_words,
)
def mended(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    return attention(cut(query, heads), cut(key, heads), cut(value, heads)).transpose(1, 2).flatten(2)


def by_formula(query: Tensor, key: Tensor, value: Tensor, heads: int, width: int) -> Tensor:
    """The results of the heads, for scores that are divided by the square root of `width`: (B, H, T, Dh)."""
    scores = cut(query, heads) @ cut(key, heads).mT / sqrt(width)
    return scores.softmax(-1) @ cut(value, heads)


@mended.mistake
def both_mistakes(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """Two lines are wrong: one divides by the wrong width, and the last one joins numbers of different words."""
    return by_formula(query, key, value, heads, query.shape[-1]).reshape(query.shape)


@mended.mistake
def merge_left(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """The scale is right now. The last line still joins before it moves the axis of the heads back."""
    return by_formula(query, key, value, heads, query.shape[-1] // heads).reshape(query.shape)


@mended.mistake
def scale_left(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """The merge is right now. The scores are still divided by the square root of the model's width, not the head's."""
    return by_formula(query, key, value, heads, query.shape[-1]).transpose(1, 2).flatten(2)


@mended.mistake
def view_refused(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """The axis is moved back, but `view` cannot join numbers that are not adjacent; `reshape` or `flatten` can."""
    return by_formula(query, key, value, heads, query.shape[-1] // heads).transpose(1, 2).view(query.shape)


@mended.mistake
def divided_by_heads(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """The merge is right now. The scores are divided by the square root of the number of heads, not of their width."""
    return by_formula(query, key, value, heads, heads).transpose(1, 2).flatten(2)


@mended.mistake
def no_root(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """The merge is right now. The scores are divided by the head's width instead of its square root."""
    return by_formula(query, key, value, heads, (query.shape[-1] // heads) ** 2).transpose(1, 2).flatten(2)


def fused_projections(draw: Draw) -> Iterator[Inputs]:
    for batch, length, width, heads in ((1, 2, 2, 2), (1, 3, 4, 2), (2, 3, 6, 3), (2, 4, 8, 1)):
        words = torch.arange(1.0, batch * length + 1).reshape(batch, length, 1)
        yield {"fused": 100 * words + torch.arange(3 * width), "heads": heads}


Parts = tuple[Tensor, Tensor, Tensor]


@exercise(
    difficulty=3,
    minutes=10,
    trains="the order of axes in one fused product",
    right="`nn.MultiheadAttention` stores its matrices in this order. Some models do not, so check before copying.",
    cases=fused_projections,
)
def fused_split(fused: Tensor, heads: int) -> Parts:
    query, key, value = (cut(part, heads) for part in fused.chunk(3, dim=-1))
    return query, key, value


@fused_split.mistake
def cut_by_view(fused: Tensor, heads: int) -> Parts:
    """Queries, keys and values are right, but a head got whole words: cut within the row, then move the axis."""
    query, key, value = (p.reshape(len(p), heads, p.shape[1], -1) for p in fused.chunk(3, dim=-1))
    return query, key, value


@fused_split.mistake
def heads_outside(fused: Tensor, heads: int) -> Parts:
    """You cut a row into heads, and each head into three. Cut into three first, and then into heads."""
    query, key, value = cut(fused, heads).chunk(3, dim=-1)
    return query, key, value


@fused_split.mistake
def axis_not_moved(fused: Tensor, heads: int) -> Parts:
    """The rows are cut correctly, but the axis of the heads still comes after the words."""
    query, key, value = (part.unflatten(-1, (heads, -1)) for part in fused.chunk(3, dim=-1))
    return query, key, value


@fused_split.mistake
def dealt_out(fused: Tensor, heads: int) -> Parts:
    """You gave the numbers to the heads in turn, one at a time. Each head gets numbers that are side by side."""
    query, key, value = (p.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2) for p in fused.chunk(3, dim=-1))
    return query, key, value


@fused_split.mistake
def three_by_view(fused: Tensor, heads: int) -> Parts:
    """Your three parts hold different words. The last axis holds queries, keys and values, so cut there."""
    query, key, value = (cut(part, heads) for part in fused.reshape(3, len(fused), fused.shape[1], -1))
    return query, key, value


def scores_of_heads(draw: Draw) -> Iterator[Inputs]:
    yield {"scores": torch.zeros(2, 2, 1, 2), "mask": torch.tensor([[[True, False]], [[True, True]]])}
    for batch, heads, queries, keys in ((2, 2, 2, 3), (1, 3, 2, 2), (2, 3, 3, 4)):
        mask = draw.integers(0, 2, batch, queries, keys) > 0
        mask[:, :, 0] = True
        yield {"scores": draw(batch, heads, queries, keys), "mask": mask}


@exercise(
    difficulty=3,
    minutes=8,
    trains="which axes broadcasting aligns",
    right="Axes are matched from the right, so a mask that lacks one meets the wrong axis, sometimes without an error.",
    cases=scores_of_heads,
)
def masked(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask[:, None], -inf).softmax(-1)


@masked.mistake
def heads_as_sentences(scores: Tensor, mask: Tensor) -> Tensor:
    """Head 0 always gets the mask of sentence 0, and head 1 that of sentence 1: the mask lacks the axis of heads."""
    return scores.masked_fill(~mask, -inf).softmax(-1)


@masked.mistake
def axis_behind_queries(scores: Tensor, mask: Tensor) -> Tensor:
    """The new axis comes after the queries, so the queries are matched with heads. It belongs before them."""
    return scores.masked_fill(~mask[:, :, None], -inf).softmax(-1)


@masked.mistake
def repeated_in_blocks(scores: Tensor, mask: Tensor) -> Tensor:
    """You repeated the whole batch of masks, which mixes up the sentences. Repeat each mask for its own heads."""
    return scores.masked_fill(~mask.repeat(scores.shape[1], 1, 1).view(scores.shape), -inf).softmax(-1)


@masked.mistake
def first_sentence_for_all(scores: Tensor, mask: Tensor) -> Tensor:
    """All sentences get the mask of the first one."""
    return scores.masked_fill(~mask[0], -inf).softmax(-1)


@masked.mistake
def turned_round(scores: Tensor, mask: Tensor) -> Tensor:
    """The axes fit now, but the mask is inverted: True means "may attend"."""
    return scores.masked_fill(mask[:, None], -inf).softmax(-1)


@masked.mistake
def hidden_by_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """The axes fit now, but a hidden key has the score 0, and e to the 0 is 1. Only minus infinity gives weight 0."""
    return scores.masked_fill(~mask[:, None], 0.0).softmax(-1)


@masked.mistake
def hidden_by_zero_in_heads(scores: Tensor, mask: Tensor) -> Tensor:
    """There are two mistakes: the mask still lacks the axis of heads, and a score of 0 hides nothing, since e to the 0
    is 1."""
    return scores.masked_fill(~mask, 0.0).softmax(-1)


@masked.mistake
def struck_out_afterward(scores: Tensor, mask: Tensor) -> Tensor:
    """The right keys are removed, but after the softmax, so the rows no longer sum to 1."""
    return scores.softmax(-1) * mask[:, None]


def heads_that_share(draw: Draw) -> Iterator[Inputs]:
    query = torch.ones(1, 4, 1, 1)
    key = torch.zeros(1, 2, 1, 1)
    yield {"query": query, "key": key, "value": torch.tensor([[[[10.0]], [[20.0]]]])}
    for batch, heads, groups, queries, keys, width in ((1, 2, 1, 1, 2, 2), (2, 6, 3, 2, 3, 4), (1, 3, 3, 2, 2, 2)):
        keys_and_values = {name: draw(batch, groups, keys, width) for name in ("key", "value")}
        yield {"query": draw(batch, heads, queries, width), **keys_and_values}


@exercise(
    difficulty=4,
    minutes=20,
    trains="reducing the new to the known",
    right="A model that generates text stores all keys and values (lesson 09), so most large models share them.",
    cases=heads_that_share,
)
def grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    share = query.shape[1] // key.shape[1]
    return attention(query, key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1))


@grouped.mistake
def in_turn(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Your heads take the groups in turn, but neighbors share: the first heads use group 0, the next ones group 1."""
    share = query.shape[1] // key.shape[1]
    return attention(query, key.repeat(1, share, 1, 1), value.repeat(1, share, 1, 1))


@grouped.mistake
def one_for_all(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All your heads use the keys and values of group 0."""
    return attention(query, key[:, :1], value[:, :1])


@grouped.mistake
def groups_averaged(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """You averaged the groups, but each head uses one of them, unchanged."""
    return attention(query, key.mean(1, keepdim=True), value.mean(1, keepdim=True))


@grouped.mistake
def not_scaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The sharing is right, but the scores are not divided by the square root of the head's width."""
    return grouped.reference(query * sqrt(query.shape[-1]), key, value)


@grouped.mistake
def nothing_shared(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """H heads meet G heads, and broadcasting cannot know which heads share: bring keys and values to H heads first."""
    return (query @ key.mT / sqrt(query.shape[-1])).softmax(-1) @ value


@grouped.mistake
def numbers_repeated(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The shapes fit again, but without `dim`, `repeat_interleave` repeats each number instead of each head. Give it
    `dim=1`."""
    batch, heads, _, width = query.shape
    share = heads // key.shape[1]
    key, value = (x.repeat_interleave(share).view(batch, heads, -1, width) for x in (key, value))
    return attention(query, key, value)


@grouped.mistake
def flattened(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The shapes do not fit, not even if each head has keys of its own. `repeat_interleave` needs `dim=1`: without it,
    it returns all numbers in one vector."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1])
    return query @ key.mT @ value  # torch has no .mT of a line


@grouped.mistake
def flattened_and_transposed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """An axis that you name does not exist, not even if each head has keys of its own. `repeat_interleave` needs
    `dim=1`: without it, it returns all numbers in one vector."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1])
    return query @ key.transpose(-2, -1) @ value


@grouped.mistake
def a_group_for_each_head(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """You look for head h of the keys and values, but there are only G of them. Query head h uses head
    h // (H / G)."""
    heads = torch.arange(query.shape[1])
    return attention(query, key[:, heads], value[:, heads])


@grouped.mistake
def values_in_turn(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Neighbors share the keys correctly, but the values are taken in turn."""
    share = query.shape[1] // key.shape[1]
    return attention(query, key.repeat_interleave(share, dim=1), value.repeat(1, share, 1, 1))


def answers_of_heads(draw: Draw) -> Iterator[Inputs]:
    w_o = torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    yield {"answers": torch.tensor([[[[1.0]], [[2.0]]]]), "w_o": w_o}
    for batch, heads, length, width, model_width in ((1, 2, 1, 2, 4), (1, 2, 2, 2, 3), (2, 3, 2, 2, 6)):
        yield {"answers": draw(batch, heads, length, width), "w_o": draw(model_width, heads * width)}


@exercise(
    difficulty=3,
    minutes=12,
    trains="the output as a sum over heads",
    right="In a trained model this shows which head wrote what, and interpretability research uses it.",
    cases=answers_of_heads,
    most_calls=4,
)
def written(answers: Tensor, w_o: Tensor) -> Tensor:
    return answers @ w_o.T.unflatten(0, (answers.shape[1], -1))


@written.mistake
def rows_of_matrix(answers: Tensor, w_o: Tensor) -> Tensor:
    """You gave each head some rows of `w_o`. Torch stores (out, in), so the inputs from a head meet columns."""
    return answers @ w_o.unflatten(0, answers.shape[1:4:2])


@written.mistake
def cut_out_of_line(answers: Tensor, w_o: Tensor) -> Tensor:
    """The shape is right, but `view` and `reshape` move no number: each head got rows of `w_o`. Transpose it first."""
    return answers @ w_o.reshape(answers.shape[1], answers.shape[3], -1)


@written.mistake
def all_together(answers: Tensor, w_o: Tensor) -> Tensor:
    """This is the layer's output, in which the heads are already summed. Keep them apart."""
    return written.reference(answers, w_o).sum(1)


@written.mistake
def every_other_column(answers: Tensor, w_o: Tensor) -> Tensor:
    """You gave the columns to the heads in turn, one at a time. The first columns all belong to head 0."""
    return answers @ w_o.T.unflatten(0, (-1, answers.shape[1])).transpose(0, 1)


@written.mistake
def words_before_heads(answers: Tensor, w_o: Tensor) -> Tensor:
    """The numbers are right, but the axis of the heads must come before the words, as in `answers`."""
    return written.reference(answers, w_o).transpose(1, 2)


def layers_to_prune(draw: Draw) -> Iterator[Inputs]:
    numbers = torch.arange(1.0, 17).reshape(4, 2, 2)
    yield {**dict(zip(("w_q", "w_k", "w_v", "w_o"), numbers, strict=True)), "heads": 2, "away": 0}
    for heads, width, model_width, away in ((3, 2, 6, 1), (2, 3, 4, 1)):
        inner = heads * width
        inputs: Inputs = {name: draw(inner, model_width) for name in ("w_q", "w_k", "w_v")}
        yield inputs | {"w_o": draw(model_width, inner), "heads": heads, "away": away}


Matrices = tuple[Tensor, Tensor, Tensor, Tensor]


def numbers_that_stay(w_q: Tensor, heads: int, away: int) -> Tensor:
    return torch.arange(len(w_q)) // (len(w_q) // heads) != away


@exercise(
    difficulty=3,
    minutes=12,
    trains="finding a head in the matrices",
    right="Michel, Levy and Neubig removed heads in this way, and many layers worked nearly as well without them.",
    cases=layers_to_prune,
)
def pruned(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    stay = numbers_that_stay(w_q, heads, away)
    return w_q[stay], w_k[stay], w_v[stay], w_o[:, stay]


@pruned.mistake
def rows_of_output(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    """The first three are right. The rows of `w_o` are the outputs of the layer, and a head is some of its columns."""
    stay = numbers_that_stay(w_q, heads, away)
    return w_q[stay], w_k[stay], w_v[stay], w_o[stay]


@pruned.mistake
def columns_of_all(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    """You removed columns everywhere. In the first three, columns are the inputs, and a head is some of the rows."""
    stay = numbers_that_stay(w_q, heads, away)
    return w_q[:, stay], w_k[:, stay], w_v[:, stay], w_o[:, stay]


@pruned.mistake
def all_but_kept(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    """You kept the head that should be removed, and removed the others."""
    stay = ~numbers_that_stay(w_q, heads, away)
    return w_q[stay], w_k[stay], w_v[stay], w_o[:, stay]


@pruned.mistake
def set_to_zero(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    """The head returns zeros, but it is still there: the matrices should become smaller."""
    stay = numbers_that_stay(w_q, heads, away).float()
    return w_q * stay[:, None], w_k * stay[:, None], w_v * stay[:, None], w_o * stay


@pruned.mistake
def one_of_each_head(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    """You removed rows at equal distances, a part of each head. The rows of one head are next to each other."""
    stay = torch.arange(len(w_q)) % heads != away
    return w_q[stay], w_k[stay], w_v[stay], w_o[:, stay]


@pruned.mistake
def output_forgotten(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, heads: int, away: int) -> Matrices:
    """The first three are right, but `w_o` still expects the result of the removed head."""
    stay = numbers_that_stay(w_q, heads, away)
    return w_q[stay], w_k[stay], w_v[stay], w_o
