"""The commands behind make: lab, reset, student, progress, flashcards, train and write."""

import argparse
import io
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tfm_lib.errors import BY_MAKE, on_purpose, option
from tfm_lib.lab import FOLDER, MY_LESSONS, lab, reset, student

if TYPE_CHECKING:  # torch loads only in the commands that need it
    from tfm_lib.tasks import Task


def train(args: argparse.Namespace) -> None:
    """Train a summarizer, score it beside the baselines, and leave all of it in runs/."""
    if args.ship and (args.task, args.seed) != ("newsroom", 0):
        raise ValueError(
            f"what ships is the newsroom model of seed 0; add {option('task', 'newsroom')} and leave the seed"
        )

    from tfm_lib import runs, tasks

    if args.steps is not None and args.data is None:
        raise ValueError(
            f"{option('steps', args.steps)} is for pairs of a file: add {option('data', 'FILE')}, or leave it out, "
            "since the ten pairs and the newsroom have their own number of steps"
        )
    copying = None if args.copy is None else args.copy == "1"
    task = tasks.choose(args.task, args.data, args.seed, args.steps, copying, args.fields)
    if args.model is not None:
        if args.data is None or args.copy is not None:
            raise ValueError(
                f"a published model goes on with pairs of yours, and does not copy: give {option('data', 'FILE')} "
                f"beside {option('model', args.model)}, and no {option('copy')}"
            )
        from tfm_lib import pretrained

        task = pretrained.tuned(task, args.model)
    path, began = runs.checkpoint_of(task), time.time()
    try:
        if runs.works_together():
            from tfm_lib import workers

            workers.run(partial(_train, args, task))
        elif args.workers > 1:
            from tfm_lib import workers

            workers.launch(args.workers, sys.argv[1:])
        else:
            _train(args, task)
    except (KeyboardInterrupt, ChildProcessError) as end:
        if not path.exists() or (path.stat().st_mtime < began and not args.resume):
            raise
        why = f"error: {end}" if isinstance(end, ChildProcessError) else "stopped"
        sys.exit(f"{why}; {path} is whole, and the same command with {option('resume')} goes on from it")


def export(args: argparse.Namespace) -> None:
    """Write a run as a folder that transformers opens, with a model card."""
    import json

    from tfm_lib import pretrained, results, tasks
    from tfm_lib.checkpoints import load_checkpoint
    from tfm_lib.copying import CopyingTransformer
    from tfm_lib.lessons import course_file
    from tfm_lib.writing import SHIP, find_checkpoint

    path = find_checkpoint(args.model)
    model, vocabulary, state, rules = load_checkpoint(path)
    name = next((name for name, file in SHIP.items() if file == path), path.parent.name)
    scores, remark = path.with_name("scores.json"), ""
    if args.head == "0":
        if not isinstance(model, CopyingTransformer):
            raise ValueError(f"{name} does not copy, so it has no head to leave out; drop {option('head', 0)}")
        if args.task is None and args.data is None:
            raise ValueError(
                f"what {option('head', 0)} costs is measured on the development set: say which pairs it learned from, "
                f"by {option('data', 'FILE')} or {option('task', 'newsroom')}"
            )
        task = tasks.choose(args.task, args.data, args.seed, copying=True, fields=args.fields)
        whole = results.development_score(task, model, vocabulary, rules)
        model, vocabulary = pretrained.without_head(model, vocabulary)
        left = results.development_score(task, model, vocabulary, rules)
        remark = (
            f"It was trained with a head that copies, which is left out here. ROUGE-L on the development set, in "
            f"percent: {100 * left:.1f}, with the head {100 * whole:.1f}."
        )
        name += "-without-head"
        print(remark)
    folder = args.out or Path("exported") / name
    told = {}
    if args.head != "0" and path == pretrained.SHIPPED:
        told = json.loads(course_file("benchmarks/newsroom.json").read_text(encoding="utf-8"))["runs"][0]["test_sets"]
    elif args.head != "0" and scores.exists():
        told = json.loads(scores.read_text(encoding="utf-8"))
    generation = pretrained.Generation(max_new_tokens=model.config.max_length - 1, rules=rules)
    card = pretrained.card(name, str(folder), model, state, told, remark)
    pretrained.export(model, vocabulary, folder, generation=generation, card=card)
    print(f"{folder} opens in transformers: its README.md says how")


