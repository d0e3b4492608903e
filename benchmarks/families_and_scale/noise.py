"""An ability that seems to appear at once: noise on the shipped summarizer's weights, and what is still right.

    OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.noise

Each matrix gets noise of so many standard deviations of its own entries. What is measured: nats per token where the
right tokens stand before, the share p of tokens that come first then, the share of headlines that are exact when
written greedily, and p to the power of each headline's length. noise.json has a row a size and seed; lesson 16 draws
it.
"""

from statistics import fmean

import torch
import torch.nn.functional as F

from benchmarks.lessons import definitions
from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import pad_rows
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.decoding import greedy

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.noise"
SIZES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2)
SEEDS = (0, 1, 2)
STORIES = 300
shaken = definitions("16_families_and_scale").shaken


@torch.inference_mode()
def measured(size: float, seed: int, count: int = STORIES) -> dict[str, float]:
    """What is left of the summarizer under noise."""
    model, vocabulary = newsroom_model()
    shaken(model, size, seed)
    tested = make_newsroom(0).test[:count]
    src = pad_rows([vocabulary.encode(story.article) for story in tested], model.config.pad_id)  # (B, S)
    right = [[*vocabulary.encode(story.summary), model.config.eos_id] for story in tested]
    labels = pad_rows(right, model.config.pad_id)  # (B, T)
    before = F.pad(labels[:, :-1], (1, 0), value=model.config.start_id)
    logits, words = model(src, before), labels != model.config.pad_id
    p = (logits.argmax(-1) == labels)[words].float().mean().item()
    written = greedy(model, src, labels.shape[1])
    written = F.pad(written, (0, labels.shape[1] - written.shape[1]), value=model.config.pad_id)
    return {
        "nats": F.cross_entropy(logits[words], labels[words]).item(),
        "tokens": p,
        "exact": (written == labels).all(-1).float().mean().item(),
        "p to the n": fmean(p ** len(row) for row in right),
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = [{"size": size, "seed": seed} | measured(size, seed) for size in SIZES for seed in SEEDS]
    record = {"command": COMMAND, "machine": machine("torch"), "stories": STORIES, "seeds": SEEDS, "rows": rows}
    write_record(__file__, record, "size")


if __name__ == "__main__":
    main()
