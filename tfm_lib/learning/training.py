"""Training: the loss, the step, and the loop, which can stop anywhere and go on."""

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from itertools import count

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.data.batches import Batch, Examples, plan_batches
from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import History, State
from tfm_lib.learning.progress import Progress
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.resuming import resume, snapshot
from tfm_lib.learning.risk import risk_step

TIMED_STEPS = 20
minimizes_risk = True  # as a Team, see `learning.team`


def set_seed(seed: int) -> None:
    """Seed Python, NumPy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def find_device(name: str | None = None) -> torch.device:
    """The device of that name, or the fastest there is: CUDA, then XPU (Intel), then MPS (Apple), then the CPU."""
    accelerators = {"cuda": torch.cuda, "xpu": torch.xpu, "mps": torch.backends.mps}
    available = [*(device for device, backend in accelerators.items() if backend.is_available()), "cpu"]
    name = name or available[0]
    if name.split(":")[0] not in available:
        raise CourseError(f"device {name!r} is not here; choose from {', '.join(available)}")
    return torch.device(name)


def is_first() -> bool:
    """Whether this process says, saves and scores; of several, `workers.is_first` is one."""
    return True


def joined(device: torch.device) -> AbstractContextManager[None]:
    """There is nobody to meet, as in `workers.joined`."""
    return nullcontext()


def sequence_loss(logits: Tensor, labels: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy in nats, the mean over the labels that are not padding: (B, T, V), (B, T) -> ().

    Source of label smoothing: Szegedy et al. 2016, section 7; torch spreads it over all V tokens.
    Raises ValueError where logits and labels don't fit.
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        shapes = f"{tuple(labels.shape)} and {tuple(logits.shape)}; pass what the model returned for this batch"
        raise CourseError(f"labels (B, T) need logits (B, T, V), got {shapes}")
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=pad_id, label_smoothing=label_smoothing)


def train(
    model: nn.Module,
    examples: Examples,
    recipe: Recipe,
    *,
    minutes: float = math.inf,
    start: State | None = None,
    save: Callable[[State], None] | None = None,
    save_every: int = 200,
    progress: bool = True,
    take_step: Callable[..., float] | None = None,
    agreed: Callable[[bool], bool] = bool,
) -> History:
    """Train `model`, any that is called as model(src, tgt), in place up to `recipe.steps`; it stays in training mode.

    It ends earlier where the minutes are over. `start` goes on from a checkpoint whose weights are in the model: on
    the CPU, with the very weights of a run that never stopped. `save` is called before the first step, every
    `save_every` steps and at the end. Workers take another step, and agree on whether the time is over (`workers`).
    Raises ValueError if there are no minutes or examples, if the model has other special tokens than these, if `start`
    belongs to another recipe, device or other data, or if the loss is no number.
    """
    _check(model, examples, minutes)
    optimizer, data = make_optimizer(model), sha256(repr(examples).encode()).hexdigest()
    history = History() if start is None else resume(start, recipe, data, model, optimizer)

    def keep() -> None:
        if save is not None:
            save(State(recipe, history, data, snapshot(model, optimizer)))

    model.train()
    keep()  # a folder that can't be written is found now
    with Progress(recipe.steps, len(history.step), progress, time.perf_counter()) as bar:
        for step, loss, tokens in _steps(model, examples, recipe, optimizer, len(history.step), take_step):
            history.add(loss, recipe.rate(step), tokens)
            over = agreed(bar.add(loss, tokens, time.perf_counter()) >= 60 * minutes)
            if over or step == recipe.steps or step % save_every == 0:
                keep()
            if over:
                break
    return history


def _steps(
    model: nn.Module,
    examples: Examples,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    done: int,
    take_step: Callable[..., float] | None,
) -> Iterator[tuple[int, float, int]]:
    """Take the steps behind the first `done`; yields the number of each, its loss, and its tokens without padding."""
    device = next(model.parameters()).device
    for step, batch in zip(range(done + 1, recipe.steps + 1), endless_batches(examples, recipe, done), strict=False):
        usual: Callable[..., float] = train_step if step <= recipe.steps - recipe.risk_steps else risk_step
        loss = (take_step or usual)(model, batch.to(device), optimizer, recipe, recipe.rate(step))
        if not math.isfinite(loss):
            why = "lower peak_rate or warm up longer"
            if batch.labels.eq(batch.pad_id).all():
                why = f"all its labels are padding, the id {batch.pad_id}: give each summary a token that is not"
            raise CourseError(f"the loss of step {step} is {loss}; {why}")
        yield step, loss, int(batch.src.ne(batch.pad_id).sum() + batch.labels.ne(batch.pad_id).sum())


def train_step(model: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, recipe: Recipe, rate: float) -> float:
    """One step of gradient descent on one batch; returns its loss."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    logits = model(batch.src, batch.decoder_input)  # (B, T, V)
    loss = sequence_loss(logits, batch.labels, batch.pad_id, recipe.label_smoothing)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def steps_within(
    minutes: float, model: nn.Module, examples: Examples, recipe: Recipe, take_step: Callable[..., float] = train_step
) -> int:
    """How many steps this machine takes in so many minutes, 1 at least: it times 20, after one that warms up.

    They train the model: give one that is thrown away, and seed anew after it.
    """
    _check(model, examples, minutes)
    device, optimizer = next(model.parameters()).device, make_optimizer(model)
    model.train()
    for step, batch in zip(range(1 + TIMED_STEPS), endless_batches(examples, recipe, 0), strict=False):
        if step == 1:
            begin = time.perf_counter()
        take_step(model, batch.to(device), optimizer, recipe, recipe.rate(1))
    spent = max(time.perf_counter() - begin, 1e-3)  # less is the coarseness of a clock
    return max(1, round(60 * minutes * TIMED_STEPS / spent))


def _check(model: nn.Module, examples: Examples, minutes: float) -> None:
    """A model that takes another token for padding would attend to padding, without a word."""
    if not minutes > 0:
        raise CourseError(f"minutes must be positive, got {minutes}")
    if not len(examples):
        raise CourseError("there are no examples to learn from; give one at least")
    for name in ("pad_id", "start_id", "eos_id"):
        of_model, of_examples = getattr(getattr(model, "config", None), name, None), getattr(examples, name)
        if of_model not in (None, of_examples):
            given = f"the model's {name} is {of_model}, and that of the examples' vocabulary {of_examples}"
            raise CourseError(f"{given}; build the model with {name}={of_examples}")


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the constants of Vaswani et al. 2017, section 5.3; fused where torch has that."""
    fused = next(model.parameters()).device.type in ("cpu", "cuda", "xpu", "mps")
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=fused)


def endless_batches(examples: Examples, recipe: Recipe, done: int) -> Iterator[Batch]:
    """The batches of epoch after epoch, without the first `done`: a run that goes on sees what is next."""
    for epoch in count():
        plan = plan_batches(examples, recipe.max_tokens, recipe.seed, epoch)
        for indices in plan[done:]:
            yield examples.batch(indices)
        done = max(0, done - len(plan))
