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
    trains="the weight of a score of 0",
    right="Without a mask, one much longer sentence in the batch is enough: most of the weight is then on padding.",
    tolerance=0.005,
)
def padding_wins() -> int:
    return ceil(exp(2) + exp(0) + exp(0))


@padding_wins.mistake
def as_many_as_words() -> int:
    """That would hold if all scores were equal. The word itself gets more weight, since e to the 2 is above 7."""
    return 3


@padding_wins.mistake
def not_quite() -> int:
    """With that many, padding gets slightly less than half. Compare it with the sum of the three exponentials."""
    return 9


@padding_wins.mistake
def not_rounded() -> float:
    """This is the exact balance, but padding comes in whole vectors. Round up."""
    return exp(2) + exp(0) + exp(0)


@padding_wins.mistake
def against_one_word() -> int:
    """That outweighs "rain" alone. The two other words add e to the 0 each."""
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
    right="Decoding with a KV cache needs this mask, because only new words have queries (lesson 09).",
    cases=queries_among_keys,
    without=("tril", "triu", "tril_indices", "triu_indices"),
)
def last_queries(queries: int, keys: int) -> Tensor:
    return causal_mask(queries, past=keys - queries)[0, 0]


@last_queries.mistake
def first_queries(queries: int, keys: int) -> Tensor:
    """Your queries are the first positions, so the first one sees one key. They should be the last positions."""
    return torch.arange(keys) <= torch.arange(queries)[:, None]


@last_queries.mistake
def itself_hidden(queries: int, keys: int) -> Tensor:
    """Your queries do not see their own position. They may, since its word has been read."""
    return torch.arange(keys) < torch.arange(keys - queries, keys)[:, None]


@last_queries.mistake
def future_only(queries: int, keys: int) -> Tensor:
    """Your queries see the future instead of the past: it is the other triangle."""
    return torch.arange(keys) >= torch.arange(keys - queries, keys)[:, None]


@last_queries.mistake
def true_is_hidden(queries: int, keys: int) -> Tensor:
    """In your mask, True means hidden. In this course, True means "may attend"."""
    return torch.arange(keys) > torch.arange(keys - queries, keys)[:, None]


def summaries(draw: Draw) -> Iterator[Inputs]:
    yield {"ids": torch.tensor([[0, 7, 8]]), "pad_id": 0}
    yield {"ids": torch.tensor([[7, 8, 0]]), "pad_id": 0}
    yield {"ids": torch.tensor([[1, 5, 0], [5, 1, 0]]), "pad_id": 1}
    yield {"ids": draw.integers(0, 3, 4, 6), "pad_id": 0}


@exercise(
    difficulty=2,
    minutes=6,
    trains="telling queries from keys in a mask",
    right="The wrong axis raises no error, and it has no effect with padding on the right, so you notice it late.",
    cases=summaries,
)
def decoder(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, :] & causal_mask(ids.shape[1])[0]


@decoder.mistake
def queries_hidden(ids: Tensor, pad_id: int) -> Tensor:
    """You hide the rows of the padding, and its columns can be seen. Hide keys, the last axis, instead of queries."""
    return (ids != pad_id)[:, :, None] & causal_mask(ids.shape[1])[0]


@decoder.mistake
def both_hidden(ids: Tensor, pad_id: int) -> Tensor:
    """The columns of the padding are hidden, which is correct, but its rows are, too. Leave the queries alone."""
    return (ids != pad_id)[:, :, None] & decoder.reference(ids, pad_id)


@decoder.mistake
def either(ids: Tensor, pad_id: int) -> Tensor:
    """Your key is visible if one of the two masks allows it. Both have to."""
    return (ids != pad_id)[:, None, :] | causal_mask(ids.shape[1])[0]


@decoder.mistake
def padding_seen(ids: Tensor, pad_id: int) -> Tensor:
    """The future is hidden, but the padding is not."""
    return causal_mask(ids.shape[1])[0].expand(len(ids), -1, -1)


@decoder.mistake
def future_seen(ids: Tensor, pad_id: int) -> Tensor:
    """The padding is hidden, but the future is not."""
    return (ids != pad_id)[:, None, :].expand(-1, ids.shape[1], -1)


@decoder.mistake
def other_triangle(ids: Tensor, pad_id: int) -> Tensor:
    """The padding is hidden, but now the queries see the future instead of the past: `past` was right."""
    return (ids != pad_id)[:, None, :] & causal_mask(ids.shape[1])[0].mT


@decoder.mistake
def zero_is_padding(ids: Tensor, pad_id: int) -> Tensor:
    """You take the number 0 for padding. The number of padding is `pad_id`."""
    return decoder.reference(ids, 0)


@exercise(
    difficulty=2,
    minutes=5,
    trains="how far a mask reaches through layers",
    right="The reach grows by the same step with each layer, so narrow windows still see far in a deep model.",
)
def reach() -> int:
    return 1 + 4 * 2


@reach.mistake
def one_layer() -> int:
    """That is the window of one layer. The next layer reads its outputs, so it reaches further."""
    return 1 + 2


@reach.mistake
def windows_added() -> int:
    """You added four windows of three words. They overlap, since each begins with a word that is already counted."""
    return 4 * 3


