"""Which weights are shared, and which only look so."""

from collections.abc import Iterator
from itertools import combinations

import torch
from torch import nn

from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import Subject


def sharing(subject: Subject) -> Iterator[Finding]:
    """Layers that are one layer, layers that start as copies, tables that look tied."""
    if subject.module is None:
        return
    for name, part in subject.module.named_modules():
        if not isinstance(part, nn.ModuleList | nn.Sequential) or len(part) < 2:
            continue
        # torch lets a list hold None
        layers = [layer for layer in part if layer is not None and any(p.dim() > 1 for p in layer.parameters())]
        weights = [id(p) for layer in layers for p in layer.parameters()]
        if len({id(layer) for layer in layers}) < len(layers):
            yield Finding.of("gradients.shared", f"{name} names one and the same layer several times.")
        elif len({*weights}) < len(weights):
            yield Finding.of("gradients.shared", f"layers of {name} hold the same parameters.")
        elif len(layers) > 1 and _alike(layers[0], layers[1]):
            yield Finding.of("gradients.equal_start", f"layers of {name} start with the same weights.")
    yield from _tables(subject)


def _alike(a: nn.Module, b: nn.Module) -> bool:
    one, two = ([p for p in part.parameters() if p.dim() > 1] for part in (a, b))
    return len(one) == len(two) and all(p.shape == q.shape and torch.equal(p, q) for p, q in zip(one, two, strict=True))


def _tables(subject: Subject) -> Iterator[Finding]:
    assert subject.module is not None
    tables = [(n, p) for n, p in subject.module.named_parameters() if p.dim() == 2 and len(p) == subject.vocab_size]
    inputs = {id(part.weight) for part in subject.parts if isinstance(part, nn.Embedding)}
    for (name, p), (other, q) in combinations(tables, 2):
        if id(p) in inputs and id(q) in inputs and p.data_ptr() != q.data_ptr():
            continue  # two tables that are read may begin as one, with the vectors of another model
        if p.shape == q.shape and torch.equal(p, q) and bool(p.any()):
            if p.data_ptr() == q.data_ptr():
                yield Finding.of("tying.data", f"{name} and {other} are two parameters over the same memory.")
            else:
                yield Finding.of("tying.copy", f"{name} and {other} are equal and are not one.")
