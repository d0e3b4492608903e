"""`train`: from the options of the command to a run in its folder."""

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from tfm_lib.errors import CourseError, option

if TYPE_CHECKING:  # torch loads only in the commands that need it
    from tfm_lib.commands.tasks import Task


def train(args: argparse.Namespace) -> None:
    """Train a summarizer, score it beside the baselines, and leave all of it in runs/."""
    if args.ship and (args.task, args.seed) != ("newsroom", 0):
        raise CourseError(
            f"what ships is the newsroom model of seed 0; add {option('task', 'newsroom')} and leave the seed"
        )

    from tfm_lib.commands import runs, tasks

    if args.steps is not None and args.data is None:
        raise CourseError(
            f"{option('steps', args.steps)} is for pairs of a file: add {option('data', 'FILE')}, or leave it out, "
            "since the ten pairs and the newsroom have their own number of steps"
        )
    copying = None if args.copy is None else args.copy == "1"
    task = tasks.choose(args.task, args.data, args.seed, args.steps, copying, args.fields)
    if args.model is not None:
        if args.data is None or args.copy is not None:
            raise CourseError(
                f"a published model goes on with pairs of yours, and does not copy: give {option('data', 'FILE')} "
                f"beside {option('model', args.model)}, and no {option('copy')}"
            )
        from tfm_lib.commands.tuning import tuned

        task = tuned(task, args.model)
    from tfm_lib.learning.team import works_together

    path, began = runs.checkpoint_of(task), time.time()
    try:
        if works_together():
            from tfm_lib.learning import workers

            workers.run(partial(_train, args, task))
        elif args.workers > 1:
            from tfm_lib.learning import workers

            workers.launch(args.workers, sys.argv[1:])
        else:
            _train(args, task)
    except (KeyboardInterrupt, ChildProcessError) as end:
        if not path.exists() or (path.stat().st_mtime < began and not args.resume):
            raise
        why = f"error: {end}" if isinstance(end, ChildProcessError) else "stopped"
        sys.exit(f"{why}; {path} is whole, and the same command with {option('resume')} goes on from it")


def _train(args: argparse.Namespace, task: "Task") -> None:
    from tfm_lib import pretrained
    from tfm_lib.commands import runs

    trained = runs.run(task, device_name=args.device, minutes=args.minutes, resume=args.resume, replace=args.replace)
    if args.ship and trained:
        print(f"{pretrained.ship(*trained).name} comes with the package from now on")
