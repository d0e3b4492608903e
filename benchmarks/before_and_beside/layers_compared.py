"""Recurrent, convolutional and attention layers on the same tasks, and their seconds: lesson 14 draws what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.before_and_beside.layers_compared [--only tasks seconds]

Only the layer that carries something from one position to another is exchanged; all else is one decoder-only model.
Tasks: write the symbol that stood so many positions back; sort ten digits; summarize a story of the newsroom. The right
words stand before each that is asked for, so that a row that is right is what greedy decoding writes. The classes are
those of the lesson's cells. Seconds are CPU time of one layer forward and backward, all taking turns.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.lessons import definitions
from benchmarks.turns import machine, take_turns, write_record
from tfm_lib.commands.tasks import newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.before_and_beside.layers_compared"
D_MODEL, ROWS, SEEDS = 64, 32, (0, 1, 2)
DISTANCES = (2, 6, 24)
STEPS, NEWSROOM_STEPS = 250, 600
TESTED = 10  # batches
TIMED = [(n, d) for d in (32, 128, 512) for n in (32, 128, 512, 2048)]
IGNORED = -100  # no label: F.cross_entropy leaves it out

LESSON = definitions("14_before_and_beside")
Recurrent, Convolution, SelfAttention = LESSON.Recurrent, LESSON.Convolution, LESSON.SelfAttention

Batch = tuple[Tensor, Tensor]


KINDS: dict[str, Callable[[int], list[nn.Module]]] = {
    "recurrence": lambda d: [Recurrent(d), Recurrent(d)],
    "convolution": lambda d: [Convolution(d), Convolution(d)],
    "dilated convolution": lambda d: [Convolution(d), Convolution(d, gap=3)],
    "attention": lambda d: [SelfAttention(d), SelfAttention(d)],
}


def sorting(n: int = 10) -> Batch:
    """n digits, a separator, and the digits in order, which are the labels."""
    drawn = torch.randint(0, 10, (ROWS, n))
    ids = torch.cat([drawn, torch.full((ROWS, 1), 10), drawn.sort(1)[0]], dim=1)
    return ids[:, :-1], torch.cat([torch.full((ROWS, n), IGNORED), ids[:, n + 1 :]], dim=1)


def stories(pairs: list[Pair], vocabulary: Vocabulary) -> Callable[[], Batch]:
    """Batches of stories, the start id, and the summaries, which are the labels; articles end at the same position."""
    encoded = [(vocabulary.encode(article), [*vocabulary.encode(summary), 2]) for article, summary in pairs]

    def batch() -> Batch:
        rows = [encoded[i] for i in torch.randint(0, len(encoded), (ROWS,)).tolist()]
        read, wrote = (max(map(len, side)) for side in zip(*rows, strict=True))
        ids = torch.zeros(ROWS, read + wrote, dtype=torch.long)
        labels = torch.full_like(ids, IGNORED)
        for row, (article, summary) in enumerate(rows):
            text = torch.tensor([*article, 1, *summary[:-1]])
            ids[row, read - len(article) :][: len(text)] = text
            labels[row, read : read + len(summary)] = torch.tensor(summary)
        return ids, labels

    return batch


@torch.no_grad()
def score(model: nn.Module, make_batch: Callable[[], Batch]) -> dict[str, float]:
    """The share of labels that are its first choice, and of rows in which all are."""
    torch.manual_seed(1000)
    symbols, rows = [], []
    for _ in range(TESTED):
        ids, labels = make_batch()
        right = model(ids).argmax(-1) == labels
        symbols.append(right[labels != IGNORED])
        rows.append((right | (labels == IGNORED)).all(1))
    return {"symbols": torch.cat(symbols).float().mean().item(), "rows": torch.cat(rows).float().mean().item()}


def run(kind: str, task: str, seed: int, steps: int | None = None) -> dict:
    """Train one model on one task, and test it."""
    size, learn, test, usual = tasks()[task]
    torch.manual_seed(seed)
    model, begin = LESSON.Reader(size, KINDS[kind](D_MODEL)), time.process_time()
    LESSON.fit(model, learn, steps or usual)
    seconds = time.process_time() - begin
    return {
        "kind": kind,
        "task": task,
        "seed": seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **{name: round(share, 4) for name, share in score(model, test).items()},
        "cpu_seconds": round(seconds, 1),
    }


def tasks() -> dict[str, tuple[int, Callable[[], Batch], Callable[[], Batch], int]]:
    """By name: size of the vocabulary, batches to learn from, batches to test on, steps."""
    found = {
        f"{distance} back": (16, batch, batch, STEPS)
        for distance in DISTANCES
        for batch in [lambda distance=distance: LESSON.symbol_from_afar(distance)]
    }
    splits, vocabulary = newsroom(0).splits, newsroom(0).vocabulary()
    learn, test = (stories(pairs, vocabulary) for pairs in (splits.train, splits.test))
    return {
        **found,
        "sort": (11, sorting, sorting, STEPS),
        "newsroom": (len(vocabulary), learn, test, NEWSROOM_STEPS),
    }


def seconds(rounds: int = 5) -> list[dict]:
    """What one layer takes, forward and backward, on one text of n vectors."""
    rows = []
    kinds = {"recurrence": Recurrent, "convolution": Convolution, "attention": SelfAttention}
    for n, d in TIMED:
        x = torch.randn(1, n, d, requires_grad=True)
        layers = {name: kind(d) for name, kind in kinds.items()}
        calls = {name: lambda layer=layer, x=x: layer(x).sum().backward() for name, layer in layers.items()}
        times = take_turns(calls, rounds, repeats=max(1, 2**16 // (n * d)))
        ratios = {
            name: [duration / least for duration, least in zip(times[name], times["recurrence"], strict=True)]
            for name in calls
        }
        rows.append({"n": n, "d": d, **{name: sorted(of)[len(of) // 2] for name, of in ratios.items()}})
        rows[-1]["spread"] = {name: [min(of), max(of)] for name, of in ratios.items()}
        rows[-1]["recurrence, ms"] = 1000 * sorted(times["recurrence"])[rounds // 2]
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--only", nargs="+", default=["tasks", "seconds"], choices=["tasks", "seconds"])
    only = command.parse_args().only
    torch.set_num_threads(1)
    path = Path(__file__).with_suffix(".json")
    report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    report |= {"command": COMMAND, "seeds": SEEDS, "steps": {"newsroom": NEWSROOM_STEPS, "others": STEPS}}
    report["machine"] = machine("torch")
    if "tasks" in only:
        report["runs"] = []
        for task in tasks():
            for kind in KINDS:
                for seed in SEEDS:
                    report["runs"].append(run(kind, task, seed))
                    print(report["runs"][-1], flush=True)
    if "seconds" in only:
        report["seconds"] = seconds()
    write_record(__file__, report, "kind", "n")


if __name__ == "__main__":
    main()
