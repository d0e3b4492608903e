"""A model as the JavaScript in a notebook or on a page reads it."""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tfm_lib.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer
from tfm_lib.vocabulary import Vocabulary

SHIPPED = ("newsroom", "newsroom_copying")  # what pages have, too


def weights_of(model: Transformer, vocabulary: Vocabulary) -> tuple[str, bytes]:
    """A name and a checkpoint in half precision: that of the file which ships, if it is this model's; else "own"."""
    for name in SHIPPED:
        file = Path(__file__).parents[1] / f"{name}.safetensors"
        tensors = load_checkpoint(file).model.state_dict()
        own = model.state_dict()
        if own.keys() == tensors.keys() and all(torch.equal(own[key].cpu(), tensors[key]) for key in own):
            return name, file.read_bytes()
    with TemporaryDirectory() as folder:
        path = Path(folder, "own.safetensors")
        save_checkpoint(path, deepcopy(model).half(), vocabulary)
        return "own", path.read_bytes()
