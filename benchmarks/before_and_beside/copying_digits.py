"""Copying n digits with a GRU, with a GRU that looks back, and with our Transformer: lesson 14 draws what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.before_and_beside.copying_digits

Each model is trained anew for each length and seed, and asked for strings that it has not seen. All of them read the
right digits so far: a string that is right then is what greedy decoding writes, too. `Copier` and `train` are the
cells of the lesson, word for word. Beside them stand a GRU that is twice as wide, and one that trains three times as
long. copying_digits.json has a row a run and, of the first seed, what was written and where the models looked.
"""

import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.turns import machine, write_record
from tfm_lib.attention import AdditiveAttention
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.tracing import record_attention

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.before_and_beside.copying_digits"
LENGTHS = (5, 8, 10, 15, 20)
SEEDS = (0, 1, 2)
STEPS = 600
PROBED = {"GRU, 128 wide": (10,), "GRU, 1800 steps": (10,)}  # these lengths only
TESTED = 1000  # strings


class Copier(nn.Module):
    """One GRU reads, one writes, and may look back: src, tgt (B, n) -> (B, n, V)."""

    def __init__(self, d: int, looks_back: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, d)
        self.reader = nn.GRU(d, d, batch_first=True)
        self.writer = nn.GRU(2 * d if looks_back else d, d, batch_first=True)
        self.attention = AdditiveAttention(d, d, d) if looks_back else None
        self.output = nn.Linear(d, 13)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        states, last = self.reader(self.embedding(src))  # (B, n, D), (1, B, D)
        x = self.embedding(tgt)  # (B, n, D)
        if self.attention is None:
            return self.output(self.writer(x, last)[0])
        written, weights = [], []
        for step in x.split(1, dim=1):  # (B, 1, D)
            look = self.attention.weights(last.transpose(0, 1), states)  # (B, 1, n)
            weights.append(look)
            seen = torch.cat([step, look @ states], dim=2)  # (B, 1, 2D)
            out, last = self.writer(seen, last)
            written.append(out)
        self.weights = torch.cat(weights, dim=1)
        return self.output(torch.cat(written, dim=1))


def digits(n: int, rows: int) -> tuple[Tensor, Tensor]:
    """Random digits, as ids from 3 on, and what the writer reads: (rows, n) each."""
    src = torch.randint(3, 13, (rows, n))
    return src, F.pad(src[:, :-1], (1, 0), value=1)  # the start id, then the digits


def train(model: nn.Module, n: int, steps: int, rate: float) -> None:
    """Learn to copy n digits; the rate rises for a tenth of the steps, and falls."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    for _ in range(steps):
        src, tgt = digits(n, 32)
        loss = F.cross_entropy(model(src, tgt).flatten(0, 1), src.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def make(name: str) -> nn.Module:
    """An untrained model of that name."""
    if name == "Transformer":
        layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, "norm_first": True, "dropout": 0.0}
        return Transformer(TransformerConfig(vocab_size=13, d_model=64, d_ff=128, num_heads=4, **layers))  # type: ignore[arg-type]
    return Copier(128 if "wide" in name else 64, looks_back="attention" in name)


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
    train(model, n, 3 * steps if "steps" in name else steps, 3e-3 if name == "Transformer" else 5e-3)
    seconds = time.process_time() - begin
    torch.manual_seed(1000 + n)  # the same strings for all
    src, tgt = digits(n, tested)
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
        report["strings"][n] = shown(digits(n, TESTED)[0][:1])
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
