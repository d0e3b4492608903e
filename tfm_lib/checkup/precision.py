"""Whether it runs in half precision."""

from collections.abc import Iterator

import torch

from tfm_lib.checkup.borrow import borrowed, swap
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, TARGET, OutOfTime, Subject, short


def precision(subject: Subject) -> Iterator[Finding]:
    """Run it with all its weights in float16, and in bfloat16, on a text with padding."""
    if subject.module is None:
        raise ValueError("there is no module to convert; give module=")
    tgt, src = subject.ids(TARGET, 2), subject.ids(SOURCE, 2, seed=3)
    if subject.pad_id is not None:
        src[1, -3:] = subject.pad_id
    if subject(tgt, src).isnan().any():
        return
    for dtype, name in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        with borrowed(subject.module):
            swap(subject.module, lambda x: x.to(dtype) if x.is_floating_point() else x.clone())  # noqa: B023
            try:
                broken = int((~torch.isfinite(subject(tgt, src))).sum())
                why = f"gave {broken} scores that are no numbers" if broken else ""
            except OutOfTime:
                raise
            except Exception as error:
                why = f"raised {short(error)}"
        if why:
            yield Finding.of(f"precision.{name}", f"with weights in {name}, a text with padding {why}.")
