"""Eight sick models: the healthy one of this folder with a line or two changed, in lesson 13 to be diagnosed.

Whoever wants to find out alone what they suffer from doesn't read on.
"""

import inspect
from functools import cache

import torch

from tfm_lib.practice import own_transformer
from tfm_lib.practice.own_transformer import OwnTransformer

# What is wrong, and what stands in the source in the place of what.
FAULTS: dict[str, dict[str, str]] = {
    "future": {".tril()": ".tril(1)"},
    "padding": {"(src != self.pad_id)": "(src == self.pad_id)"},
    "softmax": {"return self.out(x)": "return self.out(x).softmax(-1)"},
    "dropout": {"return self.drop(x + ": "return torch.dropout(x + ", ".to(x))": ".to(x), 0.1, True)"},
    "positions": {"x + positions(ids.shape[1], self.d).to(x)": "x"},
    "source": {"self.other(x, memory, seen)": "self.other(x, x, mask)"},
    "sharing": {"[Layer(*sizes, cross=True) for _ in range(n)]": "[Layer(*sizes, cross=True)] * n"},
    "shift": {
        "logits = self(src, tgt[:, :-1])": "logits = self(src, tgt)",
        "labels = tgt[:, 1:].flatten()": "labels = tgt.flatten()",
    },
}


def sick(fault: str) -> type[OwnTransformer]:
    """The class with this fault; ValueError for a fault that none of them has."""
    if fault not in FAULTS:
        raise ValueError(f"none of them has the fault {fault!r}; the faults are {', '.join(FAULTS)}")
    return changed(tuple(FAULTS[fault].items()))


@cache
def changed(replaced: tuple[tuple[str, str], ...]) -> type[OwnTransformer]:
    """The class, run from a source in which each `old` has given way to its `new`; ValueError where there is none."""
    source = inspect.getsource(own_transformer)
    for old, new in replaced:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} stands {source.count(old)} times in the source, wanted once")
        source = source.replace(old, new)
    space: dict = {"__name__": "changed"}
    exec(compile(source, "<changed>", "exec"), space)
    return space["OwnTransformer"]


def patient(number: int) -> OwnTransformer:
    """Patient 1 to 8, small and untrained: 24 words, of which 0 is padding, 1 the start and 2 the end.

    Raises ValueError for a number that nobody has.
    """
    if not (isinstance(number, int) and 1 <= number <= len(FAULTS)):
        raise ValueError(f"patients are called 1 to {len(FAULTS)}, and none {number!r}")
    fault = list(FAULTS)[number - 1]
    with torch.random.fork_rng([]):
        torch.manual_seed(number)
        return sick(fault)(24, 0, 1, 2, d=32)
