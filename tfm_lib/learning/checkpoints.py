"""Checkpoints that lose nothing: one safetensors file, written whole or not at all, and refused if altered."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError
from tfm_lib.files import write_whole
from tfm_lib.learning.recipes import Recipe
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.next_token import NO_RULES, Rules

RUNS = Path("runs")  # where `make train` keeps what it trained, a folder a run
CHECKPOINT = "checkpoint.safetensors"


@dataclass
class History:
    """One entry per step: its number, loss, learning rate, and tokens seen (both sides, without padding)."""

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
        write_whole(path, json.dumps(asdict(self)).encode())

    @classmethod
    def load(cls, path: Path) -> "History":
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))


class State(NamedTuple):
    """Where a run stands, besides its weights."""

    recipe: Recipe
    history: History
    data: str  # the fingerprint of its examples
    tensors: dict[str, Tensor]  # Adam's averages, random states

    @property
    def finished(self) -> bool:
        return len(self.history.step) == self.recipe.steps


class Checkpoint(NamedTuple):
    """A model, the vocabulary that it was trained with, where its run stands, and by which rules it writes best."""

    model: Any  # the Transformer, or what `build` made
    vocabulary: Vocabulary
    state: State | None  # None: a finished model, which can't be trained further from here
    rules: Rules = NO_RULES


def save_checkpoint(
    path: Path, model: nn.Module, vocabulary: Vocabulary, state: State | None = None, rules: Rules = NO_RULES
) -> None:
    """Write one safetensors file whose header holds, as JSON, config, vocabulary, rules, recipe and history.

    It keeps every parameter and persistent buffer, and which parameters are frozen, of any module; of configs only
    a TransformerConfig; and whether the model copies. The file at `path` is replaced as a whole or not at all.
    Raises OSError, with the fix, if it can't be written, and ValueError for a module whose state is not all tensors.
    """
    config = getattr(model, "config", None)
    header: dict[str, object] = {
        "config": asdict(config) if isinstance(config, TransformerConfig) else None,
        "copying": isinstance(model, CopyingTransformer),
        "vocabulary": vocabulary.to_json(),
        "rules": asdict(rules),
        "frozen": [name for name, parameter in model.named_parameters() if not parameter.requires_grad],
    }
    tensors = {f"model.{name}": tensor for name, tensor in _tensors(model).items()}
    if state is not None:
        header |= {"recipe": asdict(state.recipe), "history": asdict(state.history), "data": state.data}
        tensors |= {f"state.{name}": tensor for name, tensor in state.tensors.items()}
    # Copies, which share no memory.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    text = json.dumps(header)
    # One entry, since safetensors would shuffle several: the same run leaves the same bytes.
    write_whole(path, to_safetensors(tensors, {"checkpoint": f"{_checksum(tensors, text)} {text}"}))


def load_checkpoint(
    path: Path, device: torch.device | str = "cpu", build: Callable[[TransformerConfig | None], nn.Module] | None = None
) -> Checkpoint:
    """Read what `save_checkpoint` wrote; nothing is unpickled, and weights of 16 bits are computed with in 32.

    `build` makes the module from the config, or None: give it for all but a Transformer and a CopyingTransformer.
    Raises FileNotFoundError if there is no file, and ValueError for a folder and for one that was cut short or altered,
    is none of ours, comes from a newer version, or holds another model than `build` makes.
    """
    header, tensors = _read(path)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "state": {}}
    for name, tensor in tensors.items():
        part, _, name = name.partition(".")
        parts[part][name] = tensor
    config = header["config"] and _known(TransformerConfig, header["config"], path)
    model = (build or (CopyingTransformer if header.get("copying") else Transformer))(config)
    _put_in(model, parts["model"], path)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in header.get("frozen", ()))
    state = None
    if "recipe" in header:
        recipe, history = _known(Recipe, header["recipe"], path), History(**header["history"])
        state = State(recipe, history, header["data"], parts["state"])
    vocabulary, rules = Vocabulary.from_json(header["vocabulary"]), _known(Rules, header.get("rules", {}), path)
    return Checkpoint(model.to(device), vocabulary, state, rules)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file, as they were written. Raises as `load_checkpoint`."""
    if Path(path).is_dir():
        raise CourseError(f"{path} is a folder, not a checkpoint; give the file in it, {Path(path) / CHECKPOINT}")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get("checkpoint")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except SafetensorError as error:
        fix = "it was cut short or altered, or is another kind of file; use another copy"
        raise CourseError(f"{path} is no whole checkpoint ({error}); {fix}") from error
    if header is None:
        raise CourseError(f"{path} is no checkpoint of this course, or was altered; give one that `train` has saved")
    checksum, _, text = header.partition(" ")
    if checksum != _checksum(tensors, text):
        raise CourseError(f"{path} was altered: its checksum doesn't fit its content; use another copy")
    return json.loads(text), tensors


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers; what has several names, as a tied table, once, under the first of them."""
    unique: dict[int, tuple[str, Tensor]] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor):
            raise CourseError(f"a checkpoint keeps tensors, but {name} is {type(value).__name__}; make it a buffer")
        unique.setdefault(id(value), (name, value))
    return dict(unique.values())


def _put_in(model: nn.Module, found: dict[str, Tensor], path: Path) -> None:
    """Give the model the tensors of a file. Raises ValueError, with the difference, where they are another model's."""
    if different := differences(wanted := _tensors(model), found):
        fix = "give load_checkpoint the function that builds it, as build="
        raise CourseError(f"{path} holds another model than this {type(model).__name__}: {different}; {fix}")
    for name, tensor in wanted.items():  # in place, so that what is tied stays tied
        tensor.data = found[name].to(torch.promote_types(tensor.dtype, found[name].dtype), copy=True)


def differences(wanted: dict[str, Tensor], found: dict[str, Tensor]) -> str:
    """The tensors that only the model or only the file has, and those of another shape; empty where all fit."""
    names = {
        "only the file has": found.keys() - wanted.keys(),
        "only the model has": wanted.keys() - found.keys(),
        "of another shape are": {n for n in wanted.keys() & found.keys() if wanted[n].shape != found[n].shape},
    }
    return "; ".join(f"{kind} {', '.join(sorted(of_kind))}" for kind, of_kind in names.items() if of_kind)


def _known(kind: type, values: dict[str, Any], path: Path) -> Any:
    """A dataclass of these values. Raises ValueError where it has no such fields, as those of a later version."""
    if unknown := values.keys() - {field.name for field in fields(kind)}:
        names = ", ".join(sorted(unknown))
        raise CourseError(f"{path} was made by a newer version: this {kind.__name__} has no {names}; update the course")
    return kind(**values)


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
