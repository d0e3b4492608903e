"""Learning from the docstrings of installed packages, with and without copying: lesson 11 draws what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.real_text.docstrings [small minute quarter_hour] [--seeds 0 1 2]
        [--way copying plain]

`small` is what the lesson itself trains; the others learn from every package of the environment. Nobody learns from
numpy, on which settings were chosen, or networkx, on which all are scored. A run that docstrings.json has already is
done anew and takes its place, so that it can grow run by run. Nothing that was harvested is written down: of the texts
only scores, pair by pair, and what the models wrote for five of them. The page made of it is docstrings.md.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from textwrap import shorten

import torch
from rouge_score.rouge_scorer import RougeScorer

from tfm_lib.data.batches import encode_pairs, pad_rows
from tfm_lib.data.docstrings import harvest
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import set_seed, train
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.next_token import NO_RULES, Rules
from tfm_lib.writing.rouge import ENGLISH
from tfm_lib.writing.scoring import choose_k, first_words

HERE = Path(__file__).parent
DEV, TEST, SCORED = "numpy", "networkx", 300  # pairs that are scored
FEW = ("pandas", "scipy", "matplotlib")
WAYS = {"copying": CopyingTransformer, "plain": Transformer}
TRIGRAMS = Rules(no_repeat_ngram_size=3)
MAX_SUMMARY, PIECES = 28, 4000
ROUGE = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class Size:
    """How much a run learns from, and how long."""

    few: bool  # three packages, and not all
    d_model: int
    steps: int
    max_tokens: int
    peak_rate: float
    dropout: float
    max_article: int

    @property
    def warmup_steps(self) -> int:
        return min(100, self.steps * 3 // 10)


SIZES = {
    "small": Size(True, 64, 200, 1024, 6e-3, 0.0, 64),
    "minute": Size(False, 128, 300, 2048, 4e-3, 0.0, 64),
    "quarter_hour": Size(False, 128, 5000, 2048, 3e-3, 0.1, 64),
}


def corpus(few: bool) -> dict[str, list[Pair]]:
    """The pairs to learn from, package by package; no article of them is one of the test's."""
    names = FEW if few else sorted(set(metadata.packages_distributions()) - {DEV, TEST, "tfm_lib", "tests"})
    scored = {pair.article for pair in harvest(TEST)}
    found = {}
    for name in names:
        try:
            found[name] = [pair for pair in harvest(name) if pair.article not in scored]
        except (ValueError, ImportError):  # a single file, or nothing that can be found
            continue
    return {name: pairs for name, pairs in found.items() if pairs}


