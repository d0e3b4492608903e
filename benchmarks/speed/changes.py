"""What one change at a time does to the speed of training: lesson 09 draws what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.changes [--rounds 9]

Writes changes.json and changes.md, which begins with METHOD.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed import buckets
from benchmarks.turns import machine, ratios, take_turns
from tfm_lib.attention import MultiHeadAttention, attention, attention_weights
from tfm_lib.data.batches import Batch
from tfm_lib.data.vocabulary import PAD_ID
from tfm_lib.learning.training import make_optimizer, sequence_loss
from tfm_lib.model import Transformer, TransformerConfig

FOLDER = Path(__file__).parent
VOCABULARY, ROWS, SOURCE, TARGET = 2000, 64, 32, 16
LENGTHS = (128, 512, 2048)
# What the profiler's names belong to; every other operator moves, adds or draws numbers.
KINDS = {
    "matrix products": ("addmm", "mm", "bmm", "baddbmm"),
    "attention": ("flash_attention",),
    "dropout": ("dropout", "bernoulli", "masked_scale"),
    "Adam": ("adam",),
    "softmax and norms": ("softmax", "layer_norm", "nll_loss"),
}
METHOD = """\
"Before" and "after" take turns, so that other work on the machine hits both; the clock counts the CPU time of this
process, with one thread. A ratio above 1 means that the change helps. Written by `benchmarks/speed/changes.py`.
Training: d_model 128, 2 + 2 layers, dropout 0.1, 64 pairs of 32 and 16 tokens, fused Adam unless said
otherwise. Attention alone: 8 heads of width 64, forward and backward.
"""
Step = Callable[[], object]


def build(dropout: float = 0.1, attention_dropout: float = 0.0) -> Transformer:
    """A model of d_model 128 with 2 + 2 layers, always the same one."""
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "d_model": 128, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(TransformerConfig(**sizes, dropout=dropout))
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.dropout = attention_dropout
    return model.train()


def make_batch() -> Batch:
    """Random ids of one length, so that every row is full."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(4, VOCABULARY, (ROWS, SOURCE + TARGET), generator=draw)
    return Batch(ids[:, :SOURCE], ids[:, SOURCE:], ids[:, SOURCE:].roll(-1, dims=1))


def training(
    model: Transformer,
    optimizer: torch.optim.Optimizer | None = None,
    parts: int = 1,
    context: Callable[[], AbstractContextManager] = nullcontext,
    forward: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Step:
    """One step of training, to be called again and again; the batch may come in parts whose gradients add up."""
    optimizer, batch = optimizer or make_optimizer(model), make_batch()
    run = model if forward is None else forward
    pieces = list(zip(*(ids.chunk(parts) for ids in (batch.src, batch.decoder_input, batch.labels)), strict=True))

    def step() -> None:
        optimizer.zero_grad()
        for src, decoder_input, labels in pieces:
            with context():
                loss = sequence_loss(run(src, decoder_input), labels, PAD_ID) / parts
            loss.backward()
        optimizer.step()

    return step


def checkpointed(model: Transformer) -> Transformer:
    """The same model; each layer keeps its input only, and runs again on the way back."""
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    return model


def attending(length: int, forward: Callable[..., Tensor]) -> Step:
    """Attention alone, forward and backward: 8 heads of width 64."""
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 8, length, 64, generator=draw, requires_grad=True) for _ in range(3))
    return lambda: forward(query, key, value).sum().backward()


def by_formula(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention_weights(query, key) @ value


def compare(before: Step, after: Step, rounds: int) -> dict[str, float]:
    """How many times as fast "after" is: median, least and most over the rounds."""
    rows = ratios(take_turns({"before": before, "after": after}, rounds), "before")
    return {**{name: rows["after"][name] for name in ("median", "min", "max")}, "ms before": rows["before"]["ms"]}


def in_bfloat16() -> AbstractContextManager:
    return torch.autocast("cpu", torch.bfloat16)


@contextmanager
def in_bfloat16_by_formula() -> Iterator[None]:
    """The same, with attention as plain products instead of the fused kernel."""
    with in_bfloat16(), sdpa_kernel(SDPBackend.MATH):
        yield


def changes() -> dict[str, tuple[Step, Step]]:
    """Name: training before, and after the one change."""
    slow_adam = build()
    return {
        "fused Adam": (training(slow_adam, torch.optim.Adam(slow_adam.parameters())), training(build())),
        "no dropout at all": (training(build()), training(build(dropout=0.0))),
        "dropout on attention weights": (training(build()), training(build(attention_dropout=0.1))),
        "bfloat16 by autocast": (training(build()), training(build(), context=in_bfloat16)),
        "bfloat16, attention unfused": (training(build()), training(build(), context=in_bfloat16_by_formula)),
        "4 parts, gradients added up": (training(build()), training(build(), parts=4)),
        "activation checkpointing": (training(build()), training(checkpointed(build()))),
    } | {
        f"fused attention, n = {length}": (attending(length, by_formula), attending(length, attention))
        for length in LENGTHS
    }


def bucketing(rounds: int) -> dict[str, float]:
    """Batches of like lengths instead of random ones, over an epoch, as `buckets.py` measures it."""
    report = buckets.measure(*buckets.uneven(), 2560, rounds)
    return {**report["ratio"], "ms before": 1000 * report["random"]["seconds"]}


def compiled(rounds: int) -> dict[str, float]:
    """torch.compile of the model. The seconds of the first step, which compiles, are kept beside the ratio."""
    model = build()
    step, begin = training(model, forward=torch.compile(model)), time.monotonic()
    with TemporaryDirectory() as empty, patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=empty):
        step()  # nothing that an earlier run has compiled is found
    first = time.monotonic() - begin
    return {**compare(training(build()), step, rounds), "seconds to compile": first}


