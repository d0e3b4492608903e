"""The tokenizer of a published model's folder, in whatever files it was saved."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from tfm_lib.data.published import PretrainedVocabulary, SentencePieceVocabulary, TokenizerVocabulary
from tfm_lib.errors import CourseError

PEGASUS_OFFSET = 103  # ids before those of its SentencePiece model, for pre-training and for pad and eos


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
    from tokenizers import ByteLevelBPETokenizer, processors

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
