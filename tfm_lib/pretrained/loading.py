"""Published weights in our class: the files of a model, its configuration, its weights, all of it or nothing."""

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tfm_lib.batches import pad_rows
from tfm_lib.beam import beam_search
from tfm_lib.decoding import greedy
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.positions import sinusoidal_table
from tfm_lib.pretrained.generation import Generation
from tfm_lib.pretrained.names import SHARED, SINUSOIDS, TABLES, our_config, theirs
from tfm_lib.pretrained.tokenizer import PretrainedVocabulary, read_tokenizer

FILES = ("*.json", "*.model", "*.spm")  # of a published model, besides its weights
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # in the order of preference
OLD = {"encoder.version", "decoder.version", "model.encoder.version", "model.decoder.version"}  # in some files, unused


@dataclass(frozen=True)
class Pretrained:
    """A published model: ours in class, theirs in weights, tokens and the way to write."""

    name: str
    model: Transformer
    tokenizer: PretrainedVocabulary
    generation: Generation

    def generate(self, texts: Sequence[str], **changes: Any) -> list[str]:
        """What the model makes of each text, by its own settings or by `changes` of them, as num_beams=1.

        What is longer than the model reads is cut, as in `encode`.
        """
        if isinstance(texts, str):
            raise TypeError(f"texts must be many texts, got one; use [{texts[:20]!r}]")
        settings = replace(self.generation, **changes)
        search = partial(
            beam_search,
            num_beams=settings.num_beams,
            length_penalty=settings.length_penalty,
            early_stopping=settings.early_stopping,
        )
        write = greedy if settings.num_beams == 1 else search
        src = self.encode(texts)  # (B, S)
        tokens = write(self.model, src, settings.max_new_tokens, rules=settings.rules)  # (B, T)
        return [self.tokenizer.decode(row) for row in tokens.tolist()]

    def encode(self, texts: Sequence[str]) -> Tensor:
        """The ids of texts, framed, cut to the model's max_length and padded (B, S)."""
        longest = self.model.config.max_length
        rows = [self.tokenizer.frame(ids, longest) for ids in self.tokenizer.encode_all(texts)]
        return pad_rows(rows, self.tokenizer.pad_id).to(next(self.model.parameters()).device)


def from_pretrained(name_or_folder: str | Path, *, offline: bool = False) -> Pretrained:
    """A published BART, Marian or Pegasus in our Transformer, ready to write on the CPU, in full precision.

    name_or_folder: a folder with the files of such a model, or its name on the Hugging Face hub, from where they are
    fetched once and kept; offline: take what was fetched before. Nothing that runs code is unpickled.
    Raises ValueError, with nothing half loaded, for what is no such model, lacks a weight, has one too many, or was
    altered; OSError where the hub can't be reached.
    Source: Lewis et al. 2020 (BART), Junczys-Dowmunt et al. 2018 (Marian), Zhang et al. 2020 (PEGASUS).
    """
    folder = Path(name_or_folder)
    if not folder.is_dir():
        folder = _fetch(str(name_or_folder), offline)
    said, writing = _settings(folder, "config.json"), _settings(folder, "generation_config.json")
    try:
        config, generation = our_config(said | writing), Generation.of(writing or said)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder}: {error}") from error
    ids = {"pad_id": config.pad_id, "start_id": config.start_id, "eos_id": config.eos_id}
    tokenizer = read_tokenizer(folder, ids, generation.rules.first)
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"{folder}: its tokenizer has {len(tokenizer)} tokens and its model {config.vocab_size}; "
            "they belong to different models"
        )
    return Pretrained(str(name_or_folder), read_weights(folder, config), tokenizer, generation)


