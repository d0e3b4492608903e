"""What lesson 15's cheaper attentions cost, and how far they are from the exact result: writes attention_costs.json.

    OMP_NUM_THREADS=1 python -m benchmarks.cheaper_attention.attention_costs

All take turns, as in all benchmarks; a time is given as a multiple of that of the exact kernel which does the same job
in the same round (full, or causal for those that look back only). Errors are relative, |guess - exact| / |exact| over
all heads, and beside each stands the error of the plain mean of the values, which ignores queries and keys.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from math import log, log2
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.lessons import definitions
from benchmarks.turns import machine, peak_bytes, take_turns
from tfm_lib.attention import attention_weights
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model

OUT = Path(__file__).parent / "attention_costs.json"
COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.cheaper_attention.attention_costs"
HEADS, WIDTH = 8, 64
LENGTHS = {256: 5, 512: 5, 1024: 5, 2048: 5, 4096: 3, 8192: 3}  # rounds for each
WINDOW = 128
REPETITIONS = 3
SEEDS = range(5)
TOPICS = 32
LONG, LONG_WINDOW = 1024, 64  # of vectors that are drawn, for errors
SHORT, SHORT_WINDOW = 48, 4  # of the summarizer's articles
FULL, CAUSAL, SHARED = "fused kernel", "fused kernel, causal", "queries that are also keys"
MEASURED = {
    "ratio": "CPU seconds of one call as a multiple of those of the kernel named as 'beside', in the same round; the "
    "median over the rounds, for each repetition",
    "ms": "CPU milliseconds, the median over repetitions of the median over rounds",
    "MiB": "the most that torch's memory profiler saw during one call, the result included; inputs, and what is "
    "prepared once (mask, matrices, directions, centers), are not",
    "million FLOPs": "torch's FlopCounterMode, which counts products of matrices, and a causal kernel in full",
    "cheaper from": "the length from which on the ratio stays below 1, for each repetition; none: null",
    "error": "|guess - exact| / |exact| over all heads, for each seed; 'plain mean': that of the mean of the values",
}

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class Variant(NamedTuple):
    """A way to attend, and the exact one whose result it stands for."""

    attend: Attend
    exact: str = FULL


class Inputs(NamedTuple):
    """Queries, keys and values on which errors are measured, (3, B, H, T, Dh), and a window that suits their length."""

    what: str
    vectors: Callable[[torch.Generator], Tensor]
    window: int


def near_root(length: int) -> int:
    """The power of 2 near the square root."""
    return 2 ** round(log2(length) / 2)


def centroids(query: Tensor, key: Tensor, clusters: int, draw: torch.Generator, rounds: int = 10) -> Tensor:
    """By k-means of the directions of queries and keys, for each head: (H, C, Dh)."""
    points = F.normalize(torch.cat([query, key], dim=2).transpose(0, 1).flatten(1, 2), dim=-1)  # (H, points, Dh)
    means = points[:, torch.randperm(points.shape[1], generator=draw)[:clusters]]
    for _ in range(rounds):
        member = F.one_hot((points @ means.mT).argmax(-1), clusters).to(points)  # (H, points, C)
        moved = F.normalize(member.mT @ points, dim=-1)
        means = torch.where(member.sum(1)[..., None] > 0, moved, means)
    return means


def running_mean(value: Tensor) -> Tensor:
    return value.cumsum(2) / torch.arange(1, 1 + value.shape[2])[:, None]


def variants(
    lesson: SimpleNamespace, query: Tensor, key: Tensor, window: int, draw: torch.Generator
) -> dict[str, Variant]:
    """All ways for inputs such as these, (B, H, T, Dh), in sizes that suit the window; what is random is drawn here."""
    sdpa, length, width = F.scaled_dot_product_attention, *query.shape[2:]
    root, half = near_root(length), window // 2
    mask = lesson.window_mask(length, window)
    rotations = torch.randn(4, width, length // half // 2, generator=draw)
    pool = torch.eye(window).repeat_interleave(length // window, dim=0) * (window / length)  # (T, window): plain means
    directions = lesson.orthogonal_directions(4 * width, width, draw)
    centers = centroids(query, key, root, draw)
    globals_ = max(1, window // 8)
    return {
        FULL: Variant(sdpa),
        CAUSAL: Variant(partial(sdpa, is_causal=True), CAUSAL),
        "explicit table": Variant(lambda q, k, v: attention_weights(q, k) @ v),
        "online softmax": Variant(lesson.online_attention),
        "window by mask": Variant(partial(sdpa, attn_mask=mask)),
        "window in blocks": Variant(partial(lesson.window_attention, window=window)),
        "Longformer": Variant(lambda q, k, v: lesson.longformer((q, k, v), (q, k, v), window, globals_)),
        "BigBird": Variant(partial(lesson.bigbird, block=half, random=3, generator=draw)),
        "Sparse Transformer": Variant(partial(lesson.sparse_attention, stride=root), CAUSAL),
        "Transformer-XL": Variant(partial(lesson.segment_attention, segment=window, memory=window), CAUSAL),
        "Reformer": Variant(lambda q, k, v: lesson.lsh_attention(q, v, rotations, half), SHARED),
        "Linformer": Variant(lambda q, k, v: lesson.linformer(q, k, v, pool, pool)),
        "Performer": Variant(partial(lesson.performer, directions=directions)),
        "Routing Transformer": Variant(partial(lesson.routing_attention, centroids=centers, size=length // root)),
    }


def exact(lesson: SimpleNamespace, kind: str, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The exact result, and the plain mean of the values that it could see."""
    if kind == CAUSAL:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True), running_mean(value)
    mean = value.mean(2, keepdim=True).expand_as(value)
    if kind == SHARED:  # two chunks see each other, so that hashing misses nothing
        rotations = torch.zeros(1, query.shape[-1], 1)
        return lesson.lsh_attention(query, value, rotations, query.shape[2] // 2), mean
    return F.scaled_dot_product_attention(query, key, value), mean


def random_vectors(draw: torch.Generator) -> Tensor:
    """Queries, keys and values without any structure, (3, 1, H, T, Dh)."""
    return torch.randn(3, 1, HEADS, LONG, WIDTH, generator=draw)


def vectors_with_topics(draw: torch.Generator) -> Tensor:
    """The same size, but queries and keys of the same topic are alike, and so are those that stand near each other."""
    topics = torch.randn(HEADS, TOPICS, WIDTH, generator=draw)[:, torch.randint(TOPICS, (LONG,), generator=draw)]
    steps = torch.randn(HEADS, WIDTH, LONG + 15, generator=draw)
    places = F.avg_pool1d(steps, 16, stride=1).mT * 4  # (H, T, Dh), of variance 1: 16 neighbors share most
    query, key, value = torch.randn(3, 1, HEADS, LONG, WIDTH, generator=draw)
    return torch.stack([query + topics + places, key + topics + places, value])


@torch.no_grad()
def trained_vectors(layer: int) -> Tensor:
    """Those of the summarizer's encoder in this layer, (3, B, H, T, Dh), as it reads all test articles of that length.

    Longer ones are cut; their words are real, and so are the scores.
    """
    model, vocabulary = newsroom_model()
    words = [vocabulary.encode(story.article)[:SHORT] for story in make_newsroom(0).test]
    attention = model.encoder.layers[layer].self_attention
    attend, seen = attention.attend, []

    def keep(query: Tensor, key: Tensor, value: Tensor, *rest: object, **named: object) -> Tensor:
        seen.append(torch.stack([query, key, value]))
        return attend(query, key, value, *rest, **named)

    attention.attend = keep
    model.encode(torch.tensor([row for row in words if len(row) == SHORT]))
    return seen[0]


def inputs() -> dict[str, Inputs]:
    """Two that are drawn, long, and two of a trained model, which is used to short texts."""
    long = f"{LONG} tokens, {HEADS} heads of width {WIDTH}, window {LONG_WINDOW}"
    found = {
        "random": Inputs(f"standard normal; {long}", random_vectors, LONG_WINDOW),
        "topics": Inputs(f"{TOPICS} topics, and neighbors are alike; {long}", vectors_with_topics, LONG_WINDOW),
    }
    for layer in range(2):
        vectors = trained_vectors(layer)
        _, articles, heads, _, width = vectors.shape
        what = (
            f"the summarizer's encoder, layer {layer + 1}, on {articles} test articles cut to {SHORT} words; {heads} "
            f"heads of width {width}, window {SHORT_WINDOW}"
        )
        found[f"layer {layer + 1}"] = Inputs(what, lambda draw, vectors=vectors: vectors, SHORT_WINDOW)
    return found


@torch.no_grad()
def errors(lesson: SimpleNamespace, measured_on: Inputs) -> dict[str, dict]:
    """Of each way that is not exact, seed by seed."""
    rows: dict[str, dict] = {}
    for seed in SEEDS:
        draw = torch.Generator().manual_seed(seed)
        query, key, value = measured_on.vectors(draw)
        ways = variants(lesson, query, key, measured_on.window, draw)
        for name in [name for name in ways if name not in (FULL, CAUSAL)]:
            attend, kind = ways[name]
            wanted, mean = exact(lesson, kind, query, key, value)
            row = rows.setdefault(name, {"exact": kind, "error": [], "plain mean": []})
            for what, guess in (("error", attend(query, key, value)), ("plain mean", mean)):
                row[what].append(float(f"{(guess - wanted).norm() / wanted.norm():.3g}"))
    return rows


def cheaper_from(lengths: list[int], ratios: list[float]) -> int | None:
    """The length from which on a ratio stays below 1, between two of them on a straight line of logarithms."""
    if ratios[-1] >= 1:
        return None
    above = [place for place, ratio in enumerate(ratios) if ratio >= 1]
    if not above:
        return lengths[0]
    (n, r), (m, s) = ((lengths[i], log(ratios[i])) for i in (above[-1], above[-1] + 1))
    return round(n * (m / n) ** (r / (r - s)))


@torch.no_grad()
def costs(lesson: SimpleNamespace, lengths: dict[int, int]) -> dict[str, dict]:
    """Times as multiples of the exact kernel's, memory and FLOPs, for each length, measured in so many rounds."""
    rows: dict[str, dict] = {}
    for length, rounds in lengths.items():
        draw = torch.Generator().manual_seed(0)
        vectors = torch.randn(3, 1, HEADS, length, WIDTH, generator=draw).unbind()
        ways = variants(lesson, *vectors[:2], min(WINDOW, length), draw)
        tasks = {name: partial(way.attend, *vectors) for name, way in ways.items()}
        turns = [take_turns(tasks, rounds, repeats=max(1, 1024 // length)) for _ in range(REPETITIONS)]
        for name, task in tasks.items():
            kernel = CAUSAL if ways[name].exact == CAUSAL else FULL
            row = rows.setdefault(name, {"beside": kernel, "ratio": [], "ms": [], "MiB": [], "million FLOPs": []})
            ratios = [
                median(time / base for time, base in zip(seconds[name], seconds[kernel], strict=True))
                for seconds in turns
            ]
            row["ratio"].append([round(ratio, 4) for ratio in ratios])
            row["ms"].append(round(1000 * median(median(seconds[name]) for seconds in turns), 2))
            row["MiB"].append(round(peak_bytes(task) / 2**20, 2))
            with FlopCounterMode(display=False) as counter:
                task()
            row["million FLOPs"].append(round(counter.get_total_flops() / 1e6, 1))
        print(length, {name: row["ratio"][-1] for name, row in rows.items()}, flush=True)
    for row in rows.values():
        row["cheaper from"] = [cheaper_from([*lengths], each) for each in zip(*row["ratio"], strict=True)]
    return rows


def measure() -> dict:
    """Everything, as attention_costs.json keeps it."""
    lesson, measured_on = definitions("15_cheaper_attention"), inputs()
    return {
        "command": COMMAND,
        "machine": machine("torch"),
        "seeds": [*SEEDS],
        "lengths": [*LENGTHS],
        "rounds": [*LENGTHS.values()],
        "repetitions": REPETITIONS,
        "sizes": {"batch": 1, "heads": HEADS, "width of a head": WIDTH, "window": WINDOW},
        "measured": MEASURED,
        "inputs": {name: one.what for name, one in measured_on.items()},
        "errors": {name: errors(lesson, one) for name, one in measured_on.items()},
        "costs": costs(lesson, LENGTHS),
    }


def main() -> None:
    torch.set_num_threads(1)
    text = json.dumps(measure())
    OUT.write_text(re.sub(r'(: {|}, )("[^"]+": {)', r"\1\n\2", text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
