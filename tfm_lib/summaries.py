"""From texts to batches of ids: vocabulary, cutting, length buckets, the shift of teacher forcing."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from tfm_lib.pairs import Pair

PAD_ID, START_ID, EOS_ID, UNKNOWN_ID = range(4)
SPECIAL_TOKENS = ["[pad]", "[start]", "[eos]", "[unk]"]


class Vocabulary:
    """Text to ids and back. Every text is lowercased; the ids 0 to 3 are pad, start, eos and unknown."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        found = [tokenizer.id_to_token(i) for i in range(len(SPECIAL_TOKENS))]
        if found != SPECIAL_TOKENS:
            raise ValueError(f"the first ids of a vocabulary are {SPECIAL_TOKENS}, not {found}; train a new one")
        tokenizer.encode_special_tokens = True  # "[eos]" written in an article is text, not the end of it
        self._tokenizer = tokenizer

    @classmethod
    def of_words(cls, texts: Iterable[str]) -> "Vocabulary":
        """One id for each word and mark of `texts`; any other word becomes `[unk]`."""
        tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNKNOWN_ID]))
        # Brackets stand alone too, so that nobody can write a special token as a word.
        marks = pre_tokenizers.Split(Regex(r"[\[\].,!?;:]"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
        tokenizer.decoder = decoders.WordPiece(cleanup=True)  # joins words, without a space before a mark
        return cls._trained(tokenizer, texts, trainers.WordLevelTrainer)

    @classmethod
    def of_byte_pairs(cls, texts: Iterable[str], size: int) -> "Vocabulary":
        """At most `size` pieces of words, the most frequent ones of `texts`; every text can be written.

        Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", section 3.2,
        on bytes. Raises ValueError if `size` doesn't hold the special tokens and the 256 bytes.
        """
        bytes_ = pre_tokenizers.ByteLevel.alphabet()
        if size < len(bytes_) + len(SPECIAL_TOKENS):
            raise ValueError(
                f"a byte-pair vocabulary needs {len(bytes_) + len(SPECIAL_TOKENS)} ids or more, got {size}"
            )
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        return cls._trained(tokenizer, texts, trainers.BpeTrainer, vocab_size=size, initial_alphabet=bytes_)

    @classmethod
    def _trained(
        cls, tokenizer: Tokenizer, texts: Iterable[str], trainer: Callable[..., Any], **options: Any
    ) -> "Vocabulary":
        if isinstance(texts, str):  # whose letters would be the texts
            raise TypeError(f"texts must be many texts, got one; use [{texts[:20]!r}]")
        tokenizer.normalizer = normalizers.Lowercase()
        options |= {"special_tokens": SPECIAL_TOKENS, "show_progress": False}
        tokenizer.train_from_iterator(texts, trainer(**options))
        return cls(tokenizer)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without start and eos. Raises TypeError unless it is one."""
        if not isinstance(text, str):
            raise TypeError(f"a text must be a str, got {type(text).__name__}; for several use encode_all")
        return self._tokenizer.encode(text.strip()).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch([text.strip() for text in texts])]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a row of ids; pad, start and eos vanish, an unknown word reads `[unk]`.

        Raises ValueError for an id that the vocabulary does not have.
        """
        ids = [int(i) for i in ids]
        if outside := [i for i in ids if not 0 <= i < len(self)]:
            raise ValueError(f"ids must lie in 0..{len(self) - 1}, got {outside[0]}; is it another vocabulary's?")
        shown = [i for i in ids if i not in (PAD_ID, START_ID, EOS_ID)]
        return self._tokenizer.decode(shown, skip_special_tokens=False).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id on its own, special tokens too: the labels of an attention map."""
        return [self._tokenizer.decode([int(i)], skip_special_tokens=False).strip() for i in ids]

    def unknown_words(self, text: str) -> list[str]:
        """The words of `text` that this vocabulary cannot write, as they stand there."""
        encoding = self._tokenizer.encode(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:end] for i, (start, end) in spans if i == UNKNOWN_ID]

    def to_json(self) -> str:
        return self._tokenizer.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        return cls(Tokenizer.from_str(text))

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON, in the format of the `tokenizers` library."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Examples:
    """Pairs as ids, without start and eos, and how many of their texts were cut for length."""

    articles: list[list[int]]
    summaries: list[list[int]]
    cut_articles: int
    cut_summaries: int

    def __len__(self) -> int:
        return len(self.articles)

    def __str__(self) -> str:
        return f"{len(self)} pairs; cut for length: {self.cut_articles} articles, {self.cut_summaries} summaries"


def encode_pairs(pairs: Sequence[Pair], vocabulary: Vocabulary, max_article: int, max_summary: int) -> Examples:
    """Turn pairs into ids and cut what is longer than `max_article` or `max_summary` ids (eos not counted)."""
    articles = vocabulary.encode_all([pair.article for pair in pairs])
    summaries = vocabulary.encode_all([pair.summary for pair in pairs])
    return Examples(
        articles=[ids[:max_article] for ids in articles],
        summaries=[ids[:max_summary] for ids in summaries],
        cut_articles=sum(len(ids) > max_article for ids in articles),
        cut_summaries=sum(len(ids) > max_summary for ids in summaries),
    )


@dataclass(frozen=True)
class Batch:
    """What one training step sees. Ids, padded on the right: src (B, S), decoder_input and labels (B, T)."""

    src: Tensor
    decoder_input: Tensor
    labels: Tensor

    @classmethod
    def of(cls, articles: Sequence[list[int]], summaries: Sequence[list[int]]) -> "Batch":
        """Pad rows of ids and shift the summaries for teacher forcing (Vaswani et al. 2017, section 3.1)."""
        return cls(
            src=pad_rows(articles),
            # The shift: in each column the decoder reads the id before the one that it has to name.
            decoder_input=pad_rows([[START_ID, *ids] for ids in summaries]),
            labels=pad_rows([[*ids, EOS_ID] for ids in summaries]),
        )

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.src.to(device), self.decoder_input.to(device), self.labels.to(device))


def pad_rows(rows: Sequence[list[int]]) -> Tensor:
    """Rows of ids of any length, padded on the right with `PAD_ID` to an int64 tensor (B, longest row)."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD_ID] * (width - len(row)) for row in rows])


def plan_batches(examples: Examples, max_tokens: int, seed: int = 0, epoch: int = 0) -> list[list[int]]:
    """Choose the examples of each batch of one epoch: a list of indices a batch, each example in exactly one.

    Examples of similar length share a batch, so that little of it is padding. Articles, decoder inputs and their
    padding fill at most `max_tokens` places. The order depends on nothing but seed and epoch.
    Raises ValueError if one example alone exceeds the limit.
    """
    shuffle = random.Random(f"{seed} {epoch}").shuffle
    sizes = [(len(a), len(s) + 1) for a, s in zip(examples.articles, examples.summaries, strict=True)]
    order = list(range(len(sizes)))
    shuffle(order)
    order.sort(key=sizes.__getitem__)  # a stable sort: examples of the same size stay shuffled
    batches: list[list[int]] = []
    widest = (0, 0)
    for index in order:
        if sum(sizes[index]) > max_tokens:
            raise ValueError(f"an example of {sum(sizes[index])} tokens, a limit of {max_tokens}; raise it or cut more")
        grown = (max(widest[0], sizes[index][0]), max(widest[1], sizes[index][1]))
        if batches and sum(grown) * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(index)
            widest = grown
        else:
            batches.append([index])
            widest = sizes[index]
    shuffle(batches)
    return batches