@reach.mistake
def paths() -> int:
    """You multiplied, which counts the paths to the last word. Most of them start at the same words."""
    return 3**4


@reach.mistake
def without_itself() -> int:
    """Those are the words before it. The last word also has an influence on itself."""
    return 4 * 2


def packed_rows(draw: Draw) -> Iterator[Inputs]:
    yield {"article": torch.tensor([[1, 2, 2]])}
    yield {"article": torch.tensor([[1, 0, 0]])}
    yield {"article": torch.tensor([[1, 1, 2, 3, 3, 0], [1, 1, 1, 1, 2, 2], [2, 2, 1, 1, 0, 0]])}


@exercise(
    difficulty=3,
    minutes=12,
    trains="broadcasting a row against itself",
    right="Large models are trained on such packed rows, because hardly any position is lost to padding.",
    cases=packed_rows,
    most_calls=8,
)
def packed(article: Tensor) -> Tensor:
    query, key = article[:, None, :, None], article[:, None, None, :]
    return (query == key) & (key != 0)


@packed.mistake
def padding_among_itself(article: Tensor) -> Tensor:
    """Articles are kept apart, but padding sees padding, since 0 equals 0. No query should see it."""
    return article[:, None, :, None] == article[:, None, None, :]


@packed.mistake
def all_articles(article: Tensor) -> Tensor:
    """The padding is hidden, but a word sees the words of other articles as well."""
    return (article[:, None, :, None] != 0) & (article[:, None, None, :] != 0)


@packed.mistake
def padding_asks(article: Tensor) -> Tensor:
    """Only the padding is hidden: a query sees all words of the row, from all articles."""
    return (article != 0)[:, None, None, :].expand(-1, 1, article.shape[1], -1)


@packed.mistake
def causal_too(article: Tensor) -> Tensor:
    """The future is hidden as well, but a word may see its whole article."""
    return packed.reference(article) & causal_mask(article.shape[1])


@packed.mistake
def no_axis_for_heads(article: Tensor) -> Tensor:
    """The matrix is right, but the axis for the heads is missing: (B, 1, S, S)."""
    return packed.reference(article)[:, 0]


def attends(table: Tensor) -> Callable[[Tensor], Tensor]:
    """Self-attention of one sentence with an additive mask."""
    return lambda x: (x @ x.T / sqrt(x.shape[-1]) + table[: len(x), : len(x)].to(x.dtype)).softmax(-1) @ x


HIDES_FUTURE = torch.full((4, 4), -inf).triu(1)
FIRST_SEES_THIRD = HIDES_FUTURE.index_put((torch.tensor(0), torch.tensor(2)), torch.tensor(0.0))
SUSPECTS = {
    "attention with a causal mask": attends(HIDES_FUTURE),
    "each position gets the word before it, position 0 its own": lambda x: torch.cat([x[:1], x[:-1]]),
    "attention without a mask": attends(torch.zeros(4, 4)),
    "a causal mask with a hole: word 0 sees word 2": attends(FIRST_SEES_THIRD),
    "a penalty of 20 on the future, instead of minus infinity": attends(torch.full((4, 4), -20.0).triu(1)),
}
Leaks = list[tuple[int, int]]


def suspects(draw: Draw) -> Iterator[Inputs]:
    x = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])  # the word in the middle is "the": all zeros
    for name in SUSPECTS:
        yield {"attend": name, "x": x.double() if "penalty" in name else x}
        yield {"attend": name, "x": draw(4, 3).double()}


def accuse(answer: Callable, attend: str, x: Tensor) -> Leaks:
    """What an answer finds out about a suspect, in order."""
    found = answer(SUSPECTS[attend], x)
    return sorted(found) if isinstance(found, list) else found


@exercise(
    difficulty=3,
    minutes=10,
    trains="a test that trusts no code",
    right="It looks at outputs only, so it finds a leak in any model, even in one whose code you have never read.",
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
    """You report the influence of the past, too, which is allowed. In a leak, a word reaches an earlier position."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(len(x)) if moved[query]]
    return found


@leaks.mistake
def nearly_equal(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You allow small differences. A hidden word changes nothing, not even the last bit."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        after = attend(changed)
        found += [(query, key) for query in range(key) if not torch.allclose(after[query], before[query])]
    return found


@leaks.mistake
def zeroed(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """Zeroing or scaling a word changes nothing if all its numbers are 0, as for "the". Add something instead."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] = 0
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(key) if moved[query]]
    return found


