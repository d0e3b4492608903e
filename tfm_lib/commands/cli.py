"""The commands behind make: lab, reset, student, progress, flashcards, train and write."""

import argparse
import io
import os
import re
import signal
import sys
from pathlib import Path
from shlex import split
from typing import NoReturn

from tfm_lib.commands.export import export
from tfm_lib.commands.lab import FOLDER, MY_LESSONS, lab, reset, student
from tfm_lib.commands.options import fields, minutes, one_of, whole
from tfm_lib.commands.train import train
from tfm_lib.commands.write import write
from tfm_lib.errors import BY_MAKE, CourseError


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
    from tfm_lib.ask.progress import progress

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
            message = re.sub(r"what is missing: lesson", "which lesson? make reset LESSON=03", message)
        self.exit(2, f"error: {message}\n")


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
        "--task", type=one_of("ten_pairs", "newsroom"), help="what to learn without a file (ten_pairs)"
    )
    command.add_argument(
        "--data", type=Path, help="JSONL, JSONL.gz, CSV or Parquet with article and summary, or a folder"
    )
    command.add_argument(
        "--minutes",
        type=minutes,
        help="how long to train on a file (10): the first steps are timed, and the number of steps made to fit; "
        "after half of the time again it stops in any case. Where that number is known, it stops after the minutes",
    )
    command.add_argument("--steps", type=whole(1), help="train on a file for so many steps, instead of minutes")
    command.add_argument(
        "--copy",
        type=one_of("0", "1"),
        help="1: a model that can copy words of the text; 0: one that can't (0, and 1 for a file)",
    )
    command.add_argument(
        "--fields",
        type=fields,
        default=("article", "summary"),
        help="what the file calls text and summary (article,summary)",
    )
    command.add_argument(
        "--model", help="a published model to go on with, by its folder or its name on the hub, as facebook/bart-base"
    )
    command.add_argument("--device", help="cpu, cuda, xpu or mps; the fastest there is")
    command.add_argument(
        "--workers", type=whole(1), default=1, help="processes of this machine that train together (1)"
    )
    command.add_argument("--seed", type=whole(0, 2**32 - 1), default=0, help="of weights, dropout, order and split (0)")
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--resume", action="store_true", help="go on from the checkpoint of the same run")
    kept.add_argument("--replace", action="store_true", help="begin anew where a run of the same data is kept")
    command.add_argument("--ship", action="store_true", help="for authors: make it the model of the package")
    command.set_defaults(run=train)

    command = commands.add_parser("write", help="summarize texts with a trained model")
    command.add_argument("--text", help="what to summarize")
    command.add_argument("--file", help="a text per line, or JSONL with article; - is standard input")
    command.add_argument("--model", help="a run's folder or checkpoint, or what ships: newsroom, newsroom-copying")
    command.add_argument("--beams", type=whole(1), help="of beam search, as many as summaries are wanted unless given")
    command.add_argument("--count", type=whole(1), default=1, help="summaries per text, with their probabilities (1)")
    command.set_defaults(run=write)

    command = commands.add_parser("export", help="write a trained model as a folder that transformers opens")
    command.add_argument("--model", help="as for write; the newest run unless given")
    command.add_argument("--out", type=Path, help="the folder (exported/NAME)")
    command.add_argument("--head", type=one_of("0"), help="0: leave the head of a copying model out")
    command.add_argument(
        "--task", type=one_of("newsroom"), help="what a copying model learned, to score it without head"
    )
    command.add_argument("--data", type=Path, help="or the file that it learned from")
    command.add_argument("--fields", type=fields, default=("article", "summary"), help="as for train")
    command.add_argument("--seed", type=whole(0, 2**32 - 1), default=0, help="as for train (0)")
    command.set_defaults(run=export)

    command = commands.add_parser("checkup", help="what is wrong with a Transformer of yours, seen from outside")
    command.add_argument("target", help="module:name of the model, or of a function that builds it")
    for name, what in {"vocab_size": "ids", "pad_id": "padding", "start_id": "start", "eos_id": "end"}.items():
        told = "how many ids it knows" if name == "vocab_size" else f"the id of the sign for {what}"
        command.add_argument(f"--{name.replace('_', '-')}", type=whole(0), help=told)
    command.add_argument(
        "--kind", type=one_of("encoder-decoder", "decoder-only", "encoder-only"), help="if it is unclear"
    )
    command.add_argument("--quick", action="store_true", help="without long texts, with less learning")
    command.add_argument("--json", action="store_true", help="for machines")
    command.set_defaults(run=checkup)

    command = commands.add_parser("flashcards", help="the questions of all lessons as a deck for Anki")
    command.add_argument("--out", type=Path, default=Path("flashcards.apkg"), help="where to (flashcards.apkg)")
    command.set_defaults(run=flashcards)
    return root


def options_of(name: str) -> list[argparse.Action]:
    """The options of a command, in their order."""
    [commands] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return [action for action in commands.choices[name]._actions if action.dest != "help"]


def given_to_make(command: str) -> list[str]:
    """What make was given, as this command line has it: DATA=pairs.jsonl is --data=pairs.jsonl, RESUME=1 --resume.

    Of LESSON and JUPYTER come words that are no options. Raises CourseError for what the command does not have.
    """
    names = os.environ.get(BY_MAKE, "").split()
    options = {action.dest.upper(): action for action in options_of(command)} if names else {}
    arguments, words = [], []
    for name in names:
        value = os.environ[name]
        if name not in options:
            known = " ".join(f"{one}=" for one in sorted(options)) or "none"
            raise CourseError(f"make {command} has no option {name}=; its options: {known}")
        if not options[name].option_strings:
            words += [value] if options[name].nargs is None else _words(name, value)
        elif options[name].nargs != 0:
            arguments.append(f"--{name.lower()}={value}")
        elif value == "1":
            arguments.append(f"--{name.lower()}")
        else:
            raise CourseError(f"{name}=1 or nothing, not {name}={value}")
    return [*arguments, *(["--", *words] if words else [])]


def _words(name: str, value: str) -> list[str]:
    try:
        return split(value)
    except ValueError as error:
        raise CourseError(f"{name}={value}: {error}") from error


def main() -> None:
    """Run one command; wrong input, Ctrl-C and SIGTERM end in one line, and only a bug in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # into a file, Windows writes an alphabet that lacks many signs
    arguments = sys.argv[1:]
    try:
        if BY_MAKE in os.environ and len(arguments) == 1:
            arguments += given_to_make(arguments[0])
            # What this starts, workers as well as terminals of JupyterLab, was not given them by make.
            sys.argv[1:], os.environ[BY_MAKE] = arguments, ""
    except CourseError as error:
        sys.exit(f"error: {error}")
    args = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what stops a job on a server acts like Ctrl-C
    try:
        args.run(args)
    except (CourseError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
