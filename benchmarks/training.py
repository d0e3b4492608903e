"""Train once for each seed, on the newsroom or on real text, and write down what comes out.

    python benchmarks/training.py training_on_toy_summaries/newsroom "The newsroom" --task newsroom
    python benchmarks/training.py real_text/newsroom_copying "The newsroom, copied" --task newsroom --copy 1
    python benchmarks/training.py real_text/real_text_5_minutes "Real text in five minutes" --data FOLDER --minutes 5

It is `make train` with the sizes of the task; FOLDER has train, dev and test files. The figures go to NAME.json in
this folder, the learning curves to NAME.png, the page made of both, and of what NAME_notes.md says of it, to NAME.md.
"""

import argparse
import json
import os
import platform
import shlex
import sys
from dataclasses import asdict
from datetime import date
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from types import SimpleNamespace

import torch

from tfm_lib.commands.cli import run as command
from tfm_lib.commands.runs import checkpoint_of
from tfm_lib.commands.tasks import Task, choose
from tfm_lib.learning.checkpoints import Checkpoint, History, load_checkpoint
from tfm_lib.show.plots import learning_curve
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.scoring import LABELS
from tfm_lib.writing.tracing import copied_from

HERE = Path(__file__).parent
POINTS = 50  # of a learning curve


def run(args: argparse.Namespace, seed: int) -> dict:
    """Train and score with one seed; returns what it left in runs/, and the load of the machine around it."""
    before, load = os.times(), [os.getloadavg()[0]]
    options = {name: getattr(args, name) for name in ("data", "task", "copy", "minutes", "steps")}
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    command("train", "--replace", "--device=cpu", f"--seed={seed}", *given)
    load.append(os.getloadavg()[0])
    after = os.times()
    task = choose(args.task, args.data, seed, copying=None if args.copy is None else args.copy == 1)
    path = checkpoint_of(task)
    checkpoint, history = load_checkpoint(path), History.load(path.with_name("history.json"))
    model, vocabulary, state, _ = checkpoint
    scores = without_articles(json.loads(path.with_name("scores.json").read_text()))
    return {
        "seed": seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": len(vocabulary),
        "copying": isinstance(model, CopyingTransformer),
        "slots": len(vocabulary.slots),
        "config": asdict(model.config),
        "recipe": asdict(state.recipe) if state else {},
        "steps": len(history.step),
        "tokens": sum(history.tokens),
        "loss": mean(history.loss[-50:]),
        "cpu_seconds": after.user + after.system - before.user - before.system,  # scoring included
        "load": load,
        "curve": curve(history),
    } | with_copied(scores, task, checkpoint)


def without_articles(record: dict) -> dict:
    """The articles stay where the data is: a report quotes no more of it than five summaries."""
    test_sets = {name: scores for name, scores in record.items() if isinstance(scores, dict)}
    for scores in test_sets.values():
        scores["examples"] = [{key: one[key] for key in ("summary", "model")} for one in scores["examples"]]
    return {"seconds": record["seconds"], "test_sets": test_sets}


