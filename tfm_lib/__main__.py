"""The commands behind `make lab`, `make reset` and `make train`."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfm_lib.lab import lab, reset

if TYPE_CHECKING:  # torch loads only in the commands that need it
    import torch

    from tfm_lib.checkpoints import History, State
    from tfm_lib.model import Transformer
    from tfm_lib.pairs import Splits
    from tfm_lib.summaries import Examples, Vocabulary
    from tfm_lib.training import Recipe

STEPS_A_MINUTE = 500  # of training on real text with two CPU cores


@dataclass(frozen=True)
class Task:
    """What `train` learns: pairs, how long they may be, and the sizes that suit them."""

    name: str
    splits: "Splits"
    vocabulary: Callable[[], "Vocabulary"]
    max_article: int
    max_summary: int
    model: dict[str, Any]
    recipe: "Recipe"


def ten_pairs(seed: int) -> Task:
    """Ten short pairs to learn by heart: training and test set are the same, so the result proves memory alone."""
    from tfm_lib.newsroom import TEN_PAIRS
    from tfm_lib.pairs import Pair, Splits
    from tfm_lib.summaries import Vocabulary
    from tfm_lib.training import Recipe

    pairs = [Pair(*pair) for pair in TEN_PAIRS]
    return Task(
        name=f"ten_pairs-seed{seed}",
        splits=Splits(pairs, pairs, pairs),
        vocabulary=lambda: Vocabulary.of_words(text for pair in pairs for text in pair),
        max_article=32,
        max_summary=16,
        model={"d_model": 128, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2},
        recipe=Recipe(steps=40, peak_rate=2e-3, warmup_steps=5, label_smoothing=0.0, seed=seed),
    )


def pairs_of_file(data: Path, steps: int, seed: int) -> Task:
    """Pairs of a file or folder, with sizes for ten minutes on two CPU cores."""
    from tfm_lib.pairs import read_splits
    from tfm_lib.summaries import Vocabulary
    from tfm_lib.training import Recipe

    splits = read_splits(data, seed)
    name = data.resolve().parent.name if data.name.startswith("train.") else data.resolve().name
    return Task(
        name=f"{name.partition('.')[0]}-seed{seed}",
        splits=splits,
        vocabulary=lambda: Vocabulary.of_byte_pairs((text for pair in splits.train for text in pair), 4000),
        max_article=64,
        max_summary=32,
        model={"d_model": 128, "num_heads": 4, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2}
        | {"norm_first": True},
        recipe=Recipe(
            steps=steps, peak_rate=4e-3, warmup_steps=min(100, steps), fall="linear", max_tokens=2048, seed=seed
        ),
    )


def train(args: argparse.Namespace) -> None:
    """Train a summarizer, score it beside the baselines, and leave all of it in runs/."""
    from tfm_lib import checkpoints, training

    steps = args.steps or max(1, round(STEPS_A_MINUTE * args.minutes))
    task = pairs_of_file(args.data, steps, args.seed) if args.data else ten_pairs(args.seed)
    folder = Path("runs") / task.name
    path = folder / "checkpoint.safetensors"
    device = training.find_device(args.device)
    model, vocabulary, recipe, start = _begin(task, path, args.resume, device)
    examples = _encode(task, "train", vocabulary)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"Training {parameters:,} parameters on {device}: {examples}", flush=True)

    began = time.monotonic()
    try:
        history = training.train(
            model,
            examples,
            recipe,
            minutes=args.minutes,
            start=start,
            save=lambda state: checkpoints.save_checkpoint(path, model, vocabulary, state),
        )
    except KeyboardInterrupt:
        sys.exit(f"stopped; {path} is whole, and the same command with --resume goes on from it")
    seconds = time.monotonic() - began
    print(f"{len(history.step)} steps of {recipe.steps} in {seconds:.1f} s", flush=True)
    history.save(folder / "history.json")
    _draw(history, folder / "learning_curve.png")
    _score(task, model, vocabulary, folder, seconds)


def _begin(
    task: Task, path: Path, resume: bool, device: "torch.device"
) -> tuple["Transformer", "Vocabulary", "Recipe", "State | None"]:
    """A new model, or the one of the checkpoint to go on from."""
    from tfm_lib import checkpoints, training
    from tfm_lib.model import Transformer, TransformerConfig

    there = checkpoints.load_checkpoint(path, device) if path.exists() else None
    if resume:
        if there is None or there.state is None:
            raise ValueError(f"nothing to resume: there is no {path}; train without --resume")
        return there.model, there.vocabulary, training.Recipe(**there.state.recipe), there.state
    if there is not None and there.state is not None and not there.state.finished:
        raise ValueError(f"{path} holds an unfinished run; go on with --resume, or delete it to start anew")
    training.set_seed(task.recipe.seed)
    vocabulary = task.vocabulary()
    length = max(task.max_article, task.max_summary + 1)
    config = TransformerConfig(vocab_size=len(vocabulary), max_length=length, **task.model)
    return Transformer(config).to(device), vocabulary, task.recipe, None


def _encode(task: Task, split: str, vocabulary: "Vocabulary") -> "Examples":
    from tfm_lib.summaries import encode_pairs

    return encode_pairs(getattr(task.splits, split), vocabulary, task.max_article, task.max_summary)


def _draw(history: "History", path: Path) -> None:
    from tfm_lib.plots import learning_curve

    learning_curve(history).savefig(path)


def _score(task: Task, model: "Transformer", vocabulary: "Vocabulary", folder: Path, seconds: float) -> None:
    """Print and keep the table of the test set, and five examples."""
    from tfm_lib import scoring
    from tfm_lib.checkpoints import write_whole

    examples = _encode(task, "test", vocabulary)
    print(f"Scoring the test set: {examples}", flush=True)
    summaries = scoring.summarize(model, vocabulary, examples, task.max_summary)
    table = scoring.evaluate(summaries, task.splits)
    shown = list(zip(task.splits.test, summaries, strict=True))[:5]
    text = f"{table}\n\n" + "\n\n".join(
        f"article    {pair.article}\nreference  {pair.summary}\nmodel      {summary}" for pair, summary in shown
    )
    record = table.to_dict() | {
        "seconds": seconds,  # of this command's training
        "examples": [pair._asdict() | {"model": summary} for pair, summary in shown],
    }
    write_whole(folder / "scores.txt", f"{text}\n".encode())
    write_whole(folder / "scores.json", json.dumps(record, indent=1, ensure_ascii=False).encode())
    print(f"\n{text}\n\nCheckpoint, scores and learning curve are in {folder}")


def parser() -> argparse.ArgumentParser:
    """The command line: one subcommand a function."""
    root = argparse.ArgumentParser(prog="python -m tfm_lib", description="The commands of the course.")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = commands.add_parser("lab", help="open the lessons in JupyterLab")
    command.add_argument("--dir", type=Path, help="another folder than my_lessons; authors give notebooks")
    command.add_argument("jupyter", nargs="*", help="options for JupyterLab, after --")
    command.set_defaults(run=lab)

    command = commands.add_parser("reset", help="a fresh copy of one lesson; the old one is kept")
    command.add_argument("lesson", help='its number or name, such as "03"')
    command.set_defaults(run=reset)

    command = commands.add_parser("train", help="train a summarizer: ten short pairs, or a file of yours")
    command.add_argument(
        "--data", type=Path, help="JSONL, JSONL.gz, CSV or Parquet with article and summary, or a folder"
    )
    command.add_argument(
        "--minutes", type=float, default=10.0, help="stop after this time (10); the schedule is made for it"
    )
    command.add_argument("--steps", type=int, help="the schedule's length, instead of what two cores do in that time")
    command.add_argument("--device", help="cpu, cuda or mps; the fastest there is")
    command.add_argument("--seed", type=int, default=0, help="of weights, dropout, order and split (0)")
    command.add_argument("--resume", action="store_true", help="go on from the checkpoint of the same run")
    command.set_defaults(run=train)
    return root


def main() -> None:
    """Run one command; wrong input ends in one line instead of a traceback."""
    args = parser().parse_args()
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
