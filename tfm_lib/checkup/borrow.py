"""Modules lent to the check-up: it works on copies of their tensors, and leaves everything as it was."""

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def find_modules(model: Any) -> nn.Module | None:
    """The module behind a callable: itself, that of a method, or those that a function refers to by name."""
    found = [part for part in _reached(model, depth=2) if isinstance(part, nn.Module)]
    inner = {id(part) for module in found for part in module.modules() if part is not module}
    outer = list({id(module): module for module in found if id(module) not in inner}.values())
    if not outer:
        return None
    return outer[0] if len(outer) == 1 else nn.ModuleList(outer)


def _reached(thing: Any, depth: int) -> Iterator[Any]:
    yield thing
    if isinstance(thing, nn.Module) or depth < 0:
        return
    near = [getattr(thing, "__self__", None), getattr(thing, "func", None), *getattr(thing, "args", ())]
    near += list(getattr(thing, "keywords", {}).values()) if hasattr(thing, "func") else []
    if inspect.isfunction(thing):
        near += [cell.cell_contents for cell in thing.__closure__ or () if _filled(cell)]
        near += [thing.__globals__[name] for name in thing.__code__.co_names if name in thing.__globals__]
        near += list(thing.__defaults__ or ())
    elif not inspect.isroutine(thing) and not inspect.isclass(thing) and not inspect.ismodule(thing):
        near += list(vars(thing).values()) if hasattr(thing, "__dict__") else []
        near.append(getattr(type(thing).__call__, "__func__", None) if callable(thing) else None)
    for part in near:
        if isinstance(part, nn.Module) or callable(part) or isinstance(part, dict):
            yield from _reached(part, depth - 1)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that has not been given a value yet
        return False


@contextmanager
def random_state_restored() -> Iterator[None]:
    """Python's, numpy's and torch's dice go on as if nothing had been thrown."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


@contextmanager
def borrowed(module: nn.Module | None) -> Iterator[None]:
    """Whatever is done to the module inside, afterwards it has the same tensors, attributes, hooks and modes.

    Inside, each parameter and buffer is a copy (one for those that are shared), so that the originals are never
    written to and their gradients never touched.
    """
    states = []
    for part in [] if module is None else module.modules():
        attributes = dict(vars(part))
        states.append((part, attributes, [(x, x.copy()) for x in attributes.values() if type(x) in (dict, list)]))
    try:
        swap(module, lambda tensor: tensor.detach().clone())
        yield
    finally:
        for part, attributes, containers in states:
            vars(part).clear()
            vars(part).update(attributes)
            for container, contents in containers:
                container.clear()
                (container.update if isinstance(container, dict) else container.extend)(contents)


def swap(module: nn.Module | None, change: Callable[[Tensor], Tensor]) -> None:
    """Put `change(tensor)` in the place of every parameter and buffer, one for all places that share it."""
    done: dict[int, Tensor] = {}
    storages: dict[tuple[int, torch.Size], Tensor] = {}

    def changed(tensor: Tensor) -> Tensor:
        same = tensor.data_ptr(), tensor.shape
        if tensor.numel() and same in storages:  # tied by .data: two tensors, one storage
            new = storages[same].detach()
        else:
            new = storages[same] = change(tensor)
        return nn.Parameter(new, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else new

    for part in [] if module is None else module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    if id(tensor) not in done:
                        done[id(tensor)] = changed(tensor)
                    tensors[name] = done[id(tensor)]  # type: ignore[assignment]
