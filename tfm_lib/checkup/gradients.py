"""Which weights learn, and which are shared."""

from collections.abc import Iterator
from itertools import combinations

import torch
from torch import nn

from tfm_lib.checkup.borrow import borrowed
from tfm_lib.checkup.losses import own_loss
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject


def gradients(subject: Subject) -> Iterator[Finding]:
    """One step of learning, and a second look: parameters whose gradient is zero both times are not reached."""
    module = subject.module_to("train")
    yield from _unregistered(module)
    with borrowed(module):
        weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not weights:
            raise ValueError("no parameter wants a gradient")
        dead = set(weights)
        for step in range(2):
            inputs = subject.ids(TARGET, 4, seed=step), subject.ids(SOURCE, 4, seed=3 + step)
            loss = own_loss(subject(*inputs, grad=True), subject.ids(TARGET, 4, seed=9 + step).to(subject.device))
            if not loss.requires_grad:
                yield Finding.of("gradients.none", "the loss of random tokens has no gradient at all.")
                return
            loss.backward()
            dead &= {name for name, p in weights.items() if p.grad is None or not bool(p.grad.any())}
            if len(dead) == len(weights):
                yield Finding.of("gradients.none", "the gradient of random tokens' loss is zero in every parameter.")
                return
            with torch.no_grad():
                for p in weights.values():
                    if p.grad is not None:
                        p.add_(p.grad.sign(), alpha=-1e-3)
                        p.grad = None
    if dead:
        names = sorted(dead)
        few = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        yield Finding.of("gradients.unreached", f"after a loss of random tokens, no gradient reaches {few}.")


def _unregistered(module: nn.Module) -> Iterator[Finding]:
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
                yield Finding.of("gradients.unregistered", f"{where} holds {kind} that parameters() does not give.")
                return


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
    for (name, p), (other, q) in combinations(tables, 2):
        if p.shape == q.shape and torch.equal(p, q) and bool(p.any()):
            if p.data_ptr() == q.data_ptr():
                yield Finding.of("tying.data", f"{name} and {other} are two parameters over the same memory.")
            else:
                yield Finding.of("tying.copy", f"{name} and {other} are equal and are not one.")
