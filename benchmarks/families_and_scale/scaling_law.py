"""How the loss falls with size and data, in models so small that a core trains all of them: lesson 16 draws it.

    OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.scaling_law

Decoder-only stacks of two layers learn the newsroom's articles word for word: each of 8 widths on each of 4 numbers of
stories, with 3 seeds. A run is as long as any other, and the best loss on held-out stories counts, looked at ten
times: so what a small set loses by being learned by heart is not counted twice. scaling_law.json has a row a run; the
fit L = E + A / N^alpha + B / D^beta, D being the tokens of the stories chosen, N counted with and without embeddings,
with intervals by resampling runs, and how far off it is in each cell; and the cells that no cheaper one reaches.
"""

import time
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import least_squares
from torch import nn

from benchmarks.families_and_scale.families import PAD, Stack, stories
from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import pad_rows
from tfm_lib.learning.recipes import linear_rate
from tfm_lib.model import TransformerConfig

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.scaling_law"
SEEDS = (0, 1, 2)
WIDTHS = (4, 6, 8, 12, 16, 24, 32, 48)
SIZES = (100, 400, 1600, 6400)  # stories
STEPS, BATCH, WARM_UP, LOOKS, DEV = 1000, 12, 100, 10, 200
WORDS = 604
RESAMPLED = 200


def rate(width: int) -> float:
    """The highest learning rate: one rule for all widths, from a look at 8, 32 and 96."""
    return 0.05 * (8 / width) ** 0.5


