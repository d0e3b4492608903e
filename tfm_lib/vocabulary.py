"""From text to ids and back: words, or pieces of words."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

# What every vocabulary that is trained here has; another one may have others, so ask it for its pad_id.
PAD_ID, START_ID, EOS_ID, UNKNOWN_ID = range(4)
SPECIAL_TOKENS = ("[pad]", "[start]", "[eos]", "[unk]")


class Vocabulary:
    """Text to ids and back.

    `of_words` and `of_byte_pairs` lowercase every text, and their first ids are pad, start, eos and unknown. For a
    tokenizer from elsewhere, `special_tokens` names these four; one token may serve as two, as BART's start and eos.
    Raises ValueError where the tokenizer lacks one.
    """

    pad_id: int
    start_id: int
    eos_id: int
    unknown_id: int

    def __init__(self, tokenizer: Tokenizer, special_tokens: Sequence[str] = SPECIAL_TOKENS) -> None:
        found = [tokenizer.token_to_id(token) for token in special_tokens]
        ids = [i for i in found if i is not None]
        if len(ids) != len(SPECIAL_TOKENS):
            raise ValueError(
                f"a vocabulary needs tokens for pad, start, eos and unknown, and {tuple(special_tokens)} have the ids "
                f"{found} in this one; name its own as special_tokens"
            )
        self.pad_id, self.start_id, self.eos_id, self.unknown_id = ids
        tokenizer.encode_special_tokens = True  # "[eos]" written in an article is text, not the end of it
        self._tokenizer = tokenizer
        self._special_tokens = list(special_tokens)

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
        options |= {"special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
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
        shown = [i for i in ids if i not in (self.pad_id, self.start_id, self.eos_id)]
        return self._tokenizer.decode(shown, skip_special_tokens=False).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id on its own, special tokens too: the labels of an attention map."""
        return [self._tokenizer.decode([int(i)], skip_special_tokens=False).strip() for i in ids]

    def unknown_words(self, text: str) -> list[str]:
        """The words of `text` that this vocabulary cannot write, as they stand there."""
        encoding = self._tokenizer.encode(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:end] for i, (start, end) in spans if i == self.unknown_id]

    def to_json(self) -> str:
        """The tokenizer's own JSON, and with it the names of the special tokens."""
        return json.dumps(json.loads(self._tokenizer.to_str()) | {"special_tokens": self._special_tokens})

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """Read what `to_json` wrote, or a `tokenizer.json` that has our special tokens.

        Raises ValueError for anything else.
        """
        try:
            content = json.loads(text)
            special_tokens = content.pop("special_tokens", SPECIAL_TOKENS)
            tokenizer = Tokenizer.from_str(json.dumps(content))
        except Exception as error:  # tokenizers raises nothing more special
            raise ValueError(f"this is no vocabulary ({error}); give what Vocabulary.to_json wrote") from error
        return cls(tokenizer, special_tokens)
