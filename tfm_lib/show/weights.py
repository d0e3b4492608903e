"""A model as the JavaScript in a notebook or on a page reads it."""

import json
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer
from tfm_lib.pretrained.newsroom import COPYING
from tfm_lib.pretrained.newsroom import SHIPPED as NEWSROOM
from tfm_lib.show.control import Live, control
from tfm_lib.show.figure import Figure
from tfm_lib.writing.copying import CopyingTransformer

SHIPPED = (NEWSROOM.stem, COPYING.stem, "pictures", "firefox_en_pt")  # on pages, too; the last if it was installed

# What js/model.js computes. It refuses another model, too, but a reader would find that in the browser's console.
KIND = {
    "activation": "relu", "positions": "sinusoidal", "interleaved": True, "position_offset": 0, "embed_scale": None,
    "embed_norm": False, "tied": True, "logits_bias": False,
}  # fmt: skip


def weights_of(model: Transformer, vocabulary: Vocabulary) -> tuple[str, bytes]:
    """A name and a checkpoint in half precision: that of the file which ships, if it is this model's; else "own".

    Raises ValueError for a model or a vocabulary of another kind than those that ship.
    """
    _check(model, vocabulary)
    for file in (NEWSROOM, COPYING):
        shipped, state = load_checkpoint(file).model.state_dict(), model.state_dict()
        if state.keys() == shipped.keys() and all(torch.equal(state[key].cpu(), shipped[key]) for key in state):
            return file.stem, file.read_bytes()
    with TemporaryDirectory() as folder:
        path = Path(folder, "own.safetensors")
        save_checkpoint(path, deepcopy(model).half(), vocabulary)
        return "own", path.read_bytes()


def int8_weights(file: Path) -> bytes:
    """A shipped checkpoint for pages, of half the bytes: each row of a matrix counts in int8, in steps of its own.

    A matrix (rows, columns) becomes two tensors: its counts, and under its name with ".steps" the steps (rows,).
    """
    with safe_open(file, "pt") as checkpoint:
        names = checkpoint.keys()  # what is opened is no dict
        tensors = {name: checkpoint.get_tensor(name) for name in names}
        about = checkpoint.metadata()
    for name, weight in [*tensors.items()]:
        if name.startswith("model.") and weight.dim() == 2:
            steps = weight.float().abs().amax(1).clamp(min=1e-12) / 127  # (rows,)
            tensors[name] = (weight / steps[:, None]).round().to(torch.int8)
            tensors[f"{name}.steps"] = steps
    return save(tensors, about)


def model_control(name: str, data: dict[str, Any], figure: Figure, model: Transformer, vocabulary: Vocabulary) -> Live:
    """As `control`, of a control that runs this model."""
    return control(name, data, figure, dict([weights_of(model, vocabulary)]))


def _check(model: Transformer, vocabulary: Vocabulary) -> None:
    found = {name: getattr(model.config, name) for name, value in KIND.items() if getattr(model.config, name) != value}
    if type(model) not in (Transformer, CopyingTransformer):
        found["model"] = type(model).__name__
    if type(vocabulary) is not Vocabulary or json.loads(vocabulary.to_json())["model"]["type"] != "WordLevel":
        found["vocabulary"] = "not one of words"
    if found:
        got, wanted = (", ".join(f"{name}={value!r}" for name, value in kind.items()) for kind in (found, KIND))
        raise ValueError(
            f"controls run models of the newsroom's kind only, got {got}; wanted a Transformer or CopyingTransformer "
            f"with Vocabulary.of_words, trained with {wanted}"
        )
