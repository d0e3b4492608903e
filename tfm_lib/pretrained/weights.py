"""The weights of a published model, checked against its configuration, in a Transformer of ours."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import differences
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.positions import sinusoidal_table
from tfm_lib.pretrained.names import SHARED, SINUSOIDS, TABLES, theirs

SHARDS, PICKLED = "model*.safetensors", "pytorch_model.bin"  # in the order of preference
OLD = {"model.encoder.version", "model.decoder.version"}  # in some files, unused


def read_weights(folder: Path, config: TransformerConfig) -> Transformer:
    """A Transformer of this configuration with the weights of a folder, in eval().

    The model is built without memory, and the file's tensors become its parameters. Raises ValueError where a weight
    is missing, is one too many, has another shape or numbers that are none, and where the file is no whole one.
    """
    with torch.device("meta"):
        model = Transformer(config)
    wanted = {theirs(name): (name, weight) for name, weight in model.state_dict().items()}
    found: dict[str, Tensor] = {}
    for name, weight in _tensors(folder):
        if name.startswith(("shared.", "encoder.", "decoder.")):
            name = f"model.{name}"  # of a model that was saved without its head, as bart-base
        weight = weight.float() if weight.is_floating_point() else weight
        if name in TABLES:
            if not torch.equal(found.setdefault(SHARED, weight), weight):
                raise CourseError(
                    f"{folder}: {name} is another table than the one before it, and this Transformer shares one among "
                    "source, target and output; the file was altered, or is of a model that is not tied"
                )
        elif name in SINUSOIDS and name not in wanted:
            ours = sinusoidal_table(len(weight), config.d_model, config.interleaved)
            if weight.shape != ours.shape or (weight - ours).abs().max() > 1e-3:
                raise CourseError(
                    f"{folder}: {name} holds other positions than sines and cosines; the file was altered"
                )
        elif name not in OLD:
            found[name] = weight.flatten() if name == "final_logits_bias" else weight
    found.setdefault("final_logits_bias", torch.zeros(config.vocab_size))
    if SHARED in found:
        found |= dict.fromkeys(wanted.keys() & TABLES, found.pop(SHARED))
    if different := differences({name: weight for name, (_, weight) in wanted.items()}, found):
        raise CourseError(f"the weights in {folder} don't fit its config.json: {different}")
    if names := ", ".join(name for name, weight in found.items() if not weight.isfinite().all()):
        raise CourseError(f"the weights in {folder} are not finite: {names}; the file was altered")
    model.load_state_dict({wanted[name][0]: weight for name, weight in found.items()}, assign=True)
    model.tie()
    return model.eval().requires_grad_(True)


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Name and content of each tensor of a published model's weights."""
    index = folder / "model.safetensors.index.json"  # a large model's, in several files
    try:
        names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CourseError(f"{index} is cut short or altered ({error}); fetch it anew") from error
    paths, pickled = [folder / name for name in sorted(names)], folder / PICKLED
    try:
        if all(path.exists() for path in paths):
            for path in paths:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 (it is no dict)
                        yield name, file.get_tensor(name)
        elif pickled.exists():  # tensors alone are unpickled, nothing that could run
            mapped = is_zipfile(pickled)  # of before torch 1.6, a file is no zip, and read whole
            yield from torch.load(pickled, map_location="cpu", mmap=mapped, weights_only=True).items()
        else:
            raise CourseError(f"{folder} has no weights; it needs model.safetensors or {PICKLED}")
    except pickle.UnpicklingError as error:
        raise CourseError(f"{pickled} holds more than tensors, and what could run is not unpickled") from error
    except (SafetensorError, RuntimeError, EOFError, OSError) as error:
        raise CourseError(f"the weights in {folder} are cut short or altered ({error}); fetch them anew") from error
