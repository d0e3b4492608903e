"""Masks that a model takes as arguments: which form of them it wants, found out by trying."""

from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tfm_lib.checkup.conventions import arguments, learn_axis, learn_layout, side
from tfm_lib.checkup.measures import gap
from tfm_lib.checkup.padding import WORDS, dead_words
from tfm_lib.checkup.sources import hidden_ids
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject
from tfm_lib.checkup.words import NotExaminable

KINDS = {
    "True where it may look": lambda keep: keep,
    "True where it may not look": lambda keep: ~keep,
    "1 where it may look": lambda keep: keep.long(),
    "1 where it may not look": lambda keep: (~keep).long(),
    "0 where it may look, else -inf": lambda keep: torch.zeros(keep.shape).masked_fill(~keep, -torch.inf),
}
OF_PADDING = {
    "(B, S)": lambda keep: keep,
    "(B, 1, S)": lambda keep: keep[:, None],
    "(B, 1, 1, S)": lambda keep: keep[:, None, None],
    "(S, B)": lambda keep: keep.T,
}
OF_TIME = {
    "(T, T)": lambda keep: keep[0],
    "(B, T, T)": lambda keep: keep,
    "(B, 1, T, T)": lambda keep: keep[:, None],
}


class Form(NamedTuple):
    """One convention: what True or 1 means, and the axes of either mask."""

    kind: str
    padding: str
    time: str


def role(name: str, names: list[str]) -> str:
    """What a mask of this name hides: the source's "padding", the future in "time", or, for "", nothing.

    Lengths of "source" or "target" may take the place of a mask.
    """
    name, pads = name.lower(), any(word in name.lower() for word in ("pad", "key"))
    if "len" in name:
        return side(name) or "source"
    if "memory" in name or "cross" in name or ("enc" in name and "dec" in name):
        return "padding" if pads or not any("memory" in other and "pad" in other for other in names) else ""
    if any(word in name for word in ("causal", "ahead", "subsequent", "future")):
        return "time"
    if side(name) == "target":
        return "" if pads else "time"
    twin = any("pad" in other and side(other) == side(name) for other in names if other != name)
    return "" if twin and not pads else "padding"


def learn_masks(subject: Subject, names: list[str]) -> str:
    """Find masks for arguments of these names, with which the model hides what it should; how, in words.

    Raises NotExaminable where it can't run without masks, and runs with none that was tried.
    """
    must = {a.name for a in arguments(subject.model) if a.default is a.empty} & set(names)
    roles = {name: role(name, names) for name in names} if must else _left(subject, names)
    if not must and (not any(roles.values()) or _hides_exactly(subject)):
        return ""
    best: tuple[int, Form | None] = (0 if must else sum(_hides(subject)), None)
    failed: NotExaminable | None = None
    for form in map(Form._make, product(KINDS, OF_PADDING, OF_TIME)):
        subject.masks = lambda src, tgt, form=form: _masks(subject, roles, must, form, src, tgt)  # type: ignore[misc]
        try:
            if must:
                learn_layout(subject)
            if (hides := sum(_hides(subject))) > best[0]:
                best = hides, form
                if _hides_exactly(subject):
                    break
        except NotExaminable as error:
            failed = error
    subject.masks = None
    if best[1] is None:
        if not must:
            return ""
        if failed and subject.shape:  # it ran
            raise failed
        glue = "lambda src, tgt: model(src, tgt, make_mask(src), make_mask(tgt))"
        raise NotExaminable(f"forward wants {', '.join(names)}, and none of the usual masks fits; give {glue}")
    form = best[1]
    subject.masks = lambda src, tgt: _masks(subject, roles, must, form, src, tgt)
    axes = {"padding": form.padding, "time": form.time, "source": "(B,)", "target": "(B,)"}
    shapes = [f"{name} {axes[of]}" for name, of in roles.items() if of]
    kind = f", {form.kind}" * any(of in ("padding", "time") for of in roles.values())
    return f"of all usual forms, these hide best what it should not see: {' and '.join(shapes)}{kind}."


def _left(subject: Subject, names: list[str]) -> dict[str, str]:
    """The roles of masks that need not be given: of what it hides anyway, or padding behind one stack's text, none."""
    learn_layout(subject)
    learn_axis(subject)
    hidden = _hidden_anyway(subject)
    if not subject.two and subject.kind != "encoder-only":
        hidden.add("padding")
    return {name: "" if role(name, names) in hidden else role(name, names) for name in names}


def _masks(
    subject: Subject, roles: dict[str, str], must: set[str], form: Form, src: Tensor, tgt: Tensor
) -> dict[str, Any]:
    time = torch.ones(len(tgt), tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
    padding = src if subject.two else tgt
    keep, kind = subject.src.seen(padding).bool(), KINDS[form.kind]
    masks = {"padding": kind(OF_PADDING[form.padding](keep)), "time": kind(OF_TIME[form.time](time))}
    masks |= {"source": keep.sum(1), "target": subject.tgt.seen(tgt).sum(1)}
    return {name: masks.get(of) for name, of in roles.items() if of or name in must}


def _hides_exactly(subject: Subject) -> bool:
    """Whether it hides all that it should, and no more."""
    return len(hides := _hides(subject)) > 0 and all(hides)


def _hidden_anyway(subject: Subject) -> set[str]:
    """The roles for which it has masks of its own, right or wrong: tokens that it hides, weights of attention of 0."""
    own = set()
    if hidden_ids(subject, "source") or (not subject.two and hidden_ids(subject, "target")):
        own |= {"padding", "source", "target"}
    elif subject.two and subject.src.pad_id is not None and all(dead_words(subject, subject.src.ids(WORDS, seed=2))):
        own |= {"padding", "source"}  # padding hides the words
    elif subject.two and subject.src.pad_id is not None:
        padded = subject.src.padded(subject.src.ids(WORDS, seed=2), SOURCE)  # one of two attentions may hide it
        weights = [w[..., WORDS:] for w in subject.attention(subject.tgt.ids(TARGET), padded).weights]
        if any(w.shape[-1] == SOURCE - WORDS and not w.any() for w in weights):
            own |= {"padding", "source"}
    weights = subject.attention(subject.tgt.ids(TARGET, 2)).weights
    if any(bool((w == 0).any()) for w in weights if w.shape[-2:] == (TARGET, TARGET)):
        own.add("time")
    return own


def _hides(subject: Subject) -> tuple[bool, ...]:
    """Whether it reads what it may, hides the future, and hides padding; () where it raises or gives NaN."""
    tgt, src = subject.texts(2)
    try:
        out = subject(tgt, src)
        if out.isnan().any():
            return ()
        moved = subject(subject.tgt.changed(tgt, 0), src), subject(tgt, subject.src.changed(src, 0))
        found = [all(bool(gap(out, x)[:, -1].max() > 0) for x in moved[: 1 + subject.two])]
        if subject.kind != "encoder-only":
            found.append(not subject.apart(out[:, :-1], subject(subject.tgt.changed(tgt, -1), src)[:, :-1]))
        if subject.src.pad_id is not None and subject.two:
            a, b = src[:, :5], subject.src.padded(src[:, :5], SOURCE)
            found.append(not subject.apart(subject(tgt, a), subject(tgt, b)))
        elif subject.src.pad_id is not None and subject.kind == "encoder-only":
            a, b = tgt[:, :4], subject.tgt.padded(tgt[:, :4], TARGET)
            found.append(not subject.apart(subject(a), subject(b)[:, :4]))
    except Exception:
        return ()
    return tuple(found)