def curve(history: History) -> dict[str, list[float]]:
    """The history as so few means that a report can hold them, each at the last of its steps."""
    size = -(-len(history.step) // POINTS)
    ends = range(size, len(history.step) + 1, size)
    return {"step": [*ends], "loss": [round(mean(history.loss[end - size : end]), 4) for end in ends]}


def with_copied(record: dict, task: Task, checkpoint: Checkpoint) -> dict:
    """The same, with what was copied in bold in what a copying model wrote."""
    if isinstance(checkpoint.model, CopyingTransformer):
        model = checkpoint.model.eval()
        for name, (splits, _) in task.test_sets.items():
            examples = record["test_sets"][name]["examples"]
            ids = task.encode(splits.test[: len(examples)], checkpoint.vocabulary)
            for example, article, words in zip(examples, ids.articles, ids.words, strict=True):
                src = torch.tensor([article])
                tokens = greedy(model, src, task.max_summary, rules=checkpoint.rules)
                copied = (copied_from(model, src, tokens).share[0] > 0.5).tolist()
                texts = [checkpoint.vocabulary.decode(tokens[0, :end], words) for end in range(len(copied) + 1)]
                if texts[-1] != example["model"]:
                    raise ValueError(f"wrote {texts[-1]!r} once more, and {example['model']!r} before")
                example["copied"] = in_bold(texts, copied)
    return record


def in_bold(texts: list[str], marked: list[bool]) -> str:
    """Markdown of texts[-1], which grew text by text, with those pieces in bold that came where `marked` says so."""
    pieces = [(texts[i + 1][len(texts[i]) :], bold) for i, bold in enumerate(marked)]
    runs = [("".join(piece for piece, _ in run), bold) for bold, run in groupby(pieces, key=lambda piece: piece[1])]
    return "".join(
        f"{' ' * (len(run) - len(run.lstrip()))}**{run.strip()}**" if bold and run.strip() else run
        for run, bold in runs
    )


def page(report: dict, notes: str = "") -> str:
    """The report as Markdown, and notes behind it."""
    runs, first = report["runs"], report["runs"][0]
    config, recipe = first["config"], first["recipe"]
    copies = "It copies. " if first.get("copying") else ""
    if first.get("slots"):
        copies = f"It copies, with {first['slots']} slots for a story's unknown words. "
    if recipe.get("risk_steps"):
        copies += (
            f"Embeddings stay as they were counted; the last {recipe['risk_steps']:,} steps minimize risk, whose loss "
            "is another one. "
        )
    facts = [f"- {name}: {report[name]}" for name in ("date", "command", "versions") if name in report]
    facts += [""] if facts else []
    count = f"{len(runs)} seed" + ("s, mean and standard deviation" if len(runs) > 1 else ", so no spread is known")
    lines = [
        f"# {report['title']}",
        "",
        f"{report['minutes']:g} minutes of training on {report['threads']} CPU threads were asked for, or fewer by the "
        f"number of steps; the table has what it took. {count[0].upper()}{count[1:]}. "
        "Written by `benchmarks/training.py`. A load beyond the number of threads means that other work had its "
        "share of the cores: on a quiet machine the same minutes hold more steps.",
        "",
        f"A model of {first['parameters']:,} parameters (d_model {config['d_model']}, "
        f"{config['num_encoder_layers']} + {config['num_decoder_layers']} layers, {config['num_heads']} heads, "
        f"{'pre' if config['norm_first'] else 'post'}-norm) over {first['vocabulary']:,} tokens in lower case; "
        f"articles are cut at {config['max_length']} tokens; dropout {config['dropout']:g}, label smoothing "
        f"{recipe['label_smoothing']:g}; batches of {recipe['max_tokens']:,} places; highest learning rate "
        f"{recipe['peak_rate']:g}. {copies}Greedy decoding.",
        "",
        *facts,
        "| seed | steps | tokens | loss of the last 50 steps | seconds | CPU seconds in all | load before, after |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['seed']} | {r['steps']:,} of {r['recipe']['steps']:,} | {r['tokens']:,} | {r['loss']:.3f} "
        f"| {r['seconds']:.0f} | {r['cpu_seconds']:.0f} | {r['load'][0]:.1f}, {r['load'][1]:.1f} |"
        for r in runs
    ]
    for name, scores in first["test_sets"].items():
        measures = {key: label for key, label in LABELS.items() if key in scores["scores"]["model"]}
        lines += ["", f"The {name}, {scores['pairs']:,} pairs, in percent (ROUGE is F1):", ""]
        lines += ["| | " + " | ".join(measures.values()) + " |", "|---|" + "---|" * len(measures)]
        for row in scores["scores"]:
            results = [r["test_sets"][name]["scores"][row] for r in runs]
            cells = [spread([100 * result[measure] for result in results]) for measure in measures]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        for way in scores.get("leads", {}):
            leads = [[f"{100 * end:+.1f}" for end in r["test_sets"][name]["leads"][way]] for r in runs]
            intervals = "; ".join(f"{mean} ({low} to {high})" for mean, low, high in leads)
            lines += [
                "",
                f"Lead of the {way}, over the best baseline, in ROUGE-L: {intervals}, a seed each (95 % interval).",
            ]
        marked = ", in bold what it copied" if first.get("copying") and "copied" in scores["examples"][0] else ""
        lines += ["", f"Its first five, by seed {first['seed']}{marked}:", ""]
        for example in scores["examples"]:
            written = example.get("copied", example["model"])
            lines += [f"- reference: {example['summary']}\\", f"  model: {written}"]  # a line each on the page, too
    if "curve" in first:
        lines += ["", f"![The loss of each seed over its steps]({report['name']}.png)"]
    return "\n".join(lines) + "\n" + (f"\n{notes}" if notes else "")


def notes_of(name: str) -> str:
    """What was tried on the way, written by hand."""
    path = HERE / f"{name}_notes.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def spread(values: list[float]) -> str:
    if len(values) == 1 or len(set(values)) == 1:
        return f"{values[0]:.1f}"
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of what it writes, with its folder: real_text/newsroom_copying")
    parser.add_argument("title", help="of the page: what the data is, and its license")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--task")
    parser.add_argument("--copy", type=int, choices=[0, 1], help="1: a model that copies")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int, help="a shorter schedule, for a slower or a busy machine")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    report = {
        "name": Path(args.name).name,
        "title": args.title,
        "date": date.today().isoformat(),
        "command": f"`python {shlex.join(['benchmarks/training.py', *sys.argv[1:]])}`",
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}",
        "minutes": args.minutes,
        "threads": torch.get_num_threads(),
        "runs": [],
    }
    for seed in args.seeds:
        report["runs"].append(run(args, seed))
        curves = {f"seed {done['seed']}": SimpleNamespace(**done["curve"]) for done in report["runs"]}
        learning_curve(curves).savefig(HERE / f"{args.name}.png")
        (HERE / f"{args.name}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        (HERE / f"{args.name}.md").write_text(page(report, notes_of(args.name)))


if __name__ == "__main__":
    main()
