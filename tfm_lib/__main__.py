"""The commands behind make: lab, reset, student, progress, flashcards, train and write."""

import argparse
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_lib.lab import FOLDER, MY_LESSONS, lab, reset, student

if TYPE_CHECKING:  # torch loads only in the commands that need it
    import torch

    from tfm_lib.checkpoints import History, State
    from tfm_lib.model import Transformer
    from tfm_lib.tasks import Task
    from tfm_lib.training import Recipe
    from tfm_lib.vocabulary import Vocabulary

CHECKPOINT = "checkpoint.safetensors"


def train(args: argparse.Namespace) -> None:
    """Train a summarizer, score it beside the baselines, and leave all of it in runs/."""
    from torch import distributed

    from tfm_lib import tasks, training

    task = tasks.choose(args.task, args.data, args.seed, args.steps, args.minutes)
    if args.ship and (args.task, args.seed) != ("newsroom", 0):
        raise ValueError("what ships is the newsroom model of seed 0; add --task newsroom and leave the seed")
    if args.workers < 1:
        raise ValueError(f"workers must be 1 or more, got {args.workers}")
    folder, began = Path("runs") / task.name, time.time()
    path = folder / CHECKPOINT
    try:
        if distributed.is_available() and distributed.is_torchelastic_launched():
            from tfm_lib import workers

            workers.run(partial(_train, args, task, folder, workers.own_device, workers.train, workers.is_first()))
        elif args.workers > 1:
            from tfm_lib import workers

            workers.launch(args.workers, sys.argv[1:])
        else:
            _train(args, task, folder, training.find_device, training.train)
    except (KeyboardInterrupt, ChildProcessError) as end:
        if not path.exists() or (path.stat().st_mtime < began and not args.resume):
            raise
        why = f"error: {end}" if isinstance(end, ChildProcessError) else "stopped"
        sys.exit(f"{why}; {path} is whole, and the same command with --resume goes on from it")


def _train(
    args: argparse.Namespace,
    task: "Task",
    folder: Path,
    find_device: Callable[[str | None], "torch.device"],
    train: Callable[..., "History"],
    first: bool = True,
) -> None:
    """Do all of it in this process; of several workers only the first one says, saves and scores something."""
    from tfm_lib import checkpoints, pretrained

    path = folder / CHECKPOINT
    device = find_device(args.device)
    model, vocabulary, recipe, start = _begin(task, path, args.resume, device)
    if args.resume and args.steps not in (None, recipe.steps):
        raise ValueError(f"{path} is a run of {recipe.steps} steps, not of {args.steps}; go on without --steps")
    examples = task.encode(task.splits.train, vocabulary)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if first:
        print(f"Training {parameters:,} parameters on {device}: {examples}", flush=True)

    began = time.monotonic()
    history = train(
        model,
        examples,
        recipe,
        minutes=args.minutes,
        start=start,
        save=lambda state: checkpoints.save_checkpoint(path, model, vocabulary, state),
    )
    if not first:
        return
    seconds = time.monotonic() - began
    print(f"{len(history.step)} steps of {recipe.steps} in {seconds:.1f} s", flush=True)
    history.save(folder / "history.json")
    _draw(history, folder / "learning_curve.png")
    _score(task, model, vocabulary, folder, seconds)
    if args.ship:
        pretrained.ship(model, vocabulary)
        print(f"{pretrained.SHIPPED.name} comes with the package from now on")


