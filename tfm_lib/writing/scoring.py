"""Scoring: how near summaries come to their references, always beside what no model is needed for."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np
from tqdm.auto import tqdm

from tfm_lib.data.newsroom import SLOTS, Story, read_slots
from tfm_lib.data.pairs import Pair, Splits
from tfm_lib.errors import CourseError
from tfm_lib.writing.rouge import ENGLISH, Tokenizer, f1_scores, rouge_l_of_beginnings, tokenizer_for

ROUGE = ("rouge1", "rouge2", "rougeL")
LABELS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "exact": "exact", "slots": "slots"}


@dataclass(frozen=True)
class Scores:
    """Means over all pairs, from 0 to 1: ROUGE's F1, the share of exact matches, and that of right slots."""

    rouge1: float
    rouge2: float
    rougeL: float
    exact: float
    slots: float | None = None  # of stories of the newsroom alone


def score(summaries: Sequence[str], references: Sequence[str], tokenizer: Tokenizer | None = None) -> Scores:
    """Score summaries against one reference each.

    tokenizer: what ROUGE counts as a word; `tokenizer_for` chooses it by the references unless it is given.
    Raises ValueError where there is not one summary for each reference. Source: Lin 2004, "ROUGE", sections 2 and 3.
    """
    if len(summaries) != len(references) or not references:
        raise CourseError(f"{len(summaries)} summaries for {len(references)} references; give one each")
    results = f1_scores(summaries, references, ROUGE, tokenizer or tokenizer_for(references))
    means = {measure: fmean(values) for measure, values in results.items()}
    return Scores(**means, exact=exact_match(summaries, references))


def exact_match(summaries: Sequence[str], references: Sequence[str]) -> float:
    """The share of summaries that equal their reference, but for upper and lower case."""
    return fmean(text.lower() == reference.lower() for text, reference in zip(summaries, references, strict=True))


def slot_accuracy(summaries: Sequence[str], stories: Sequence[Story]) -> dict[str, float]:
    """For each of SLOTS, the share of summaries in which `newsroom.read_slots` finds the right value.

    Raises ValueError where there is not one summary for each story.
    """
    if len(summaries) != len(stories) or not stories:
        raise CourseError(f"{len(summaries)} summaries for {len(stories)} stories; give one each")
    read = [read_slots(text, story.event) for text, story in zip(summaries, stories, strict=True)]
    return {
        slot: fmean(slots[slot] == story.slots[slot] for slots, story in zip(read, stories, strict=True))
        for slot in SLOTS
    }


def first_words(article: str, k: int, tokenizer: Tokenizer = ENGLISH) -> str:
    """The first `k` words of an article."""
    return tokenizer.between.join(tokenizer.pieces(article)[:k]).strip()


def choose_k(dev: Sequence[Pair], tokenizer: Tokenizer | None = None) -> int:
    """How many first words of an article make the summary of the highest ROUGE-L on these pairs."""
    tokenizer = tokenizer or tokenizer_for(pair.summary for pair in dev)
    split, pieces = cache(tokenizer.split), tokenizer.pieces
    longest = max(len(pieces(pair.summary)) for pair in dev)
    results = [rouge_l_of_beginnings(pair.summary, pieces(pair.article)[:longest], split) for pair in dev]
    return max(range(1, longest + 1), key=lambda k: fmean(rouge_l[min(k, len(rouge_l) - 1)] for rouge_l in results))


def nearest_summaries(train: Sequence[Pair], articles: Sequence[str]) -> list[str]:
    """For each article, the summary of the training article that is nearest: TF-IDF, cosine, of equals the first.

    Weights are (1 + ln count) * ln(training articles / those with the word). Source: Manning et al. 2008,
    "Introduction to Information Retrieval", sections 6.2 to 6.4.
    """
    return list(map(_nearest(train, ENGLISH), articles))


