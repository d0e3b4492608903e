"""The exercises of lesson 02."""

from collections.abc import Callable, Iterator
from math import ceil, exp, inf, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.masks import causal_mask


@exercise(
    difficulty=1,
    minutes=4,
    trains="what a score of 0 weighs",
    right="One much longer neighbor in the batch, and without a mask a word reads more padding than text.",
    tolerance=0.005,
)
def padding_wins() -> int:
    return ceil(exp(2) + exp(0) + exp(0))


@padding_wins.mistake
def as_many_as_words() -> int:
    """That would hold if all scores were equal; the word itself weighs more, since e to the 2 is above 7."""
    return 3


@padding_wins.mistake
def not_quite() -> int:
    """With that many, padding has just less than half: compare the number with the sum of the three exponentials."""
    return 9


@padding_wins.mistake
def not_rounded() -> float:
    """That is where the balance lies; padding comes in whole vectors, and has to reach it."""
    return exp(2) + exp(0) + exp(0)


@padding_wins.mistake
def against_one_word() -> int:
    """That beats "rain" alone; the two other words have a share as well, e to the 0 each."""
    return 8


@padding_wins.mistake
def never() -> float:
    """A score of 0 is a score like any other: its exponential is 1, and enough of them outweigh anything."""
    return inf


def queries_among_keys(draw: Draw) -> Iterator[Inputs]:
    for queries, keys in ((2, 3), (1, 4), (3, 3), (3, 7)):
        yield {"queries": queries, "keys": keys}


@exercise(
    difficulty=2,
    minutes=8,
    trains="a causal mask by comparison",
    right="So it is in decoding, where the earlier keys are kept and only the newest words ask (lesson 09).",
    cases=queries_among_keys,
    without=("tril", "triu", "tril_indices", "triu_indices"),
)
def last_queries(queries: int, keys: int) -> Tensor:
    return causal_mask(queries, past=keys - queries)[0, 0]


@last_queries.mistake
def first_queries(queries: int, keys: int) -> Tensor:
    """Your queries are the first positions, so the first sees one key; they are the last ones, and see more."""
    return torch.arange(keys) <= torch.arange(queries)[:, None]


@last_queries.mistake
def itself_hidden(queries: int, keys: int) -> Tensor:
    """Your queries do not see their own position; they may, since its word has been read."""
    return torch.arange(keys) < torch.arange(keys - queries, keys)[:, None]


@last_queries.mistake
def future_only(queries: int, keys: int) -> Tensor:
    """Your queries see the future and not the past: it is the other triangle."""
    return torch.arange(keys) >= torch.arange(keys - queries, keys)[:, None]


@last_queries.mistake
def true_is_hidden(queries: int, keys: int) -> Tensor:
    """True stands where a key is hidden; in this course True means "may attend"."""
    return torch.arange(keys) > torch.arange(keys - queries, keys)[:, None]


def summaries(draw: Draw) -> Iterator[Inputs]:
    yield {"ids": torch.tensor([[0, 7, 8]]), "pad_id": 0}
    yield {"ids": torch.tensor([[7, 8, 0]]), "pad_id": 0}
    yield {"ids": torch.tensor([[1, 5, 0], [5, 1, 0]]), "pad_id": 1}
    yield {"ids": draw.integers(0, 3, 4, 6), "pad_id": 0}


@exercise(
    difficulty=2,
    minutes=6,
    trains="which axis is the keys'",
    right="One axis, and no error: with padding on the right the mistake has no effect, so it survives until decoding.",
    cases=summaries,
)
def decoder(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, :] & causal_mask(ids.shape[1])[0]


@decoder.mistake
def queries_hidden(ids: Tensor, pad_id: int) -> Tensor:
    """The rows of the padding are blanked out, and its column can be seen: hide keys, the last axis, not queries."""
    return (ids != pad_id)[:, :, None] & causal_mask(ids.shape[1])[0]


@decoder.mistake
def both_hidden(ids: Tensor, pad_id: int) -> Tensor:
    """The columns of the padding are hidden, as they should be, but its rows as well; leave the queries alone."""
    return (ids != pad_id)[:, :, None] & decoder.reference(ids, pad_id)


@decoder.mistake
def either(ids: Tensor, pad_id: int) -> Tensor:
    """A key is seen if one of the two masks allows it; both have to."""
    return (ids != pad_id)[:, None, :] | causal_mask(ids.shape[1])[0]


