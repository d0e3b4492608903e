"""Training by several processes: torchrun starts them, DistributedDataParallel adds up their gradients.

Every worker holds the whole model and takes its share of the rows of each batch, so that together they do what one
process does alone. Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tfm_lib.data.batches import Batch, Examples
from tfm_lib.errors import CourseError
from tfm_lib.learning import training
from tfm_lib.learning.checkpoints import History, State
from tfm_lib.learning.launching import STOPS
from tfm_lib.learning.recipes import Recipe

minimizes_risk = False  # a step of risk samples texts, each worker its own, and nothing adds them up


def is_first() -> bool:
    """Whether this process is the one that saves, shows and scores: worker 0, or one that works alone."""
    return not dist.is_torchelastic_launched() or os.environ["RANK"] == "0"


def find_device(name: str | None = None) -> torch.device:
    """This worker's device: the GPU that has its number on this machine, or the CPU. Raises ValueError for another."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cuda", "cpu"):
        raise CourseError(f"workers train on cuda or cpu, not on {name}; choose one of them, or train with one worker")
    if training.find_device(name).type == "cpu":
        return torch.device("cpu")
    index, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if index >= gpus:
        raise CourseError(f"{os.environ['LOCAL_WORLD_SIZE']} workers, but GPUs: {gpus}; start a worker for each GPU")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def worker_share(batch: Batch, rank: int, number: int) -> tuple[Batch, float]:
    """The rows of a batch that fall to one of `number` workers, and which part of the batch's labels they hold.

    Every row falls to one worker, and the parts sum to 1. Where rows are fewer than workers, who has none
    computes the first one with a part of 0, since gradients are added up by all workers or not at all.
    """
    rows = list(range(rank, len(batch.src), number)) or [0]
    share = Batch(batch.src[rows], batch.decoder_input[rows], batch.labels[rows], batch.pad_id)
    labels, all_labels = (int(part.labels.ne(part.pad_id).sum()) for part in (share, batch))
    return share, labels / all_labels if rank < len(batch.src) else 0.0


def train(
    model: nn.Module,
    examples: Examples,
    recipe: Recipe,
    *,
    save: Callable[[State], None] | None = None,
    progress: bool = True,
    **options: Any,
) -> History:
    """`training.train` by all workers together, called by each of them with the same arguments.

    Worker 0 saves and shows progress. A checkpoint of any number of workers can be gone on from by any other.
    Raises what `training.train` raises, and KeyboardInterrupt in every worker when SIGINT or SIGTERM reached one:
    after the step, with a checkpoint of it.
    """
    device = next(model.parameters()).device
    with nullcontext() if dist.is_initialized() else joined(device), _noted_signals() as signals:
        team = _Team(model, device, signals)
        options |= {"save": save if is_first() else None, "progress": progress and is_first()}
        history = training.train(model, examples, recipe, **options, take_step=team.take_step, agreed=team.agreed)
        if team.agreed(False):
            raise KeyboardInterrupt
    return history


def steps_within(minutes: float, model: nn.Module, examples: Examples, recipe: Recipe) -> int:
    """`training.steps_within` by workers that are `joined`; what worker 0 measures holds for all of them."""
    team = _Team(model, next(model.parameters()).device, [])
    steps = training.steps_within(minutes, model, examples, recipe, team.take_step)
    return round(team.sum(steps if team.rank == 0 else 0.0))


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Meet the other workers, over NCCL on GPUs and over gloo on CPUs, once in a process: torch can't do it twice."""
    backend, gpu = ("nccl", device) if device.type == "cuda" else ("gloo", None)
    dist.init_process_group(backend, device_id=gpu)
    try:
        yield
    finally:
        dist.destroy_process_group()


class _Team:
    """What the workers do together: a step, and the decision to stop."""

    def __init__(self, model: nn.Module, device: torch.device, signals: list[int]) -> None:
        self.rank, self.number = dist.get_rank(), dist.get_world_size()
        self.device, self.signals = device, signals
        # It gives all workers the weights of worker 0; nobody passes before all have read the checkpoint.
        self.replica = DistributedDataParallel(model)

    def take_step(
        self, model: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, recipe: Recipe, rate: float
    ) -> float:
        """`training.train_step` on a batch that is shared out; returns the loss of the whole."""
        for group in optimizer.param_groups:
            group["lr"] = rate
        rows, part = worker_share(batch, self.rank, self.number)
        with self.worker_seed():
            logits = self.replica(rows.src, rows.decoder_input)  # (b, T, V)
        mean = training.sequence_loss(logits, rows.labels, rows.pad_id, recipe.label_smoothing)
        loss = part * mean  # so that the losses of all workers add up to that of the batch
        optimizer.zero_grad()
        (self.number * loss).backward()  # DDP takes the workers' mean; we want the sum
        optimizer.step()
        return self.sum(loss.item())

    @contextmanager
    def worker_seed(self) -> Iterator[None]:
        """Dropout differs between workers, yet their random states stay equal: one stands for all in a checkpoint."""
        seed = int(torch.randint(2**62, ()))
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed + self.rank)
            yield

    def agreed(self, over: bool) -> bool:
        """Whether the time is over, or a signal has come, for any worker."""
        return self.sum(float(over or bool(self.signals))) > 0

    def sum(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.item()


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Note SIGINT and SIGTERM instead of stopping at once, in the midst of what other workers wait for."""
    noted: list[int] = []
    before = {name: signal.signal(name, lambda number, frame: noted.append(number)) for name in STOPS}
    try:
        yield noted
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
