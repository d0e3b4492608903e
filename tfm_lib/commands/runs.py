"""A training run in its folder, from its start to its scores: what it leaves in runs/, and how it goes on."""

import math
import time
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path

import torch
from torch import Tensor

from tfm_lib import pretrained
from tfm_lib.commands import results
from tfm_lib.commands.tasks import OFTEN, PASSES, RISK, Task
from tfm_lib.data.batches import Examples, plan_batches
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError, option
from tfm_lib.learning import checkpoints, training
from tfm_lib.learning.checkpoints import CHECKPOINT, RUNS, Checkpoint
from tfm_lib.learning.head_start import begin_with, word_vectors
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.risk import risk_step
from tfm_lib.learning.team import Team, who_trains
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.next_token import NO_RULES

MINUTES = 10.0  # of a run whose number of steps is measured


def checkpoint_of(task: Task) -> Path:
    """Where the run of a task keeps its checkpoint."""
    return RUNS / task.name / CHECKPOINT


def run(
    task: Task, device_name: str | None, minutes: float | None, resume: bool, replace: bool, ship: bool = False
) -> None:
    """Train, draw and score, in a folder of the task's own; where it is to ship, it becomes the package's model.

    Where the task leaves its steps open, they are as many as this machine takes in the minutes (10), less what it took
    to get ready, but at most `tasks.PASSES` over the pairs; half of the time again is the limit. Otherwise the minutes
    are the limit, if they are given. Of several workers, only the first one says, saves and scores something.
    Raises ValueError where there is nothing to resume, or a run that nobody wants to replace.
    """
    team, path = who_trains(), checkpoint_of(task)
    began, device = time.perf_counter(), team.find_device(device_name)
    previous = _previous(task, path, device, resume, replace)
    vocabulary = previous.vocabulary if previous else task.vocabulary()
    examples = task.training_examples(vocabulary)
    with team.joined(device):
        if previous and previous.state:
            state, limit = previous.state, math.inf if minutes is None else minutes
            model, recipe = previous.model, state.recipe
            model.output.weight.requires_grad_(not recipe.fixed_embeddings)
        else:
            state, start = None, _Start(task, team, vocabulary, examples, device)
            model, recipe, limit = start.begin(minutes, began)
        if team.is_first():
            about = results.begin(task, model, vocabulary, examples, None if state else path.parent)
        started = time.perf_counter()
        save = partial(checkpoints.save_checkpoint, path, model, vocabulary)
        history = team.train(model, examples, recipe, minutes=limit, start=state, save=save)
    if not team.is_first():
        return
    seconds, done = time.perf_counter() - started, len(history.step)
    later = "" if done == recipe.steps else f"; the time is over, and {option('resume')} goes on"
    print(f"{done} steps of {recipe.steps} in {seconds:.1f} s{later}", flush=True)
    history.save(path.with_name("history.json"))
    results.draw(history, path.with_name("learning_curve.png"))
    if (rules := results.best_rules(task, model, vocabulary)) != NO_RULES:
        save(checkpoints.load_checkpoint(path, device).state, rules)
    results.report(task, model, vocabulary, rules, path.parent, {"seconds": seconds} | about)
    if ship:
        print(f"{pretrained.ship(model, vocabulary).name} comes with the package from now on")


