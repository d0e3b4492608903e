"""ROUGE in any language: what counts as a word; ROUGE-L of all beginnings of a text at once; how sure a lead is."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, chain

import numpy as np

# By the first word of their letters' names. Unicode Standard Annex 29, section 4, lists such scripts.
WITHOUT_BLANKS = {"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"}
ZERO_WIDTH_SPACE = "\u200b"  # it parts words where a script shows no blanks
DRAWS = 2000  # of the paired bootstrap


@dataclass(frozen=True)
class Tokenizer:
    """What counts as a word: `split` finds them for ROUGE, `name` describes them in a table.

    words: those by which the baselines compare articles. pieces: a text cut before each of its words, which joined by
    `between` is the text again, so that the first ten words of a Chinese article are ten characters and not all of it.
    """

    name: str
    split: Callable[[str], list[str]]
    words: Callable[[str], list[str]]
    pieces: Callable[[str], list[str]]
    between: str

    def tokenize(self, text: str) -> list[str]:
        """The words of a text; of one without any, such as "?!", what stands between blanks: it equals itself, too."""
        return self.split(text) or text.split()


def unicode_words(text: str) -> list[str]:
    """Runs of letters, marks and digits, whatever their case; each character alone where a script has no blanks."""
    return "".join(map(_spaced, unicodedata.normalize("NFKC", text.casefold()))).split()


def unicode_pieces(text: str) -> list[str]:
    """A text cut before each word, as `unicode_words` has them; signs and blanks stay with the word before them."""
    pieces, within = [""], False
    for character in text:
        spaced = _spaced(character)
        if len(spaced) > 1 or (spaced not in ("", " ") and not within):
            pieces.append("")
        pieces[-1] += character
        within = within if spaced == "" else len(spaced) == 1 and spaced != " "
    return [pieces[0] + pieces[1], *pieces[2:]] if len(pieces) > 1 else pieces


@cache
def _spaced(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf" and character != ZERO_WIDTH_SPACE:
        return ""  # joiners, which stand inside of words of Persian and Hindi
    if category[0] not in "LMN":
        return " "
    script = unicodedata.name(character, "").split("-")[0].split(" ")[0]
    return f" {character} " if script in WITHOUT_BLANKS else character


@cache
def _english() -> Callable[[str], list[str]]:
    """Made when it is first used, since `rouge-score` imports nltk and scipy, which takes more than a second."""
    from nltk.stem.porter import PorterStemmer
    from rouge_score import tokenize

    stemmer = PorterStemmer()
    stemmer.stem = cache(stemmer.stem)  # stemming takes most of the time of scoring
    return partial(tokenize.tokenize, stemmer=stemmer)


# For ROUGE, runs of a to z and digits in lower case, stemmed, as `rouge-score` has them.
ENGLISH = Tokenizer(
    "words stemmed as English", lambda text: _english()(text), lambda text: text.lower().split(), str.split, between=" "
)
NAME = "Unicode words, characters where a script has no blanks"
ANY_LANGUAGE = Tokenizer(NAME, unicode_words, unicode_words, unicode_pieces, between="")


def f1_scores(
    summaries: Sequence[str], references: Sequence[str], measures: Sequence[str], tokenizer: Tokenizer
) -> dict[str, list[float]]:
    """By measure, such as rougeL, the F1 of each summary against its reference, by `rouge-score`."""
    from rouge_score.rouge_scorer import RougeScorer  # here, for the same reason

    scorer = RougeScorer(measures, tokenizer=tokenizer)
    results = [scorer.score(reference, text) for text, reference in zip(summaries, references, strict=True)]
    return {measure: [result[measure].fmeasure for result in results] for measure in measures}


def tokenizer_for(references: Iterable[str]) -> Tokenizer:
    """`rouge-score`'s own tokenizer where at most one letter of 200 is beyond ASCII, otherwise one for any language.

    The former keeps a to z and digits alone, so that "привет" has no word and "Mädchen" two: it is for English.
    """
    letters = [character for text in references for character in text if character.isalpha()]
    return ENGLISH if 200 * sum(map(str.isascii, letters)) >= 199 * len(letters) else ANY_LANGUAGE


def prefix_lcs(reference: Sequence[Hashable], tokens: Sequence[Hashable]) -> list[int]:
    """How long the longest common subsequence of `reference` is with the first 0, 1, 2 ... of `tokens`.

    A column of the usual table grows by 0 or 1 from row to row; here it is one integer whose bits are 0 where it
    grows, and the next column takes an addition. Source: Hyyrö 2004, "Bit-parallel LCS-length computation revisited".
    """
    places: defaultdict[Hashable, int] = defaultdict(int)
    for row, token in enumerate(reference):
        places[token] |= 1 << row
    ones = (1 << len(reference)) - 1
    column, lengths = ones, [0]
    for token in tokens:
        hits = column & places[token]
        column = (column + hits | column - hits) & ones
        lengths.append(len(reference) - column.bit_count())
    return lengths


def rouge_l_of_beginnings(reference: str, words: Sequence[str], split: Callable[[str], list[str]]) -> list[float]:
    """ROUGE-L, as F1, of the first 0, 1, 2 ... of `words`, in the time that the last one alone would take."""
    from rouge_score.scoring import fmeasure  # here, for the same reason

    references, tokens = split(reference), [split(word) for word in words]  # a word is none, one or more tokens
    common = prefix_lcs(references, list(chain.from_iterable(tokens)))
    ends = accumulate(map(len, tokens), initial=0)
    return [fmeasure(common[n] / max(n, 1), common[n] / max(len(references), 1)) for n in ends]


def lead(
    summaries: Sequence[str], baseline: Sequence[str], references: Sequence[str], tokenizer: Tokenizer
) -> tuple[float, float, float]:
    """How far the ROUGE-L of summaries is above that of a baseline on the same texts, and the 95 % interval of it.

    It says how different test pairs would change the lead, by drawing as many of these with replacement, again and
    again; it knows nothing of other seeds. Source: Koehn 2004, "Statistical Significance Tests for Machine Translation
    Evaluation", section 4 (the paired bootstrap).
    """
    ours, theirs = (f1_scores(texts, references, ["rougeL"], tokenizer)["rougeL"] for texts in (summaries, baseline))
    differences = np.subtract(ours, theirs)
    drawn = np.random.default_rng(0).integers(len(references), size=(DRAWS, len(references)))
    low, high = np.quantile(differences[drawn].mean(1), [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)
