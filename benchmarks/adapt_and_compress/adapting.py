"""The shipped summarizer learns a kind of story that it has never seen: what is trained, learned, forgotten and stored.

    OMP_NUM_THREADS=1 python -m benchmarks.adapt_and_compress.adapting

It takes some five CPU minutes, and writes adapting.json, which lesson 17 shows. The learning rate of each way is
the best of a few on stories of another draw.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from statistics import fmean, stdev
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from benchmarks.lessons import definitions
from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import encode_pairs
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import train
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.decoding import summarize
from tfm_lib.writing.scoring import exact_match

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.adapt_and_compress.adapting"
SEEDS, STORIES = 3, 300
STEPS, EXAMPLES = 60, 500
LESSON = definitions("17_adapt_and_compress")
SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")


def everything(model: nn.Module) -> nn.Module:
    """Full fine-tuning."""
    return deepcopy(model).requires_grad_(True)


def with_adapters(model: nn.Module, width: int) -> nn.Module:
    """An adapter behind each sub-layer."""
    model = deepcopy(model).requires_grad_(False)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for name in SUBLAYERS:
            if hasattr(layer, name):
                setattr(layer, name, LESSON.Adapter(getattr(layer, name), model.config.d_model, width))
    return model


def with_prefixes(model: nn.Module, length: int) -> nn.Module:
    """A prefix in every attention."""
    model = deepcopy(model).requires_grad_(False)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for name in SUBLAYERS[:2]:
            if hasattr(layer, name):
                setattr(layer, name, LESSON.Prefixed.of(getattr(layer, name), length))
    return model


# What builds it, its peak learning rate, and whether half of the examples are old stories.
WAYS: dict[str, tuple[Callable[[nn.Module], nn.Module], float, bool]] = {
    "everything": (everything, 2e-4, False),
    "everything, old stories too": (everything, 2e-4, True),
    "LoRA, rank 2": (lambda model: LESSON.with_lora(model, 2), 1e-2, False),
    "LoRA, rank 8": (lambda model: LESSON.with_lora(model, 8), 1e-2, False),
    "adapters, width 4": (lambda model: with_adapters(model, 4), 1e-2, False),
    "prefixes of 8": (lambda model: with_prefixes(model, 8), 1e-1, False),
}


def adapted(name: str, seed: int, rate: float | None = None) -> dict[str, Any]:
    """One run: what was trained, its bytes in half precision, CPU seconds, and the shares of exact headlines."""
    base, vocabulary = newsroom_model()
    build, best, mixed = WAYS[name]
    torch.manual_seed(seed)
    model = build(base)
    pairs = LESSON.make_shows(seed, EXAMPLES)
    if mixed:
        old = make_newsroom(0).train[seed * EXAMPLES : (seed + 1) * EXAMPLES]
        pairs = pairs[: EXAMPLES // 2] + [Pair(story.article, story.summary) for story in old[: EXAMPLES // 2]]
    recipe = Recipe(
        steps=STEPS,
        peak_rate=rate or best,
        warmup_steps=10,
        fall="linear",
        max_tokens=2048,
        label_smoothing=0.0,
        seed=seed,
    )
    begin = time.process_time()
    train(model, encode_pairs(pairs, vocabulary, 72, 16), recipe, progress=False)
    seconds = time.process_time() - begin
    trained = {name: p.detach().half().contiguous() for name, p in model.named_parameters() if p.requires_grad}
    found = {
        "trained": sum(p.numel() for p in trained.values()),
        "bytes": len(save(trained)),
        "cpu_seconds": round(seconds, 1),
    }
    new = LESSON.make_shows(0 if rate is None else 100, STORIES, test=True)
    for kind, stories in (("new", new), ("old", make_newsroom(0).test[:STORIES])):
        texts = encode_pairs(stories, vocabulary, 72, 16)
        written = summarize(model.eval(), vocabulary, texts, 16)
        found[kind] = round(exact_match(written, [story.summary for story in stories]), 4)
    return found


def measure(names: tuple[str, ...] = tuple(WAYS), seeds: int = SEEDS) -> dict[str, Any]:
    """Every way with so many seeds."""
    rows = []
    for name in names:
        runs = [adapted(name, seed) for seed in range(seeds)]
        row: dict[str, Any] = {"way": name, "trained": runs[0]["trained"], "bytes": runs[0]["bytes"]}
        for measured in ("new", "old", "cpu_seconds"):
            values = [run[measured] for run in runs]
            spread = stdev(values) if seeds > 1 else 0.0
            row[measured] = {"mean": round(fmean(values), 4), "spread": round(spread, 4), "runs": values}
        rows.append(row)
        print(row, flush=True)
    return {"command": COMMAND, "machine": machine("torch"), "steps": STEPS, "examples": EXAMPLES, "stories": STORIES,
            "seeds": [*range(seeds)], "rows": rows}  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    write_record(__file__, measure(), "way")


if __name__ == "__main__":
    main()
