"""The exercises of lesson 08."""

from collections.abc import Iterator
from math import log

import torch
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: four to one, warmed up.


@exercise(
    difficulty=1,
    minutes=3,
    trains="what a temperature does to odds",
    right="The odds of four to one become their square root, two to one: a temperature works on ratios.",
    tolerance=0.005,
)
def warm() -> float:
    return 2 / 3


@warm.mistake
def half_of_it() -> float:
    """You divide the probability by the temperature. The temperature divides the logits, before the softmax."""
    return 0.8 / 2


@warm.mistake
def colder() -> float:
    """That is temperature one half, which squares the odds. Temperature 2 takes their square root."""
    return 16 / 17


@warm.mistake
def root_of_it() -> float:
    """The square root of 0.8 is right so far, but the two square roots have to be scaled to sum to 1."""
    return 0.8**0.5


@warm.mistake
def the_other() -> float:
    """That is the probability of the less probable token."""
    return 1 / 3


@warm.mistake
def unchanged() -> float:
    """A temperature of 1 would change nothing; 2 brings the two closer to each other."""
    return 0.8


# ----------------------------------------------------------------------------------------------------
# 2: top-k in a few calls.


def logits_and_k(draw: Draw) -> Iterator[Inputs]:
    yield {"logits": torch.tensor([[0.0, 1.0, 2.0]]), "k": 2}
    yield {"logits": torch.tensor([[-1.0, -2.0, -3.0]]), "k": 1}
    yield {"logits": torch.tensor([[3.0, 2.0, 1.0], [0.0, 0.5, 0.2]]), "k": 2}
    yield {"logits": draw(2, 3, 7) + torch.arange(7) / 100, "k": 3}  # no two are equal
    yield {"logits": draw(5).double() + torch.arange(5) / 100, "k": 5}


@exercise(
    difficulty=2,
    minutes=8,
    trains="top-k, and why hidden means minus infinity",
    right="A token that is cut gets exactly 0, and each row has its own threshold. A sort would take more work.",
    cases=logits_and_k,
    most_calls=6,
)
def top_k(logits: Tensor, k: int) -> Tensor:
    least = logits.topk(k).values[..., -1:]
    return logits.masked_fill(logits < least, -torch.inf).softmax(-1)


@top_k.mistake
def zero_logits(logits: Tensor, k: int) -> Tensor:
    """You set the logits of the others to 0, and e to the 0 is 1, not 0: set them to minus infinity."""
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], 0).softmax(-1)


@top_k.mistake
def not_scaled(logits: Tensor, k: int) -> Tensor:
    """The probabilities that you keep do not sum to 1: cut the logits first, and then take the softmax."""
    return logits.softmax(-1).masked_fill(logits < logits.topk(k).values[..., -1:], 0)


@top_k.mistake
def one_too_few(logits: Tensor, k: int) -> Tensor:
    """You cut the k-th token as well: only what is strictly smaller than the k-th logit goes."""
    return logits.masked_fill(logits <= logits.topk(k).values[..., -1:], -torch.inf).softmax(-1)


@top_k.mistake
def one_bar_for_all(logits: Tensor, k: int) -> Tensor:
    """You use one threshold for all rows, but each row has its own k-th logit."""
    return logits.masked_fill(logits < logits.flatten().topk(k).values[-1], -torch.inf).softmax(-1)


@top_k.mistake
def only_the_kept(logits: Tensor, k: int) -> Tensor:
    """You return only the k kept probabilities. Return one per token, in the tokens' order, with 0 for the others."""
    return logits.topk(k).values.softmax(-1)


# ----------------------------------------------------------------------------------------------------
# 3: top-p.


def probs_and_p(draw: Draw) -> Iterator[Inputs]:
    yield {"probs": torch.tensor([0.5, 0.25, 0.125, 0.125]), "p": 0.6}
    yield {"probs": torch.tensor([0.125, 0.5, 0.125, 0.25]), "p": 0.6}
    yield {"probs": torch.tensor([0.125, 0.25, 0.5, 0.125]), "p": 0.3}
    yield {"probs": torch.tensor([0.1, 0.9]), "p": 0.95}
    for tokens, p in ((12, 0.8), (30, 0.2)):
        yield {"probs": (draw(tokens) + torch.arange(tokens) / 100).softmax(0), "p": p}  # no two are equal


def kept_by(probs: Tensor, kept: Tensor) -> Tensor:
    """The kept places of the ranked probabilities, back at their tokens and scaled."""
    ranked, order = probs.sort(descending=True)
    back = torch.zeros_like(probs)
    back[order] = ranked * kept
    return back / back.sum()


