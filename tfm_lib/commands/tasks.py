"""What `make train` learns: ten pairs by heart, the newsroom, or pairs of a file, with the sizes that suit each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tfm_lib.data.batches import Examples, encode_pairs, hide_words
from tfm_lib.data.newsroom import TEN_PAIRS, Story, make_newsroom
from tfm_lib.data.pairs import Pair, Splits, read_splits, stem
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError, option
from tfm_lib.learning.recipes import Recipe
from tfm_lib.model import Transformer
from tfm_lib.writing.next_token import NO_RULES, Rules

SIZES = {"d_model": 128, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2}
WARM_UP = 100  # steps, unless the run is shorter
READ, WRITTEN = 128, 48  # tokens of a file's articles and, unless it is said, summaries; what is longer is cut
PIECES, SEEN = 16_000, 5  # of a file's vocabulary: so many at most, each seen so often at least
PASSES = 40  # over a file's pairs, at most: whoever reads them more often learns them by heart
# From so many passes on, against learning by heart: dropout and label smoothing are these, embeddings stay as they were
# counted, and this part of the steps, the last ones, minimizes risk.
OFTEN, DROPPED, SMOOTHED, RISK = 5, 0.2, 0.1, 0.1
SLOTS = 16  # unknown words that a copying newsroom tells apart in a story
HIDDEN, RARE = 0.5, 0.05  # half of a story's words that stand in 5 % of stories at most are hidden from who copies
# The rate rises for `WARM_UP` steps and falls in a line.
FALLING = Recipe(
    steps=WARM_UP, peak_rate=4e-3, warmup_steps=WARM_UP, fall="linear", max_tokens=2048, label_smoothing=0.0
)


@dataclass(frozen=True)
class Start:
    """How the models of a task begin: with their sizes, or as a published one."""

    sizes: dict[str, Any]
    copying: bool = False
    head_start: bool = False  # embeddings begin as counted word vectors, and attention as likeness
    published: Callable[[], Transformer] | None = None  # makes it at each call


@dataclass(frozen=True)
class Task:
    """Pairs, how long they may be, and the sizes that suit them."""

    name: str
    splits: Splits
    test_sets: dict[str, tuple[Splits, list[Story] | None]]  # splits with their test pairs, and the stories they are
    vocabulary: Callable[[], Vocabulary]
    max_article: int
    max_summary: int
    start: Start
    recipe: Recipe
    measured: bool = False  # the number of steps is that which the machine takes in the minutes, not the recipe's
    hidden: float = 0.0  # the share of rare words that are treated as unknown in training
    by_passes: bool = False  # pairs that are read `OFTEN` are learned in another way
    rules: tuple[Rules, ...] = (NO_RULES,)  # of which the development set says by which texts are written
    fields: Sequence[str] = ()  # what a file calls article and summary

    def encode(self, pairs: Sequence[Pair], vocabulary: Vocabulary) -> Examples:
        """Pairs as ids, cut to the lengths of the task."""
        return encode_pairs(pairs, vocabulary, self.max_article, self.max_summary)

    def training_examples(self, vocabulary: Vocabulary) -> Examples:
        """The training pairs as the model sees them."""
        examples = self.encode(self.splits.train, vocabulary)
        return hide_words(examples, vocabulary, self.hidden, RARE, self.recipe.seed) if self.hidden else examples

    def of_steps(self, steps: int) -> "Task":
        """The same with so many steps, of which the first ones warm up."""
        recipe = replace(self.recipe, steps=steps, warmup_steps=min(WARM_UP, steps))
        return replace(self, recipe=recipe, measured=False)

    def of_passes(self, passes: float, risk: float = RISK) -> "Task":
        """The same for a model that reads its pairs so often, and minimizes risk in this part of the steps."""
        if not self.by_passes or passes < OFTEN:
            return self
        risky = round(risk * self.recipe.steps)
        recipe = replace(self.recipe, label_smoothing=SMOOTHED, risk_steps=risky, fixed_embeddings=True)
        return replace(self, start=replace(self.start, sizes=self.start.sizes | {"dropout": DROPPED}), recipe=recipe)


def choose(
    name: str | None,
    data: Path | None,
    seed: int = 0,
    steps: int | None = None,
    copying: bool | None = None,
    **own: Any,
) -> Task:
    """The task of that name, or the pairs of a file; without either, the ten pairs.

    `steps` are for a file, where they are otherwise measured; the other tasks have their own number.
    copying: unless it is given, pairs of a file are learned with copying, and all else without.
    own: what else is for a file, as of `pairs_of_file`.
    Raises ValueError for a name and a file at once, what is for a file alone without one, or ten pairs to copy.
    """
    if data is not None and name is not None:
        raise CourseError(f"a task ({name}) and a file ({data}) are two things to learn; give one of them")
    if data is not None:
        task = pairs_of_file(data, seed, copying is not False, **own)
        return task if steps is None else task.of_steps(steps)
    for number, value in {"steps": steps, "length": own.get("length")}.items():
        if value is not None:
            fix = f"add {option('data', 'FILE')}, or leave it out, since the ten pairs and the newsroom have their own"
            raise CourseError(f"{option(number, value)} is for pairs of a file: {fix}")
    if name == "newsroom":
        return newsroom(seed, bool(copying))
    if copying:
        raise CourseError("the ten pairs are learned by heart; copying is for the newsroom or a file of pairs")
    return ten_pairs(seed)


def ten_pairs(seed: int) -> Task:
    """Ten short pairs to learn by heart: they are scored themselves, so the result proves memory alone."""
    pairs = [Pair(*pair) for pair in TEN_PAIRS]
    splits = Splits(pairs, pairs, pairs)
    return Task(
        name=f"ten_pairs-seed{seed}",
        splits=splits,
        test_sets={"training pairs, learned by heart": (splits, None)},
        vocabulary=lambda: Vocabulary.of_words(text for pair in pairs for text in pair),
        max_article=32,
        max_summary=16,
        start=Start(SIZES),
        recipe=Recipe(steps=40, peak_rate=2e-3, warmup_steps=5, label_smoothing=0.0, seed=seed),
    )


def newsroom(seed: int, copying: bool = False) -> Task:
    """The newsroom of that seed: 20,000 stories, and two test sets. About a minute on one CPU core.

    Who copies learns it from the same stories, in which some words are treated as unknown.
    """
    room = make_newsroom(seed)
    splits = Splits(*(_pairs(stories) for stories in (room.train, room.dev, room.test)))
    tests = {"test set": room.test, "names that were never seen": room.unseen_names}
    return Task(
        name=f"newsroom{'-copying' if copying else ''}-seed{seed}",
        splits=splits,
        test_sets={name: (splits._replace(test=_pairs(stories)), stories) for name, stories in tests.items()},
        vocabulary=lambda: Vocabulary.of_words((t for pair in splits.train for t in pair), SLOTS if copying else 0),
        max_article=72,
        max_summary=16,
        start=Start(SIZES | {"norm_first": True, "dropout": 0.0}, copying, head_start=copying),
        # Small batches, so that there are many steps: with batches of twice the size it learns far less in the time.
        recipe=replace(FALLING, steps=1000 if copying else 600, peak_rate=1.5e-3, seed=seed),
        hidden=HIDDEN if copying else 0.0,
    )


def pairs_of_file(data: Path, seed: int, copying: bool = True, length: int | None = None, **reading: Any) -> Task:
    """Pairs of a file or folder, with sizes for minutes to an hour on two CPU cores.

    length: of a summary in tokens, at most, `WRITTEN` by default. reading: as of `read_splits`.
    """
    splits, length = read_splits(data, seed, **reading), length or WRITTEN
    kind = "" if copying else "-plain"
    kind += "" if length == WRITTEN else f"-{length}"
    return Task(
        # Other pairs are another run, whatever their file is called.
        name=f"{stem(data)}{kind}-{sha256(repr(splits).encode()).hexdigest()[:6]}-seed{seed}",
        splits=splits,
        test_sets={"test set": (splits, None)},
        vocabulary=lambda: Vocabulary.of_byte_pairs((text for pair in splits.train for text in pair), PIECES, SEEN),
        max_article=READ,
        max_summary=length,
        # With a dropout of 0.1, as in the paper, unless pairs are read `OFTEN`.
        start=Start(SIZES | {"num_heads": 4, "norm_first": True}, copying, head_start=True),
        recipe=replace(FALLING, max_tokens=max(FALLING.max_tokens, READ + length + 1), seed=seed),
        measured=True,
        by_passes=True,
        rules=tuple(Rules(no_repeat_ngram_size=size) for size in (0, 2, 3)),
        fields=reading.get("fields", Pair._fields),
    )


def _pairs(stories: Sequence[Story]) -> list[Pair]:
    return [Pair(story.article, story.summary) for story in stories]
