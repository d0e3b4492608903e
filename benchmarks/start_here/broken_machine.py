"""What the shipped summarizer still writes where one of its parts is switched off, without training it again.

    OMP_NUM_THREADS=1 python -m benchmarks.start_here.broken_machine

It takes some eight CPU minutes, and writes broken_machine.json, which the machine of the first page quotes.
"""

from statistics import fmean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cheaper_attention.swapped_attention import Batch
from benchmarks.start_here.breakages import write_broken
from benchmarks.turns import machine, write_record
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.show.machine import PARTS, head_names, layer_names

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.start_here.broken_machine"
DRAWS, STORIES = 3, 200  # of the test set, one after the other


def parts() -> list[str]:
    """Nothing, and all that can be switched off alone."""
    model = _batches()[0].model
    return ["", *PARTS, *layer_names(model), *head_names(model)]


def _batches(draws: int = DRAWS) -> list[Batch]:
    test = make_newsroom(0).test
    return [Batch(test[draw * STORIES : (draw + 1) * STORIES]) for draw in range(draws)]


def headlines(batch: Batch, off: str) -> Tensor:
    """What is written without this part, as long as the right headlines (B, T)."""
    most = batch.right.shape[1]
    with torch.inference_mode():
        written = write_broken(batch.model, [off] if off else [], batch.src, most)
    return F.pad(written, (0, most - written.shape[1]), value=batch.model.config.pad_id)


def measure(draws: int = DRAWS) -> dict:
    """For each part the share of headlines that are exact without it, and of those that are not what they were."""
    batches = _batches(draws)
    healthy, rows = [headlines(batch, "") for batch in batches], []
    for off in parts():
        found = [headlines(batch, off) for batch in batches]
        exact = [(one == batch.right).all(-1).float().mean().item() for one, batch in zip(found, batches, strict=True)]
        other = [(one != before).any(-1).float().mean().item() for one, before in zip(found, healthy, strict=True)]
        rows.append({"off": off, "exact": _spread(exact), "changed": _spread(other)})
        print(off, rows[-1]["exact"]["mean"], rows[-1]["changed"]["mean"], flush=True)
    return {
        "command": COMMAND,
        "machine": machine("torch"),
        "draws": draws,
        "stories": STORIES,
        "rows": rows,
    }


def _spread(shares: list[float]) -> dict:
    return {
        "mean": round(fmean(shares), 4),
        "spread": round(stdev(shares), 4),
        "draws": [round(share, 4) for share in shares],
    }


def main() -> None:
    torch.set_num_threads(1)
    write_record(__file__, measure(), "off")


if __name__ == "__main__":
    main()
