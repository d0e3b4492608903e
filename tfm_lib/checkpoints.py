"""Checkpoints that lose nothing: one safetensors file, written whole or not at all, and refused if altered."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.vocabulary import Vocabulary

_INSTEAD = "use another copy, or delete it and train anew"


@dataclass
class History:
    """One entry a step: its number, loss, learning rate, and tokens seen (both sides, without padding)."""

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, loss: float, rate: float, tokens: int) -> None:
        self.step.append(len(self.step) + 1)
        self.loss.append(loss)
        self.rate.append(rate)
        self.tokens.append(tokens)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        write_whole(path, json.dumps(asdict(self)).encode())

    @classmethod
    def load(cls, path: Path) -> "History":
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))


class State(NamedTuple):
    """Where a run stands, besides its weights: what it takes to go on as if it had never stopped."""

    recipe: dict[str, Any]  # of training.Recipe
    history: History
    data: str  # the fingerprint of its examples
    tensors: dict[str, Tensor]  # Adam's averages, random states

    @property
    def finished(self) -> bool:
        return len(self.history.step) == self.recipe["steps"]


class Checkpoint(NamedTuple):
    """A model, the vocabulary that it was trained with, and where its run stands."""

    model: Transformer
    vocabulary: Vocabulary
    state: State | None  # None: a finished model, which can't be trained further from here


def save_checkpoint(path: Path, model: Transformer, vocabulary: Vocabulary, state: State | None = None) -> None:
    """Write one safetensors file whose header holds, as JSON, config, vocabulary, recipe and history.

    The file at `path` is replaced as a whole or not at all. Raises OSError, with the fix, if it can't be written.
    """
    about: dict[str, object] = {"config": asdict(model.config), "vocabulary": vocabulary.to_json()}
    # A tied table is one parameter of several names; named_parameters has it once.
    tensors = {f"model.{name}": parameter.detach() for name, parameter in model.named_parameters()}
    if state is not None:
        about |= {"recipe": state.recipe, "history": asdict(state.history), "data": state.data}
        tensors |= {f"state.{name}": tensor for name, tensor in state.tensors.items()}
    tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(about)
    # One entry, since safetensors would shuffle several: the same run leaves the same bytes.
    write_whole(path, to_safetensors(tensors, {"checkpoint": f"{_checksum(tensors, text)} {text}"}))


def load_checkpoint(path: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Read what `save_checkpoint` wrote; nothing is unpickled.

    Raises ValueError for a file that was cut short or altered, FileNotFoundError if there is none.
    """
    try:
        with safe_open(path, framework="pt") as file:
            checksum, _, text = (file.metadata() or {}).get("checkpoint", "").partition(" ")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except SafetensorError as error:
        raise ValueError(f"{path} is no whole checkpoint ({error}); it was cut short or altered; {_INSTEAD}") from error
    if checksum != _checksum(tensors, text):
        raise ValueError(f"{path} was altered: its checksum doesn't fit its content; {_INSTEAD}")
    about = json.loads(text)
    model = Transformer(TransformerConfig(**about["config"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    state = None
    if "recipe" in about:
        kept = {name.removeprefix("state."): t.clone() for name, t in tensors.items() if name.startswith("state.")}
        state = State(about["recipe"], History(**about["history"]), about["data"], kept)
    return Checkpoint(model.to(device), Vocabulary.from_json(about["vocabulary"]), state)


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it: at any moment there is the old one or the new one, whole.

    Raises OSError, with the fix, if that can't be done; the old file is then kept.
    """
    path = Path(path)
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        fix = f"free {len(content) / 2**20:.1f} MiB there or choose another folder"
        kept = "what was there is kept; " if path.is_file() else ""
        raise OSError(f"can't write {path} ({error.strerror}); {kept}{fix}") from error
    finally:
        with contextlib.suppress(OSError):  # after the rename there is none
            part.unlink()
