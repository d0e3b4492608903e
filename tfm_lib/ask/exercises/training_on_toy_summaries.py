"""The exercises of lesson 07."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log, log2, log10

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.data.vocabulary import EOS_ID, PAD_ID, START_ID


@exercise(
    difficulty=1,
    minutes=3,
    trains="the loss that an untrained model should have",
    right="Any weighted mean of equal losses is the same, so smoothing and padding change nothing here.",
    tolerance=0.002,
)
def blind_guess() -> float:
    return log(604)


@blind_guess.mistake
def in_bits() -> float:
    """That is in bits, the logarithm to base 2; torch's loss is in nats, the natural logarithm."""
    return log2(604)


@blind_guess.mistake
def in_digits() -> float:
    """That is the logarithm to base 10; torch's loss is the natural logarithm."""
    return log10(604)


@blind_guess.mistake
def first_part_alone() -> float:
    """That is the part for the right token alone; the smoothed tenth has the same loss, which is added."""
    return 0.9 * log(604)


@blind_guess.mistake
def padding_as_zero() -> float:
    """You let padding count as a loss of 0; it is left out of the sum and of the divisor."""
    return log(604) / 2


@blind_guess.mistake
def of_the_ten_pairs() -> float:
    """That is the loss of a blind guess among the 150 tokens of the ten pairs; the newsroom has 604."""
    return log(150)


@blind_guess.mistake
def negative() -> float:
    """That is the logarithm of the probability, which is negative; the loss has the opposite sign."""
    return -log(604)


def rows_of_words(draw: Draw) -> Iterator[Inputs]:
    yield {"words": torch.tensor([[5, 6, 7], [8, 9, PAD_ID]])}
    yield {"words": torch.tensor([[4]])}
    yield {"words": torch.tensor([[PAD_ID, PAD_ID], [5, 6]])}
    lengths = draw.integers(1, 7, 16, 1)
    yield {"words": draw.integers(4, 20, 16, 6) * (torch.arange(6) < lengths)}


@exercise(
    difficulty=2,
    minutes=10,
    trains="the shift, with padding in the way",
    right="Each position reads the token before the one that it predicts, and each row ends after its last word.",
    cases=rows_of_words,
    most_calls=8,
    without=("tolist", "item"),
)
def shift(words: Tensor) -> tuple[Tensor, Tensor]:
    decoder_input = F.pad(words, (1, 0), value=START_ID)
    labels = F.pad(words, (0, 1), value=PAD_ID)
    ends = (labels == PAD_ID) & (decoder_input != PAD_ID)
    return decoder_input, labels.masked_fill(ends, EOS_ID)


@shift.mistake
def end_behind_the_padding(words: Tensor) -> tuple[Tensor, Tensor]:
    """Your end token comes after the padding; it belongs right after the last word of each row."""
    return F.pad(words, (1, 0), value=START_ID), F.pad(words, (0, 1), value=EOS_ID)


@shift.mistake
def all_padding_ends(words: Tensor) -> tuple[Tensor, Tensor]:
    """All padding became end tokens; a row ends once, right after its last word, and the rest of it is padding."""
    labels = F.pad(words, (0, 1), value=PAD_ID)
    return F.pad(words, (1, 0), value=START_ID), labels.masked_fill(labels == PAD_ID, EOS_ID)


@shift.mistake
def no_end(words: Tensor) -> tuple[Tensor, Tensor]:
    """No label is the end token, so a model that is trained on this never learns to stop."""
    return F.pad(words, (1, 0), value=START_ID), F.pad(words, (0, 1), value=PAD_ID)


@shift.mistake
def not_shifted(words: Tensor) -> tuple[Tensor, Tensor]:
    """Your two rows are the same, so each position reads the token that it must predict: section 2's mirror."""
    row = F.pad(shift.reference(words)[1], (1, 0), value=START_ID)
    return row, row


