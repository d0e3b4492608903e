"""Training: the learning rate, the loss, and the loop, which can stop anywhere and go on."""

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from tfm_lib.batches import Batch, Examples, plan_batches
from tfm_lib.checkpoints import History, State
from tfm_lib.model import Transformer
from tfm_lib.vocabulary import PAD_ID


def set_seed(seed: int) -> None:
    """Seed Python, NumPy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def find_device(name: str | None = None) -> torch.device:
    """The device of that name, or the fastest there is: CUDA, then MPS, then the CPU."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    name = name or next(device for device, available in there.items() if available)
    if not there.get(name.split(":")[0]):
        raise ValueError(f"device {name!r} is not here; choose from {', '.join(d for d in there if there[d])}")
    return torch.device(name)


def paper_rate(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """The learning rate of step 1, 2, ...: a straight rise, then a fall with 1 / sqrt(step).

    Source: Vaswani et al. 2017, section 5.3; the factor is the usual addition.
    """
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def linear_rate(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """The learning rate of step 1, 2, ...: a straight rise to `peak`, then a straight fall to 0 after `steps`.

    For runs of a known length. Source: Devlin et al. 2019 (BERT), appendix A.2.
    """
    return peak * min(step / warmup_steps, (steps + 1 - step) / (steps + 1 - warmup_steps))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a run besides model and data; a checkpoint keeps it.

    Raises ValueError where a value can't be.
    """

    steps: int
    peak_rate: float = 1e-3  # the highest learning rate, reached after the warm-up
    warmup_steps: int = 100
    fall: str = "paper"  # after it: "paper" as 1 / sqrt(step), "linear" to zero at the last step
    max_tokens: int = 4096  # places in a batch: both sides, padding included
    label_smoothing: float = 0.1
    seed: int = 0  # of the data's order

    def __post_init__(self) -> None:
        if self.fall not in ("paper", "linear"):
            raise ValueError(f"fall must be 'paper' or 'linear', got {self.fall!r}")
        for name in ("steps", "peak_rate", "warmup_steps", "max_tokens"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.fall == "linear" and self.warmup_steps > self.steps:
            raise ValueError(f"a warm-up of {self.warmup_steps} steps doesn't fit a run of {self.steps}; shorten it")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must lie in [0, 1), got {self.label_smoothing}")

    def rate(self, step: int) -> float:
        """The learning rate of step 1, 2, ..., steps."""
        if self.fall == "linear":
            return linear_rate(step, self.peak_rate, self.warmup_steps, self.steps)
        return paper_rate(step, 1, self.warmup_steps, factor=self.peak_rate * self.warmup_steps**0.5)


def sequence_loss(logits: Tensor, labels: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy in nats, the mean over the labels that are not padding: (B, T, V), (B, T) -> ().

    Source of label smoothing: Szegedy et al. 2016, section 7; torch spreads it over all V tokens.
    Raises ValueError where logits and labels don't fit.
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise ValueError(
            f"labels (B, T) need logits (B, T, V), got {tuple(labels.shape)} and {tuple(logits.shape)}; "
            "pass what the model returned for this batch"
        )
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=pad_id, label_smoothing=label_smoothing)


def train(
    model: Transformer,
    examples: Examples,
    recipe: Recipe,
    *,
    minutes: float = math.inf,
    start: State | None = None,
    save: Callable[[State], None] | None = None,
    save_every: int = 200,
    progress: bool = True,
    take_step: Callable[..., float] | None = None,
    agree: Callable[[bool], bool] = bool,
) -> History:
    """Train `model` in place up to `recipe.steps`, or until the minutes are over; it stays in training mode.

    `start` goes on from a checkpoint whose weights are in the model: on the CPU, with the very weights of a run
    that never stopped. `save` is called before the first step, every `save_every` steps and at the end. Several
    workers put another step in the place of `train_step`, and agree on when the time is over (see `workers`).
    Raises ValueError if `start` belongs to another recipe, device or other data, or if the loss is no number.
    """
    if minutes <= 0:
        raise ValueError(f"minutes must be positive, got {minutes}")
    device = next(model.parameters()).device
    optimizer = make_optimizer(model)
    data = sha256(repr(examples).encode()).hexdigest()
    history = History() if start is None else resume(start, recipe, data, model, optimizer)
    keep = save or (lambda state: None)
    model.train()
    keep(
        State(asdict(recipe), history, data, snapshot(model, optimizer))
    )  # a folder that can't be written is found now
    done, begin = len(history.step), time.monotonic()
    batches = endless_batches(examples, recipe, done)
    layout = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps{postfix}"
    with tqdm(total=recipe.steps, initial=done, bar_format=layout, disable=not progress) as bar:
        for step in range(done + 1, recipe.steps + 1):
            batch = next(batches)
            tokens = int(batch.src.ne(PAD_ID).sum() + batch.labels.ne(PAD_ID).sum())
            loss = (take_step or train_step)(model, batch.to(device), optimizer, recipe, recipe.rate(step))
            if not math.isfinite(loss):
                raise ValueError(f"the loss of step {step} is {loss}; lower peak_rate or warm up longer")
            history.add(loss, recipe.rate(step), tokens)
            bar.set_postfix_str(_report(history, done, recipe.steps, begin, minutes), refresh=False)
            bar.update()
            if agree(time.monotonic() - begin >= 60 * minutes):
                break
            if step % save_every == 0:
                keep(State(asdict(recipe), history, data, snapshot(model, optimizer)))
    keep(State(asdict(recipe), history, data, snapshot(model, optimizer)))
    return history


def train_step(
    model: Transformer, batch: Batch, optimizer: torch.optim.Optimizer, recipe: Recipe, rate: float
) -> float:
    """One step of gradient descent on one batch; returns its loss."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    logits = model(batch.src, batch.decoder_input)  # (B, T, V)
    loss = sequence_loss(logits, batch.labels, PAD_ID, recipe.label_smoothing)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def make_optimizer(model: Transformer) -> torch.optim.Adam:
    """Adam with the constants of Vaswani et al. 2017, section 5.3; fused where torch has that."""
    fused = next(model.parameters()).device.type in ("cpu", "cuda", "mps")
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=fused)


def endless_batches(examples: Examples, recipe: Recipe, done: int) -> Iterator[Batch]:
    """The batches of epoch after epoch, without the first `done`: a run that goes on sees what is next."""
    for epoch in count():
        plan = plan_batches(examples, recipe.max_tokens, recipe.seed, epoch)
        for indices in plan[done:]:
            yield Batch.of([examples.articles[i] for i in indices], [examples.summaries[i] for i in indices])
        done = max(0, done - len(plan))


def _report(history: History, done: int, steps: int, begin: float, minutes: float) -> str:
    """What the progress bar says: loss, speed, and the time left until the steps or the minutes are over."""
    spent, now = time.monotonic() - begin, len(history.step)
    left = min((steps - now) * spent / (now - done), max(0.0, 60 * minutes - spent))
    speed = sum(history.tokens[done:]) / spent
    return f"loss {history.loss[-1]:.3f}, {speed:,.0f} tokens/s, {left // 60:.0f}:{left % 60:02.0f} left"


def snapshot(model: Transformer, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
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


def resume(start: State, recipe: Recipe, data: str, model: Transformer, optimizer: torch.optim.Adam) -> History:
    """Put Adam's state and the random states back, and return the history so far."""
    if Recipe(**start.recipe) != recipe:
        raise ValueError(f"the checkpoint was trained by {start.recipe}, not by {recipe}; go on with its recipe")
    if start.data != data:
        raise ValueError("the checkpoint was trained on other examples; give the same data, cut in the same way")
    device = next(model.parameters()).device
    trained_on = next((name for name in ("cuda", "mps") if f"random.{name}" in start.tensors), "cpu")
    if trained_on != device.type:
        raise ValueError(f"the checkpoint was trained on {trained_on}, not on {device.type}; go on with its device")
    adam: dict[int, dict[str, Tensor]] = {}
    for index, (name, _) in enumerate(model.named_parameters()):
        keys = ("step", "exp_avg", "exp_avg_sq") if start.history.step else ()
        adam[index] = {key: start.tensors[f"adam.{name}.{key}"] for key in keys}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": {i: state for i, state in adam.items() if state}, "param_groups": groups})
    torch.set_rng_state(start.tensors["random.cpu"])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(start.tensors[f"random.{device.type}"], device)
    return History(**{key: list(values) for key, values in asdict(start.history).items()})