def make(width: int) -> Stack:
    """A stack of two layers."""
    sizes = {"num_heads": max(1, width // 16), "d_ff": 4 * width, "dropout": 0.0, "max_length": 72}
    depth = {"num_encoder_layers": 2, "num_decoder_layers": 1}
    return Stack(TransformerConfig(vocab_size=WORDS, d_model=width, norm_first=True, **sizes, **depth))


def counted(width: int) -> dict[str, int]:
    """Parameters with the table of tokens, and without it."""
    model = make(width)
    total = sum(parameter.numel() for parameter in model.parameters())
    return {"all": total, "without embeddings": total - WORDS * width}


def cells(rows: list[dict]) -> dict[tuple[int, int], list[int]]:
    """Of each width and number of stories, which rows are its runs."""
    return {
        cell: [i for i, row in enumerate(rows) if (row["width"], row["stories"]) == cell]
        for cell in dict.fromkeys((row["width"], row["stories"]) for row in rows)
    }


def frontier(rows: list[dict]) -> list[dict]:
    """The cells that none beats for as little compute: means over seeds, of C = 6 N times the tokens read until then.

    A run's rate falls to 0 at its last step, so what a model would reach in a shorter run of its own isn't known.
    """
    found = []
    for (width, size), runs in cells(rows).items():
        n = counted(width)["all"]
        read = fmean(rows[i]["look"] / LOOKS * STEPS * BATCH * rows[i]["tokens"] / size for i in runs)
        loss = fmean(rows[i]["loss"] for i in runs)
        found.append({"flops": 6 * n * read, "width": width, "stories": size, "loss": round(loss, 4)})
    found.sort(key=lambda cell: (cell["flops"], cell["loss"]))
    return [cell for i, cell in enumerate(found) if all(cell["loss"] < other["loss"] for other in found[:i])]


def _loss(model: nn.Module, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    tokens = pad_rows(rows, PAD)
    labels = F.pad(tokens[:, 1:], (0, 1))
    logits = model(tokens, torch.zeros(len(tokens)))
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


def run(width: int, size: int, seed: int, steps: int = STEPS, dev: int = DEV) -> dict:
    """Train one model on the first `size` stories of that order; the best of its held-out losses."""
    torch.manual_seed(seed)
    draw, begin = torch.Generator().manual_seed(seed), time.process_time()
    (_, train, _), (_, held_out, _) = stories("train"), stories("dev")
    chosen = torch.randperm(len(train), generator=draw)[:size].tolist()
    model = make(width)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    losses = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = linear_rate(step, rate(width), min(WARM_UP, steps), steps)
        picked = torch.randint(size, (BATCH,), generator=draw).tolist()
        optimizer.zero_grad()
        _loss(model, [train[chosen[i]] for i in picked]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % max(1, steps // LOOKS) == 0:
            with torch.inference_mode():
                losses.append(_loss(model, held_out[:dev]).item())
    best = int(np.argmin(losses))
    tokens = sum(len(train[i]) - 1 for i in chosen)
    return {"width": width, "stories": size, "seed": seed, "tokens": tokens, "loss": round(losses[best], 4)} | {
        "look": best + 1,
        "seconds": round(time.process_time() - begin, 1),
    }


def logarithm(law: dict[str, float], n: np.ndarray, d: np.ndarray) -> np.ndarray:
    """log L as this law has it, for so many parameters and tokens, (runs,) each."""
    return np.log(law["E"] + law["A"] / n ** law["alpha"] + law["B"] / d ** law["beta"])


def fit(n: np.ndarray, d: np.ndarray, loss: np.ndarray) -> dict[str, float]:
    """E, A, alpha, B, beta of L = E + A / N^alpha + B / D^beta: Huber's loss of log L, the best of eight starts.

    Source: Hoffmann et al. 2022 (Chinchilla), approach 3.
    """

    def predicted(x: np.ndarray) -> np.ndarray:
        a, alpha, b, beta, e = x
        return np.logaddexp.reduce([a - alpha * np.log(n), b - beta * np.log(d), np.full(len(n), e)], axis=0)

    best = None
    for alpha in (0.3, 0.8):
        for beta in (0.3, 0.8):
            for e in (-1.0, 0.3):
                start = [alpha * np.log(n.min()), alpha, beta * np.log(d.min()), beta, e]
                found = least_squares(lambda x: predicted(x) - np.log(loss), start, loss="huber", f_scale=0.01)
                if best is None or found.cost < best.cost:
                    best = found
    a, alpha, b, beta, e = best.x
    errors = predicted(best.x) - np.log(loss)
    return {
        "E": float(np.exp(e)),
        "A": float(np.exp(a)),
        "alpha": float(alpha),
        "B": float(np.exp(b)),
        "beta": float(beta),
        "typical error": float(np.sqrt(np.mean(errors**2))),
        "largest error": float(np.abs(errors).max()),
    }


def fits(rows: list[dict]) -> dict[str, dict]:
    """The fit for both ways to count, 95 % of those of resampled runs, and the mean of log L - log fit in each cell."""
    laws = {}
    d, loss = (np.array([row[key] for row in rows], float) for key in ("tokens", "loss"))
    for way in ("all", "without embeddings"):
        n = np.array([counted(row["width"])[way] for row in rows], float)
        random = np.random.default_rng(0)
        again = [
            fit(n[i], d[i], loss[i]) for i in (random.integers(len(rows), size=len(rows)) for _ in range(RESAMPLED))
        ]
        fitted = fit(n, d, loss)
        laws[way] = fitted | {
            f"{key} 95 %": [round(float(np.percentile([one[key] for one in again], q)), 4) for q in (2.5, 97.5)]
            for key in ("E", "alpha", "beta")
        }
        off = np.log(loss) - logarithm(fitted, n, d)
        laws[way]["residuals"] = {
            f"{width} wide, {size} stories": round(float(off[runs].mean()), 4)
            for (width, size), runs in cells(rows).items()
        }
    return laws


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for seed in SEEDS:
        for width in WIDTHS:
            for size in SIZES:
                rows.append(run(width, size, seed))
                print(rows[-1], flush=True)
    record = {"command": COMMAND, "machine": machine("torch", "scipy"), "seeds": SEEDS, "steps": STEPS, "batch": BATCH}
    record |= {"parameters": {str(width): counted(width) for width in WIDTHS}, "fits": fits(rows)}
    record |= {"frontier": frontier(rows), "rows": rows}
    write_record(__file__, record, "width")


if __name__ == "__main__":
    main()