def _fetch(name: str, offline: bool) -> Path:
    """The folder in which the hub's files of a model are kept, fetched where they aren't."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        weights = [WEIGHTS[0]]
        if not offline and WEIGHTS[0] not in HfApi().list_repo_files(name):
            weights = [WEIGHTS[1]]
        return Path(snapshot_download(name, allow_patterns=[*FILES, *weights], local_files_only=offline))
    except HFValidationError as error:
        raise ValueError(f"{name} is neither a folder nor a name as facebook/bart-large-cnn: {error}") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise OSError(f"{name} is no folder here, and could not be fetched ({error}); check name and network") from error


def _settings(folder: Path, name: str) -> dict[str, Any]:
    """What a file says: config.json, or generation_config.json, which alone says how to write where it is there."""
    path = folder / name
    if path.exists():
        try:
            return {key: value for key, value in json.loads(path.read_text(encoding="utf-8")).items()}
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{path} is no JSON object ({error}); fetch it anew") from error
    if name == "config.json":
        raise ValueError(f"{folder} has no config.json, so it holds no published model; give the folder that does")
    return {}


def read_weights(folder: Path, config: TransformerConfig) -> Transformer:
    """A Transformer of this configuration with the weights of a folder, in eval().

    The model is built without memory, and the file's tensors become its parameters. Raises ValueError as
    `from_pretrained` does.
    """
    with torch.device("meta"):
        model = Transformer(config)
    wanted = {theirs(name): (name, weight) for name, weight in model.state_dict().items()}
    found: dict[str, Tensor] = {}
    for name, weight in _tensors(folder):
        if name in TABLES:  # source, target and output share it
            _agree(folder, found, name, weight)
            name, weight = SHARED, found.get(SHARED, weight)
        elif name == "final_logits_bias":
            weight = weight.flatten()
        elif name in SINUSOIDS and name not in wanted:
            _check_sinusoids(folder, name, weight, config)
            continue
        if name not in OLD:
            found[name] = weight.float() if weight.is_floating_point() else weight
    found.setdefault("final_logits_bias", torch.zeros(config.vocab_size))
    tables = {name for name in wanted if name in TABLES}
    if SHARED in found:
        found |= dict.fromkeys(tables, found.pop(SHARED))
    _check(folder, {name: weight.shape for name, (_, weight) in wanted.items()}, found)
    model.load_state_dict({wanted[name][0]: weight for name, weight in found.items()}, assign=True)
    model.tie()
    return model.eval().requires_grad_(True)


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Name and content of each tensor of a published model's weights."""
    index = folder / f"{WEIGHTS[0]}.index.json"  # a large model's, in several files
    names = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else WEIGHTS[:1]
    paths = [folder / name for name in names]
    pickled = folder / WEIGHTS[1]
    try:
        if all(path.exists() for path in paths):
            for path in paths:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 (it is no dict)
                        yield name, file.get_tensor(name)
        elif pickled.exists():  # tensors alone are unpickled, nothing that could run
            yield from torch.load(pickled, map_location="cpu", mmap=True, weights_only=True).items()
        else:
            raise ValueError(f"{folder} has no weights; it needs {' or '.join(WEIGHTS)}")
    except pickle.UnpicklingError as error:
        raise ValueError(f"{pickled} holds more than tensors, and what could run is not unpickled") from error
    except (SafetensorError, RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"the weights in {folder} are cut short or altered ({error}); fetch them anew") from error


def _agree(folder: Path, found: dict[str, Tensor], name: str, weight: Tensor) -> None:
    if SHARED in found and not torch.equal(found[SHARED], weight.float()):
        raise ValueError(
            f"{folder}: {name} is another table than the one before it, and this Transformer shares one among source, "
            "target and output; the file was altered, or is of a model that is not tied"
        )


def _check_sinusoids(folder: Path, name: str, weight: Tensor, config: TransformerConfig) -> None:
    ours = sinusoidal_table(len(weight), config.d_model, config.interleaved)
    if weight.shape != ours.shape or (weight.float() - ours).abs().max() > 1e-3:
        raise ValueError(f"{folder}: {name} holds other positions than sines and cosines; the file was altered")


def _check(folder: Path, wanted: dict[str, torch.Size], found: dict[str, Tensor]) -> None:
    """Raise ValueError, with the differences, unless each weight is there, no other one is, and the shapes fit."""
    differences = {
        "lack": wanted.keys() - found.keys(),
        "have too many": found.keys() - wanted.keys(),
        "have in another shape": {n for n in wanted.keys() & found.keys() if found[n].shape != wanted[n]},
        "have with numbers that are not finite": {n for n, weight in found.items() if not weight.isfinite().all()},
    }
    lists = [f"{what} {', '.join(sorted(names)[:5])}" for what, names in differences.items() if names]
    if lists:
        raise ValueError(f"the weights in {folder} don't fit its config.json: they {'; they '.join(lists)}")