def _train(args: argparse.Namespace, task: "Task") -> None:
    from tfm_lib import pretrained, runs

    trained = runs.run(task, device_name=args.device, minutes=args.minutes, resume=args.resume, replace=args.replace)
    if args.ship and trained:
        print(f"{pretrained.ship(*trained).name} comes with the package from now on")


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


def checkup(args: argparse.Namespace) -> None:
    """Examine a Transformer of yours; the exit status is 0 for a healthy one, 1 for a sick one, 2 for neither."""
    from tfm_lib.checkup.command import examined

    report = examined(
        args.target,
        {
            name: getattr(args, name)
            for name in ("vocab_size", "pad_id", "start_id", "eos_id")
            if getattr(args, name) is not None
        },
        args.kind,
        args.quick,
    )
    print(report.to_json() if args.json else report)
    sys.exit(report.exit_code)


def flashcards(args: argparse.Namespace) -> None:
    """Write the questions of all lessons as an Anki deck."""
    from tfm_lib.ask.flashcards import write_deck
    from tfm_lib.ask.questions import read_course

    lessons = read_course(FOLDER)
    cards = write_deck(args.out, lessons)
    print(f"{cards} cards from {len(lessons)} lessons are in {args.out}; open it with Anki (File > Import)")


def progress(args: argparse.Namespace) -> None:
    """Show how far you are in the exercises and questions of each lesson."""
    from tfm_lib.ask.checks import progress

    progress(args.dir)


IN_PLAIN_WORDS = {  # of argparse
    r"^argument (\S+): not allowed with argument (\S+)$": r"\1 and \2 exclude each other; give one of them",
    r"^argument (\S+): ": r"\1 ",
    "^unrecognized arguments: ": "there is no option ",
    "^the following arguments are required: ": "what is missing: ",
}


class _Parser(argparse.ArgumentParser):
    """Wrong options end in one line, which calls them as they were given: to make, or to this command."""

    def error(self, message: str) -> NoReturn:
        for pattern, ours in IN_PLAIN_WORDS.items():
            message = re.sub(pattern, ours, message)
        if BY_MAKE in os.environ:
            message = re.sub(r"--([a-z]+)", lambda name: name[1].upper(), message)
        self.exit(2, f"error: {message}\n")


def _whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Reads a whole number within these bounds."""

    def read(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"wants a whole number from {least} on, got {text}")
        return int(text)

    return read


def _one_of(*names: str) -> Callable[[str], str]:
    """Reads one of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"is {' or '.join(names)}, not {text}")
        return text

    return read


def _fields(text: str) -> list[str]:
    fields = [field.strip() for field in text.split(",")]
    if len(fields) != 2 or not all(fields):
        raise argparse.ArgumentTypeError(f"wants the names of two fields, such as body,subject, got {text}")
    return fields


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"wants a number above 0, such as 10 or 0.5, got {text}")
    return minutes