@exercise(
    difficulty=3,
    minutes=12,
    trains="top-p: the token that crosses the line stays",
    right="A token is kept if those before it have not reached p yet, so there is always one left to draw.",
    cases=probs_and_p,
)
def top_p(probs: Tensor, p: float) -> Tensor:
    ranked = probs.sort(descending=True).values
    return kept_by(probs, ranked.cumsum(0) - ranked < p)


@top_p.mistake
def without_the_crossing(probs: Tensor, p: float) -> Tensor:
    """You drop the token with which the sum reaches p. It stays, or else the rest sums to less than p or is empty."""
    return kept_by(probs, probs.sort(descending=True).values.cumsum(0) <= p)


@top_p.mistake
def one_by_one(probs: Tensor, p: float) -> Tensor:
    """You compare each probability by itself with p. Their sum, from the largest down, has to reach p."""
    nucleus = probs * (probs >= p)
    return nucleus / nucleus.sum()


@top_p.mistake
def in_given_order(probs: Tensor, p: float) -> Tensor:
    """You add up in the tokens' order; begin with the most likely one."""
    nucleus = probs * (probs.cumsum(0) - probs < p)
    return nucleus / nucleus.sum()


@top_p.mistake
def ranked_result(probs: Tensor, p: float) -> Tensor:
    """Your probabilities are right, but in the order of their size; bring each one back to its token."""
    ranked = probs.sort(descending=True).values
    nucleus = ranked * (ranked.cumsum(0) - ranked < p)
    return nucleus / nucleus.sum()


@top_p.mistake
def not_to_one(probs: Tensor, p: float) -> Tensor:
    """You keep the right tokens, but their probabilities do not sum to 1: divide by the sum."""
    ranked, order = probs.sort(descending=True)
    back = torch.zeros_like(probs)
    back[order] = ranked * (ranked.cumsum(0) - ranked < p)
    return back


@top_p.mistake
def softmax_again(probs: Tensor, p: float) -> Tensor:
    """You take a softmax of probabilities, which gives more than 0 to the tokens that you cut: divide by the sum."""
    ranked, order = probs.sort(descending=True)
    back = torch.zeros_like(probs)
    back[order] = ranked * (ranked.cumsum(0) - ranked < p)
    return back.softmax(0)


@top_p.mistake
def the_unlikely(probs: Tensor, p: float) -> Tensor:
    """You begin with the least likely tokens; sort in descending order."""
    ranked, order = probs.sort()
    back = torch.zeros_like(probs)
    back[order] = ranked * (ranked.cumsum(0) - ranked < p)
    return back / back.sum()


# ----------------------------------------------------------------------------------------------------
# 4: the length penalty at which two texts are equal.


@exercise(
    difficulty=2,
    minutes=6,
    trains="what a length penalty does",
    right="Below it the short text wins, above it the long one. The probabilities do not make this choice for you.",
    tolerance=0.005,
)
def tie() -> float:
    return log(1.8) / log(2.25)


@tie.mistake
def the_mean() -> float:
    """At 1 the scores are the means, minus 0.5 and minus 0.4: the long text has won already."""
    return 1.0


@tie.mistake
def upside_down() -> float:
    """You have the two logarithms the other way round: the power of the ratio of lengths equals that of totals."""
    return log(2.25) / log(1.8)


@tie.mistake
def without_logarithms() -> float:
    """The penalty is an exponent, so the ratios of totals and of lengths have to be compared by their logarithms."""
    return 1.8 / 2.25


@tie.mistake
def negative() -> float:
    """The sign is wrong: a larger penalty favors the longer text, and at 0 the short one is ahead."""
    return -log(1.8) / log(2.25)


@tie.mistake
def no_penalty() -> float:
    """At 0 the totals themselves are compared, minus 2 and minus 3.6; they are not equal."""
    return 0.0


# ----------------------------------------------------------------------------------------------------
# 5: which tokens would repeat n in a row?


def texts_and_n(draw: Draw) -> Iterator[Inputs]:
    for written, n in (
        ([1, 4, 5, 4], 2),
        ([1, 4, 5], 1),
        ([1, 4, 5], 4),
        ([1, 4, 5, 6, 4, 7, 4], 2),
        ([1, 4, 5, 6, 4, 5], 3),
        ([1, 5, 5], 2),
        ([4, 5, 6, 7, 5, 6, 4, 5, 6], 3),
        ([1, 4, 5, 4, 5], 2),
        ([3, 4], 3),
    ):
        yield {"written": written, "n": n}
    yield {"written": draw.integers(0, 3, 12).tolist(), "n": 2}


