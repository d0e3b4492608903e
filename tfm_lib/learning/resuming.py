"""What it takes to go on with a run as if it had never stopped: Adam's averages and the random states."""

from dataclasses import asdict

import torch
from torch import Tensor, nn

from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import History, State
from tfm_lib.learning.recipes import Recipe


def snapshot(model: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's state by the parameters' names, and the random states: the tensors of a `State`."""
    tensors = {
        f"adam.{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    device = next(model.parameters()).device
    tensors["random.cpu"] = torch.get_rng_state()
    if device.type != "cpu":
        tensors[f"random.{device.type}"] = torch.get_device_module(device).get_rng_state(device)
    return tensors


def resume(start: State, recipe: Recipe, data: str, model: nn.Module, optimizer: torch.optim.Adam) -> History:
    """Restore Adam's state and the random states, and return the history so far. Raises ValueError as `train`.

    A parameter that never got a gradient, as a frozen one, has no state.
    """
    if start.recipe != recipe:
        raise CourseError(f"the checkpoint was trained by {start.recipe}, not by {recipe}; go on with its recipe")
    if start.data != data:
        raise CourseError("the checkpoint was trained on other examples; give the same data, cut in the same way")
    device = next(model.parameters()).device
    trained_on = next((name for name in ("cuda", "xpu", "mps") if f"random.{name}" in start.tensors), "cpu")
    if trained_on != device.type:
        raise CourseError(f"the checkpoint was trained on {trained_on}, not on {device.type}; go on with its device")
    places = {name: place for place, (name, _) in enumerate(model.named_parameters())}
    adam: dict[int, dict[str, Tensor]] = {}
    for key, value in start.tensors.items():
        kind, _, rest = key.partition(".")
        name, _, moment = rest.rpartition(".")
        if kind == "adam":
            if name not in places:
                raise CourseError(f"the checkpoint was trained with a parameter {name}; build the model that it was")
            adam.setdefault(places[name], {})[moment] = value
    optimizer.load_state_dict({"state": adam, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(start.tensors["random.cpu"])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(start.tensors[f"random.{device.type}"], device)
    return History(**{key: list(values) for key, values in asdict(start.history).items()})
