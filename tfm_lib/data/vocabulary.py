"""From text to ids and back: words, or pieces of words."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from tokenizers import Encoding, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tfm_lib.errors import CourseError

# What every vocabulary that is trained here has; another one may have others, so ask it for its pad_id.
PAD_ID, START_ID, EOS_ID, UNKNOWN_ID = range(4)
SPECIAL_TOKENS = ("[pad]", "[start]", "[eos]", "[unk]")


class Vocabulary:
    """Text to ids and back.

    `of_words` and `of_byte_pairs` lowercase every text, and their first ids are pad, start, eos and unknown. For a
    tokenizer from elsewhere, `special_tokens` names these four; one token may serve as two, as BART's start and eos.
    Names after these are slots, for a model that copies: the first slot stands for the first unknown word of an
    article, and so on. `slot_words` says which words these are; `encode` and `decode` take them.
    Raises ValueError where the tokenizer lacks a token.
    """

    pad_id: int
    start_id: int
    eos_id: int
    unknown_id: int
    slots: list[int]

    def __init__(self, tokenizer: Tokenizer, special_tokens: Sequence[str] = SPECIAL_TOKENS) -> None:
        found = [tokenizer.token_to_id(token) for token in special_tokens]
        ids = [i for i in found if i is not None]
        if not len(SPECIAL_TOKENS) <= len(ids) == len(found):
            raise CourseError(
                f"a vocabulary needs tokens for pad, start, eos and unknown, and {tuple(special_tokens)} have the ids "
                f"{found} in this one; name its own as special_tokens"
            )
        self.pad_id, self.start_id, self.eos_id, self.unknown_id, *self.slots = ids
        tokenizer.encode_special_tokens = True  # "[eos]" written in an article is text, not the end of it
        self._tokenizer = tokenizer
        self._special_tokens = list(special_tokens)

    @classmethod
    def of_words(cls, texts: Iterable[str], slots: int = 0) -> "Vocabulary":
        """One id for each word and mark of `texts`; any other word becomes `[unk]`, or one of so many slots."""
        tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNKNOWN_ID]))
        # Brackets stand alone too, so that nobody can write a special token as a word.
        marks = pre_tokenizers.Split(Regex(r"[\[\].,!?;:]"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
        # It joins words, without a space before a mark. No word begins with the prefix, the mark of a subword.
        tokenizer.decoder = decoders.WordPiece(prefix=" ", cleanup=True)
        return cls._trained(tokenizer, texts, trainers.WordLevelTrainer, slots)

    @classmethod
    def of_byte_pairs(cls, texts: Iterable[str], size: int, least: int = 0) -> "Vocabulary":
        """At most `size` subwords, the most frequent ones of `texts`; every text can be written.

        least: how often two subwords must be neighbors to become one.
        Raises ValueError if `size` doesn't hold the special tokens and the 256 bytes. Source: Sennrich et al. 2016,
        "Neural Machine Translation of Rare Words with Subword Units", section 3.2, on bytes.
        """
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        smallest = len(alphabet) + len(SPECIAL_TOKENS)
        if size < smallest:
            raise CourseError(f"a byte-pair vocabulary needs {smallest} ids or more, got {size}")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        options: dict[str, Any] = {"vocab_size": size, "min_frequency": least, "initial_alphabet": alphabet}
        return cls._trained(tokenizer, texts, trainers.BpeTrainer, **options)

    @classmethod
    def _trained(
        cls, tokenizer: Tokenizer, texts: Iterable[str], trainer: Callable[..., Any], slots: int = 0, **options: Any
    ) -> "Vocabulary":
        if isinstance(texts, str):  # whose letters would be the texts
            raise TypeError(f"texts must be many texts, got one; use [{texts[:20]!r}]")
        tokenizer.normalizer = normalizers.Lowercase()
        special_tokens = [*SPECIAL_TOKENS, *(f"[unk{number}]" for number in range(1, slots + 1))]
        options |= {"special_tokens": special_tokens, "show_progress": False}
        tokenizer.train_from_iterator(texts, trainer(**options))
        return cls(tokenizer, special_tokens)

    def without_slots(self) -> "Vocabulary":
        """The same ids, for a model that does not copy: whatever has no id of its own is unknown."""
        return Vocabulary(self._tokenizer, self._special_tokens[: len(SPECIAL_TOKENS)])

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str, words: Sequence[str] = ()) -> list[int]:
        """The ids of a text, without start and eos, with the slots of `words`. Raises TypeError unless it is one."""
        if not isinstance(text, str):
            raise TypeError(f"a text must be a str, got {type(text).__name__}; for several use encode_all")
        return self.encode_all([text], [words])[0]

    def encode_all(
        self, texts: Sequence[str], words: Sequence[Sequence[str]] | None = None, *, target: bool = False
    ) -> list[list[int]]:
        """The ids of many texts, on all cores. words: for each, those with slots; target: they are summaries."""
        texts = [text.strip() for text in texts]
        rows = zip(texts, self._tokenizer.encode_batch(texts), words or [()] * len(texts), strict=True)
        return [self._with_slots(*row) for row in rows]

    def frame(self, ids: Sequence[int], most: int) -> list[int]:
        """An article's ids as a model reads them, `most` of them: here the first ones."""
        return list(ids[:most])

    def _with_slots(self, text: str, encoding: Encoding, words: Sequence[str]) -> list[int]:
        ids, slot_of = encoding.ids, dict(zip(words, self.slots, strict=False))
        for place, word in self._unknown_words(text, encoding) if slot_of else ():
            ids[place] = slot_of.get(self._as_written(word), self.unknown_id)
        return ids

    def _unknown_words(self, text: str, encoding: Encoding) -> list[tuple[int, str]]:
        """Of each unknown word its place among the ids, and the word as it is in the text."""
        spans = enumerate(zip(encoding.ids, encoding.offsets, strict=True))
        return [(place, text[start:end]) for place, (i, (start, end)) in spans if i == self.unknown_id]

    def decode(self, ids: Iterable[int], words: Sequence[str] = ()) -> str:
        """The text of ids, without pad, start and eos. An unknown word reads `[unk]`, a slot as its one of `words`.

        Raises ValueError for an id that the vocabulary does not have.
        """
        ids = [int(i) for i in ids]
        if outside := [i for i in ids if not 0 <= i < len(self)]:
            raise CourseError(f"ids must lie in 0..{len(self) - 1}, got {outside[0]}; is it another vocabulary's?")
        shown = [i for i in ids if i not in (self.pad_id, self.start_id, self.eos_id)]
        text = self._tokenizer.decode(shown, skip_special_tokens=False).strip()
        unknown, *slots = self._special_tokens[len(SPECIAL_TOKENS) - 1 :]
        for slot, word in zip_longest(slots, words[: len(slots)], fillvalue=unknown):
            text = text.replace(slot, word)
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id on its own, special tokens too: the labels of an attention map."""
        return [self._tokenizer.decode([int(i)], skip_special_tokens=False).strip() for i in ids]

    def unknown_words(self, text: str, words: Sequence[str] = ()) -> list[str]:
        """The words of `text` that this vocabulary cannot write, as they stand there, but for `words`, with slots."""
        unknown = self._unknown_words(text, self._tokenizer.encode(text, add_special_tokens=False))
        return [word for _, word in unknown if self._as_written(word) not in words]

    def slot_words(self, text: str) -> list[str]:
        """The unknown words of an article, each once, in the order and number of the slots that stand for them."""
        words = map(self._as_written, self.unknown_words(text)) if self.slots else ()
        return list(dict.fromkeys(words))[: len(self.slots)]

    def _as_written(self, word: str) -> str:
        """A word as this vocabulary would write it: in lower case, if it writes everything so."""
        normalizer = self._tokenizer.normalizer
        return normalizer.normalize_str(word) if normalizer else word

    def to_json(self) -> str:
        """The tokenizer's own JSON, and with it the names of the special tokens."""
        return json.dumps(json.loads(self._tokenizer.to_str()) | {"special_tokens": self._special_tokens})

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """Read what `to_json` wrote, or a tokenizer.json with our special tokens. Raises ValueError for all else."""
        try:
            content = json.loads(text)
            if kind := content.get("kind"):
                from tfm_lib.data import published  # here, since its classes are made of this one

                return getattr(published, kind).of_json(content)
            special_tokens = content.pop("special_tokens", SPECIAL_TOKENS)
            tokenizer = Tokenizer.from_str(json.dumps(content))
        except Exception as error:  # tokenizers raises nothing more special
            raise CourseError(f"this is no vocabulary ({error}); give what Vocabulary.to_json wrote") from error
        return cls(tokenizer, special_tokens)