@exercise(
    difficulty=3,
    minutes=12,
    trains="the rule against repeated n-grams",
    right="Each token that followed the last n - 1 tokens earlier in the text is forbidden now.",
    cases=texts_and_n,
)
def forbidden(written: list[int], n: int) -> list[int]:
    last = written[len(written) - n + 1 :]
    places = range(len(written) - n + 1)
    return sorted({written[i + n - 1] for i in places if written[i : i + n - 1] == last})


@forbidden.mistake
def n_instead_of_n_minus_one(written: list[int], n: int) -> list[int]:
    """You look for the last n tokens. The new token is the n-th, so look for the last n - 1."""
    last = written[-n:]
    return sorted({written[i + n] for i in range(len(written) - n) if written[i : i + n] == last})


@forbidden.mistake
def first_time_only(written: list[int], n: int) -> list[int]:
    """You stop at the first position where they occur. They may occur at several, with different tokens after them."""
    last = written[len(written) - n + 1 :]
    places = range(len(written) - n + 1)
    return [written[i + n - 1] for i in places if written[i : i + n - 1] == last][:1]


@forbidden.mistake
def zero_from_the_end(written: list[int], n: int) -> list[int]:
    """For n = 1 the last n - 1 tokens are none at all, but `written[-0:]` is the whole text; count from the front."""
    last = written[-(n - 1) :]
    places = range(len(written) - n + 1)
    return sorted({written[i + n - 1] for i in places if written[i : i + n - 1] == last})


@forbidden.mistake
def without_start(written: list[int], n: int) -> list[int]:
    """You leave the first token out, but the start token counts like any other."""
    return forbidden.reference(written[1:], n)


@forbidden.mistake
def any_repeat(written: list[int], n: int) -> list[int]:
    """You forbid each token that was written before. Forbid only those that would make n in a row come again."""
    return sorted(set(written))


@forbidden.mistake
def with_repeats(written: list[int], n: int) -> list[int]:
    """The right tokens, but some of them twice, or not in order: return each once, sorted."""
    last = written[len(written) - n + 1 :]
    places = range(len(written) - n + 1)
    return [written[i + n - 1] for i in places if written[i : i + n - 1] == last]


# ----------------------------------------------------------------------------------------------------
# 6 and 7: beam search, and the best text. The model remembers one token: first[i], then after[i, j], as log p.


def chains(draw: Draw) -> Iterator[Inputs]:
    """The tree of section 2; one with which two beams fail; random ones."""
    tree = {
        "first": torch.tensor([0.5, 0.4, 0.1]),
        "after": torch.tensor([[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.6, 0.3, 0.1]]),
    }
    late = {
        "first": torch.tensor([0.4, 0.35, 0.25]),
        "after": torch.tensor([[0.3, 0.4, 0.3], [0.4, 0.3, 0.3], [0.01, 0.01, 0.98]]),
    }
    for chain, length in ((tree, 1), (tree, 2), (late, 2), (late, 4), (late, 12)):
        yield {"first": chain["first"].log(), "after": chain["after"].log(), "length": length}
    for words in (4, 6, 8, 12):  # no longer than 3, since the same steps in another order would tie
        chain = {"first": draw(words).log_softmax(0), "after": draw(words, words).log_softmax(1)}
        yield {**chain, "length": 3}


def chains_and_beams(draw: Draw) -> Iterator[Inputs]:
    for inputs in chains(draw):
        if inputs["length"] <= 4:
            yield {**inputs, "num_beams": 2}
    yield {**inputs, "num_beams": 1}
    yield {**inputs, "num_beams": 3}


Beams = list[tuple[float, list[int]]]


def continued(beams: Beams, after: Tensor) -> Beams:
    """Every continuation of every beam, best first."""
    longer = [(total + p, [*text, j]) for total, text in beams for j, p in enumerate(after[text[-1]].tolist())]
    return sorted(longer, reverse=True)


def first_beams(first: Tensor) -> Beams:
    return sorted(((p, [i]) for i, p in enumerate(first.tolist())), reverse=True)


