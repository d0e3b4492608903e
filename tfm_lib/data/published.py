"""The tokenizers of published models, in the form of our `Vocabulary`, from whatever files they were saved in."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import ByteLevelBPETokenizer, Tokenizer, processors

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError

IDS = ("pad_id", "start_id", "eos_id", "unknown_id")
PEGASUS_OFFSET = 103  # ids before those of its SentencePiece model, for pre-training and for pad and eos


class PretrainedVocabulary(Vocabulary):
    """A vocabulary that was published with a model, which reads an article between tokens of its own.

    before, after: the ids around an article; first: the ids that follow a summary's start token.
    """

    def __init__(
        self, ids: Mapping[str, int], before: Sequence[int], after: Sequence[int], first: Sequence[int] = ()
    ) -> None:
        self.pad_id, self.start_id, self.eos_id, self.unknown_id = (ids[name] for name in IDS)
        self.before, self.after, self.first, self.slots = list(before), list(after), list(first), []
        self._silent = {self.pad_id, self.start_id, self.eos_id, *before, *after, *first}

    @property
    def highest_id(self) -> int:
        """The highest id that a text can give."""
        return len(self) - 1

    def frame(self, ids: Sequence[int], most: int) -> list[int]:
        return [*self.before, *ids[: max(0, most - len(self.before) - len(self.after))], *self.after]

    def _spoken(self, ids: Iterable[int]) -> list[int]:
        """The ids that have a text."""
        return [int(i) for i in ids if int(i) not in self._silent]

    def _to_json(self, **content: object) -> str:
        names = (*IDS, "before", "after", "first")
        return json.dumps({"kind": type(self).__name__} | {name: getattr(self, name) for name in names} | content)


class TokenizerVocabulary(PretrainedVocabulary):
    """That of a tokenizer.json, as BART's. The names of special tokens in a text are text."""

    def __init__(self, tokenizer: Tokenizer, ids: Mapping[str, int], first: Sequence[int] = ()) -> None:
        framed, bare = (tokenizer.encode("a", add_special_tokens=special).ids for special in (True, False))
        begin = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
        super().__init__(ids, framed[:begin], framed[begin + len(bare) :], first)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer

    @property
    def highest_id(self) -> int:
        special = {i for i, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        return max({*self._tokenizer.get_vocab().values()} - special)

    def encode_all(
        self, texts: Sequence[str], words: Sequence[Sequence[str]] | None = None, *, target: bool = False
    ) -> list[list[int]]:
        first = self.first if target else []
        return [[*first, *row.ids] for row in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int], words: Sequence[str] = ()) -> str:
        return self._tokenizer.decode(self._spoken(ids), skip_special_tokens=True)

    def to_json(self) -> str:
        return self._to_json(tokenizer=json.loads(self._tokenizer.to_str()))

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> "TokenizerVocabulary":
        return cls(Tokenizer.from_str(json.dumps(content["tokenizer"])), content, content["first"])


