"""From pairs to batches of ids: cutting, length buckets, padding, the shift of teacher forcing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import torch
from torch import Tensor

from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import EOS_ID, PAD_ID, START_ID, Vocabulary
from tfm_lib.errors import CourseError


@dataclass(frozen=True)
class Examples:
    """Pairs as ids, without start and eos, how many of their texts were cut for length, and their vocabulary's ids."""

    articles: list[list[int]]
    summaries: list[list[int]]
    cut_articles: int
    cut_summaries: int
    pad_id: int = PAD_ID
    start_id: int = START_ID
    eos_id: int = EOS_ID
    # Of each article's slots, and whose summaries were cut; a run's data are its ids.
    words: list[list[str]] = field(default_factory=list, repr=False)
    unended: frozenset[int] = field(default=frozenset(), repr=False)

    def __len__(self) -> int:
        return len(self.articles)

    def __str__(self) -> str:
        pairs = f"{len(self)} pair{'s' * (len(self) != 1)}"
        return f"{pairs}; cut for length: {self.cut_articles} articles, {self.cut_summaries} summaries"

    def batch(self, indices: Sequence[int]) -> "Batch":
        """The examples of these indices, padded and shifted. A summary that was cut has no end to learn."""
        articles, summaries = [self.articles[i] for i in indices], [self.summaries[i] for i in indices]
        batch = Batch.of(articles, summaries, self.pad_id, self.start_id, self.eos_id)
        for row in [row for row, i in enumerate(indices) if i in self.unended]:
            batch.labels[row, len(summaries[row])] = self.pad_id
        return batch


def encode_pairs(pairs: Sequence[Pair], vocabulary: Vocabulary, max_article: int, max_summary: int) -> Examples:
    """Turn pairs into ids and cut what is longer than `max_article` or `max_summary` ids (eos not counted).

    A slot stands for the same word in article and summary. A summary's word that is neither in the vocabulary nor in
    what is left of the article is unknown.
    """
    words = [vocabulary.slot_words(pair.article) for pair in pairs]
    uncut = vocabulary.encode_all([pair.article for pair in pairs], words)
    articles, slots = [vocabulary.frame(ids, max_article) for ids in uncut], set(vocabulary.slots)
    words = [row[: len(slots & {*ids})] for row, ids in zip(words, articles, strict=True)]
    summaries = vocabulary.encode_all([pair.summary for pair in pairs], words, target=True)
    cut_articles = sum(len(ids) > max_article for ids in uncut)
    unended = frozenset(place for place, ids in enumerate(summaries) if len(ids) > max_summary)
    ids_of_roles = (vocabulary.pad_id, vocabulary.start_id, vocabulary.eos_id)
    summaries = [ids[:max_summary] for ids in summaries]
    return Examples(articles, summaries, cut_articles, len(unended), *ids_of_roles, words, unended)


def hide_words(examples: Examples, vocabulary: Vocabulary, share: float, rare: float = 1.0, seed: int = 0) -> Examples:
    """The same, with about this share of each article's rare words as if they were unknown, in the summary too.

    A model that copies would otherwise meet no unknown word in its own training texts. Rare are words of no more than
    this part of the articles, as new words are; words that tell their role, such as "in" before a place, stay. Slots
    are given again, in the order of the article; a word for which none is left stays known or unknown, as it was.
    """
    random, most = Random(f"hidden {seed}"), rare * len(examples)
    articles_with = Counter(i for article in examples.articles for i in {*article})
    special = {vocabulary.pad_id, vocabulary.start_id, vocabulary.eos_id, vocabulary.unknown_id}
    pieces = vocabulary.pieces(range(len(vocabulary)))
    articles, summaries, words = [], [], []
    rows = zip(examples.articles, examples.summaries, examples.words or [[]] * len(examples), strict=True)
    for article, summary, slot_words in rows:
        word_of = dict(zip(vocabulary.slots, slot_words, strict=False))
        distinct = list(dict.fromkeys(article))
        hidden = {i for i in distinct if articles_with[i] <= most and random.random() < share} - special
        slot_of = dict(zip([i for i in distinct if i in hidden or i in word_of], vocabulary.slots, strict=False))
        becomes = dict.fromkeys(word_of, vocabulary.unknown_id) | slot_of
        articles.append([becomes.get(i, i) for i in article])
        summaries.append([becomes.get(i, i) for i in summary])
        words.append([word_of.get(i) or pieces[i] for i in slot_of])
    return replace(examples, articles=articles, summaries=summaries, words=words)


@dataclass(frozen=True)
class Batch:
    """What one training step sees. Ids, padded on the right: src (B, S), decoder_input and labels (B, T)."""

    src: Tensor
    decoder_input: Tensor
    labels: Tensor
    pad_id: int = PAD_ID

    @classmethod
    def of(
        cls,
        articles: Sequence[list[int]],
        summaries: Sequence[list[int]],
        pad_id: int = PAD_ID,
        start_id: int = START_ID,
        eos_id: int = EOS_ID,
    ) -> "Batch":
        """Pad rows of ids and shift the summaries for teacher forcing (Vaswani et al. 2017, section 3.1)."""
        # The shift: in each column the decoder reads the id before the one that it has to name.
        decoder_input = pad_rows([[start_id, *ids] for ids in summaries], pad_id)
        labels = pad_rows([[*ids, eos_id] for ids in summaries], pad_id)
        return cls(pad_rows(articles, pad_id), decoder_input, labels, pad_id)

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.src.to(device), self.decoder_input.to(device), self.labels.to(device), self.pad_id)


def shifted(tokens: Tensor, start_id: int) -> Tensor:
    """What the decoder reads while it names `tokens` (B, T): start_id, then all but the last of them (B, T)."""
    return torch.cat([torch.full_like(tokens[:, :1], start_id), tokens[:, :-1]], dim=1)


def pad_rows(rows: Sequence[list[int]], pad_id: int = PAD_ID) -> Tensor:
    """Rows of ids, padded on the right to an int64 tensor (B, longest row). Raises ValueError where there is none."""
    if not rows:
        raise CourseError("there are no rows to pad; give one list of ids at least")
    width = max(map(len, rows))
    return torch.tensor([row + [pad_id] * (width - len(row)) for row in rows])


def plan_batches(examples: Examples, max_tokens: int, seed: int = 0, epoch: int = 0) -> list[list[int]]:
    """Choose the examples of each batch of one epoch: a list of indices per batch, each example in exactly one.

    Examples of similar length share a batch, so that little of it is padding. Articles, decoder inputs and their
    padding fill at most `max_tokens` places. The order depends on nothing but seed and epoch.
    Raises ValueError if one example alone exceeds the limit.
    """
    shuffle = Random(f"{seed} {epoch}").shuffle
    sizes = [(len(a), len(s) + 1) for a, s in zip(examples.articles, examples.summaries, strict=True)]
    order = list(range(len(sizes)))
    shuffle(order)
    order.sort(key=sizes.__getitem__)  # a stable sort: examples of the same size stay shuffled
    if (longest := max(map(sum, sizes), default=0)) > max_tokens:
        raise CourseError(f"an example of {longest} tokens, a limit of {max_tokens}; raise it or cut more")
    batches: list[list[int]] = []
    widest = (0, 0)
    for index in order:
        grown = (max(widest[0], sizes[index][0]), max(widest[1], sizes[index][1]))
        if batches and sum(grown) * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(index)
            widest = grown
        else:
            batches.append([index])
            widest = sizes[index]
    shuffle(batches)
    return batches