@decoder.mistake
def padding_seen(ids: Tensor, pad_id: int) -> Tensor:
    """The future is hidden, the padding is not."""
    return causal_mask(ids.shape[1])[0].expand(len(ids), -1, -1)


@decoder.mistake
def future_seen(ids: Tensor, pad_id: int) -> Tensor:
    """The padding is hidden, the future is not."""
    return (ids != pad_id)[:, None, :].expand(-1, ids.shape[1], -1)


@decoder.mistake
def other_triangle(ids: Tensor, pad_id: int) -> Tensor:
    """The padding is hidden, but now the queries see the future and not the past: `past` was right."""
    return (ids != pad_id)[:, None, :] & causal_mask(ids.shape[1])[0].mT


@decoder.mistake
def zero_is_padding(ids: Tensor, pad_id: int) -> Tensor:
    """The number 0 is taken for padding; its number is `pad_id`."""
    return decoder.reference(ids, 0)


@exercise(
    difficulty=2,
    minutes=5,
    trains="how far a mask reaches through layers",
    right="A window grows by the same step with each layer, so that narrow masks still see far in a deep model.",
)
def reach() -> int:
    return 1 + 4 * 2


@reach.mistake
def one_layer() -> int:
    """That is one layer's window; what it gathers, the next layer passes on."""
    return 1 + 2


@reach.mistake
def windows_added() -> int:
    """You added four windows of three words; they overlap, since each begins with a word that is counted already."""
    return 4 * 3


@reach.mistake
def paths() -> int:
    """You multiplied; that many ways lead to the last word, but most of them start at the same words."""
    return 3**4


@reach.mistake
def without_itself() -> int:
    """Those are the words before it; it has an influence on itself, too."""
    return 4 * 2


def packed_rows(draw: Draw) -> Iterator[Inputs]:
    yield {"article": torch.tensor([[1, 2, 2]])}
    yield {"article": torch.tensor([[1, 0, 0]])}
    yield {"article": torch.tensor([[1, 1, 2, 3, 3, 0], [1, 1, 1, 1, 2, 2], [2, 2, 1, 1, 0, 0]])}


@exercise(
    difficulty=3,
    minutes=12,
    trains="broadcasting a row against itself",
    right="Large models are trained on such packed rows, in which hardly a position is lost to padding.",
    cases=packed_rows,
    most_calls=8,
)
def packed(article: Tensor) -> Tensor:
    query, key = article[:, None, :, None], article[:, None, None, :]
    return (query == key) & (key != 0)


@packed.mistake
def padding_among_itself(article: Tensor) -> Tensor:
    """Articles are kept apart, but padding sees padding, since 0 equals 0; nobody should see it."""
    return article[:, None, :, None] == article[:, None, None, :]


@packed.mistake
def all_articles(article: Tensor) -> Tensor:
    """The padding is hidden, but a word sees the words of other articles as well."""
    return (article[:, None, :, None] != 0) & (article[:, None, None, :] != 0)


@packed.mistake
def padding_asks(article: Tensor) -> Tensor:
    """Only the padding is hidden: a query sees all words of the row, of whatever article."""
    return (article != 0)[:, None, None, :].expand(-1, 1, article.shape[1], -1)


@packed.mistake
def causal_too(article: Tensor) -> Tensor:
    """The future is hidden as well; a word of an article may see all of it."""
    return packed.reference(article) & causal_mask(article.shape[1])


@packed.mistake
def no_axis_for_heads(article: Tensor) -> Tensor:
    """The table is right, and the axis for the heads is missing: (B, 1, S, S)."""
    return packed.reference(article)[:, 0]


def attends(table: Tensor) -> Callable[[Tensor], Tensor]:
    """Self-attention of one sentence with an additive mask."""
    return lambda x: (x @ x.T / sqrt(x.shape[-1]) + table[: len(x), : len(x)].to(x.dtype)).softmax(-1) @ x


HIDES_FUTURE = torch.full((4, 4), -inf).triu(1)
FIRST_SEES_THIRD = HIDES_FUTURE.index_put((torch.tensor(0), torch.tensor(2)), torch.tensor(0.0))
SUSPECTS = {
    "attention with a causal mask": attends(HIDES_FUTURE),
    "each position is handed the word before it, position 0 its own": lambda x: torch.cat([x[:1], x[:-1]]),
    "attention without a mask": attends(torch.zeros(4, 4)),
    "a causal mask with a hole: word 0 sees word 2": attends(FIRST_SEES_THIRD),
    "a penalty of 20 on the future, where minus infinity is meant": attends(torch.full((4, 4), -20.0).triu(1)),
}
Leaks = list[tuple[int, int]]