def kind_of(operator: str) -> str:
    """The kind of an operator of torch; "the rest" is copies, additions and the like."""
    name = operator.removeprefix("aten::")
    return next((kind for kind, parts in KINDS.items() if any(_is(name, part) for part in parts)), "the rest")


def _is(name: str, part: str) -> bool:
    return name == part if part.endswith("mm") else part in name


def where_time_goes(context: Callable[[], AbstractContextManager] = nullcontext) -> dict[str, float]:
    """The share of each kind of operator in the CPU time of a training step."""
    step = training(build(), context=context)
    step()
    with profile(activities=[ProfilerActivity.CPU]) as run:
        for _ in range(5):
            step()
    spent: Counter[str] = Counter()
    for event in run.key_averages():
        spent[kind_of(event.key)] += event.self_cpu_time_total
    return {kind: time_ / spent.total() for kind, time_ in spent.most_common()}


def against_the_peak(rounds: int) -> dict[str, float]:
    """GFLOP/s of a large matrix product, in two formats, and of a training step; GB/s of a long addition."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        training(build())()
    square, long = torch.randn(1024, 1024), torch.randn(2**24)
    half = square.bfloat16()
    product = compare(lambda: square @ square, training(build()), rounds)
    half_product = compare(lambda: half @ half, lambda: square @ square, rounds)
    addition = compare(lambda: torch.add(long, long, out=long), lambda: square @ square, rounds)
    return {
        "matrix product, GFLOP/s": 2 * 1024**3 / product["ms before"] / 1e6,
        "matrix product in bfloat16, GFLOP/s": 2 * 1024**3 / half_product["ms before"] / 1e6,
        "training step, GFLOP/s": counter.get_total_flops() * product["median"] / product["ms before"] / 1e6,
        "training step, GFLOP": counter.get_total_flops() / 1e9,
        "addition, GB/s": 3 * long.numel() * 4 / addition["ms before"] / 1e6,
    }


def measure(rounds: int) -> dict:
    """Everything, as changes.json keeps it."""
    results: dict = {"machine": machine("torch"), "time": where_time_goes()}
    results["time in bfloat16"] = where_time_goes(in_bfloat16)
    results["peak"] = against_the_peak(rounds)
    results["changes"] = {"length buckets": bucketing(rounds)}
    for name, (before, after) in changes().items():
        results["changes"][name] = compare(before, after, rounds)
        print(f"{name}: {results['changes'][name]['median']:.2f}", flush=True)
    results["changes"]["torch.compile"] = compiled(rounds)
    return results


def table(results: dict) -> str:
    """The same as Markdown."""
    lines = ["# One change at a time", "", METHOD]
    lines += [f"- {name}: {value}" for name, value in results["machine"].items()]
    lines += ["", "| change | times as fast (least to most) | ms before |", "|---|---|---|"]
    for name, row in sorted(results["changes"].items(), key=lambda item: -item[1]["median"]):
        lines.append(
            f"| {name} | {row['median']:.2f} ({row['min']:.2f} to {row['max']:.2f}) | {row['ms before']:.1f} |"
        )
    compiling = results["changes"]["torch.compile"]["seconds to compile"]
    lines += ["", f"torch.compile took {compiling:.0f} s for its first step.", ""]
    lines += ["| where the time of a step goes | share | in bfloat16 |", "|---|---|---|"]
    lines += [
        f"| {kind} | {share:.0%} | {results['time in bfloat16'][kind]:.0%} |" for kind, share in results["time"].items()
    ]
    lines += ["", "| against the peak | |", "|---|---|"]
    lines += [f"| {name} | {value:.1f} |" for name, value in results["peak"].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--rounds", type=int, default=9)
    command.add_argument("--out", type=Path, default=FOLDER)
    args = command.parse_args()
    torch.set_num_threads(1)
    results = measure(args.rounds)
    (args.out / "changes.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (args.out / "changes.md").write_text(table(results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
