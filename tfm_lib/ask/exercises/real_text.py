"""The exercises of lesson 11."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise


@exercise(
    difficulty=1,
    minutes=5,
    trains="the mixture",
    right="A word that is copied needs no open gate, only one that is open enough.",
    tolerance=0.005,
)
def tie() -> float:
    return 0.36


@tie.mistake
def slot_never_written() -> float:
    """You forgot that the softmax itself gives the slot 0.05, of which it keeps its share."""
    return 0.5 / 1.3


@tie.mistake
def other_side_of_the_gate() -> float:
    """That is the share of writing, 1 - g; the gate g is the share of copying."""
    return 0.64


@tie.mistake
def florence_keeps_all() -> float:
    """You let Florence keep the whole 0.50; with the gate at g only the share 1 - g of it is left."""
    return 0.5625


@tie.mistake
def no_softmax_at_all() -> float:
    """You compare 0.50 with 0.80 g; the gate takes from Florence, too, and the slot has 0.05 of its own."""
    return 0.625


def pointers(draw: Draw) -> Iterator[Inputs]:
    yield {
        "weights": torch.tensor([[[0.05, 0.05, 0.05, 0.05, 0.8]]]),
        "ids": torch.tensor([[1, 0, 1, 4, 5]]),
        "vocab_size": 6,
    }
    yield {"weights": torch.tensor([[[1.0]], [[1.0]]]), "ids": torch.tensor([[2], [0]]), "vocab_size": 3}
    yield {"weights": draw(3, 4, 7).softmax(-1), "ids": draw.integers(0, 5, 3, 7), "vocab_size": 9}


@exercise(
    difficulty=2,
    minutes=10,
    trains="from weights over positions to probabilities of words",
    right="One call serves the whole batch, and a word that is in the source twice gets both weights.",
    cases=pointers,
    most_calls=8,
    without=("tolist", "item"),
)
def copied(weights: Tensor, ids: Tensor, vocab_size: int) -> Tensor:
    return weights @ F.one_hot(ids, vocab_size).to(weights.dtype)


@copied.mistake
def overwritten(weights: Tensor, ids: Tensor, vocab_size: int) -> Tensor:
    """If a word is in the source twice, the last weight overwrites the first; add them up."""
    empty = weights.new_zeros(*weights.shape[:2], vocab_size)
    result = empty.clone()
    for s in range(ids.shape[1]):
        result.scatter_(2, ids[:, None, s : s + 1].expand(-1, weights.shape[1], -1), weights[:, :, s : s + 1])
    return result


@copied.mistake
def first_sources_words(weights: Tensor, ids: Tensor, vocab_size: int) -> Tensor:
    """Every row copies the words of the first source; each has a source of its own."""
    return copied.reference(weights, ids[:1].expand_as(ids), vocab_size)


@copied.mistake
def mean_of_twins(weights: Tensor, ids: Tensor, vocab_size: int) -> Tensor:
    """You take the mean if a word is in the source twice; the sum is its probability."""
    counts = F.one_hot(ids, vocab_size).sum(1, keepdim=True).clamp(min=1)  # (B, 1, V)
    return copied.reference(weights, ids, vocab_size) / counts


@copied.mistake
def counted(weights: Tensor, ids: Tensor, vocab_size: int) -> Tensor:
    """You count the words of the source, and leave out how much weight each of them has."""
    return copied.reference(torch.ones_like(weights), ids, vocab_size)


DOCSTRING = """Return the degree of a node.

The degree is the number of edges
that end at the node.