@dataclass(frozen=True)
class _Start:
    """What a new run begins with."""

    task: Task
    team: Team
    vocabulary: Vocabulary
    examples: Examples
    device: torch.device

    def begin(self, minutes: float | None, began: float) -> tuple[Transformer, Recipe, float]:
        """The model with its recipe, and the minutes after which its training stops in any case."""
        task, vectors, limit = self.task, None, math.inf if minutes is None else minutes
        if task.start.head_start:
            sizes = len(self.vocabulary), task.start.sizes["d_model"]
            vectors = word_vectors(self.examples.articles, *sizes, task.recipe.seed)
        batches = len(plan_batches(self.examples, task.recipe.max_tokens))
        if task.measured:
            minutes = minutes or MINUTES
            left = max(minutes / 2, minutes - (time.perf_counter() - began) / 60)
            steps, limit = self.measured_steps(vectors, batches, left), 1.5 * minutes
            most = PASSES * batches
            if self.team.is_first() and steps > most:
                print(f"{option('steps', most)}: {PASSES} times over these pairs, which is less than the minutes hold")
            elif self.team.is_first():
                print(f"{option('steps', steps)} is what {minutes:g} minutes hold; it repeats this run exactly")
            task = task.of_steps(min(steps, most))
        task = task.of_passes(task.recipe.steps / batches, RISK if self.team.minimizes_risk else 0.0)
        return self.model(task, vectors), task.recipe, limit

    def measured_steps(self, vectors: Tensor | None, batches: int, minutes: float) -> int:
        """How many steps this machine takes in these minutes."""
        within, task = partial(self.team.steps_within, minutes), self.task
        steps = within(self.model(task, vectors), self.examples, task.recipe)
        if not self.team.minimizes_risk or not task.by_passes or steps < OFTEN * batches:
            return steps
        often = task.of_passes(steps / batches)
        trial = self.model(often, vectors)
        usual = within(trial, self.examples, often.recipe)
        risky = within(trial, self.examples, often.recipe, risk_step)
        return max(OFTEN * batches, round(1 / ((1 - RISK) / usual + RISK / risky)))

    def model(self, task: Task, vectors: Tensor | None) -> Transformer:
        """The model with which every run of this task, word vectors and seed begins.

        Its embeddings, which are the weights of its output too, learn only if the recipe lets them.
        """
        training.set_seed(task.recipe.seed)
        if task.start.published is not None:
            model = task.start.published()
        else:
            length, vocabulary = max(task.max_article, task.max_summary + 1), self.vocabulary
            ids = {name: getattr(vocabulary, name) for name in ("pad_id", "start_id", "eos_id")}
            config = TransformerConfig(vocab_size=len(vocabulary), max_length=length, **ids, **task.start.sizes)
            model = CopyingTransformer(config) if task.start.copying else Transformer(config)
            if vectors is not None:
                begin_with(model, vectors)
            if isinstance(model, CopyingTransformer):
                model.start_alike(vocabulary.slots)
        model.output.weight.requires_grad_(not task.recipe.fixed_embeddings)
        return model.to(self.device)


def _previous(task: Task, path: Path, device: torch.device, resume: bool, replace: bool) -> Checkpoint | None:
    """The checkpoint to go on from; None where a new run begins."""
    folder, resuming, replacing = path.parent, option("resume"), option("replace")
    if not resume:
        if not path.exists() or replace:
            return None
        state = _load(path, device).state
        if state is not None and not state.finished:
            raise CourseError(f"{folder} holds an unfinished run: {resuming} goes on, {replacing} begins it anew")
        raise CourseError(f"{folder} holds a finished run: {replacing} trains it anew; to keep it, rename it first")
    if not path.exists():
        similar = sorted(folder.parent.glob(f"{escape(task.name.rsplit('-', 2)[0])}-*/{path.name}"))
        hint = f" (but {', '.join(map(str, similar))}, of other data or another seed)" if similar else ""
        raise CourseError(f"nothing to resume: there is no {path}{hint}; train without {resuming}")
    previous = _load(path, device)
    if previous.state is None:
        raise CourseError(f"{path} has no run to go on with; {replacing} trains it anew")
    if not task.measured and (wanted := task.recipe.steps) != (steps := previous.state.recipe.steps):
        raise CourseError(f"{path} is a run of {steps} steps, not of {wanted}; go on without {option('steps', wanted)}")
    return previous


def _load(path: Path, device: torch.device) -> Checkpoint:
    try:
        return checkpoints.load_checkpoint(path, device)
    except ValueError as error:
        raise CourseError(f"{error}, or train anew with {option('replace')}") from error
