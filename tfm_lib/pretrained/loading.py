"""A published model in our class: its files, its settings, its tokenizer and its weights, all of it or nothing."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from os.path import expanduser
from pathlib import Path
from typing import Any

from torch import Tensor

from tfm_lib.data.batches import pad_rows
from tfm_lib.data.published import PretrainedVocabulary, read_tokenizer
from tfm_lib.errors import CourseError, brought_by
from tfm_lib.model import Transformer
from tfm_lib.pretrained.firefox import FIREFOX
from tfm_lib.pretrained.generation import Generation
from tfm_lib.pretrained.names import our_config
from tfm_lib.pretrained.weights import PICKLED, SHARDS, read_weights
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.decoding import greedy

FILES = ("*.json", "*.model", "*.spm", "merges.txt", "vocab.txt")  # of a published model, besides its weights


@dataclass(frozen=True)
class Pretrained:
    """A published model: ours in class, theirs in weights, tokens and the way to write."""

    name: str
    model: Transformer
    tokenizer: PretrainedVocabulary
    generation: Generation

    def generate(self, texts: Sequence[str], **changes: Any) -> list[str]:
        """What the model makes of each text, by its own settings or by `changes` of them, as num_beams=1."""
        if isinstance(texts, str):
            raise TypeError(f"texts must be many texts, got one; use [{texts[:20]!r}]")
        return self._generated(texts, replace(self.generation, **changes))

    def _generated(self, texts: Sequence[str], settings: Generation) -> list[str]:
        return self.written(self.model, self.encode(texts), settings)

    def written(self, model: Transformer, src: Tensor, settings: Generation) -> list[str]:
        """What a model makes of src (B, S) by these settings."""
        if settings.num_beams == 1:
            tokens = greedy(model, src, settings.max_new_tokens, rules=settings.rules)  # (B, T)
        else:
            options = {name: getattr(settings, name) for name in ("num_beams", "length_penalty", "early_stopping")}
            tokens = beam_search(model, src, settings.max_new_tokens, rules=settings.rules, **options)
        return [self.tokenizer.decode(row) for row in tokens.tolist()]

    def encode(self, texts: Sequence[str]) -> Tensor:
        """The ids of texts, framed, cut to the model's max_length and padded (B, S)."""
        longest = self.model.config.max_length
        rows = [self.tokenizer.frame(ids, longest) for ids in self.tokenizer.encode_all(texts)]
        return pad_rows(rows, self.tokenizer.pad_id).to(next(self.model.parameters()).device)


def from_pretrained(name_or_folder: str | Path) -> Pretrained:
    """A published BART, Marian or Pegasus in our Transformer, ready to write on the CPU, in full precision.

    name_or_folder: a folder with the files of such a model, or its name on the Hugging Face hub, from where they are
    fetched once and kept. Nothing that could run is unpickled. firefox/en-pt and firefox/pt-en are the translators of
    Firefox, `read_translator`.
    Raises ValueError, with nothing half loaded, for another model or an altered one; OSError where the hub is away.
    Source: Lewis et al. 2020 (BART), Junczys-Dowmunt et al. 2018 (Marian), Zhang et al. 2020 (PEGASUS).
    """
    folder = Path(expanduser(name_or_folder))
    if str(name_or_folder).startswith(FIREFOX):
        from tfm_lib.pretrained.translator import read_translator

        return read_translator(str(name_or_folder))
    if not folder.is_dir():
        folder = _fetch(str(name_or_folder))
    config_file, writing = _settings(folder, "config.json"), _settings(folder, "generation_config.json")
    source = folder / ("generation_config.json" if writing else "config.json")
    try:
        config, generation = our_config(config_file | writing), Generation.of(writing or config_file, source)
    except (ValueError, TypeError) as error:
        raise CourseError(f"{folder}: {error}") from error
    ids = {"pad_id": config.pad_id, "start_id": config.start_id, "eos_id": config.eos_id}
    tokenizer = read_tokenizer(folder, ids, generation.rules.first)
    if tokenizer.highest_id >= config.vocab_size:  # of what a text can give: bart-large-cnn has no row for <mask>
        raise CourseError(
            f"{folder}: its tokenizer reads texts as ids up to {tokenizer.highest_id}, and its model has "
            f"{config.vocab_size} rows; they belong to different models"
        )
    return Pretrained(str(name_or_folder), read_weights(folder, config), tokenizer, generation)


def _fetch(name: str) -> Path:
    """The folder in which the hub's files of a model are kept; they are fetched where they aren't there yet."""
    with brought_by("pretrained", "a model of the hub"):
        from huggingface_hub import HfApi, errors, snapshot_download

    try:
        files = HfApi().list_repo_files(name)
        weights = SHARDS if any(fnmatch(file, SHARDS) for file in files) else PICKLED
        return Path(snapshot_download(name, allow_patterns=[*FILES, weights]))
    except errors.GatedRepoError as error:  # one of the next kind
        raise CourseError(f"{name} is for those who accept its terms: do so on its page, then hf auth login") from error
    except (errors.HFValidationError, errors.RepositoryNotFoundError) as error:
        raise CourseError(
            f"{name} is neither a folder nor a model on the hub, as facebook/bart-large-cnn is"
        ) from error
    except Exception as error:  # without a network, or with one that fails in a way of its own: what is kept will do
        try:
            return Path(snapshot_download(name, local_files_only=True))
        except errors.LocalEntryNotFoundError:
            reason = f"is no folder, was never fetched, and can't be now ({error}); connect once"
            raise OSError(f"{name} {reason}") from error


def _settings(folder: Path, name: str) -> dict[str, Any]:
    """What a file says: config.json, or generation_config.json, which alone says how to write where it is there."""
    path = folder / name
    if path.exists():
        try:
            settings = dict(json.loads(path.read_text(encoding="utf-8")).items())
        except (ValueError, AttributeError) as error:
            raise CourseError(f"{path} is no JSON object ({error}); fetch it anew") from error
        if isinstance(ends := settings.get("eos_token_id"), list) and ends:
            settings["eos_token_id"] = ends[0]
            if len(ends) > 1:
                warnings.warn(f"{path}: eos_token_id={ends}: texts end at the first of them alone", stacklevel=3)
        return settings
    if name == "config.json":
        raise CourseError(f"{folder} has no config.json, so it holds no published model; give the folder that does")
    return {}