@shift.mistake
def not_shifted_and_cut(words: Tensor) -> tuple[Tensor, Tensor]:
    """Your labels begin with the start token, which is never predicted; they should begin with the first word."""
    row = F.pad(words, (1, 0), value=START_ID)
    return row, row


@shift.mistake
def exchanged(words: Tensor) -> tuple[Tensor, Tensor]:
    """You return the labels first; the decoder input comes first."""
    decoder_input, labels = shift.reference(words)
    return labels, decoder_input


@shift.mistake
def end_is_read(words: Tensor) -> tuple[Tensor, Tensor]:
    """Your shorter rows let the decoder read the end token. It predicts nothing there, so it should read padding."""
    row = F.pad(shift.reference(words)[1], (1, 0), value=START_ID)
    return row[:, :-1], row[:, 1:]


@shift.mistake
def every_row_gets_every_end(words: Tensor) -> tuple[Tensor, Tensor]:
    """`labels[:, ends]` writes to these columns in every row; `labels[torch.arange(B), ends]` to one in each."""
    decoder_input, labels = F.pad(words, (1, 0), value=START_ID), F.pad(words, (0, 1), value=PAD_ID)
    labels[:, (words != PAD_ID).sum(-1)] = EOS_ID
    return decoder_input, labels


def models_of_one_word(draw: Draw) -> Iterator[Inputs]:
    row = ["[start]", "flood", "closes", "old", "bridge", "[eos]"]
    right = dict(pairwise(row)) | {"[eos]": "[pad]", "[pad]": "[pad]"}
    yield {"follows": right | {"closes": "the", "the": "the"}, "row": row}  # one mistake, and never back
    yield {"follows": right | {"closes": "the", "the": "bridge"}, "row": row}  # one mistake, and back
    yield {"follows": right | {"[start]": "rain", "rain": "flood"}, "row": row}  # all right, and all one place late
    yield {"follows": right | {"flood": "[eos]"}, "row": row}  # ends early
    yield {"follows": right, "row": row}
    yield {"follows": right | {"[start]": "flooded", "flooded": "[start]"}, "row": row[:3]}


