"""What a GPU makes of the model: its training beside torch.nn's, and what CUDA graphs save in decoding.

    python -m benchmarks.speed.gpu [--rounds 9] [--peak 989]

Writes gpu.json and gpu.md. The share of the peak is model FLOPs utilization (Chowdhery et al. 2022, appendix B): the
operations of the matrix products of a step, forward and backward, per second, over the card's dense peak.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.speed.peers import START, Ours, Shape, TorchTransformer
from benchmarks.turns import machine, write_record
from tfm_lib.learning.training import make_optimizer
from tfm_lib.model import Transformer
from tfm_lib.writing.decoding import Writer, greedy

# Dense bf16 operations per second, in 10^12, from NVIDIA's data sheets; of several names that fit, the first counts.
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121}
SHAPES = {
    512: Shape(d_model=512, layers=6, d_ff=2048, vocab_size=32_000, batch=64, source=256, target=256),
    1024: Shape(d_model=1024, layers=6, d_ff=4096, vocab_size=32_000, batch=32, source=256, target=256, heads=16),
}
PEERS = {"tfm_lib": Ours, "torch.nn": TorchTransformer}
NEW_TOKENS = 64
YES = {True: "yes", False: "no"}
TEXT = """\
# Speed on a GPU

Written by `python -m benchmarks.speed.gpu`. Models of six and six layers with 32,000 words train in bf16 by autocast,
without dropout, on batches of 256 tokens on each side, 64 rows at width 512 and 32 at width 1024. They write {tokens}
tokens of one text, with weights in bf16. A time is the median of several calls. The share of peak is what the matrix
products of a step make of the card's dense bf16 peak.
"""


def peak_of(card: str) -> float:
    """Dense bf16 operations per second of a card, by its name. Raises ValueError for one that is not listed."""
    for name, peak in PEAKS.items():
        if name in card:
            return peak * 1e12
    raise ValueError(f"the peak of {card} is not listed; give it in 10^12 operations per second, such as --peak 989")


def training_flops(shape: Shape) -> int:
    """Operations of the matrix products of one training step, two thirds of them in the backward pass."""
    d, s, t = shape.d_model, shape.source, shape.target
    network = 2 * d * shape.d_ff  # multiplications per token
    encoder = s * (4 * d * d + network) + 2 * s * s * d
    decoder = t * (6 * d * d + network) + 2 * s * d * d + 2 * t * (t + s) * d  # queries and outputs twice
    forward = shape.batch * (shape.layers * (encoder + decoder) + t * d * shape.vocab_size)
    return 3 * 2 * forward


def full_batch(shape: Shape, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Random ids without padding: src (B, S), tgt (B, T + 1), which begins with START."""
    draw = torch.Generator().manual_seed(0)
    src = torch.randint(3, shape.vocab_size, (shape.batch, shape.source), generator=draw)
    tgt = torch.randint(3, shape.vocab_size, (shape.batch, shape.target + 1), generator=draw)
    tgt[:, 0] = START
    return src.to(device), tgt.to(device)


def step(model: nn.Module, loss: Callable[..., Tensor], optimizer: torch.optim.Optimizer, *batch: Tensor) -> None:
    """One step of training in bf16, as autocast does it: the weights stay in single precision."""
    optimizer.zero_grad()
    with torch.autocast(next(model.parameters()).device.type, torch.bfloat16):
        value = loss(*batch)
    value.backward()
    optimizer.step()


@torch.inference_mode()
def write_all(model: Transformer, src: Tensor, count: int) -> Tensor:
    """`count` greedy tokens (B, count), as `greedy` where none ends early, without a look at one on the way."""
    writer = Writer(model, src, count, src_mask=None)
    token, written = writer.start, []
    for _ in range(count):
        token = writer.next_logits(token).argmax(-1)
        written.append(token)
    return torch.stack(written, dim=1)


def captured(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A run as one CUDA graph: a call repeats all its kernels, on the same memory, without Python between them."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what compiles or allocates does so before
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = run()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay


def seconds_of(task: Callable[[], object], rounds: int) -> float:
    """The median time of a call, the device's work included, after three that warm up."""
    found = []
    for _ in range(rounds + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        task()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return median(found[3:])


def training(peer: str, width: int, peak: float, rounds: int, compiling: bool) -> dict[str, object]:
    """The share of the peak that a step of training reaches."""
    shape = SHAPES[width]
    model = PEERS[peer](shape, dropout=0.0).cuda().train()
    loss = torch.compile(model.loss) if compiling else model.loss
    task = partial(step, model, loss, make_optimizer(model), *full_batch(shape, "cuda"))
    seconds = seconds_of(task, rounds)
    share = training_flops(shape) / seconds / peak
    return {"peer": peer, "width": width, "compiled": compiling, "ms": 1000 * seconds, "share of peak": share}


def decoding(width: int, rounds: int) -> list[dict[str, object]]:
    """One text in bf16, compiled or not, as a graph or not. Raises ValueError where a graph writes other tokens."""
    shape, rows = SHAPES[width], []
    model = Ours(shape, dropout=0.0).model.cuda().bfloat16().eval()
    src = full_batch(shape, "cuda")[0][:1]
    for compiling in (False, True):
        if compiling:
            model.decoder.compile(dynamic=True)
        run = partial(write_all, model, src, NEW_TOKENS)
        wanted = run().clone()
        replay = captured(run)
        if not replay().equal(wanted):
            raise ValueError("a CUDA graph writes other tokens")
        whole = partial(greedy, model, src, NEW_TOKENS)
        tasks: dict[str, Callable[[], object]] = {"greedy": whole, "write_all": run, "CUDA graph": replay}
        for name, task in tasks.items():
            ms = 1000 * seconds_of(task, rounds) / NEW_TOKENS
            rows.append({"way": name, "width": width, "compiled": compiling, "ms per token": ms})
    return rows


def page(record: Mapping[str, Any]) -> str:
    """gpu.md of a record, with the notes beside it."""
    lines = [TEXT.format(tokens=NEW_TOKENS)]
    lines += [f"- {name}: {record[name]}" for name in ("card", "date", "processor", "versions")]
    lines += ["", "## A step of training", "", "| | width | compiled | ms | share of peak |", "|---" * 5 + "|"]
    for row in record["training"]:
        shared = f"{row['ms']:.1f} | {row['share of peak']:.0%}"
        lines.append(f"| {row['peer']} | {row['width']} | {YES[row['compiled']]} | {shared} |")
    lines += ["", "## A token of one text", "", "| | width | decoder compiled | ms |", "|---" * 4 + "|"]
    for row in record["decoding"]:
        lines.append(f"| {row['way']} | {row['width']} | {YES[row['compiled']]} | {row['ms per token']:.2f} |")
    notes = Path(__file__).with_name("gpu_notes.md").read_text(encoding="utf-8")
    return "\n".join([*lines, "", "## What it means", "", notes])


def main(arguments: list[str] | None = None) -> None:
    """Measure and write; without a GPU say so in one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peak", type=float, help="dense bf16 operations per second of the card, in 10^12")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.speed.gpu needs a GPU with CUDA, and torch finds none here.")
    card = torch.cuda.get_device_name()
    peak = given.peak * 1e12 if given.peak else peak_of(card)
    ways = product(SHAPES, (False, True), PEERS)
    trained = [training(peer, width, peak, given.rounds, compiling) for width, compiling, peer in ways]
    written = [row for width in SHAPES for row in decoding(width, given.rounds)]
    record = {"card": card, "peak": peak, **machine("torch"), "training": trained, "decoding": written}
    write_record(__file__, record, "peer", "way")
    Path(__file__).with_suffix(".md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