def parser() -> argparse.ArgumentParser:
    """The command line: one subcommand a function."""
    root = _Parser(prog="python -m tfm_lib", description="The commands of the course.")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = commands.add_parser("lab", help="open the lessons in JupyterLab")
    command.add_argument("--dir", type=Path, help="another folder than my_lessons; authors give notebooks")
    command.add_argument("jupyter", nargs="*", help="options for JupyterLab, after --")
    command.set_defaults(run=lab)

    command = commands.add_parser("reset", help="a fresh copy of one lesson; the old one is kept")
    command.add_argument("lesson", help='its number or name, such as "03"')
    command.set_defaults(run=reset)

    command = commands.add_parser("progress", help="how far you are in the exercises and questions of each lesson")
    command.add_argument("--dir", type=Path, default=MY_LESSONS, help="where they were done (my_lessons)")
    command.set_defaults(run=progress)

    command = commands.add_parser("student", help="the lessons without their solutions, to hand out")
    command.add_argument("--out", type=Path, default=Path("student_lessons"), help="where to (student_lessons)")
    command.set_defaults(run=student)

    command = commands.add_parser("train", help="train a summarizer: ten short pairs, the newsroom, or a file of yours")
    command.add_argument(
        "--task", type=_one_of("ten_pairs", "newsroom"), help="what to learn without a file (ten_pairs)"
    )
    command.add_argument(
        "--data", type=Path, help="JSONL, JSONL.gz, CSV or Parquet with article and summary, or a folder"
    )
    command.add_argument(
        "--minutes",
        type=_minutes,
        help="how long to train on a file (10): the first steps are timed, and the number of steps made to fit; "
        "after half of the time again it stops in any case. Where that number is known, it stops after the minutes",
    )
    command.add_argument("--steps", type=_whole(1), help="train on a file for so many steps, instead of minutes")
    command.add_argument(
        "--copy",
        type=_one_of("0", "1"),
        help="1: a model that can copy words of the text; 0: one that can't (0, and 1 for a file)",
    )
    command.add_argument(
        "--fields",
        type=_fields,
        default=("article", "summary"),
        help="what the file calls text and summary (article,summary)",
    )
    command.add_argument(
        "--model", help="a published model to go on with, by its folder or its name on the hub, as facebook/bart-base"
    )
    command.add_argument("--device", help="cpu, cuda, xpu or mps; the fastest there is")
    command.add_argument(
        "--workers", type=_whole(1), default=1, help="processes of this machine that train together (1)"
    )
    command.add_argument(
        "--seed", type=_whole(0, 2**32 - 1), default=0, help="of weights, dropout, order and split (0)"
    )
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--resume", action="store_true", help="go on from the checkpoint of the same run")
    kept.add_argument("--replace", action="store_true", help="begin anew where a run of the same data is kept")
    command.add_argument("--ship", action="store_true", help="for authors: make it the model of the package")
    command.set_defaults(run=train)

    command = commands.add_parser("write", help="summarize texts with a trained model")
    command.add_argument("--text", help="what to summarize")
    command.add_argument("--file", help="a text per line, or JSONL with article; - is standard input")
    command.add_argument("--model", help="a run's folder or checkpoint, or what ships: newsroom, newsroom-copying")
    command.add_argument("--beams", type=_whole(1), help="of beam search, as many as summaries are wanted unless given")
    command.add_argument("--count", type=_whole(1), default=1, help="summaries per text, with their probabilities (1)")
    command.set_defaults(run=write)

    command = commands.add_parser("export", help="write a trained model as a folder that transformers opens")
    command.add_argument("--model", help="as for write; the newest run unless given")
    command.add_argument("--out", type=Path, help="the folder (exported/NAME)")
    command.add_argument("--head", type=_one_of("0"), help="0: leave the head of a copying model out")
    command.add_argument(
        "--task", type=_one_of("newsroom"), help="what a copying model learned, to score it without head"
    )
    command.add_argument("--data", type=Path, help="or the file that it learned from")
    command.add_argument("--fields", type=_fields, default=("article", "summary"), help="as for train")
    command.add_argument("--seed", type=_whole(0, 2**32 - 1), default=0, help="as for train (0)")
    command.set_defaults(run=export)

    command = commands.add_parser("checkup", help="what is wrong with a Transformer of yours, seen from outside")
    command.add_argument("target", help="module:name of the model, or of a function that builds it")
    for name, what in {"vocab_size": "ids", "pad_id": "padding", "start_id": "start", "eos_id": "end"}.items():
        told = "how many ids it knows" if name == "vocab_size" else f"the id of the sign for {what}"
        command.add_argument(f"--{name.replace('_', '-')}", type=_whole(0), help=told)
    command.add_argument(
        "--kind", type=_one_of("encoder-decoder", "decoder-only", "encoder-only"), help="if it is unclear"
    )
    command.add_argument("--quick", action="store_true", help="without long texts, with less learning")
    command.add_argument("--json", action="store_true", help="for machines")
    command.set_defaults(run=checkup)

    command = commands.add_parser("flashcards", help="the questions of all lessons as a deck for Anki")
    command.add_argument("--out", type=Path, default=Path("flashcards.apkg"), help="where to (flashcards.apkg)")
    command.set_defaults(run=flashcards)
    return root


def main() -> None:
    """Run one command; wrong input, Ctrl-C and SIGTERM end in one line, and only a bug in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # into a file, Windows writes an alphabet that lacks many signs
    args = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what stops a job on a server acts like Ctrl-C
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        if not on_purpose(error):
            raise
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")


if __name__ == "__main__":
    main()
