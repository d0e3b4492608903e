"""Training: the learning rate, the loss, and the loop, which can stop anywhere and go on."""

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from hashlib import sha256
from itertools import count

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from tfm_lib.data.batches import Batch, Examples, plan_batches
from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import History, State
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.risk import risk_step

TIMED_STEPS = 20


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
    """Of one process, always; of workers, whether this one says and saves something (`workers.is_first`)."""
    return True


def joined(device: torch.device) -> AbstractContextManager[None]:
    """There is nobody to meet; workers do (`workers.joined`)."""
    return nullcontext()


def sequence_loss(logits: Tensor, labels: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy in nats, the mean over the labels that are not padding: (B, T, V), (B, T) -> ().

    Source of label smoothing: Szegedy et al. 2016, section 7; torch spreads it over all V tokens.
    Raises ValueError where logits and labels don't fit.
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise CourseError(
            f"labels (B, T) need logits (B, T, V), got {tuple(labels.shape)} and {tuple(logits.shape)}; "
            "pass what the model returned for this batch"
        )
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
    agreed: Callable[[bool], bool] | None = None,
) -> History:
    """Train `model`, any that is called as model(src, tgt), in place up to `recipe.steps`; it stays in training mode.

    It ends earlier where the minutes are over. `start` goes on from a checkpoint whose weights are in the model: on
    the CPU, with the very weights of a run that never stopped. `save` is called before the first step, every
    `save_every` steps and at the end. Several workers put another step in the place of `train_step`, and agree on
    whether the time is over (see `workers`).
    Raises ValueError if there are no examples, if the model has other special tokens than they, if `start` belongs to
    another recipe, device or other data, or if the loss is no number.
    """
    if not minutes > 0:
        raise CourseError(f"minutes must be positive, got {minutes}")
    _check_examples(model, examples)
    device = next(model.parameters()).device
    optimizer = make_optimizer(model)
    data = sha256(repr(examples).encode()).hexdigest()
    history = History() if start is None else resume(start, recipe, data, model, optimizer)

    def keep() -> None:
        if save is not None:
            save(State(recipe, history, data, snapshot(model, optimizer)))

    model.train()
    keep()  # a folder that can't be written is found now
    done, seen, begin = len(history.step), 0, time.perf_counter()
    pace_since = (done, 0.0)  # step and second, from which the steps of one kind are timed
    batches = endless_batches(examples, recipe, done)
    layout = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps{postfix}"
    with tqdm(total=recipe.steps, initial=done, bar_format=layout, disable=not progress) as bar:
        for step in range(done + 1, recipe.steps + 1):
            batch = next(batches)
            tokens = int(batch.src.ne(batch.pad_id).sum() + batch.labels.ne(batch.pad_id).sum())
            if step == recipe.usual_steps + 1:
                pace_since = (step - 1, time.perf_counter() - begin)
            usual: Callable[..., float] = train_step if step <= recipe.usual_steps else risk_step
            loss = (take_step or usual)(model, batch.to(device), optimizer, recipe, recipe.rate(step))
            if not math.isfinite(loss):
                raise CourseError(f"the loss of step {step} is {loss}; {_why_no_number(batch)}")
            history.add(loss, recipe.rate(step), tokens)
            seen, spent = seen + tokens, time.perf_counter() - begin
            bar.set_postfix_str(_report(history, recipe, seen, pace_since, spent, minutes), refresh=False)
            bar.update()
            over = spent >= 60 * minutes
            if agreed is not None:
                over = agreed(over)
            if over or step == recipe.steps or step % save_every == 0:
                keep()
            if over:
                break
    return history


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
    minutes: float,
    model: nn.Module,
    examples: Examples,
    recipe: Recipe,
    take_step: Callable[..., float] | None = None,
) -> int:
    """How many steps this machine takes in so many minutes, 1 at least: it times 20, after one that warms up.

    They train the model: give one that is thrown away, and seed anew after it.
    """
    _check_examples(model, examples)
    device = next(model.parameters()).device
    optimizer, batches = make_optimizer(model), endless_batches(examples, recipe, 0)
    model.train()
    begin = 0.0
    for step in range(1 + TIMED_STEPS):
        (take_step or train_step)(model, next(batches).to(device), optimizer, recipe, recipe.rate(1))
        if step == 0:
            begin = time.perf_counter()
    spent = max(time.perf_counter() - begin, 1e-3)  # less is the coarseness of a clock
    return max(1, round(60 * minutes * TIMED_STEPS / spent))