Parameters
----------
node : int
    Any node."""


def texts(draw: Draw) -> Iterator[Inputs]:
    yield {"docstring": DOCSTRING}
    yield {"docstring": "Return the degree of a node."}
    yield {"docstring": "Return the degree of a node.\n\nReturns\n-------\nint"}
    yield {"docstring": "Return the degree\nof a node.\n\nThe degree is the number of its edges."}
    yield {"docstring": "Sort e.g. nodes.\n\nFirst by name.\n\nThen by degree - if there is one - and age."}
    yield {"docstring": "Count.\n\nOne\n--- two\nthree."}


def squeezed(text: str) -> str:
    return " ".join(text.split())


def prose(text: str) -> str:
    """The lines before the first one that has nothing but dashes below it."""
    lines = text.splitlines()
    ends = [n for n, line in enumerate(lines[1:]) if line and not line.strip("-")]
    return "\n".join(lines[: ends[0]] if ends else lines)


@exercise(
    difficulty=2,
    minutes=12,
    trains="harvesting",
    right="A few rules find thousands of pairs; look at what the rules let through.",
    cases=texts,
)
def pair(docstring: str) -> tuple[str, str] | None:
    summary, _, below = docstring.partition("\n\n")
    article = squeezed(prose(below))
    return (summary, article) if article and "\n" not in summary else None


@pair.mistake
def with_the_parameters(docstring: str) -> tuple[str, str] | None:
    """Your article goes on into the list of parameters; it ends before a heading with dashes below it."""
    summary, _, below = docstring.partition("\n\n")
    return (summary, squeezed(below)) if below and "\n" not in summary else None


@pair.mistake
def with_the_heading(docstring: str) -> tuple[str, str] | None:
    """Your article ends with the word *Parameters*; the heading above the dashes is no prose either."""
    summary, _, below = docstring.partition("\n\n")
    lines = below.splitlines()
    ends = [n for n, line in enumerate(lines) if line and not line.strip("-")]
    article = squeezed("\n".join(lines[: ends[0]] if ends else lines))
    return (summary, article) if article and "\n" not in summary else None


@pair.mistake
def of_one_line_too(docstring: str) -> tuple[str, str] | None:
    """A docstring without any text below its first line has no article; give None for it."""
    summary, _, below = docstring.partition("\n\n")
    return (summary, squeezed(prose(below))) if "\n" not in summary else None


@pair.mistake
def two_lines_summed_up(docstring: str) -> tuple[str, str] | None:
    """A summary of two lines is not what PEP 257 asks for; give None where no blank line follows the first one."""
    summary, _, below = docstring.partition("\n\n")
    article = squeezed(prose(below))
    return (squeezed(summary), article) if article else None


@pair.mistake
def first_paragraph(docstring: str) -> tuple[str, str] | None:
    """Your article is the first paragraph below the summary alone; it goes on to the first heading or the end."""
    summary, _, below = docstring.partition("\n\n")
    article = squeezed(prose(below).partition("\n\n")[0])
    return (summary, article) if article and "\n" not in summary else None


@pair.mistake
def in_its_lines(docstring: str) -> tuple[str, str] | None:
    """Your article still has its line breaks; join its words with single spaces."""
    summary, _, below = docstring.partition("\n\n")
    article = prose(below).strip()
    return (summary, article) if article and "\n" not in summary else None


@pair.mistake
def exchanged(docstring: str) -> tuple[str, str] | None:
    """You return the article first; the summary comes first."""
    found = pair.reference(docstring)
    return found and found[::-1]


def summaries(draw: Draw) -> Iterator[Inputs]:
    yield {"summary": "the nodes of the graph", "reference": "the edges of the graph"}
    yield {"summary": "the graph the graph the graph", "reference": "the graph of the nodes"}
    yield {"summary": "degree", "reference": "the degree of a node"}
    yield {"summary": "nodes and edges", "reference": "the degree of a node"}
    yield {"summary": "of the graph and of the graph", "reference": "of the graph or of the tree of the graph"}


def couples(text: str) -> Counter:
    return Counter(pairwise(text.split()))


@exercise(
    difficulty=2,
    minutes=12,
    trains="ROUGE-2, and what is counted how often",
    right="It is rouge-score's number; each pair of neighbors counts as often as both texts contain it.",
    cases=summaries,
)
def rouge_2(summary: str, reference: str) -> float:
    said, wanted = couples(summary), couples(reference)
    return 2 * (said & wanted).total() / max(1, said.total() + wanted.total())


@rouge_2.mistake
def as_sets(summary: str, reference: str) -> float:
    """You count each pair of neighbors once; one that is in both texts twice counts twice."""
    said, wanted = set(couples(summary)), set(couples(reference))
    return 2 * len(said & wanted) / max(1, len(said) + len(wanted))


@rouge_2.mistake
def not_clipped(summary: str, reference: str) -> float:
    """You let *the graph* earn as often as you say it; it counts no more often than the reference has it."""
    said, wanted = couples(summary), couples(reference)
    return 2 * sum(n for pair, n in said.items() if pair in wanted) / max(1, said.total() + wanted.total())


@rouge_2.mistake
def single_words(summary: str, reference: str) -> float:
    """That is ROUGE-1, of single words; count pairs of neighbors."""
    said, wanted = Counter(summary.split()), Counter(reference.split())
    return 2 * (said & wanted).total() / (said.total() + wanted.total())


@rouge_2.mistake
def precision(summary: str, reference: str) -> float:
    """That is the precision, the share of the summary's pairs; join it with the recall, 2PR / (P + R)."""
    pairs = couples(summary)
    return (pairs & couples(reference)).total() / max(1, pairs.total())