def _begin(
    task: "Task", path: Path, resume: bool, device: "torch.device"
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


def _draw(history: "History", path: Path) -> None:
    from tfm_lib.checkpoints import write_whole
    from tfm_lib.show.plots import learning_curve

    picture = io.BytesIO()
    learning_curve(history).savefig(picture)
    write_whole(path, picture.getvalue())


def _score(task: "Task", model: "Transformer", vocabulary: "Vocabulary", folder: Path, seconds: float) -> None:
    """Print and keep a table and five examples of each test set."""
    from tfm_lib import decoding, scoring
    from tfm_lib.checkpoints import write_whole

    texts: list[str] = []
    record: dict[str, object] = {"seconds": seconds}  # of this command's training
    made = scoring.Baselines(task.splits.train, task.splits.dev)
    for name, (splits, stories) in task.test_sets().items():
        examples = task.encode(splits.test, vocabulary)
        print(f"Scoring the {name}: {examples}", flush=True)
        summaries = decoding.summarize(model, vocabulary, examples, task.max_summary)
        table = scoring.evaluate(summaries, splits, stories, made)
        shown = list(zip(splits.test, summaries, strict=True))[:5]
        texts.append(f"The {name}\n{table}")
        texts += [f"article    {p.article}\nreference  {p.summary}\nmodel      {text}" for p, text in shown]
        record[name] = table.to_dict() | {"examples": [p._asdict() | {"model": text} for p, text in shown]}
    text = "\n\n".join(texts)
    write_whole(folder / "scores.txt", f"{text}\n".encode())
    write_whole(folder / "scores.json", json.dumps(record, indent=1, ensure_ascii=False).encode())
    print(f"\n{text}\n\nCheckpoint, scores and learning curve are in {folder}")


def write(args: argparse.Namespace) -> None:
    """Summarize texts: a line of standard output for each; what is to be said about one goes to standard error.

    With a count above 1, a line per summary: its probability and it, after the number of the file's line. A text that
    can't be summarized leaves an empty line, or none under a count, and the exit status is 1.
    """
    from tfm_lib.texts import check_text, open_texts
    from tfm_lib.writing import ROWS, Summarizer

    if args.text is not None and args.file is not None:
        raise ValueError("a text and a file are two things to summarize; give one of them")
    if args.text is None and args.file is None and sys.stdin.isatty():
        raise ValueError("what to summarize? make write TEXT='...' or FILE=texts.txt; without make, --text or --file")
    if args.text is not None:
        name, lines = "the text", iter([check_text(args.text)])
    else:
        name, lines = open_texts(args.file or "-")
    summarizer = Summarizer.load(args.model)
    _say(f"Model: {summarizer.name}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as the texts are read
    at_once = 1 if name == "standard input" and sys.stdin.isatty() else ROWS  # who types waits for an answer
    numbered, number, failed = enumerate(lines, start=1), 0, False
    try:
        while batch := list(islice(numbered, at_once)):
            found = iter(summarizer.candidates([x for _, x in batch if isinstance(x, str)], args.count, args.beams))
            for number, text in batch:
                where, first = (name, []) if args.text is not None else (f"{name}, line {number}", [str(number)])
                if isinstance(text, ValueError):
                    failed = True
                    _say(f"error: {where}: {text}")
                    print(end="\n" if args.count == 1 else "")
                    continue
                for remark in summarizer.remarks(text):
                    _say(f"{where}: {remark}")
                for summary, probability in next(found):
                    line = " ".join(summary.split())
                    print(*([*first, f"{probability:.3g}", line] if args.count > 1 else [line]), sep="\t")
            sys.stdout.flush()
    except BrokenPipeError:  # who reads wants no more; what is still in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if not number:
        raise ValueError(f"{name}: no texts in it; give each a line, or a single one with TEXT='...' or --text")
    if failed:
        sys.exit(1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def flashcards(args: argparse.Namespace) -> None:
    """Write the questions of all lessons as an Anki deck."""
    from tfm_lib.ask.flashcards import write_deck
    from tfm_lib.ask.questions import read_course

    lessons = read_course(FOLDER)
    cards = write_deck(args.out, lessons)
    print(f"{cards} cards from {len(lessons)} lessons are in {args.out}; open it with Anki (File > Import)")


def progress(args: argparse.Namespace) -> None:
    """Show the exercises of all lessons, done and open."""
    from tfm_lib.ask.checks import progress

    progress(args.dir)


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

    command = commands.add_parser("progress", help="the exercises of all lessons, done and open")
    command.add_argument("--dir", type=Path, default=MY_LESSONS, help="where they were done (my_lessons)")
    command.set_defaults(run=progress)

    command = commands.add_parser("student", help="the lessons without their solutions, to hand out")
    command.add_argument("--out", type=Path, default=Path("student_lessons"), help="where to (student_lessons)")
    command.set_defaults(run=student)

    command = commands.add_parser("train", help="train a summarizer: ten short pairs, the newsroom, or a file of yours")
    command.add_argument("--task", choices=["ten_pairs", "newsroom"], help="what to learn without a file (ten_pairs)")
    command.add_argument(
        "--data", type=Path, help="JSONL, JSONL.gz, CSV or Parquet with article and summary, or a folder"
    )
    command.add_argument(
        "--minutes", type=float, default=10.0, help="stop after this time (10); the schedule is made for it"
    )
    command.add_argument("--steps", type=int, help="the schedule's length, instead of what two cores do in that time")
    command.add_argument("--device", help="cpu, cuda or mps; the fastest there is")
    command.add_argument("--workers", type=int, default=1, help="processes of this machine that train together (1)")
    command.add_argument("--seed", type=int, default=0, help="of weights, dropout, order and split (0)")
    command.add_argument("--resume", action="store_true", help="go on from the checkpoint of the same run")
    command.add_argument("--ship", action="store_true", help="for authors: make it the model of the package")
    command.set_defaults(run=train)

    command = commands.add_parser("write", help="summarize texts with a trained model")
    command.add_argument("--text", help="what to summarize")
    command.add_argument("--file", help="a text per line, or JSONL with article; - is standard input")
    command.add_argument("--model", help="a run's folder or checkpoint, or newsroom, which ships (the newest in runs/)")
    command.add_argument("--beams", type=int, help="of beam search, as many as summaries are wanted unless given")
    command.add_argument("--count", type=int, default=1, help="summaries per text, with their probabilities (1)")
    command.set_defaults(run=write)

    command = commands.add_parser("flashcards", help="the questions of all lessons as a deck for Anki")
    command.add_argument("--out", type=Path, default=Path("flashcards.apkg"), help="where to (flashcards.apkg)")
    command.set_defaults(run=flashcards)
    return root


def main() -> None:
    """Run one command; wrong input, Ctrl-C and SIGTERM end in one line instead of a traceback."""
    args = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what stops a job on a server acts like Ctrl-C
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")


if __name__ == "__main__":
    main()
