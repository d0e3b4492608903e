"""`train`: from the options of the command to a run in its folder."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from tfm_lib.commands.options import Fields, Seed, expanded, integer, names, positive
from tfm_lib.errors import CourseError, option

Name = Annotated[Literal["ten_pairs", "newsroom"] | None, Option(help="to learn without a file; or else ten_pairs")]
TIMED = "to train on a file: the first steps are timed, and their number is made to fit; half as many again at most"
Minutes = Annotated[float | None, Option(parser=positive, help=TIMED, show_default="10")]
Copy = Annotated[
    Literal["0", "1"] | None,
    Option(help="1: a model that can copy words of the text; 0: one that can't", show_default="0, and 1 for a file"),
]
Published = Annotated[str | None, Option(help="to go on with, a folder or a name on the hub, as facebook/bart-base")]


def train(
    task: Name = None,
    data: Annotated[Path | None, Option(parser=expanded, help="JSON, CSV, TSV or Parquet, .gz too; a folder")] = None,
    fields: Fields = None,
    skip: Annotated[bool, Option("--skip", help="leave out rows of the file that are no pairs")] = False,
    minutes: Minutes = None,
    steps: Annotated[int | None, Option(parser=integer(1), help="of training on a file, instead of minutes")] = None,
    length: Annotated[int | None, Option(parser=integer(1), help="of a file's summaries in tokens, or else 48")] = None,
    copy: Copy = None,
    model: Published = None,
    device: Annotated[str | None, Option(help="cpu, cuda, xpu or mps", show_default="the fastest there is")] = None,
    workers: Annotated[int, Option(parser=integer(1), help="processes of this machine that train together")] = 1,
    seed: Seed = 0,
    resume: Annotated[bool, Option("--resume", help="go on from the checkpoint of the same run")] = False,
    replace: Annotated[bool, Option("--replace", help="begin anew where a run of the same data is kept")] = False,
    ship: Annotated[bool, Option("--ship", help="for authors: make it the model of the package")] = False,
) -> None:
    """Train a summarizer. It is scored, too, and all of it is in runs/."""
    if resume and replace:
        raise CourseError(f"{option('resume')} and {option('replace')} exclude each other; give one of them")
    if data is None and (fields is not None or skip):
        given = option("skip") if fields is None else option("fields", fields)
        raise CourseError(f"{given} is for pairs of a file: add {option('data', 'FILE')}, or leave it out")
    if ship and (task, seed) != ("newsroom", 0):
        raise CourseError(f"the newsroom model of seed 0 ships; add {option('task', 'newsroom')} and leave the seed")
    if model is not None and (data is None or copy is not None or length is not None):
        raise CourseError(
            "a published model goes on with pairs of yours, by its own lengths, and does not copy: give "
            f"{option('data', 'FILE')} beside {option('model', model)}, and no {option('copy')} or {option('length')}"
        )
    from tfm_lib.commands import runs, tasks, tuning
    from tfm_lib.learning.team import works_together

    output = {} if works_together() else {"say": print}  # who has started workers has said it
    copying = None if copy is None else copy == "1"
    chosen = tasks.choose(task, data, seed, steps, copying, fields=names(fields), length=length, skip=skip, **output)
    if model is not None:
        chosen = tuning.tuned(chosen, model)
    run = partial(runs.run, chosen, device, minutes, resume, replace, ship)
    _start(run, workers, works_together(), runs.checkpoint_of(chosen), resume)


def _start(run: Callable[[], None], number: int, together: bool, path: Path, resume: bool) -> None:
    """Run in as many workers, in one that torchrun has started, or alone; a run that stops says how to go on."""
    began = time.time()
    try:
        if number == 1 and not together:
            run()
        else:
            from tfm_lib.learning import launching

            launching.run(run) if together else launching.launch(number, sys.argv[1:])
    except (KeyboardInterrupt, ChildProcessError) as end:
        if not path.exists() or (path.stat().st_mtime < began and not resume):
            raise
        why = f"error: {end}" if isinstance(end, ChildProcessError) else "stopped"
        sys.exit(f"{why}; {path} is whole, and the same command with {option('resume')} goes on from it")