@rouge_2.mistake
def recall(summary: str, reference: str) -> float:
    """That is the recall, the share of the reference's pairs; join it with the precision, 2PR / (P + R)."""
    wanted = couples(reference)
    return (couples(summary) & wanted).total() / max(1, wanted.total())


@rouge_2.mistake
def plain_mean(summary: str, reference: str) -> float:
    """That is the plain mean of precision and recall; F1 is their harmonic mean, 2PR / (P + R)."""
    return (precision(summary, reference) + recall(summary, reference)) / 2


@rouge_2.mistake
def divided_by_words(summary: str, reference: str) -> float:
    """You divide by the numbers of words; a text of five words has four pairs of neighbors."""
    common = (couples(summary) & couples(reference)).total()
    return 2 * common / (len(summary.split()) + len(reference.split()))


@exercise(
    difficulty=2,
    minutes=5,
    trains="how the interval shrinks",
    right="Half the interval costs four times the pairs; that is why test sets are larger than one would like.",
)
def enough_pairs() -> int:
    return ceil((1.96 * 15 / 0.5) ** 2)


@enough_pairs.mistake
def not_squared() -> int:
    """The formula contains the square root of the number of pairs: square your number."""
    return ceil(1.96 * 15 / 0.5)


@enough_pairs.mistake
def one_standard_error() -> int:
    """That makes the standard error 0.5; the interval of 95 % reaches 1.96 of them to either side."""
    return 900


@enough_pairs.mistake
def whole_width() -> int:
    """That is for an interval whose whole width is 0.5; plus or minus 0.5 is a width of 1."""
    return ceil((1.96 * 15 / 0.25) ** 2)


@enough_pairs.mistake
def rounded_down() -> int:
    """With so many it is still a hair wider than 0.5; round up."""
    return int((1.96 * 15 / 0.5) ** 2)


def two_systems(draw: Draw) -> Iterator[Inputs]:
    yield {
        "a": torch.tensor([10.0, 50.0, 30.0]),
        "b": torch.tensor([20.0, 40.0, 35.0]),
        "drawn": torch.tensor([[0, 1, 2], [1, 1, 1], [0, 0, 1], [0, 1, 0]]),
    }
    yield {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([2.0, 1.0]), "drawn": torch.tensor([[0, 1], [1, 0]])}
    a = draw(40)
    yield {"a": a, "b": a + draw(40) / 2, "drawn": draw.integers(0, 40, 200, 40)}