def run(name: str, way: str, seed: int, pairs: Sequence[Pair]) -> dict:
    """Train once and score; pairs are those to learn from."""
    size, test = SIZES[name], harvest(TEST)[:SCORED]
    vocabulary = Vocabulary.of_byte_pairs((text for pair in pairs for text in pair), PIECES)
    examples = encode_pairs(pairs, vocabulary, size.max_article, MAX_SUMMARY)
    recipe = Recipe(
        steps=size.steps,
        peak_rate=size.peak_rate,
        warmup_steps=size.warmup_steps,
        fall="linear",
        max_tokens=size.max_tokens,
        seed=seed,
    )
    layers = {"num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "norm_first": True}
    widths = {"d_model": size.d_model, "d_ff": 4 * size.d_model, "dropout": size.dropout}
    set_seed(seed)
    model = WAYS[way](
        TransformerConfig(vocab_size=len(vocabulary), max_length=size.max_article, **widths, **layers)  # type: ignore[arg-type]
    )
    load, begin = os.getloadavg()[0], time.process_time()
    history = train(model, examples, recipe, progress=False)
    seconds = time.process_time() - begin
    texts = {rule: written(model, vocabulary, test, size, of) for rule, of in (("", NO_RULES), ("blocked ", TRIGRAMS))}
    return {
        "run": name,
        "way": way,
        "seed": seed,
        "pairs": len(pairs),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "size": asdict(size),
        "tokens": sum(history.tokens),
        "loss": round(fmean(history.loss[-20:]), 3),
        "cpu_seconds": round(seconds, 1),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "loops": round(fmean(map(loops, texts[""])), 3),
        "examples": texts[""][:5],
        **{f"{rule}scores": scores(of, test) for rule, of in texts.items()},
    }


def written(
    model: Transformer, vocabulary: Vocabulary, pairs: Sequence[Pair], size: Size, rules: Rules, rows: int = 50
) -> list[str]:
    """The model's greedy summaries."""
    articles = encode_pairs(pairs, vocabulary, size.max_article, MAX_SUMMARY).articles
    tokens = [
        row
        for start in range(0, len(articles), rows)
        for row in greedy(model, pad_rows(articles[start : start + rows]), MAX_SUMMARY, rules=rules).tolist()
    ]
    return [vocabulary.decode(row) for row in tokens]


def loops(text: str) -> bool:
    """Whether a text repeats two words in a row, or a word at once."""
    words = text.split()
    couples = list(pairwise(words))
    return len(set(couples)) < len(couples) or any(a == b for a, b in couples)


def scores(texts: Sequence[str], pairs: Sequence[Pair]) -> dict:
    """ROUGE in percent: the means, and ROUGE-L pair by pair."""
    scorer = RougeScorer(ROUGE, tokenizer=ENGLISH)
    results = [scorer.score(pair.summary, text) for text, pair in zip(texts, pairs, strict=True)]
    means = {name: round(100 * fmean(result[name].fmeasure for result in results), 2) for name in ROUGE}
    return means | {"each": [round(100 * result["rougeL"].fmeasure, 1) for result in results]}


def baselines() -> dict[str, dict]:
    """The first words of the text, as many as are best on the development package."""
    k, test = choose_k(harvest(DEV)[:SCORED]), harvest(TEST)[:SCORED]
    return {f"first {k} words": scores([first_words(pair.article, k) for pair in test], test)}


def page(report: dict) -> str:
    """The report as Markdown."""
    corpus = report["corpus"]
    lines = [
        "# Docstrings: the first line from the rest",
        "",
        "Written by `benchmarks/real_text/docstrings.py`, one thread; the CPU seconds are of training alone, and "
        "a load beyond",
        f"2 says that other work slowed it down. The machine's {len(corpus['packages'])} packages with pairs hold",
        f"{sum(corpus['packages'].values()):,}; nobody learns from {DEV} and {TEST}. Scored on {SCORED} pairs of",
        f"{TEST}, in percent, mean ± standard deviation over seeds; in brackets, no trigram of tokens may come twice.",
        "",
        "| run | way | seeds | pairs | steps | parameters | CPU seconds | ROUGE-1 | ROUGE-2 | ROUGE-L | loops |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in SIZES:
        for way in WAYS:
            rows = [row for row in report["runs"] if (row["run"], row["way"]) == (name, way)]
            if rows:
                cells = [
                    f"{spread([r['scores'][of] for r in rows])} ({spread([r['blocked scores'][of] for r in rows])})"
                    for of in ROUGE
                ]
                lines.append(
                    f"| {name} | {way} | {', '.join(str(r['seed']) for r in rows)} | {rows[0]['pairs']:,} "
                    f"| {rows[0]['size']['steps']:,} | {rows[0]['parameters']:,} "
                    f"| {spread([r['cpu_seconds'] for r in rows], 0)} | {' | '.join(cells)} "
                    f"| {spread([100 * r['loops'] for r in rows])} % |"
                )
    for name, row in report["baselines"].items():
        lines.append(f"| {name} | | | | | | | " + " | ".join(f"{row[of]:.1f}" for of in ROUGE) + " | |")
    lines += ["", "Python " + report["python"] + "; " + ", ".join(f"{k} {v}" for k, v in report["versions"].items())]
    lines += ["", "What was written for the first five, by the first seed of each:", ""]
    for row in report["runs"]:
        if row["seed"] == 0:
            examples = " / ".join(f"*{shorten(text, 60)}*" for text in row["examples"])
            lines.append(f"- {row['run']}, {row['way']}: {examples}")
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float], digits: int = 1) -> str:
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("runs", nargs="*", default=list(SIZES), choices=list(SIZES))
    command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    command.add_argument("--way", nargs="+", default=list(WAYS), choices=list(WAYS))
    args = command.parse_args()
    path = HERE / "docstrings.json"
    report = json.loads(path.read_text()) if path.exists() else {"runs": []}
    report["python"] = platform.python_version()
    report["versions"] = {name: metadata.version(name) for name in ("torch", "tokenizers", DEV, TEST, *FEW)}
    report["baselines"] = baselines()
    everything = corpus(few=all(SIZES[name].few for name in args.runs) and "corpus" in report)
    if "corpus" not in report or len(everything) > len(FEW):
        counts = {name: len(pairs) for name, pairs in everything.items()} | {n: len(harvest(n)) for n in (DEV, TEST)}
        report["corpus"] = {"packages": dict(sorted(counts.items(), key=lambda item: -item[1]))}
    for name in args.runs:
        names = FEW if SIZES[name].few else everything
        pairs = list({pair.article: pair for package in names for pair in everything[package]}.values())
        for seed in args.seeds:
            for way in args.way:
                print(f"{name}, {way}, seed {seed}: {len(pairs):,} pairs", flush=True)
                done = run(name, way, seed, pairs)
                rest = [r for r in report["runs"] if (r["run"], r["way"], r["seed"]) != (name, way, seed)]
                report["runs"] = sorted([*rest, done], key=lambda r: (list(SIZES).index(r["run"]), r["way"], r["seed"]))
                report["threads"] = torch.get_num_threads()
                path.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")
                path.with_suffix(".md").write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
