"""Speed and memory beside other implementations: `make bench` writes speed.md, speed.json and speed.png.

All take turns in random order, so that other work on the machine hits all; the clock counts the CPU time of this
process, with one thread. Each figure is the median over the rounds of the ratio to torch.nn.Transformer (or to the row
named) within a round.
"""

import argparse
import importlib.util
import json
import random
import shutil
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn
from tqdm.auto import tqdm

from benchmarks.speed import learning, report
from benchmarks.speed.peers import BASELINE, PEERS, Ours, Shape, TorchTransformer
from benchmarks.turns import machine, peak_bytes, ratios, take_turns
from tests.model.references import torch_twin
from tfm_lib.attention import attention, attention_weights

FOLDER = Path(__file__).parent
SMALL = Shape(d_model=128, layers=2, d_ff=512, vocab_size=2000, batch=64, source=32, target=16)
LARGER = Shape(d_model=256, layers=4, d_ff=1024, vocab_size=8000, batch=32, source=64, target=32)
TINY = Shape(d_model=32, layers=1, d_ff=64, vocab_size=50, batch=4, source=8, target=6)
NEW_TOKENS = 32
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
LIBRARIES = {
    "transformers BART": "transformers",
    "transformers Marian": "transformers",
    "x-transformers": "x_transformers",
}
LIBRARIES |= {"d2l": "d2l"}


def installed() -> list[str]:
    """The peers whose libraries are here."""
    return [name for name in PEERS if importlib.util.find_spec(LIBRARIES.get(name, "torch"))]


