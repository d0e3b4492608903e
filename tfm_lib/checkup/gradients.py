"""Which weights learn: two steps, and a look at every gradient, at its rows and its heads."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tfm_lib.checkup.borrow import borrowed
from tfm_lib.checkup.heads import heads, thirds
from tfm_lib.checkup.measures import cross_entropy
from tfm_lib.checkup.residuals import flat_norm
from tfm_lib.checkup.sources import source_is_cut
from tfm_lib.checkup.subject import SOURCE, TARGET, Found, Subject
from tfm_lib.checkup.watch import LookUps, called
from tfm_lib.checkup.weights import unregistered


class Reached(NamedTuple):
    """What gradients came to in two steps."""

    axes: dict[str, list[Tensor]]  # of each parameter, which rows and which columns had one, and so on
    read: dict[str, set[int]]  # of each embedding, the ids that were looked up
    cut: dict[str, set[int]]  # and of these, whose vectors pass no gradient on to the table
    ran: set[int]  # which modules were called
    none: str  # why there was no gradient at all, if there was none

    def dead(self) -> list[str]:
        """The parameters that none came to."""
        return [name for name, seen in self.axes.items() if not seen[0].any()]


def gradients(subject: Subject) -> Iterator[Found]:
    """What no gradient reaches in two steps: parameters, rows of an embedding, heads; what asks for none, or is new."""
    module = subject.module_to("train")
    yield from unregistered(module)
    yield from _fresh_and_frozen(subject, module)
    reached = _two_steps(subject, module)
    if not reached.none and reached.dead():
        with subject.exact():  # a sure softmax may leave nothing of a gradient in float32
            reached = _two_steps(subject, module)
    if reached.none:
        yield "gradients.none", reached.none
        return
    if reached.dead():
        yield from flat_norm(subject)
    yield from _dead(subject, module, reached)
    if subject.two and not reached.dead() and source_is_cut(subject):
        yield (
            "gradients.unreached",
            "no gradient reaches the vectors of the source; weights that both sides share hide it.",
        )
    yield from _rows(subject, reached)
    yield from _candidates(subject, module)
    yield from heads(reached.axes)


def _two_steps(subject: Subject, module: nn.Module) -> Reached:
    """Two small steps on random tokens, special ones among them."""
    with borrowed(module):
        weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not weights:
            raise ValueError("no parameter wants a gradient")
        reached = Reached(
            {name: [torch.zeros(n).bool() for n in p.shape or (1,)] for name, p in weights.items()}, {}, {}, set(), ""
        )
        for step in range(2):
            tgt, src = subject.tgt.ids(TARGET, 4, seed=step), subject.src.ids(SOURCE, 4, seed=3 + step)
            if subject.start_id is not None:
                tgt[:, 0] = subject.start_id
            if subject.eos_id is not None and subject.eos_id < subject.src.size:
                src[:, -1] = subject.eos_id
            with called() as calls, LookUps() as looks:
                out = subject(tgt, src, grad=True)
            reached.ran.update(id(part) for part, *_ in calls)
            names = {id(p): name for name, p in weights.items()}
            for look in looks.found:
                if look.reads(tgt, src) and (name := names.get(id(look.table))):
                    pads = {side.pad_id for side, ids in ((subject.tgt, tgt), (subject.src, src)) if look.reads(ids)}
                    ids = set(look.ids.flatten().tolist()) - pads
                    reached.read.setdefault(name, set()).update(ids)
                    reached.cut.setdefault(name, set()).update(ids - look.learned())
            loss = cross_entropy(out, subject.tgt.ids(TARGET, 4, seed=9 + step).to(subject.device))
            if not loss.requires_grad:
                return reached._replace(none="the loss of random tokens has no gradient at all.")
            loss.backward()
            _take_step(weights, reached.axes)
            if len(reached.dead()) == len(weights):
                return reached._replace(none="the gradient of random tokens' loss is zero in every parameter.")
        return reached


def _take_step(weights: dict[str, nn.Parameter], axes: dict[str, list[Tensor]]) -> None:
    with torch.no_grad():
        for name, p in weights.items():
            if p.grad is not None:
                grad, p.grad = p.grad.to_dense(), None
                for axis, seen in enumerate(axes[name]):
                    seen |= (grad.reshape(p.shape or (1,)) != 0).transpose(0, axis).reshape(len(seen), -1).any(1).cpu()
                p.add_(grad.sign(), alpha=-1e-3)


def _dead(subject: Subject, module: nn.Module, reached: Reached) -> Iterator[Found]:
    """Parameters without a gradient; those of a part that is never called, outside all layers, may be spare."""
    spare, cut = list[str](), list[str]()
    for name in sorted(reached.dead()):
        path, _, _ = name.rpartition(".")
        part = module.get_submodule(path)
        table = isinstance(part, nn.Embedding)
        in_layer = any(word.isdigit() for word in path.split("."))
        called = type(part).forward is not nn.Module.forward  # else it only holds others, or parameters
        unused = path and called and id(part) not in reached.ran and not table and not in_layer
        (spare if unused else cut).append(name)
    some = {name for name, axes in reached.axes.items() if len(axes) > 2 and not axes[0].all()}  # of several matrices
    zero = [name for name in [*cut, *some] if (p := module.get_parameter(name)).dim() > 1 and not p.any()]
    if zero:
        yield (
            "gradients.constant",
            f"all numbers of {zero[0]} are 0, as in {len(zero) - 1} other matrices, and stay so.",
        )
    cut += [f"{name}, part {number + 1} of 3" for name, number in thirds(reached.axes)]
    for code, names in {"gradients.unreached": cut, "gradients.unused": spare}.items():
        if names:
            few = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            yield code, f"after a loss of random tokens, no gradient reaches {few}."


def _rows(subject: Subject, reached: Reached) -> Iterator[Found]:
    """Rows of an embedding that were looked up and got no gradient, while others did."""
    for name, ids in reached.read.items():
        rows = reached.axes[name][0]
        still = sorted(i for i in ids if not rows[i] or i in reached.cut[name])
        lone = subject.pad_id is subject.src.pad_id is None and len(still) == 1  # it may be the padding
        if still and rows.any() and not lone:
            yield "gradients.row", f"of {name}, the rows of {still} were looked up and get no gradient."
            return


def _candidates(subject: Subject, module: nn.Module) -> Iterator[Found]:
    """Rows of an embedding that were never looked up and change a score, and get no gradient of it."""
    tgt, src = subject.tgt.ordinary[:3].repeat(3)[None, :TARGET], subject.src.ordinary[:3].repeat(3)[None]
    with borrowed(module):
        with LookUps() as looks:
            out = subject(tgt, src, grad=True)
        for name, p in module.named_parameters():
            reads = [look.ids.flatten() for look in looks.found if look.table is p]
            tied = sum(q.data_ptr() == p.data_ptr() for q in module.parameters()) > 1  # by its data alone
            if not reads or not p.requires_grad or tied or len(p) != subject.vocab_size:
                continue
            unread = torch.ones(len(p), dtype=torch.bool, device=p.device).index_fill(0, torch.cat(reads), False)
            [grad] = torch.autograd.grad(out[..., unread].sum(), p, retain_graph=True, allow_unused=True)
            if grad is not None and unread.any() and not grad.to_dense()[unread].any():
                p.data[unread] *= 2
                if subject.apart(out.detach()[..., unread], subject(tgt, src)[..., unread]):
                    yield "gradients.row", f"rows of {name} that are not looked up decide scores and get no gradient."
                    return


def _fresh_and_frozen(subject: Subject, module: nn.Module) -> Iterator[Found]:
    """Modules with weights that are others at the next call; embeddings that are frozen while most else is not."""
    known, runs, (tgt, src) = {*module.modules()}, [], subject.texts()
    for _ in range(2):
        with called() as calls, LookUps() as looks:
            subject(tgt, src)
        runs.append({part for part, *_ in calls if part not in known and any(True for _ in part.parameters())})
    if runs[0] and not runs[0] & runs[1]:
        names = ", ".join(sorted({type(part).__name__ for part in runs[0]}))
        yield "gradients.fresh", f"{len(runs[0])} modules with weights are made at each call: {names}."
    weights = list(module.parameters())
    if sum(p.requires_grad for p in weights) <= len(weights) / 2:
        return  # most of it is frozen, so that is meant
    read = {id(look.table) for look in looks.found if look.reads(tgt, src)}
    for name, p in module.named_parameters():
        if not p.requires_grad and id(p) in read:
            yield "gradients.frozen", f"{name}, an embedding of {len(p)} words, has requires_grad=False."
            return