@leaks.mistake
def changes_pile_up(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """Your changes add up: a word is still changed when you change the next one. Start from a fresh copy each time."""
    before, changed, found = attend(x), x.clone(), []
    for key in range(len(x)):
        changed[key] += 1
        moved = (attend(changed) != before).any(-1)
        found += [(query, key) for query in range(key) if moved[query]]
    return found


@leaks.mistake
def whole_output(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You check whether anything in the output moved, but the row of the changed word always moves. For the pair
    (position, word), only row `position` counts."""
    before, found = attend(x), []
    for key in range(len(x)):
        changed = x.clone()
        changed[key] += 1
        if (attend(changed) != before).any():
            found += [(query, key) for query in range(key)]
    return found


@leaks.mistake
def all_places_before(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """One position before the word moved, but you report all of them. Check each row separately."""
    return [(query, key) for key in {key for _, key in leaks.reference(attend, x)} for query in range(key)]


@leaks.mistake
def turned(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """Your pairs are reversed: first comes the position that moved, then the word that was changed."""
    return [(key, query) for query, key in leaks.reference(attend, x)]


@leaks.mistake
def last_word_only(attend: Callable[[Tensor], Tensor], x: Tensor) -> Leaks:
    """You changed only the last word. Each word may leak."""
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
    trains="a softmax for extreme inputs",
    right="`nn.MultiheadAttention(add_zero_attn=True)` does the same.",
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
    """If you subtract the maximum from all scores, you must also do so for the 1, which is the exponential of 0."""
    hidden = scores.masked_fill(~mask, -inf)
    largest = hidden.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    exponentials = (hidden - largest).exp()
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def maximum_of_nothing(scores: Tensor, mask: Tensor) -> Tensor:
    """Subtracting the maximum changes the meaning of the 1. In a row that sees nothing, it is minus infinity."""
    hidden = scores.masked_fill(~mask, -inf)
    exponentials = (hidden - hidden.amax(-1, keepdim=True)).exp()
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def infinity_times_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """The exponential of a large score overflows, and a mask that multiplies infinity by 0 gives nan."""
    exponentials = scores.exp() * mask
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def overflows(scores: Tensor, mask: Tensor) -> Tensor:
    """The formula is right on paper, but a large exponential overflows, and infinity by infinity is nan."""
    exponentials = scores.exp().masked_fill(~mask, 0.0)
    return exponentials / (1 + exponentials.sum(-1, keepdim=True))


@abstains.mistake
def hidden_afterward(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden keys took their share before you set them to 0. Hide them before the softmax."""
    return F.pad(scores, (0, 1)).softmax(-1)[..., :-1].masked_fill(~mask, 0.0)


@abstains.mistake
def hidden_by_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """Your hidden keys get the score 0, and e to the 0 is 1. Only minus infinity gives 0."""
    return F.pad(scores.masked_fill(~mask, 0.0), (0, 1)).softmax(-1)[..., :-1]


@abstains.mistake
def a_billion(scores: Tensor, mask: Tensor) -> Tensor:
    """Your fill does not exist in float16, which ends at 65,504. Minus infinity does."""
    return F.pad(scores.masked_fill(~mask, -1e9), (0, 1)).softmax(-1)[..., :-1]


@abstains.mistake
def extra_key_kept(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights are right, but the extra key is still among them. Leave it out at the end."""
    return F.pad(scores.masked_fill(~mask, -inf), (0, 1)).softmax(-1)


def masks_of_sentences(draw: Draw) -> Iterator[Inputs]:
    yield {"mask": torch.tensor([[[[True, False]]], [[[True, True]]]]), "heads": 2}
    yield {"mask": causal_mask(3), "heads": 2}
    yield {"mask": draw.integers(0, 2, 3, 1, 2, 4) > 0, "heads": 4}
    yield {"mask": draw.integers(0, 2, 2, 1, 3, 3) > 0, "heads": 1}


@exercise(
    difficulty=3,
    minutes=10,
    trains="converting masks between libraries",
    right="A wrong order would apply the mask of one sentence to another one, and no shape would show it.",
    cases=masks_of_sentences,
)
def for_torch(mask: Tensor, heads: int) -> Tensor:
    return ~mask.expand(-1, heads, -1, -1).flatten(0, 1)


@for_torch.mistake
def same_sign(mask: Tensor, heads: int) -> Tensor:
    """The order is right, but True still means "may attend". In `nn.MultiheadAttention` it means hidden."""
    return mask.expand(-1, heads, -1, -1).flatten(0, 1)


@for_torch.mistake
def all_sentences_per_head(mask: Tensor, heads: int) -> Tensor:
    """You put all sentences of head 0 first, then all of head 1. All heads of sentence 0 should come first."""
    return ~mask[:, 0].repeat(heads, 1, 1)


@for_torch.mistake
def sign_and_order(mask: Tensor, heads: int) -> Tensor:
    """True still means "may attend", and you put all sentences of head 0 first: change both."""
    return mask[:, 0].repeat(heads, 1, 1)


@for_torch.mistake
def one_a_sentence(mask: Tensor, heads: int) -> Tensor:
    """That is one matrix per sentence. Give one per head of each sentence."""
    return ~mask[:, 0]


@for_torch.mistake
def four_axes(mask: Tensor, heads: int) -> Tensor:
    """Sentences and heads are still two axes. `nn.MultiheadAttention` needs a single one of length B times H."""
    return ~mask.expand(-1, heads, -1, -1)


@for_torch.mistake
def additive(mask: Tensor, heads: int) -> Tensor:
    """That is an additive mask, of 0 and minus infinity. Return a boolean one."""
    return torch.where(mask, 0.0, -inf).expand(-1, heads, -1, -1).flatten(0, 1)