def make_batch(shape: Shape, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids of uneven lengths, padded on the right: src (B, S), tgt (B, T + 1), which begins with START.

    A single row has the full length, since nobody pads one text.
    """
    draw = torch.Generator().manual_seed(0)
    src = torch.randint(3, shape.vocab_size, (rows, shape.source), generator=draw)
    tgt = torch.randint(3, shape.vocab_size, (rows, shape.target + 1), generator=draw)
    for ids, length in ((src, shape.source), (tgt, shape.target + 1)):
        lengths = torch.randint(length // 2 if rows > 1 else length, length + 1, (rows, 1), generator=draw)
        ids[torch.arange(length) >= lengths] = 0
    tgt[:, 0] = 1
    return src, tgt


def training(shape: Shape, dropout: float, rounds: int) -> dict:
    """Forward, loss, backward and Adam; every peer at the sites of dropout that it has."""
    src, tgt = make_batch(shape, shape.batch)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model.loss(src, tgt).backward()
        optimizer.step()

    models = {name: PEERS[name](shape, dropout).train() for name in installed()}
    tasks = {name: partial(step, model, torch.optim.Adam(model.parameters())) for name, model in models.items()}
    rows = ratios(take_turns(tasks, rounds, repeats=2), BASELINE)
    for name, model in models.items():
        rows[name]["dropout"] = model.sites if dropout else "none"
    return rows


def decode(shape: Shape, rows: int, rounds: int) -> dict:
    """Greedy decoding of 32 tokens a row, each peer in its own way."""
    src, _ = make_batch(shape, rows)
    models = {name: PEERS[name](shape, 0.0).eval() for name in installed()}
    for name, model in models.items():
        if (shape_of := tuple(model.greedy(src, NEW_TOKENS).shape)) != (rows, NEW_TOKENS):
            raise ValueError(f"{name} wrote tokens of shape {shape_of}, and should write {(rows, NEW_TOKENS)}")
    tasks = {name: partial(model.greedy, src, NEW_TOKENS) for name, model in models.items()}
    return ratios(take_turns(tasks, rounds), BASELINE)


def compiled(shape: Shape, rounds: int) -> dict:
    """Greedy decoding of one text, as it is and with a compiled decoder, which writes the same tokens."""
    src, _ = make_batch(shape, 1)
    plain, quick = Ours(shape, 0.0).eval(), Ours(shape, 0.0).eval()
    quick.load_state_dict(plain.state_dict())
    quick.model.decoder.compile(dynamic=True)
    begin = time.monotonic()
    tokens = quick.greedy(src, NEW_TOKENS)
    seconds = time.monotonic() - begin
    if not tokens.equal(plain.greedy(src, NEW_TOKENS)):
        raise ValueError("a compiled decoder writes other tokens")
    torchs = TorchTransformer(shape, 0.0).eval()
    models = {"tfm_lib": plain, "tfm_lib, compiled decoder": quick, BASELINE: torchs}
    tasks = {name: partial(model.greedy, src, NEW_TOKENS) for name, model in models.items()}
    rows = ratios(take_turns(tasks, rounds), BASELINE)
    rows["tfm_lib, compiled decoder"]["seconds to compile"] = seconds
    return rows


def beam(shape: Shape, rows: int, length: int, rounds: int) -> dict:
    """Beam search with four beams, `length` tokens: ours and the transformers library's, relative to BART's."""
    src, _ = make_batch(shape, rows)
    names = [name for name in installed() if name == "tfm_lib" or name.startswith("transformers")]
    models = {name: PEERS[name](shape, 0.0).eval() for name in names}
    tasks = {name: partial(model.beam, src, length) for name, model in models.items()}
    baseline = "transformers BART" if "transformers BART" in tasks else "tfm_lib"
    return ratios(take_turns(tasks, rounds), baseline)


def attention_alone(lengths: Iterable[int], rounds: int) -> dict:
    """One forward pass of attention, 8 heads of width 64: the fused kernel, and the formula that holds all weights."""
    rows = {}
    for length in lengths:
        draw = torch.Generator().manual_seed(0)
        query, key, value = torch.randn(3, 1, 8, length, 64, generator=draw).unbind()
        mask = torch.ones(1, 1, 1, length, dtype=torch.bool)
        tasks = {
            "tfm_lib.attention": partial(attention, query, key, value, mask),
            "the formula": lambda q=query, k=key, v=value, m=mask: attention_weights(q, k, m) @ v,
        }
        seconds = take_turns(tasks, rounds)
        rows[length] = {
            name: {"ms": 1000 * median(seconds[name]), "bytes": peak_bytes(task)} for name, task in tasks.items()
        }
    return rows


@torch.no_grad()
def check_equal(shape: Shape) -> float:
    """The largest difference between our logits and those of torch.nn.Transformer with our weights.

    Raises ValueError if it is more than 1e-4, or if the two write other tokens.
    """
    ours, theirs = Ours(shape, 0.0).eval(), TorchTransformer(shape, 0.0).eval()
    theirs.stacks = torch_twin(ours.model).eval()
    theirs.source.load_state_dict(ours.model.encoder.embedding.tokens.state_dict())
    theirs.target.load_state_dict(ours.model.decoder.embedding.tokens.state_dict())
    theirs.output.load_state_dict(ours.model.output.state_dict())
    src, tgt = make_batch(shape, 4)
    difference = (ours.model(src, tgt) - theirs(src, tgt)).abs().max().item()
    if difference > 1e-4 or not torch.equal(ours.greedy(src, NEW_TOKENS), theirs.greedy(src, NEW_TOKENS)):
        raise ValueError(f"with the same weights, our logits differ from torch.nn.Transformer's by {difference:.1e}")
    return difference


def measure(
    small: Shape, larger: Shape, rounds: int, lengths: Iterable[int], learn: learning.Budget, compiling: bool
) -> dict:
    """Everything, as speed.json keeps it; compiling takes a C++ compiler and a minute."""
    missing = ", ".join(sorted(set(PEERS) - set(installed()))) or "none"
    measured_on = machine("torch", "transformers", "x-transformers", "d2l") | {"missing peers": missing}
    results: dict = {"machine": measured_on, "logits differ by": check_equal(small)}

    def fewer(times: int) -> int:
        return min(rounds, max(3, rounds // times))

    steps: dict[str, Callable[[], dict]] = {
        "training, small, dropout": partial(training, small, 0.1, rounds),
        "training, small, no dropout": partial(training, small, 0.0, rounds),
        "training, larger, dropout": partial(training, larger, 0.1, fewer(2)),
        "greedy, small, batch 1": partial(decode, small, 1, rounds),
        "greedy, small, batch 32": partial(decode, small, 32, rounds),
        "greedy, larger, batch 32": partial(decode, larger, 32, fewer(3)),
        "beam 4, small, 16 tokens": partial(beam, small, 32, 16, rounds),
        "beam 4, small, 128 tokens": partial(beam, small, 32, 128, fewer(3)),
        "beam 4, larger, 16 tokens": partial(beam, larger, 32, 16, fewer(3)),
        "beam 4, larger, 128 tokens": partial(beam, larger, 32, 128, fewer(3)),
        "attention": partial(attention_alone, lengths, 3),
        "learning": partial(learning.measure, learn),
    }
    if compiling:
        steps["greedy, small, batch 1, compiled"] = partial(compiled, small, rounds)
    for name, step in (bar := tqdm(steps.items())):
        bar.set_description(name)
        torch.manual_seed(0)
        random.seed(0)
        results[name] = step()
    return results


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--rounds", type=int, default=9)
    command.add_argument("--out", type=Path, default=FOLDER)
    args = command.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    compiler = any(map(shutil.which, ("g++", "clang++", "cl")))
    results = measure(SMALL, LARGER, args.rounds, LENGTHS, learning.Budget(), compiler)
    (args.out / "speed.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    report.write(results, args.out)


if __name__ == "__main__":
    main()
