"""Parts of one parameter that get no gradient: heads, or one of the matrices of queries, keys and values."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.checkup.subject import Found

Axes = dict[str, list[Tensor]]  # of each parameter, which rows and which columns had a gradient, and so on


def thirds(reached: Axes) -> Iterator[tuple[str, int]]:
    """Where one parameter holds three matrices, as those of queries, keys and values: which of them had none."""
    for name, (rows, *others) in reached.items():
        stacked = len(others) > 1 and len(rows) == 3
        if stacked or (len(others) == 1 and len(rows) == 3 * len(others[0])):
            had = rows.view(3, -1)
            whole = had.any() and had.any(1).equal(had.all(1))  # else it may be a table of positions
            yield from ((name, number) for number in range(3) if whole and not had[number].any())


def heads(reached: Axes) -> Iterator[Found]:
    """Blocks of a head's size that get no gradient in several matrices of one attention."""
    of_part: dict[str, list[str]] = {}
    queries_keys_values = {name for name, _ in thirds(reached)}
    for name, axes in reached.items():
        for number, seen in enumerate(axes):
            if len(axes) > 1 and name not in queries_keys_values and _in_blocks(~seen, alone=len(axes) > 2):
                part, which = ".".join(name.split(".")[:-2]), "columns" if number else "rows"
                of_part.setdefault(part, []).append(f"{int((~seen).sum())} of {len(seen)} {which} of {name}")
    for part, blocks in of_part.items():
        if len(blocks) > 1:
            yield "gradients.heads", f"no gradient reaches {', '.join(blocks[:3])}.", part
            return


def _in_blocks(dead: Tensor, alone: bool) -> bool:
    """Whether just some of equal blocks, side by side or taking turns, are dead; heads may have an axis `alone`."""
    if dead.all() or not dead.any():
        return False
    if alone and len(dead) <= 16:
        return True
    heads = [n for n in range(2, 17) if len(dead) % n == 0 and len(dead) > n]
    blocks = [cut for n in heads for cut in (dead.view(n, -1), dead.view(-1, n).T)]
    return any(torch.equal(block.any(1), block.all(1)) for block in blocks)