def suspects(draw: Draw) -> Iterator[Inputs]:
    x = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])  # the word in the middle is "the": all zeros
    for name in SUSPECTS:
        yield {"attend": name, "x": x.double() if "penalty" in name else x}
        yield {"attend": name, "x": draw(4, 3).double()}


def accuse(answer: Callable, attend: str, x: Tensor) -> Leaks:
    """What an answer finds out of a suspect, in order."""
    found = answer(SUSPECTS[attend], x)
    return sorted(found) if isinstance(found, list) else found


@exercise(
    difficulty=3,
    minutes=10,
    trains="a test that trusts no code",
    right="It asks no code what it means to do, so it finds a leak in any model, also in one you did not write.",
    cases=suspects,
    call=accuse,
)
def leaks(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(key) if moved[query]]
    return found


@leaks.mistake
def influences(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You report the influence of the past, too, which is allowed; in a leak a word reaches an earlier position."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(len(x)) if moved[query]]
    return found


@leaks.mistake
def nearly_equal(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You let small differences pass; a word that is hidden changes nothing, not even the last bit."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        after = attend(changed)
        found += [(query, key) for query in range(key) if not torch.allclose(after[query], before[query])]
    return found


@leaks.mistake
def zeroed(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """Zeroing or scaling a word changes nothing where all its numbers are 0, as those of "the" are; add something."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] = 0
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(key) if moved[query]]
    return found


@leaks.mistake
def changes_pile_up(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """Your changes pile up: a word is still changed when the next one is; start from a fresh copy each time."""
    before, changed, found = attend(x), x.clone(), []
    for key in range(len(x)):
        changed[key] += 1
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(key) if moved[query]]
    return found


@leaks.mistake
def whole_output(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You ask whether anything in the output moved, and the changed word's own row does; for the pair (position, word)
    only row `position` counts."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        if (attend(changed) != before).any():
            found += [(query, key) for query in range(key)]
    return found


@leaks.mistake
def all_places_before(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """One position before the word moved, and you report all of them; ask each row by itself."""
    return [(query, key) for key in {key for _, key in leaks.reference(attend, x)} for query in range(key)]


@leaks.mistake
def turned(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """The pairs are turned round: first the position that moved, then the word that was changed."""
    return [(key, query) for query, key in leaks.reference(attend, x)]


@leaks.mistake
def last_word_only(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You changed only the last word; each of them may leak."""
    return [(query, key) for query, key in leaks.reference(attend, x) if key == len(x) - 1]


def scores_and_masks(draw: Draw) -> Iterator[Inputs]:
    yield {"scores": torch.tensor([[0.0, 0.0]]), "mask": torch.tensor([[True, True]])}
    yield {"scores": torch.tensor([[2.0, 0.0, 1.0]]), "mask": torch.tensor([[True, True, False]])}
    yield {"scores": torch.tensor([[1.0, 2.0]]), "mask": torch.tensor([[False, False]])}
    yield {"scores": torch.tensor([[200.0, 199.0, 300.0]]), "mask": torch.tensor([[True, True, False]])}
    yield {"scores": torch.tensor([[3.0, 1.0, 2.0]]).half(), "mask": torch.tensor([[True, False, True]])}
    yield {
        "scores": draw(2, 2, 3, 4).double(),
        "mask": torch.tensor([[True] * 3 + [False], [False] * 4])[:, None, None],
    }


@exercise(
    difficulty=4,
    minutes=25,
    trains="a softmax that holds at the edges",
    right="`nn.MultiheadAttention` does the same if it is made with `add_zero_attn=True`.",
    cases=scores_and_masks,
    tolerance=3e-3,  # two right ways differ by a rounding of 16 bits
)
def abstains(scores: Tensor, mask: Tensor) -> Tensor:
    return F.pad(scores.masked_fill(~mask, -inf), (0, 1)).softmax(-1)[..., :-1]


@abstains.mistake
def never_abstains(scores: Tensor, mask: Tensor) -> Tensor:
    """Your weights sum to 1, and a row that sees nothing is nan: the 1 in the denominator is missing."""
    return scores.masked_fill(~mask, -inf).softmax(-1)


@abstains.mistake
def never_but_zeros(scores: Tensor, mask: Tensor) -> Tensor:
    """Your weights sum to 1 wherever a key is seen: the 1 in the denominator is missing."""
    return scores.masked_fill(~mask, -inf).softmax(-1).nan_to_num(0.0)


@abstains.mistake
def one_after_the_maximum(scores: Tensor, mask: Tensor) -> Tensor:
    """Where the maximum is subtracted from all scores, the 1 has to shrink as well: it is the exponential of 0."""
    hidden = scores.masked_fill(~mask, -inf)
    largest = hidden.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    exponentials = (hidden - largest).exp()
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def maximum_of_nothing(scores: Tensor, mask: Tensor) -> Tensor:
    """Subtracting the maximum changes what the 1 stands for, and where nothing is seen, it is minus infinity."""
    hidden = scores.masked_fill(~mask, -inf)
    exponentials = (hidden - hidden.amax(-1, keepdim=True)).exp()
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def infinity_times_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """A large score's exponential overflows, and a mask that multiplies infinity by 0 makes it nan."""
    exponentials = scores.exp() * mask
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def overflows(scores: Tensor, mask: Tensor) -> Tensor:
    """The formula is right on paper, but a large score's exponential overflows, and infinity by infinity is nan."""
    exponentials = scores.exp().masked_fill(~mask, 0.0)
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def hidden_afterward(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden keys took their share before you struck them out; hide them before the softmax."""
    return F.pad(scores, (0, 1)).softmax(-1)[..., :-1].masked_fill(~mask, 0.0)


@abstains.mistake
def hidden_by_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """A hidden key has the score 0, and e to the 0 is 1; only minus infinity gives nothing."""
    return F.pad(scores.masked_fill(~mask, 0.0), (0, 1)).softmax(-1)[..., :-1]


@abstains.mistake
def a_billion(scores: Tensor, mask: Tensor) -> Tensor:
    """Your fill does not exist in 16 bits, which end at 65,504; minus infinity exists in every type."""
    return F.pad(scores.masked_fill(~mask, -1e9), (0, 1)).softmax(-1)[..., :-1]


@abstains.mistake
def extra_key_kept(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights are right, and the extra key is still among them; leave it out at the end."""
    return F.pad(scores.masked_fill(~mask, -inf), (0, 1)).softmax(-1)


def masks_of_sentences(draw: Draw) -> Iterator[Inputs]:
    yield {"mask": torch.tensor([[[[True, False]]], [[[True, True]]]]), "heads": 2}
    yield {"mask": causal_mask(3), "heads": 2}
    yield {"mask": draw.integers(0, 2, 3, 1, 2, 4) > 0, "heads": 4}
    yield {"mask": draw.integers(0, 2, 2, 1, 3, 3) > 0, "heads": 1}


@exercise(
    difficulty=3,
    minutes=10,
    trains="masks at a border between libraries",
    right="A wrong order would hide the words of one sentence from another, and no shape would tell.",
    cases=masks_of_sentences,
)
def for_torch(mask: Tensor, heads: int) -> Tensor:
    return ~mask.expand(-1, heads, -1, -1).flatten(0, 1)


@for_torch.mistake
def same_sign(mask: Tensor, heads: int) -> Tensor:
    """The order is right, but True still means "may attend"; `nn.MultiheadAttention` takes it for hidden."""
    return mask.expand(-1, heads, -1, -1).flatten(0, 1)


@for_torch.mistake
def all_sentences_per_head(mask: Tensor, heads: int) -> Tensor:
    """All sentences come for head 0, then all for head 1; wanted are all heads of sentence 0, then of sentence 1."""
    return ~mask[:, 0].repeat(heads, 1, 1)


@for_torch.mistake
def sign_and_order(mask: Tensor, heads: int) -> Tensor:
    """True still means "may attend", and all sentences come for head 0, then for head 1: both are the other way."""
    return mask[:, 0].repeat(heads, 1, 1)


@for_torch.mistake
def one_a_sentence(mask: Tensor, heads: int) -> Tensor:
    """That is one table a sentence; one for each of its heads is wanted."""
    return ~mask[:, 0]


@for_torch.mistake
def four_axes(mask: Tensor, heads: int) -> Tensor:
    """Sentences and heads are two axes still; `nn.MultiheadAttention` wants them as one, B times H long."""
    return ~mask.expand(-1, heads, -1, -1)


@for_torch.mistake
def additive(mask: Tensor, heads: int) -> Tensor:
    """That is a mask to be added, of 0 and minus infinity; a boolean one is asked for."""
    return torch.where(mask, 0.0, -inf).expand(-1, heads, -1, -1).flatten(0, 1)