@exercise(
    difficulty=4,
    minutes=25,
    trains="beam search",
    right="The continuations of all beams compete with each other, so a beam can die out.",
    cases=chains_and_beams,
)
def beam(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    beams = first_beams(first)[:num_beams]
    for _ in range(length - 1):
        beams = continued(beams, after)[:num_beams]
    return [text for _, text in beams]


@beam.mistake
def each_its_own(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """Each of your beams is continued by its own best token, so they are greedy texts side by side; let all
    continuations of all beams compete."""
    beams = first_beams(first)[:num_beams]
    for _ in range(length - 1):
        beams = [continued([one], after)[0] for one in beams]
    return [text for _, text in sorted(beams, reverse=True)]


@beam.mistake
def last_step_only(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """You rank by the newest token's log p; rank by the total, the sum over the whole text."""
    beams = first_beams(first)[:num_beams]
    for _ in range(length - 1):
        beams = continued([(0.0, text) for _, text in beams], after)[:num_beams]
    return [text for _, text in beams]


@beam.mistake
def product_of_logs(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """You multiply logarithms; where probabilities are multiplied, logarithms are added."""
    beams = first_beams(first)[:num_beams]
    for _ in range(length - 1):
        longer = [(total * p, [*text, j]) for total, text in beams for j, p in enumerate(after[text[-1]].tolist())]
        beams = sorted(longer, reverse=True)[:num_beams]
    return [text for _, text in beams]


@beam.mistake
def columns_for_rows(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """Your matrix is transposed: `after[i, j]` is for token j after token i."""
    return beam.reference(first, after.T, length, num_beams)


@beam.mistake
def only_the_best(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """Your best text is right, but you return it alone. Return all beams, best first."""
    return beam.reference(first, after, length, num_beams)[:1]


@beam.mistake
def worst_first(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """The right texts in the wrong order: the best one comes first."""
    return beam.reference(first, after, length, num_beams)[::-1]


@beam.mistake
def wide_at_first(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """You keep all first tokens; only `num_beams` of them may go on to the second step."""
    beams = first_beams(first)
    for _ in range(length - 1):
        beams = continued(beams, after)[:num_beams]
    return [text for _, text in beams][:num_beams]


@beam.mistake
def one_step_too_many(first: Tensor, after: Tensor, length: int, num_beams: int) -> list[list[int]]:
    """Your texts have one token more than `length`: the first token is one of them."""
    return beam.reference(first, after, length + 1, num_beams)


@exercise(
    difficulty=5,
    minutes=30,
    trains="what a search may forget, and what it may not",
    right="This model remembers one token, so one text per last token is enough. A Transformer remembers all tokens, "
    "so that no two texts are equivalent, and only beams are left.",
    cases=chains,
)
def best_text(first: Tensor, after: Tensor, length: int) -> list[int]:
    ending_in = [(p, [i]) for i, p in enumerate(first.tolist())]
    for _ in range(length - 1):
        ending_in = [
            max((total + p, [*text, j]) for (total, text), p in zip(ending_in, column, strict=True))
            for j, column in enumerate(after.T.tolist())
        ]
    return max(ending_in)[1]


@best_text.mistake
def greedily(first: Tensor, after: Tensor, length: int) -> list[int]:
    """You choose the best token at each step; a worse one may lead to a better text."""
    return beam.reference(first, after, length, 1)[0]


@best_text.mistake
def by_two_beams(first: Tensor, after: Tensor, length: int) -> list[int]:
    """Two beams find this text, but it is not the best one. Work out which texts you may drop safely."""
    return beam.reference(first, after, length, 2)[0]


@best_text.mistake
def without_a_way_back(first: Tensor, after: Tensor, length: int) -> list[int]:
    """You take the best last token at each length, but these need not belong to one text. Remember for each token
    the text that led to it."""
    totals = first
    chosen = [int(totals.argmax())]
    for _ in range(length - 1):
        totals = (totals[:, None] + after).amax(0)
        chosen.append(int(totals.argmax()))
    return chosen


@best_text.mistake
def summed_over(first: Tensor, after: Tensor, length: int) -> list[int]:
    """You add up the probabilities of all texts that end in a token, and then choose; take the largest of them
    instead."""
    totals, ways = first, [[i] for i in range(len(first))]
    for _ in range(length - 1):
        both = totals[:, None] + after
        ways = [[*ways[i], j] for j, i in enumerate(both.argmax(0).tolist())]
        totals = both.logsumexp(0)
    return ways[int(totals.argmax())]


@best_text.mistake
def turned_around(first: Tensor, after: Tensor, length: int) -> list[int]:
    """Your matrix is transposed: `after[i, j]` is for token j after token i."""
    return best_text.reference(first, after.T, length)
