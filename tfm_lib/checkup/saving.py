"""Whether it can be saved, and whether it runs in half precision."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tfm_lib.checkup.borrow import borrowed, swap
from tfm_lib.checkup.measures import short
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, Subject


def saving(subject: Subject) -> Iterator[Finding]:
    """Save, spoil every weight, load, and ask again."""
    module = subject.module_to("save")
    tgt, src = subject.tgt.ids(TARGET), subject.src.ids(SOURCE, seed=3)
    before = subject(tgt, src)
    yield from _attributes(subject, module)
    with borrowed(module):
        try:
            saved = copy.deepcopy(dict(module.state_dict()))
            again = {id(part._buffers[name]) for part in module.modules() for name in part._non_persistent_buffers_set}
            swap(module, lambda x: x + 0.5 if x.is_floating_point() and id(x) not in again else x.clone())
            module.load_state_dict(saved)
        except Exception as error:
            yield Finding.of("saving.fails", f"state_dict() and load_state_dict() raised {short(error)}.")
            return
        after = subject(tgt, src)
    if subject.apart(before, after):
        yield Finding.of("saving.differs", "saved and loaded, it gives other scores.")


def _attributes(subject: Subject, module: nn.Module) -> Iterator[Finding]:
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
            yield Finding.of("saving.attribute", f"{where} is a tensor of shape {tuple(value.shape)}.")
            return


def precision(subject: Subject) -> Iterator[Finding]:
    """Run it with all its weights in float16, and in bfloat16, on a text with padding."""
    module = subject.module_to("convert")
    tgt, src = subject.tgt.ids(TARGET, 2), subject.src.ids(SOURCE, 2, seed=3)
    if subject.pad_id is not None:
        src[1, -3:] = subject.pad_id
    if subject(tgt, src).isnan().any():
        return
    for dtype, name in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        with borrowed(module):
            swap(module, lambda x: x.to(dtype) if x.is_floating_point() else x.clone())  # noqa: B023
            try:
                broken = int((~torch.isfinite(subject(tgt, src))).sum())
                why = f"gave {broken} scores that are no numbers" if broken else ""
            except Exception as error:
                why = f"raised {short(error)}"
        if why:
            yield Finding.of(f"precision.{name}", f"with weights in {name}, a text with padding {why}.")
