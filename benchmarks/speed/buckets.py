"""What length buckets save: one epoch in bucketed and in random batches, side by side.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.buckets [FOLDER --title NAME]

Without a folder the lengths are uneven ones of our own: 1,024 articles of 6 to 64 tokens, log-normal around 24,
summaries a third as long. Both kinds of batches hold the same number of pairs on average, and the rounds take turns,
so that other work on the machine hits both. The clock counts the process's CPU time. Writes buckets.md.
"""

import argparse
import random
from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarks.turns import ratios, take_turns
from tfm_lib.data.batches import Batch, Examples, encode_pairs, plan_batches
from tfm_lib.data.pairs import read_splits
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import make_optimizer, set_seed, train_step
from tfm_lib.model import Transformer, TransformerConfig

ROUNDS = 5


def uneven(pairs: int = 1024) -> tuple[Examples, int]:
    """Random ids whose lengths are spread as in short news."""
    draw = random.Random(0)
    lengths = [min(64, max(6, round(draw.lognormvariate(3.18, 0.6)))) for _ in range(pairs)]
    articles = [[draw.randrange(4, 2000) for _ in range(length)] for length in lengths]
    return Examples(articles, [ids[: max(2, len(ids) // 3)] for ids in articles], 0, 0), 2000


def real(folder: Path) -> tuple[Examples, int]:
    """The first 256 training pairs of a folder, uncut."""
    pairs = read_splits(folder).train
    vocabulary = Vocabulary.of_byte_pairs((text for pair in pairs for text in pair), 4000)
    return encode_pairs(pairs[:256], vocabulary, 512, 512), len(vocabulary)


def measure(examples: Examples, vocab_size: int, max_tokens: int, rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """For each kind of batches: their number, the share of padding, the CPU seconds of an epoch."""
    bucketed = plan_batches(examples, max_tokens)
    order = list(range(len(examples)))
    random.Random(0).shuffle(order)
    rows = -(-len(order) // len(bucketed))
    plans = {"random": [order[i : i + rows] for i in range(0, len(order), rows)], "bucketed": bucketed}
    set_seed(0)
    config = TransformerConfig(vocab_size=vocab_size, d_model=128, d_ff=512, num_encoder_layers=2, num_decoder_layers=2)
    model = Transformer(config)
    optimizer = make_optimizer(model)
    batches = {
        name: [Batch.of([examples.articles[i] for i in rows], [examples.summaries[i] for i in rows]) for rows in plan]
        for name, plan in plans.items()
    }

    def epoch(batches: list[Batch]) -> None:
        for batch in batches:
            train_step(model, batch, optimizer, Recipe(steps=1), rate=1e-4)

    seconds = take_turns({name: partial(epoch, batch) for name, batch in batches.items()}, rounds)
    used = sum(map(len, examples.articles)) + sum(len(ids) + 1 for ids in examples.summaries)
    report = {}
    for name, plan in plans.items():
        places = sum(
            len(rows)
            * (max(len(examples.articles[i]) for i in rows) + max(len(examples.summaries[i]) + 1 for i in rows))
            for rows in plan
        )
        report[name] = {"batches": len(plan), "padding": 1 - used / places, "seconds": median(seconds[name])}
    row = ratios(seconds, "random")["bucketed"]
    report["ratio"] = {name: row[name] for name in ("median", "min", "max")}
    return report


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("data", type=Path, nargs="?")
    command.add_argument("--title", help="what the data is, and its license")
    args = command.parse_args()
    cases = {"uneven lengths of our own": (*uneven(), 2560)}
    if args.data:
        cases[args.title or args.data.name] = (*real(args.data), 8192)
    lines = [
        "# Length buckets against random batches",
        "",
        f"One epoch, d_model 128, 2 + 2 layers, {torch.get_num_threads()} thread, CPU seconds, "
        f"median of {ROUNDS} rounds that took turns. Written by `benchmarks/speed/buckets.py`.",
        "",
        "| | batches | number | padding | seconds | random / bucketed (least to most) |",
        "|---|---|---|---|---|---|",
    ]
    for name, case in cases.items():
        title = f"{len(case[0]):,} pairs: {name}"
        report = measure(*case)
        ratio = report.pop("ratio")
        for kind, row in report.items():
            end = f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})" if kind == "bucketed" else ""
            lines.append(
                f"| {title} | {kind} | {row['batches']} | {row['padding']:.0%} | {row['seconds']:.2f} | {end} |"
            )
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "buckets.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