@exercise(
    difficulty=2,
    minutes=10,
    trains="teacher forcing and free running",
    right="With teacher forcing a mistake costs one word; in a free run it may cost all words that follow, or none.",
    cases=models_of_one_word,
)
def forced_and_free(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    forced = sum(follows[read] == true for read, true in pairwise(row))
    free, word = 0, row[0]
    for true in row[1:]:
        word = follows[word]
        free += word == true
    return forced, free


@forced_and_free.mistake
def forced_twice(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """Your free run reads the true words as well; it should read its own, right or wrong."""
    forced, _ = forced_and_free.reference(follows, row)
    return forced, forced


@forced_and_free.mistake
def free_twice(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """Your forced run reads its own words; with teacher forcing each position reads the true word before it."""
    _, free = forced_and_free.reference(follows, row)
    return free, free


@forced_and_free.mistake
def other_way_round(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """You return the free run first; the forced one comes first."""
    return forced_and_free.reference(follows, row)[::-1]


@forced_and_free.mistake
def over_at_the_first_mistake(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """Your free run is over at its first mistake; it should go on, since it may come back to the true words."""
    forced, word, free = forced_and_free.reference(follows, row)[0], row[0], 0
    for true in row[1:]:
        word = follows[word]
        if word != true:
            break
        free += 1
    return forced, free


@forced_and_free.mistake
def wherever_it_stands(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """Your free run counts a word wherever it is; it is right only at its own position."""
    forced, written = forced_and_free.reference(follows, row)[0], [row[0]]
    for _ in row[1:]:
        written.append(follows[written[-1]])
    return forced, len(set(written[1:]) & set(row[1:]))


@forced_and_free.mistake
def compared_with_what_was_read(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """You compare with the word that was read; compare with the word after it."""
    free, word = 0, row[0]
    for read in row[:-1]:
        word = follows[word]
        free += word == read
    return sum(follows[read] == read for read in row[:-1]), free


@forced_and_free.mistake
def start_sign_counts(follows: dict[str, str], row: list[str]) -> tuple[int, int]:
    """Your free run counts the start token as a right word, but it is never predicted."""
    forced, free = forced_and_free.reference(follows, row)
    return forced, free + 1


@exercise(
    difficulty=2,
    minutes=5,
    trains="the paper's schedule",
    right="One over a square root falls slowly: after the paper's 100,000 steps a fifth of the peak is left.",
)
def half_peak() -> int:
    return 16_000


@half_peak.mistake
def on_the_way_up() -> int:
    """In that step the rate is half of its peak for the first time, during the rise; find the second time."""
    return 2_000


@half_peak.mistake
def as_steep_as_the_rise() -> int:
    """The fall is not as steep as the rise; the rate falls with one over the square root of the step."""
    return 6_000


@half_peak.mistake
def one_over_the_step() -> int:
    """That would be a fall with one over the step; it is one over its square root."""
    return 8_000


@half_peak.mistake
def counted_from_the_peak() -> int:
    """It is so many steps after the peak, but the step is counted from the start of training."""
    return 12_000


@half_peak.mistake
def the_peak() -> int:
    """That is the step of the peak itself."""
    return 4_000


def pieces_of_a_batch(draw: Draw) -> Iterator[Inputs]:
    first = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    yield {
        "weight": torch.zeros(2, 3, requires_grad=True),
        "hidden": [first[None], first[None]],
        "labels": [torch.tensor([[1, 2]]), torch.tensor([[1, PAD_ID]])],
    }
    for rows in ([[4, 4], [4]], [[3, 1], [4], [2, 2, 1]], [[2, 1], [0]]):  # the words of each row of each piece
        labels = [
            draw.integers(1, 5, len(words), 4) * (torch.arange(4) < torch.tensor(words)[:, None]) for words in rows
        ]
        yield {
            "weight": draw(3, 5).requires_grad_(),
            "hidden": [draw(len(words), 4, 3) for words in rows],
            "labels": labels,
        }


def gradient(weight: Tensor, hidden: list[Tensor], labels: list[Tensor], factors: Sequence[Tensor | float]) -> Tensor:
    """The gradient of the summed losses of all pieces, each piece times a factor."""
    for piece, names, factor in zip(hidden, labels, factors, strict=True):
        loss = F.cross_entropy((piece @ weight).flatten(0, 1), names.flatten(), ignore_index=PAD_ID, reduction="sum")
        (loss * factor).backward()
    assert weight.grad is not None
    return weight.grad


def words_in(labels: list[Tensor]) -> list[Tensor]:
    return [names.ne(PAD_ID).sum() for names in labels]


@exercise(
    difficulty=3,
    minutes=15,
    trains="means of different sizes, and gradient accumulation",
    right="A mean of means equals the mean only if all pieces have the same size; sum first, and divide once.",
    cases=pieces_of_a_batch,
)
def accumulated(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    words = words_in(labels)
    return gradient(weight, hidden, labels, [1 / sum(words)] * len(words))


@accumulated.mistake
def mean_of_means(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Each piece counts the same, however few words it has; each word should. Divide by the words of all pieces."""
    return gradient(weight, hidden, labels, [1 / (words * len(labels)) for words in words_in(labels)])


@accumulated.mistake
def sum_of_means(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """You add up the means of the pieces, so more pieces give a larger gradient; compute one mean over all words."""
    return gradient(weight, hidden, labels, [1 / words for words in words_in(labels)])


@accumulated.mistake
def not_divided(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """That is the gradient of the sum over all words; divide by how many there are."""
    return gradient(weight, hidden, labels, [1.0] * len(labels))


@accumulated.mistake
def weighted_by_rows(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """You weight the means by the rows of the pieces; rows differ in length, so weight by words."""
    rows = sum(map(len, labels))
    factors = [len(names) / (rows * words) for names, words in zip(labels, words_in(labels), strict=True)]
    return gradient(weight, hidden, labels, factors)


@accumulated.mistake
def divided_by_places(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """You divide by all positions, including padding; divide by the words."""
    return gradient(weight, hidden, labels, [1 / sum(names.numel() for names in labels)] * len(labels))


@accumulated.mistake
def padding_counts(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Padding counts in your loss, and among the words that you divide by; it should count in neither."""
    return padding_surprises(weight, hidden, labels) / sum(names.numel() for names in labels)


def padding_surprises(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """The gradient of all losses, including those at padding."""
    logits = torch.cat([(piece @ weight).flatten(0, 1) for piece in hidden])
    F.cross_entropy(logits, torch.cat([names.flatten() for names in labels]), reduction="sum").backward()
    assert weight.grad is not None
    return weight.grad


@accumulated.mistake
def padding_is_named(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """You divide by the words alone, but the sum includes the loss of padding: `ignore_index=PAD_ID` is missing."""
    return padding_surprises(weight, hidden, labels) / sum(words_in(labels))


@accumulated.mistake
def padding_in_each_mean(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Padding counts in the mean of each piece, and each piece counts the same; only words should count, equally."""
    pieces = [
        padding_surprises(weight.detach().clone().requires_grad_(), [piece], [names]) / (names.numel() * len(labels))
        for piece, names in zip(hidden, labels, strict=True)
    ]
    return torch.stack(pieces).sum(0)


@accumulated.mistake
def divided_twice(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """You divide twice: `cross_entropy` already returns a mean, unless you pass `reduction="sum"`."""
    words = words_in(labels)
    return gradient(weight, hidden, labels, [1 / (own * sum(words)) for own in words])


@accumulated.mistake
def last_piece_alone(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Only the last piece's gradient is left: is it reset before each piece, or is `backward` outside the loop?"""
    return gradient(weight, hidden[-1:], labels[-1:], [1 / sum(words_in(labels))])


@accumulated.mistake
def last_mean_alone(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """The last piece's mean alone has left a gradient: each piece needs `backward`, and its words the same divisor."""
    return gradient(weight, hidden[-1:], labels[-1:], [1 / (words_in(labels)[-1] * len(labels))])


@accumulated.mistake
def first_piece_alone(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Only the first piece's gradient is there: is `return` inside the loop?"""
    return gradient(weight, hidden[:1], labels[:1], [1 / sum(words_in(labels))])


@accumulated.mistake
def reset_after_each_piece(weight: Tensor, hidden: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Your gradient is set to zero after each piece, so that nothing is left of it; set it to zero before the first."""
    return accumulated.reference(weight, hidden, labels).zero_()


def logits_and_labels(draw: Draw) -> Iterator[Inputs]:
    yield {"logits": torch.tensor([[[0.0, 2.0, 1.0, 0.0, 1.0]]]), "labels": torch.tensor([[1]]), "smoothing": 0.3}
    ragged = torch.tensor([[3, 2, 5], [4, PAD_ID, PAD_ID]])
    yield {"logits": draw(2, 3, 6), "labels": ragged, "smoothing": 0.1}
    yield {"logits": draw(2, 3, 6).double(), "labels": ragged.flip(0), "smoothing": 0.0}
    yield {"logits": 100 * draw(2, 3, 6), "labels": ragged, "smoothing": 0.1}


@exercise(
    difficulty=3,
    minutes=20,
    trains="label smoothing, and padding left out",
    right="Two codes that both smooth by 0.1 may therefore report different losses.",
    cases=logits_and_labels,
)
def spread(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    return weighted(logits, labels, among_the_others(logits, labels, smoothing))


def among_the_others(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """What each token gets of a label's certainty: (B, T, V)."""
    parts = torch.full_like(logits, smoothing / (logits.shape[-1] - 2))
    parts[..., PAD_ID] = 0
    return parts.scatter(-1, labels[..., None], 1 - smoothing)


def weighted(logits: Tensor, labels: Tensor, parts: Tensor) -> Tensor:
    """The losses weighted by the parts of the label, the mean over all positions that are not padding."""
    return -(parts * logits.log_softmax(-1)).sum(-1)[labels != PAD_ID].mean()


@spread.mistake
def over_all_tokens(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """You spread over all tokens, as torch does; the right token and [pad] should get no share."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD_ID, label_smoothing=smoothing)


@spread.mistake
def padding_gets_its_share(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """You give [pad] a share; only the wrong tokens other than [pad] should get one."""
    parts = torch.full_like(logits, smoothing / (logits.shape[-1] - 1))
    return weighted(logits, labels, parts.scatter(-1, labels[..., None], 1 - smoothing))


@spread.mistake
def right_one_gets_its_share(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The right token gets a share of what you spread, on top of its own part; only the wrong ones should."""
    parts = torch.full_like(logits, smoothing / (logits.shape[-1] - 1))
    parts[..., PAD_ID] = 0
    own = torch.full_like(logits, 1 - smoothing)
    return weighted(logits, labels, parts.scatter_add(-1, labels[..., None], own))


@spread.mistake
def sum_is_less_than_one(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Your label does not sum to 1: [pad] and the right token got no share, so there are only V - 2 to divide by."""
    parts = torch.full_like(logits, smoothing / logits.shape[-1])
    parts[..., PAD_ID] = 0
    return weighted(logits, labels, parts.scatter(-1, labels[..., None], 1 - smoothing))


@spread.mistake
def sum_is_more_than_one(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Your label sums to more than 1: [pad] should get nothing, since V - 2 others share it all already."""
    parts = torch.full_like(logits, smoothing / (logits.shape[-1] - 2))
    return weighted(logits, labels, parts.scatter(-1, labels[..., None], 1 - smoothing))


@spread.mistake
def padded_places_count(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The positions whose label is [pad] count in your mean; they should be left out."""
    parts = among_the_others(logits, labels, smoothing)
    return -(parts * logits.log_softmax(-1)).sum(-1).mean()


@spread.mistake
def over_all_places(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """You leave padding out of the sum, and then divide by all positions; divide by those that are not padding."""
    return spread.reference(logits, labels, smoothing) * (labels != PAD_ID).float().mean()


@spread.mistake
def mean_of_rows(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """You average in each row and then over the rows, so that the words of short rows weigh more than others."""
    each = -(among_the_others(logits, labels, smoothing) * logits.log_softmax(-1)).sum(-1)
    real = labels != PAD_ID
    return ((each * real).sum(-1) / real.sum(-1)).mean()


@spread.mistake
def not_averaged(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """That is the sum over the positions that are not padding; return their mean."""
    return spread.reference(logits, labels, smoothing) * (labels != PAD_ID).sum()


@spread.mistake
def logits_as_they_are(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """You weight the logits as they are; first turn them into log-probabilities with `log_softmax`."""
    return -(among_the_others(logits, labels, smoothing) * logits).sum(-1)[labels != PAD_ID].mean()


@spread.mistake
def divergence(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """You subtract the entropy of the label, which gives the KL divergence; return the cross-entropy."""
    parts = among_the_others(logits, labels, smoothing)
    return spread.reference(logits, labels, smoothing) + parts.xlogy(parts).sum(-1)[labels != PAD_ID].mean()


@spread.mistake
def log_of_softmax(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Right, but for large logits a probability rounds to 0, and its logarithm is infinite; use `log_softmax`."""
    parts = among_the_others(logits, labels, smoothing)
    return -(parts * logits.softmax(-1).log()).sum(-1)[labels != PAD_ID].mean()


def summaries_and_references(draw: Draw) -> Iterator[Inputs]:
    bridge = "flood closes old bridge"
    for summary, reference in (
        ("flood closes the bridge", bridge),
        ("old bridge closes", bridge),
        ("bridge flood closes old", bridge),
        ("bridge bridge bridge on old bridge", bridge),
        ("fire burns homes", bridge),
        ("", bridge),
        ("bus crash in prague", "a bus crash injures 4 in prague"),
    ):
        yield {"summary": summary, "reference": reference}


@exercise(
    difficulty=4,
    minutes=25,
    trains="what ROUGE-L measures",
    right="ROUGE-L counts order but not truth: a wrong name costs no more than a missing “the”.",
    cases=summaries_and_references,
)
def rouge_l(summary: str, reference: str) -> float:
    ours, theirs = summary.split(), reference.split()
    return 2 * common_subsequence(ours, theirs) / (len(ours) + len(theirs))


def common_subsequence(ours: list[str] | str, theirs: list[str] | str) -> int:
    """The length of the longest sequence that can be had from both by crossing things out."""
    best = [0] * (len(theirs) + 1)
    for word in ours:
        before = best
        best = [0]
        for place, other in enumerate(theirs):
            best.append(before[place] + 1 if word == other else max(before[place + 1], best[place]))
    return best[-1]


@rouge_l.mistake
def words_in_any_order(summary: str, reference: str) -> float:
    """You count the words in common in any order, which is ROUGE-1; here they must be in the same order."""
    ours, theirs = summary.split(), reference.split()
    return 2 * (Counter(ours) & Counter(theirs)).total() / (len(ours) + len(theirs))


@rouge_l.mistake
def words_once_in_any_order(summary: str, reference: str) -> float:
    """A set forgets how often a word occurs, and where; here words count as often as they occur, in order."""
    ours, theirs = set(summary.split()), set(reference.split())
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


@rouge_l.mistake
def without_a_gap(summary: str, reference: str) -> float:
    """You look for words in one piece; between the words of a common subsequence there may be others."""
    ours, theirs = summary.split(), reference.split()
    pieces = [ours[start:end] for start in range(len(ours)) for end in range(start + 1, len(ours) + 1)]
    found = [len(p) for p in pieces if any(theirs[i : i + len(p)] == p for i in range(len(theirs)))]
    return 2 * max(found, default=0) / (len(ours) + len(theirs))


@rouge_l.mistake
def first_come(summary: str, reference: str) -> float:
    """You take each word as soon as it fits, which can spoil a longer sequence; try with it and without it."""
    ours, theirs = summary.split(), reference.split()
    length, start = 0, 0
    for word in ours:
        if word in theirs[start:]:
            start = theirs.index(word, start) + 1
            length += 1
    return 2 * length / (len(ours) + len(theirs))


@rouge_l.mistake
def precision(summary: str, reference: str) -> float:
    """That is the precision, the share of the summary; F1 is the harmonic mean of it and the share of the reference."""
    return common_subsequence(summary.split(), reference.split()) / max(1, len(summary.split()))


@rouge_l.mistake
def recall(summary: str, reference: str) -> float:
    """That is the recall, the share of the reference; F1 is the harmonic mean of it and the share of the summary."""
    return common_subsequence(summary.split(), reference.split()) / len(reference.split())


@rouge_l.mistake
def plain_mean(summary: str, reference: str) -> float:
    """That is the plain mean of precision and recall; F1 is their harmonic mean, 2PR / (P + R)."""
    return (precision(summary, reference) + recall(summary, reference)) / 2


@rouge_l.mistake
def letters(summary: str, reference: str) -> float:
    """You compare letters; split the texts into words first."""
    return 2 * common_subsequence(summary, reference) / (len(summary) + len(reference))


@rouge_l.mistake
def nothing_in_common(summary: str, reference: str) -> float:
    """Where no word is in common, precision and recall are 0, and F1 divides by their sum; the score is 0 there."""
    p = common_subsequence(summary.split(), reference.split()) / len(summary.split())
    r = recall(summary, reference)
    return 2 * p * r / (p + r)