def _why_no_number(batch: Batch) -> str:
    if batch.labels.eq(batch.pad_id).all():
        return f"all its labels are padding, the id {batch.pad_id}: give each summary a token that is not"
    return "lower peak_rate or warm up longer"


def _check_examples(model: nn.Module, examples: Examples) -> None:
    """A model that takes another token for padding would attend to padding, without a word."""
    if not len(examples):
        raise CourseError("there are no examples to learn from; give one at least")
    config = getattr(model, "config", None)
    for name in ("pad_id", "start_id", "eos_id"):
        of_model, of_examples = getattr(config, name, None), getattr(examples, name)
        if of_model not in (None, of_examples):
            raise CourseError(
                f"the model's {name} is {of_model}, and that of the examples' vocabulary {of_examples}; "
                f"build the model with {name}={of_examples}"
            )


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


def _report(
    history: History, recipe: Recipe, seen: int, pace_since: tuple[int, float], spent: float, minutes: float
) -> str:
    """What the progress bar says: loss, speed, and the time left until steps of this kind or the minutes are over."""
    now, (step, second) = len(history.step), pace_since
    end, then = (recipe.usual_steps, ", then risk") if now < recipe.usual_steps < recipe.steps else (recipe.steps, "")
    left = min((end - now) * (spent - second) / max(1, now - step), max(0.0, 60 * minutes - spent))
    speed = seen / max(spent, 1e-9)  # a coarse clock may not have ticked yet
    return f"loss {history.loss[-1]:.3f}, {speed:,.0f} tokens/s, {left // 60:.0f}:{left % 60:02.0f} left{then}"


def snapshot(model: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's state by the parameters' names, and the random states: the tensors of a `State`."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {
        f"adam.{names[parameter]}.{key}": value
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }
    device = next(model.parameters()).device
    tensors["random.cpu"] = torch.get_rng_state()
    if device.type != "cpu":
        tensors[f"random.{device.type}"] = torch.get_device_module(device).get_rng_state(device)
    return tensors


def resume(start: State, recipe: Recipe, data: str, model: nn.Module, optimizer: torch.optim.Adam) -> History:
    """Put Adam's state and the random states back, and return the history so far.

    A parameter that never got a gradient, as a frozen one, has no state. Raises ValueError as `train`.
    """
    if start.recipe != recipe:
        raise CourseError(f"the checkpoint was trained by {start.recipe}, not by {recipe}; go on with its recipe")
    if start.data != data:
        raise CourseError("the checkpoint was trained on other examples; give the same data, cut in the same way")
    device = next(model.parameters()).device
    trained_on = next((name for name in ("cuda", "xpu", "mps") if f"random.{name}" in start.tensors), "cpu")
    if trained_on != device.type:
        raise CourseError(f"the checkpoint was trained on {trained_on}, not on {device.type}; go on with its device")
    places = {name: place for place, (name, _) in enumerate(model.named_parameters())}
    adam: dict[int, dict[str, Tensor]] = {}
    for key, value in start.tensors.items():
        if key.startswith("adam."):
            name, _, of_adam = key.removeprefix("adam.").rpartition(".")
            if name not in places:
                raise CourseError(f"the checkpoint was trained with a parameter {name}; build the model that it was")
            adam.setdefault(places[name], {})[of_adam] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": adam, "param_groups": groups})
    torch.set_rng_state(start.tensors["random.cpu"])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(start.tensors[f"random.{device.type}"], device)
    return History(**{key: list(values) for key, values in asdict(start.history).items()})
