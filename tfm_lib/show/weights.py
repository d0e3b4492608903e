"""A model as the JavaScript in a notebook or on a page reads it."""

import json
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.lessons import PACKAGE
from tfm_lib.model import Transformer
from tfm_lib.writing.copying import CopyingTransformer

SUMMARIZERS = ("newsroom", "newsroom_copying")
SHIPPED = (*SUMMARIZERS, "pictures")  # what pages have, too

# What js/model.js computes. It refuses another model, too, but a reader would find that in the browser's console.
KIND = {
    "activation": "relu",
    "positions": "sinusoidal",
    "interleaved": True,
    "position_offset": 0,
    "embed_scale": None,
    "embed_norm": False,
    "tied": True,
    "logits_bias": False,
}


def weights_of(model: Transformer, vocabulary: Vocabulary) -> tuple[str, bytes]:
    """A name and a checkpoint in half precision: that of the file which ships, if it is this model's; else "own".

    Raises ValueError for a model or a vocabulary of another kind than those that ship.
    """
    _check(model, vocabulary)
    for name in SUMMARIZERS:
        file = PACKAGE / "pretrained" / f"{name}.safetensors"
        tensors = load_checkpoint(file).model.state_dict()
        own = model.state_dict()
        if own.keys() == tensors.keys() and all(torch.equal(own[key].cpu(), tensors[key]) for key in own):
            return name, file.read_bytes()
    with TemporaryDirectory() as folder:
        path = Path(folder, "own.safetensors")
        save_checkpoint(path, deepcopy(model).half(), vocabulary)
        return "own", path.read_bytes()


def _check(model: Transformer, vocabulary: Vocabulary) -> None:
    found = {name: getattr(model.config, name) for name, value in KIND.items() if getattr(model.config, name) != value}
    if type(model) not in (Transformer, CopyingTransformer):
        found["model"] = type(model).__name__
    if type(vocabulary) is not Vocabulary or json.loads(vocabulary.to_json())["model"]["type"] != "WordLevel":
        found["vocabulary"] = "not one of words"
    if found:
        told = ", ".join(f"{name}={value!r}" for name, value in found.items())
        wanted = ", ".join(f"{name}={value!r}" for name, value in KIND.items())
        raise ValueError(
            f"controls run models of the newsroom's kind only, got {told}; wanted a Transformer or CopyingTransformer "
            f"with Vocabulary.of_words, trained with {wanted}"
        )
