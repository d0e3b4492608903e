"""Train once for each seed, on the newsroom or on real text, and write down what comes out.

    python benchmarks/training.py newsroom "The newsroom" --task newsroom
    python benchmarks/training.py newsroom_copying "The newsroom, by a model that copies" --task newsroom --copy 1
    python benchmarks/training.py real_text "Real text: arXiv abstracts and their titles (CC0)" --data FOLDER

It is `make train` with the sizes of the task; FOLDER has train, dev and test files. The figures go to NAME.json beside
this script, the page made of them, and of what NAME_notes.md says of it, to NAME.md.
"""

import argparse
import json
import os
import platform
import shlex
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from statistics import mean, stdev

import torch

from tfm_lib.__main__ import parser
from tfm_lib.checkpoints import History, load_checkpoint
from tfm_lib.copying import CopyingTransformer
from tfm_lib.runs import checkpoint_of
from tfm_lib.scoring import LABELS
from tfm_lib.tasks import choose

HERE = Path(__file__).parent


def run(command: argparse.Namespace, seed: int) -> dict:
    """Train and score with one seed; returns what it left in runs/, and the load of the machine around it."""
    before = os.times()
    options = {"--data": command.data, "--task": command.task, "--copy": command.copy, "--seed": seed}
    options |= {"--device": "cpu"}
    options |= {"--minutes": command.minutes, "--steps": command.steps}
    given = [str(part) for option in options.items() if option[1] is not None for part in option]
    args = parser().parse_args(["train", "--replace", *given])
    load = [os.getloadavg()[0]]
    args.run(args)
    load.append(os.getloadavg()[0])
    after = os.times()
    path = checkpoint_of(choose(args.task, args.data, seed, copying=None if args.copy is None else args.copy == 1))
    folder, (model, vocabulary, state, _) = path.parent, load_checkpoint(path)
    history = History.load(folder / "history.json")
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
    } | without_articles(json.loads((folder / "scores.json").read_text()))


def without_articles(record: dict) -> dict:
    """The articles stay where the data is: a report quotes no more of it than five summaries."""
    test_sets = {name: scores for name, scores in record.items() if name != "seconds"}
    for scores in test_sets.values():
        scores["examples"] = [{key: one[key] for key in ("summary", "model")} for one in scores["examples"]]
    return {"seconds": record["seconds"], "test_sets": test_sets}


def page(report: dict, notes: str = "") -> str:
    """The report as Markdown, and notes behind it."""
    runs, first = report["runs"], report["runs"][0]
    config, recipe = first["config"], first["recipe"]
    copies = "It copies. " if first.get("copying") else ""
    if first.get("slots"):
        copies = f"It copies, with {first['slots']} slots for a story's unknown words. "
    made = [f"- {name}: {report[name]}" for name in ("date", "command", "versions") if name in report]
    made += [""] if made else []
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
        f"articles are cut at {config['max_length']} tokens; dropout {config['dropout']:g}; batches of "
        f"{recipe['max_tokens']:,} places; highest learning rate {recipe['peak_rate']:g}. {copies}Greedy decoding.",
        "",
        *made,
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
            told = [[f"{100 * end:+.1f}" for end in r["test_sets"][name]["leads"][way]] for r in runs]
            intervals = "; ".join(f"{mean} ({low} to {high})" for mean, low, high in told)
            lines += [
                "",
                f"Lead of the {way}, over the best baseline, in ROUGE-L: {intervals}, a seed each (95 % interval).",
            ]
        lines += ["", f"Its first five, by seed {first['seed']}:", ""]
        for example in scores["examples"]:
            lines += [f"- reference: {example['summary']}", f"  model: {example['model']}"]
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
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("name", help="of the two files that it writes")
    command.add_argument("title", help="of the page: what the data is, and its license")
    command.add_argument("--data")
    command.add_argument("--task")
    command.add_argument("--copy", type=int, choices=[0, 1], help="1: a model that copies")
    command.add_argument("--minutes", type=float, default=10.0)
    command.add_argument("--steps", type=int, help="a shorter schedule, for a slower or a busy machine")
    command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = command.parse_args()
    report = {
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
        (HERE / f"{args.name}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        (HERE / f"{args.name}.md").write_text(page(report, notes_of(args.name)))


if __name__ == "__main__":
    main()
