"""Copying n digits with a GRU, with a GRU that looks back, and with our Transformer: lesson 14 draws what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.before_and_beside.copying_digits

Each model is trained anew for each length and seed, and asked for strings that it has not seen. All of them read the
right digits so far: a string that is right then is what greedy decoding writes, too. `Copier` and `train` are those of
the lesson's cells. Beside them stand a GRU that is twice as wide, and one that trains three times as
long. copying_digits.json has a row a run and, of the first seed, what was written and where the models looked.
"""

import time

import torch
from torch import Tensor, nn

from benchmarks.lessons import definitions
from benchmarks.turns import machine, write_record
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.tracing import record_attention

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.before_and_beside.copying_digits"
LENGTHS = (5, 8, 10, 15, 20)
SEEDS = (0, 1, 2)
STEPS = 600
PROBED = {"GRU, 128 wide": (10,), "GRU, 1800 steps": (10,)}  # these lengths only
TESTED = 1000  # strings
LESSON = definitions("14_before_and_beside")


def make(name: str) -> nn.Module:
    """An untrained model of that name."""
    if name == "Transformer":
        layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, "norm_first": True, "dropout": 0.0}
        return Transformer(TransformerConfig(vocab_size=13, d_model=64, d_ff=128, num_heads=4, **layers))  # type: ignore[arg-type]
    return LESSON.Copier(128 if "wide" in name else 64, looks_back="attention" in name)


@torch.no_grad()
def looked_at(model: nn.Module, src: Tensor, tgt: Tensor) -> list[list[int]] | None:
    """Where it looked for each digit, in percent; the Transformer's heads together. None where it cannot look."""
    if isinstance(model, Transformer):
        with record_attention(model) as recorded:
            model(src, tgt)
        weights = recorded["decoder.layers.0.cross_attention"].mean(1)
    elif model.attention is None:
        return None
    else:
        model(src, tgt)
        weights = model.weights
    return (100 * weights[0]).round().int().tolist()


def run(name: str, n: int, seed: int, steps: int = STEPS, tested: int = TESTED) -> dict:
    """Train one model, and test it."""
    torch.manual_seed(seed)
    model, begin = make(name), time.process_time()
    LESSON.train(model, n, 3 * steps if "steps" in name else steps, 3e-3 if name == "Transformer" else 5e-3)
    seconds = time.process_time() - begin
    torch.manual_seed(1000 + n)  # the same strings for all
    src, tgt = LESSON.digits(n, tested)
    model.eval()
    with torch.no_grad():
        right = model(src, tgt).argmax(-1) == src
    row = {
        "model": name,
        "n": n,
        "seed": seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "digits": round(right.float().mean().item(), 4),
        "whole": round(right.all(1).float().mean().item(), 4),
        "by position": [round(share, 3) for share in right.float().mean(0).tolist()],
        "cpu_seconds": round(seconds, 1),
    }
    if seed == SEEDS[0] and name not in PROBED:
        row["wrote"] = greedy(model, src[:1])
        row["looked"] = looked_at(model, src[:1], tgt[:1])
    return row


@torch.no_grad()
def greedy(model: nn.Module, src: Tensor) -> str:
    """The digits that it writes, each after its own."""
    tgt = torch.ones(1, 1, dtype=torch.long)
    for _ in range(src.shape[1]):
        tgt = torch.cat([tgt, model(src, tgt)[:, -1:].argmax(-1)], dim=1)
    return shown(tgt[:, 1:])


def shown(ids: Tensor) -> str:
    """The digits of a row; an id that is none is a question mark."""
    return "".join(str(i - 3) if i >= 3 else "?" for i in ids[0].tolist())


def measure() -> None:
    """Run all, and write the report anew after each run."""
    report: dict = {"command": COMMAND, "seeds": SEEDS, "steps": STEPS, "batch": 32, "tested": TESTED}
    report["machine"] = machine("torch")
    report["strings"] = {}
    for n in LENGTHS:
        torch.manual_seed(1000 + n)
        report["strings"][n] = shown(LESSON.digits(n, TESTED)[0][:1])
    report["runs"] = []
    for name in ("GRU", "GRU with attention", "Transformer", *PROBED):
        for n in PROBED.get(name, LENGTHS):
            for seed in SEEDS:
                row = run(name, n, seed)
                print(name, n, seed, row["digits"], row["whole"], row["cpu_seconds"], flush=True)
                report["runs"].append(row)
                write_record(__file__, report, "model")


def main() -> None:
    torch.set_num_threads(1)
    measure()


if __name__ == "__main__":
    main()