def _nearest(train: Sequence[Pair], tokenizer: Tokenizer) -> Callable[[str], str]:
    """Weigh the training articles, once; give back a function that finds the nearest one's summary."""
    bags = [Counter(tokenizer.words(pair.article)) for pair in train]
    containing = Counter(word for bag in bags for word in bag)
    idf = {word: math.log(len(bags) / n) for word, n in containing.items()}
    entries = defaultdict(list)  # for each word, the articles with it, and its weight in them
    for row, bag in enumerate(bags):
        vector = {word: (1 + math.log(n)) * idf[word] for word, n in bag.items()}
        norm = math.hypot(*vector.values()) or 1.0
        for word, weight in vector.items():
            entries[word].append((row, weight / norm))
    index = {word: tuple(map(np.array, zip(*found, strict=True))) for word, found in entries.items()}

    def nearest(article: str) -> str:
        similarity = np.zeros(len(bags))
        for word, n in Counter(tokenizer.words(article)).items():
            if word in index:
                rows, weights = index[word]
                similarity[rows] += (1 + math.log(n)) * idf[word] * weights
        return train[int(similarity.argmax())].summary

    return nearest


@dataclass(frozen=True)
class Table:
    """Scores by name, over the same pairs; printed in percent, and with what ROUGE counts unless that is English."""

    scores: dict[str, Scores]
    pairs: int
    tokenizer: Tokenizer = ENGLISH

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        rows = {name: _scored(row) for name, row in self.scores.items()}
        labels = "".join(f"{LABELS[column]:>9}" for column in next(iter(rows.values())))
        lines = [f"{f'{self.pairs} pair' + 's' * (self.pairs != 1):<{width}}{labels}"]
        for name, row in rows.items():
            lines.append(f"{name:<{width}}" + "".join(f"{100 * value:9.1f}" for value in row.values()))
        if self.tokenizer is not ENGLISH:
            lines.append(f"ROUGE counts {self.tokenizer.name}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """The same in plain numbers, for JSON."""
        scores = {name: _scored(row) for name, row in self.scores.items()}
        return {"pairs": self.pairs, "rouge counts": self.tokenizer.name, "scores": scores}


def _scored(scores: Scores) -> dict[str, float]:
    return {name: value for name, value in asdict(scores).items() if value is not None}


class Baselines:
    """What needs no model, from the training and development set once, for as many test sets as there are."""

    def __init__(self, train: Sequence[Pair], dev: Sequence[Pair]) -> None:
        self.tokenizer = tokenizer_for(pair.summary for pair in train)
        self.k = choose_k(dev, self.tokenizer)
        self.most_frequent = Counter(pair.summary for pair in train).most_common(1)[0][0]  # of equals the first
        self.nearest = _nearest(train, self.tokenizer)

    def summarize(self, articles: Sequence[str]) -> dict[str, list[str]]:
        """The summaries of each baseline, by its name."""
        return {
            f"first {self.k} words": [first_words(article, self.k, self.tokenizer) for article in articles],
            "most frequent summary": [self.most_frequent] * len(articles),
            "nearest training article": list(map(self.nearest, articles)),
        }


def evaluate(
    summaries: Sequence[str],
    splits: Splits,
    stories: Sequence[Story] | None = None,
    baselines: Baselines | None = None,
    *,
    others: Mapping[str, Sequence[str]] | None = None,
    progress: bool = False,
) -> Table:
    """One table over the test set: the model's summaries beside the baselines.

    stories: those of a newsroom's test set, for whose slots the table has a column. baselines: where they were made
    for another test set. others: what the model writes in other ways, by name. What counts as a word is
    chosen by the summaries of the training set, for all rows. progress: as in `summarize`.
    """
    baselines = baselines or Baselines(splits.train, splits.dev)
    references = [pair.summary for pair in splits.test]
    rows = {"model": list(summaries), **(others or {}), **baselines.summarize([pair.article for pair in splits.test])}
    rated = tqdm(rows.items(), "scoring", disable=not progress)
    scores = {name: score(texts, references, baselines.tokenizer) for name, texts in rated}
    if stories is not None:
        slots = {name: fmean(slot_accuracy(texts, stories).values()) for name, texts in rows.items()}
        scores = {name: replace(row, slots=slots[name]) for name, row in scores.items()}
    return Table(scores, len(references), baselines.tokenizer)