@exercise(
    difficulty=3,
    minutes=15,
    trains="the paired bootstrap",
    right="Each round is a different test set that could have been drawn, the same one for both.",
    cases=two_systems,
)
def better(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    return ((b - a)[drawn].mean(1) > 0).float().mean().item()


@better.mistake
def other_pairs_for_b(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    """In each round b is scored on different pairs than a; give both the same ones."""
    return (b[drawn.roll(1, 0)].mean(1) > a[drawn].mean(1)).float().mean().item()


@better.mistake
def pair_by_pair(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    """You count the pairs on which b is better; count the rounds in which its mean is."""
    return (b > a)[drawn].float().mean().item()


@better.mistake
def ties_won(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    """If both means are equal, neither is better: count rounds with a mean difference above 0."""
    return ((b - a)[drawn].mean(1) >= 0).float().mean().item()


@better.mistake
def of_a(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    """That is how often a is better; return how often b is."""
    return ((a - b)[drawn].mean(1) > 0).float().mean().item()


@better.mistake
def mean_difference(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    """That is the mean difference over all rounds; return the share of rounds in which it is above 0."""
    return (b - a)[drawn].mean().item()


@better.mistake
def number_of_rounds(a: Tensor, b: Tensor, drawn: Tensor) -> float:
    """That is the number of rounds; divide it by how many rounds there are."""
    return ((b - a)[drawn].mean(1) > 0).float().sum().item()


def harvests(draw: Draw) -> Iterator[Inputs]:
    yield {
        "packages": ["numpy", "networkx", "pandas", "networkx", "scipy"],
        "articles": ["a", "b", "b", "c", "d"],
        "held_out": {"networkx"},
    }
    yield {"packages": ["x", "y", "x"], "articles": ["a", "a", "a"], "held_out": {"y"}}
    yield {"packages": ["x", "y", "z", "z"], "articles": ["a", "a", "b", "b"], "held_out": {"z"}}
    yield {"packages": ["x", "y", "z", "y"], "articles": ["a", "b", "c", "c"], "held_out": {"x", "y"}}


@exercise(
    difficulty=2,
    minutes=10,
    trains="a split that does not leak",
    right="Whole packages keep relatives on one side, and the last check keeps what was copied between packages there.",
    cases=harvests,
)
def split(packages: list[str], articles: list[str], held_out: set[str]) -> tuple[list[int], list[int]]:
    test = [n for n, package in enumerate(packages) if package in held_out]
    tested = {articles[n] for n in test}
    return [n for n in range(len(articles)) if n not in test and articles[n] not in tested], test


@split.mistake
def by_package_alone(packages: list[str], articles: list[str], held_out: set[str]) -> tuple[list[int], list[int]]:
    """A training article is in the test set word for word: packages copy from each other. Leave it out."""
    test = [n for n, package in enumerate(packages) if package in held_out]
    return [n for n in range(len(articles)) if n not in test], test


@split.mistake
def left_out_of_the_test(packages: list[str], articles: list[str], held_out: set[str]) -> tuple[list[int], list[int]]:
    """You take shared articles out of the test set; take them out of the training set, and keep the test whole."""
    train = [n for n, package in enumerate(packages) if package not in held_out]
    learned = {articles[n] for n in train}
    return train, [n for n in range(len(articles)) if n not in train and articles[n] not in learned]


@split.mistake
def test_first(packages: list[str], articles: list[str], held_out: set[str]) -> tuple[list[int], list[int]]:
    """You return the test set first; the training set comes first."""
    return split.reference(packages, articles, held_out)[::-1]


@split.mistake
def each_article_once(packages: list[str], articles: list[str], held_out: set[str]) -> tuple[list[int], list[int]]:
    """You also drop articles that are twice on the same side; only those on both sides leak."""
    train, test = split.reference(packages, articles, held_out)
    return tuple(list({articles[n]: n for n in reversed(side)}.values())[::-1] for side in (train, test))  # type: ignore[return-value]


def gates(draw: Draw) -> Iterator[Inputs]:
    yield {
        "p_vocab": torch.tensor([0.05, 0.50, 0.05]),
        "copied": torch.tensor([0.80, 0.0, 0.05]),
        "z": torch.tensor([1.0986, 1.0986, 1.0986]),
    }
    yield {"p_vocab": draw(6).sigmoid(), "copied": draw(6).sigmoid(), "z": draw(6)}


@exercise(
    difficulty=4,
    minutes=15,
    trains="what the loss tells the gate",
    right="The gate moves toward the way that gave more probability, and least if it is wide open or tightly shut.",
    cases=gates,
    tolerance=1e-3,
)
def gate_gradient(p_vocab: Tensor, copied: Tensor, z: Tensor) -> Tensor:
    g = z.sigmoid()
    return g * (1 - g) * (p_vocab - copied) / ((1 - g) * p_vocab + g * copied)


@gate_gradient.mistake
def of_the_gate_itself(p_vocab: Tensor, copied: Tensor, z: Tensor) -> Tensor:
    """That is the derivative with respect to g; for z it has one more factor, that of the sigmoid, g (1 - g)."""
    g = z.sigmoid()
    return gate_gradient.reference(p_vocab, copied, z) / (g * (1 - g))


@gate_gradient.mistake
def uphill(p_vocab: Tensor, copied: Tensor, z: Tensor) -> Tensor:
    """The sign is reversed: the loss is minus the logarithm."""
    return -gate_gradient.reference(p_vocab, copied, z)


@gate_gradient.mistake
def of_the_probability(p_vocab: Tensor, copied: Tensor, z: Tensor) -> Tensor:
    """That is the derivative of -p; the logarithm divides it by p."""
    g = z.sigmoid()
    return g * (1 - g) * (p_vocab - copied)


@gate_gradient.mistake
def z_for_g(p_vocab: Tensor, copied: Tensor, z: Tensor) -> Tensor:
    """You take z for the gate; the gate is its sigmoid."""
    return z * (1 - z) * (p_vocab - copied) / ((1 - z) * p_vocab + z * copied)


def far_apart(draw: Draw) -> Iterator[Inputs]:
    yield {
        "log_vocab": torch.tensor([-0.5, -3.0]),
        "log_copied": torch.tensor([-4.0, -0.2]),
        "z": torch.tensor([1.0, -2.0]),
    }
    yield {
        "log_vocab": torch.tensor([-150.0, -2.0, -300.0]),
        "log_copied": torch.tensor([-200.0, -torch.inf, -1.0]),
        "z": torch.tensor([0.0, 200.0, -200.0]),
    }
    yield {"log_vocab": -draw(8).exp() * 20, "log_copied": -draw(8).exp() * 20, "z": draw(8) * 30}


@exercise(
    difficulty=4,
    minutes=15,
    trains="logarithms of sums",
    right="No exponential can vanish, so every word keeps a finite loss.",
    cases=far_apart,
)
def log_sum(log_vocab: Tensor, log_copied: Tensor, z: Tensor) -> Tensor:
    return torch.logaddexp(log_vocab + F.logsigmoid(-z), log_copied + F.logsigmoid(z))


@log_sum.mistake
def there_and_back(log_vocab: Tensor, log_copied: Tensor, z: Tensor) -> Tensor:
    """On small numbers it is right, but exp makes 0 of -150, and its logarithm is -inf: stay among logarithms."""
    g = z.sigmoid()
    return ((1 - g) * log_vocab.exp() + g * log_copied.exp()).log()


@log_sum.mistake
def log_of_the_gate(log_vocab: Tensor, log_copied: Tensor, z: Tensor) -> Tensor:
    """The sigmoid of 200 is 1, and log(1 - 1) is -inf: `F.logsigmoid(-z)` is log(1 - g), for any z."""
    g = z.sigmoid()
    return torch.logaddexp(log_vocab + (1 - g).log(), log_copied + g.log())


@log_sum.mistake
def weighted_logarithms(log_vocab: Tensor, log_copied: Tensor, z: Tensor) -> Tensor:
    """You mix the logarithms; the probabilities are to be mixed, and the logarithm of a sum is no sum of logarithms."""
    g = z.sigmoid()
    return (1 - g) * log_vocab + g * log_copied


@log_sum.mistake
def gate_reversed(log_vocab: Tensor, log_copied: Tensor, z: Tensor) -> Tensor:
    """Your gate opens to the vocabulary; the gate is the share of copying."""
    return log_sum.reference(log_vocab, log_copied, -z)
