"""Weights: which are shared or only look so, whether they can be saved, and whether they run in half precision."""

import copy
from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor, nn

from tfm_lib.checkup.borrow import borrowed, swap
from tfm_lib.checkup.measures import short
from tfm_lib.checkup.residuals import NUMBERED
from tfm_lib.checkup.subject import Found, Subject


def sharing(subject: Subject) -> Iterator[Found]:
    """Layers that are one layer, layers that start as copies, tables that look tied, weights that are all equal."""
    yield from _constant(subject)
    yield from _fixed(subject)
    for name, part in subject.module_to("train").named_modules():
        if not isinstance(part, nn.ModuleList | nn.Sequential) or len(part) < 2:
            continue
        # torch lets a list hold None
        layers = [layer for layer in part if layer is not None and any(p.dim() > 1 for p in layer.parameters())]
        weights = [id(p) for layer in layers for p in layer.parameters()]
        if len({id(layer) for layer in layers}) < len(layers):
            yield "gradients.shared", f"{name} names one and the same layer several times."
        elif len({*weights}) < len(weights):
            yield "gradients.shared", f"layers of {name} hold the same parameters."
        elif len(layers) > 1 and _alike(layers[0], layers[1]):
            yield "gradients.equal_start", f"layers of {name} start with the same weights."
    yield from _tables(subject)


def _constant(subject: Subject) -> Iterator[Found]:
    """Matrices of one number; not of zeros, with which a residual layer may begin."""
    names = [
        name
        for name, p in subject.module_to("train").named_parameters()
        if p.requires_grad and p.dim() > 1 and min(p.shape) > 1 and bool(p.any()) and bool((p == p.flatten()[0]).all())
    ]
    if names:
        yield "gradients.constant", f"all numbers of {names[0]} are equal, as in {len(names) - 1} other matrices."


def _fixed(subject: Subject) -> Iterator[Found]:
    """Weights of layers that want no gradient, unless most are so; tables of positions are often fixed."""
    weights = [(n, p.requires_grad) for n, p in subject.module_to("train").named_parameters() if NUMBERED.match(n)]
    fixed = [name for name, learns in weights if not learns]
    if 0 < len(fixed) < len(weights):
        yield "gradients.fixed", f"{len(fixed)} weights of layers have requires_grad=False, the first one {fixed[0]}."


def _alike(a: nn.Module, b: nn.Module) -> bool:
    one, two = ([p for p in part.parameters() if p.dim() > 1] for part in (a, b))
    return len(one) == len(two) and all(p.shape == q.shape and torch.equal(p, q) for p, q in zip(one, two, strict=True))


def _tables(subject: Subject) -> Iterator[Found]:
    tables = [
        (n, p)
        for n, p in subject.module_to("train").named_parameters()
        if p.dim() == 2 and len(p) == subject.vocab_size
    ]
    inputs = {id(part.weight) for part in subject.parts if isinstance(part, nn.Embedding)}
    for (name, p), (other, q) in combinations(tables, 2):
        if id(p) in inputs and id(q) in inputs and p.data_ptr() != q.data_ptr():
            continue  # two tables that are read may begin as one, with the vectors of another model
        if p.shape == q.shape and torch.equal(p, q) and bool(p.any()):
            if p.data_ptr() == q.data_ptr():
                yield "tying.data", f"{name} and {other} are two parameters over the same memory."
            else:
                yield "tying.copy", f"{name} and {other} are equal and are not one."


def saving(subject: Subject) -> Iterator[Found]:
    """Save, spoil every weight, load, and ask again."""
    module = subject.module_to("save")
    tgt, src = subject.texts()
    before = subject(tgt, src)
    yield from _attributes(subject, module)
    with borrowed(module):
        try:
            saved = copy.deepcopy(dict(module.state_dict()))
            again = {id(part._buffers[name]) for part in module.modules() for name in part._non_persistent_buffers_set}
            swap(module, lambda x: x + 0.5 if x.is_floating_point() and id(x) not in again else x.clone())
            module.load_state_dict(saved)
        except Exception as error:
            yield "saving.fails", f"state_dict() and load_state_dict() raised {short(error)}."
            return
        after = subject(tgt, src)
    if subject.apart(before, after):
        yield "saving.differs", "saved and loaded, it gives other scores."


def _attributes(subject: Subject, module: nn.Module) -> Iterator[Found]:
    """Tensors that stay the same from call to call, and are neither parameter nor buffer."""
    held = [
        (part, key, f"{name or type(part).__name__}.{key}", value)
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        if isinstance(value, Tensor) and value.numel() > 1
    ]
    subject(subject.tgt.ids(3), subject.src.ids(4))
    for part, key, where, value in held:
        if vars(part).get(key) is value:
            yield "saving.attribute", f"{where} is a tensor of shape {tuple(value.shape)}."
            return


def precision(subject: Subject) -> Iterator[Found]:
    """Run it with all its weights in float16, and in bfloat16, on a text with padding."""
    module = subject.module_to("convert")
    tgt, src = subject.texts(2)
    if subject.pad_id is not None:
        src[1, -3:] = subject.pad_id
    if subject(tgt, src).isnan().any():
        return
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
        with borrowed(module):
            swap(module, lambda x: x.to(dtype) if x.is_floating_point() else x.clone())  # noqa: B023
            try:
                broken = int((~torch.isfinite(subject(tgt, src))).sum())
                why = f"gave {broken} scores that are no numbers" if broken else ""
            except Exception as error:
                why = f"raised {short(error)}"
        if why:
            yield f"precision.{name}", f"with weights in {name}, a text with padding {why}."
        if why.startswith("raised"):
            return  # in float16, it is the same


def unregistered(module: nn.Module) -> Iterator[Found]:
    """Modules and parameters in a plain list or dict, of which the module knows nothing."""
    known = {id(part) for part in module.modules()} | {id(p) for p in module.parameters()}
    for name, part in module.named_modules():
        for key, held in vars(part).items():
            if key.startswith("_") or isinstance(held, nn.Module):
                continue
            inside = held if isinstance(held, list | tuple) else held.values() if isinstance(held, dict) else ()
            lost = [x for x in inside if isinstance(x, nn.Module | nn.Parameter) and id(x) not in known]
            lost = [x for x in lost if isinstance(x, nn.Parameter) or any(True for _ in x.parameters())]
            if lost:
                where = f"{name or type(part).__name__}.{key}"
                kind = f"{len(lost)} {type(lost[0]).__name__}"
                yield "gradients.unregistered", f"{where} holds {kind} that parameters() does not give."
                return