class SentencePieceVocabulary(PretrainedVocabulary):
    """That of SentencePiece models, as Marian's, which has one for each language, and one table of ids for both.

    Source: Kudo and Richardson 2018, "SentencePiece".
    """

    def __init__(self, source: bytes, target: bytes, table: Mapping[str, int], ids: Mapping[str, int]) -> None:
        from sentencepiece import SentencePieceProcessor

        super().__init__(ids, before=[], after=[ids["eos_id"]])
        # As in transformers, what no piece stands for is left out, and so are the tokens of Pegasus' pre-training.
        self._silent |= {i for piece, i in table.items() if re.fullmatch(r"<(unk|mask)_\d+>", piece)}
        self._silent.add(self.unknown_id)
        self._models, self._table = (source, target), dict(table)
        self.two_sided = source != target  # Marian's, and not Pegasus'
        self._source, self._target = (SentencePieceProcessor(model_proto=model) for model in self._models)
        self._pieces = {i: piece for piece, i in self._table.items()}

    def __len__(self) -> int:
        return max(self._pieces) + 1

    def encode_all(
        self, texts: Sequence[str], words: Sequence[Sequence[str]] | None = None, *, target: bool = False
    ) -> list[list[int]]:
        cut = [self._language(text) for text in texts]
        rows = (self._target if target else self._source).encode([text for _, text in cut], out_type=str)
        return [
            [*language, *(self._table.get(piece, self.unknown_id) for piece in pieces)]
            for (language, _), pieces in zip(cut, rows, strict=True)
        ]

    def _language(self, text: str) -> tuple[list[int], str]:
        """The token at the beginning that says into which language to translate, as >>fr<<, and the text behind it."""
        if (found := re.match(r">>.+?<<", text)) and found[0] in self._table:
            return [self._table[found[0]]], text[found.end() :]
        return [], text

    def decode(self, ids: Iterable[int], words: Sequence[str] = ()) -> str:
        return self._target.decode_pieces([self._pieces[i] for i in self._spoken(ids)]).replace("▁", " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[int(i)].replace("▁", " ").strip() for i in ids]

    def unknown_words(self, text: str, words: Sequence[str] = ()) -> list[str]:
        pieces = self._source.encode(text, out_type=str)
        return [piece.strip("▁") for piece in pieces if piece not in self._table]

    def to_json(self) -> str:
        source, target = (base64.b64encode(model).decode() for model in self._models)
        return self._to_json(source=source, target=target, table=self._table)

    def files(self) -> dict[str, bytes]:
        """The files from which `read_tokenizer` makes it again."""
        if not self.two_sided:
            return {"spiece.model": self._models[0]}
        table = json.dumps(self._table, ensure_ascii=False).encode()
        return {"source.spm": self._models[0], "target.spm": self._models[1], "vocab.json": table}

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> "SentencePieceVocabulary":
        source, target = (base64.b64decode(content[side]) for side in ("source", "target"))
        return cls(source, target, content["table"], content)


def read_tokenizer(folder: Path, ids: dict[str, int], forced_first: int | None) -> PretrainedVocabulary:
    """The tokenizer of a published model's folder, whatever form it has there. ids: pad_id, start_id and eos_id.

    Raises ValueError where there is none, or one that can't be read.
    """
    first = [] if forced_first is None else [forced_first]
    try:
        if (path := folder / "source.spm").exists():
            table = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
            models = path.read_bytes(), (folder / "target.spm").read_bytes()
            return SentencePieceVocabulary(*models, table, ids | {"unknown_id": table["<unk>"]})
        if (path := folder / "tokenizer.json").exists():
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
            unknown = tokenizer.token_to_id("<unk>")
            return TokenizerVocabulary(tokenizer, ids | {"unknown_id": -1 if unknown is None else unknown}, first)
        if (path := folder / "spiece.model").exists():
            return _of_pegasus(path.read_bytes(), ids)
        if (path := folder / "vocab.json").exists() and (folder / "merges.txt").exists():
            return TokenizerVocabulary(*_of_merges(path, folder / "merges.txt", ids), first)
    except ModuleNotFoundError as error:
        raise CourseError(f"{path} needs sentencepiece: pip install 'tfm_lib[pretrained]'") from error
    except Exception as error:  # tokenizers and sentencepiece raise nothing more special
        raise CourseError(f"{path} can't be read as a tokenizer ({error}); fetch the folder anew") from error
    if (folder / "vocab.txt").exists():
        how = f"transformers.AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
        raise CourseError(f"{folder} has a tokenizer in vocab.txt alone; this writes tokenizer.json beside it: {how}")
    raise CourseError(f"{folder} has no tokenizer; it needs tokenizer.json, spiece.model, or source.spm and target.spm")


def _of_merges(table: Path, merges: Path, ids: dict[str, int]) -> tuple[Tokenizer, dict[str, int]]:
    """BART's tokenizer from the two files of before tokenizer.json, and the ids."""
    tokenizer = ByteLevelBPETokenizer.from_file(str(table), str(merges))._tokenizer
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    tokenizer.add_special_tokens([token for token in special if tokenizer.token_to_id(token) is not None])
    ends = {token: tokenizer.token_to_id(token) for token in ("<s>", "</s>")}
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ends["</s>"]), ("<s>", ends["<s>"]), trim_offsets=False, add_prefix_space=False
    )
    return tokenizer, ids | {"unknown_id": tokenizer.token_to_id("<unk>")}


def _of_pegasus(model: bytes, ids: dict[str, int]) -> SentencePieceVocabulary:
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(model_proto=model)
    table = {pieces.id_to_piece(i): i + PEGASUS_OFFSET for i in range(len(pieces))}
    table |= {"<pad>": 0, "</s>": 1, "<mask_1>": 2, "<mask_2>": 3}
    table |= {f"<unk_{i}>": i + 2 for i in range(2, PEGASUS_OFFSET)}
    return SentencePieceVocabulary(model, model, table, ids | {"unknown_id": table["<unk>"]})
