"""The command line `tfm`, which is `python -m tfm_lib`, too: a function for each command."""

import io
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from tfm_lib.commands import course, teach
from tfm_lib.commands.export import export
from tfm_lib.commands.lab import FOLDER, MY_LESSONS, lab, reset
from tfm_lib.commands.options import expanded, integer
from tfm_lib.commands.train import train
from tfm_lib.commands.write import write
from tfm_lib.errors import BY_MAKE, CourseError, option
from tfm_lib.files import write_whole

# Where other work shares the cores, threads that spin while they wait slow training down more than ten times.
PATIENT = ("OMP_WAIT_POLICY", "PASSIVE")
UsageError: Any = typer.BadParameter.__bases__[0]  # it has no public name that every version of typer knows


Done = Annotated[Path, Option(parser=expanded, help="where they were done", show_default="my_lessons")]
Cards = Annotated[Path, Option(parser=expanded, help="a .apkg for Anki, .xml for Moodle, .zip in QTI 2.1")]


def progress(dir: Done = MY_LESSONS) -> None:
    """How far you are in each lesson."""
    from tfm_lib.ask.progress import progress

    progress(dir)


def flashcards(out: Cards = Path("flashcards.apkg")) -> None:
    """The questions for Anki, Moodle, or in QTI."""
    from tfm_lib.ask.questions import read_course

    lessons = read_course(FOLDER)
    if out.suffix == ".apkg":
        from tfm_lib.ask.flashcards import write_deck

        write_deck(out, lessons)
    elif out.suffix in (".xml", ".zip"):
        from tfm_lib.ask.lms import moodle, qti

        write_whole(out, (moodle if out.suffix == ".xml" else qti)(lessons))
    else:
        raise CourseError(f"{option('out', out)} should end in .apkg for Anki, .xml for Moodle or .zip for QTI 2.1")
    what, how = "questions", "import it into a question bank"
    if out.suffix == ".apkg":
        what, how = "cards", "open it with Anki (File > Import)"
    print(f"{sum(len(lesson.questions) for lesson in lessons)} {what} from {len(lessons)} lessons are in {out}; {how}")


Id = Annotated[int | None, Option(parser=integer(0), help="its id of that token")]
Kind = Annotated[Literal["encoder-decoder", "decoder-only", "encoder-only"] | None, Option(help="if it is unclear")]


def checkup(
    target: Annotated[str, Argument(help="module:name of the model, or of a function that builds it")],
    vocab_size: Annotated[int | None, Option(parser=integer(0), help="how many ids it knows")] = None,
    pad_id: Id = None,
    start_id: Id = None,
    eos_id: Id = None,
    src_vocab_size: Annotated[
        int | None, Option(parser=integer(0), help="the same of its source, if it differs")
    ] = None,
    src_pad_id: Id = None,
    kind: Kind = None,
    quick: Annotated[bool, Option("--quick", help="without long texts, with less learning")] = False,
    json: Annotated[bool, Option("--json", help="for machines")] = False,
) -> None:
    """What is wrong with a Transformer of yours.

    The exit status: 0 healthy, 1 sick, 2 could not be examined, 3 nothing is sick, but not all could be tried.
    """
    from tfm_lib.checkup.command import examined

    ids = {"vocab_size": vocab_size, "pad_id": pad_id, "start_id": start_id, "eos_id": eos_id}
    ids |= {"src_vocab_size": src_vocab_size, "src_pad_id": src_pad_id}
    report = examined(target, {name: value for name, value in ids.items() if value is not None}, kind, quick)
    print(report.to_json() if json else report)
    sys.exit(report.exit_code)


app = typer.Typer(
    help="The commands of the course.", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
for function in (lab, reset, progress, *teach.COMMANDS, train, write, export, checkup, flashcards, *course.COMMANDS):
    app.command()(function)  # type: ignore[type-var]
TFM: Any = typer.main.get_command(app)


def parameters(command: str) -> dict[str, Any]:
    """The options and arguments of a command by their names, in their order."""
    return {parameter.name: parameter for parameter in TFM.commands[command].params}


def given_to_make(command: str) -> list[str]:
    """What make was given, as this command line has it: DATA=pairs.jsonl is --data=pairs.jsonl, RESUME=1 --resume.

    Values of arguments, such as LESSON of reset and JUPYTER of lab, are words behind --; what is unknown is an option.
    """
    names = os.environ.get(BY_MAKE, "").split()
    known = parameters(command) if names else {}
    arguments, words = list[str](), list[str]()
    for name in names:
        value, parameter = os.environ[name], known.get(name.lower())
        if parameter is not None and parameter.param_type_name == "argument":
            try:
                words += [value] if parameter.nargs == 1 else shlex.split(value)
            except ValueError as error:
                raise CourseError(f"{name}={value}: {error}") from error
        elif parameter is None or not parameter.is_flag:
            arguments.append(f"--{name.lower()}={value}")
        elif value == "1":
            arguments.append(f"--{name.lower()}")
        else:
            raise CourseError(f"{name}=1 or nothing, not {name}={value}")
    return [*arguments, *(["--", *words] if words else [])]


def _in_a_line(error: Any) -> str:
    """What is wrong with the options, which are called as they were given: to make, or to this command."""
    by_make, command = BY_MAKE in os.environ, error.ctx.info_name
    message = re.sub(r"^Invalid value for '(\S+)': (Value error, )?", r"\1 ", error.format_message())
    if message.startswith("No such option"):
        known = [parameter for parameter in parameters(command).values() if parameter.param_type_name == "option"]
        names = " ".join(sorted(parameter.opts[0] for parameter in known)) or "none"
        message = f"{'make' if by_make else 'tfm'} {command} has no option {error.option_name}; its options: {names}"
    elif message.startswith("No such command"):
        message += f" There are: {', '.join(TFM.commands)}"
    elif message.startswith("Missing argument"):
        message = "which lesson? make reset LESSON=03" if by_make else f"{message} tfm {command} --help says which"
    return re.sub(r"--([a-z]+)", lambda option: option[1].upper(), message) if by_make else message


def run(*arguments: str) -> None:
    """Run a command; options that it does not have or can't use end in one line, and with exit status 2."""
    try:
        with TFM.make_context("tfm", list(arguments or ["--help"])) as context:
            TFM.invoke(context)
    except typer.Exit:  # after --help
        return
    except UsageError as error:
        print(f"error: {_in_a_line(error)}", file=sys.stderr)
        sys.exit(2)


def main() -> None:
    """Run one command; wrong input, Ctrl-C and SIGTERM end in one line, and only a bug in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # into a file, Windows writes an alphabet that lacks many signs
    os.environ.setdefault(*PATIENT)  # before torch loads; kernels and workers take it over
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what stops a job on a server acts like Ctrl-C
    try:
        if os.environ.get(BY_MAKE) and len(sys.argv) == 2:
            # What this starts, workers as well as terminals of JupyterLab, was not given them by make.
            sys.argv[2:], os.environ[BY_MAKE] = given_to_make(sys.argv[1]), ""
        run(*sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # who reads, as head does, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (CourseError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
