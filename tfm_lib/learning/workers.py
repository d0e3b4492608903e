"""Training by several processes: torchrun starts them, DistributedDataParallel adds up their gradients.

Every worker holds the whole model and takes its share of the rows of each batch, so that together they do what one
process does alone. Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.run as torchrun
from torch import nn
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ErrorHandler, ProcessFailure, record
from torch.nn.parallel import DistributedDataParallel

from tfm_lib.data.batches import Batch, Examples
from tfm_lib.errors import CourseError, marking
from tfm_lib.learning import training
from tfm_lib.learning.checkpoints import History, State
from tfm_lib.learning.recipes import Recipe

STOPPED = 130  # the exit status of a program that was interrupted, as shells have it


def launch(number: int, command: Sequence[str]) -> None:
    """Run `python -m tfm_lib COMMAND` in `number` processes of this machine, which talk over its loopback only.

    Raises KeyboardInterrupt where they were stopped, ChildProcessError where one was killed, ValueError with the
    message of an error that names its fix, and torchrun's ChildFailedError, with the traceback, for any other.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // number)))
    if loopback := {"lo", "lo0"} & {name for _, name in socket.if_nameindex()}:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback.pop()
    logging.disable()  # torchrun's reports of what is told below in a line
    alone = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={number}"]
    try:
        torchrun.main([*alone, "-m", "tfm_lib", *command])
    except SignalException as stop:
        raise KeyboardInterrupt from stop
    except ChildFailedError as failed:
        rank, cause = min(failed.failures.items(), key=lambda item: (_distance(item[1]), item[1].timestamp))
        if cause.exitcode == STOPPED:
            raise KeyboardInterrupt from failed
        if cause.exitcode < 0:
            if rank == 0:
                print(file=sys.stderr)  # its progress bar has not ended its line
            ended = f"worker {rank} of {number} (counted from 0) was ended by {cause.signal_name()}"
            raise ChildProcessError(ended) from failed
        kind, _, text = _message(cause).partition(": ")
        if kind == CourseError.__name__:
            raise CourseError(text) from failed
        raise
    finally:
        logging.disable(logging.NOTSET)


def _distance(failure: ProcessFailure) -> int:
    """How far a failure is from the cause: who loses a worker fails too, and torchrun ends the others by SIGTERM."""
    if failure.exitcode < 0:
        return 4 if failure.signal_name() == "SIGTERM" else 0
    if failure.exitcode == STOPPED:
        return 1
    return 3 if _message(failure).startswith("RuntimeError") else 2


def _message(failure: ProcessFailure) -> str:
    """A worker's error as "ValueError: ...", where it was recorded."""
    return failure.message["message"] if isinstance(failure.message, dict) else failure.message


def is_first() -> bool:
    """Whether this process is the one that saves, shows and scores: worker 0, or one that works alone."""
    return not dist.is_torchelastic_launched() or os.environ["RANK"] == "0"


class _WholeErrors(ErrorHandler):
    """Writes a worker's error whole or not at all: torchrun reads it, and may have ended the worker while it wrote."""

    def record_exception(self, e: BaseException) -> None:
        super().record_exception(e)
        if path := self._get_error_file_path():
            os.replace(path, path.removesuffix(".part"))

    def _get_error_file_path(self) -> str | None:
        path = super()._get_error_file_path()
        return path and f"{path}.part"


def run(command: Callable[[], None]) -> None:
    """Run a command, and end the process unless it succeeds; an error is told once, by torchrun, not by every worker.

    From the command's end on SIGINT and SIGTERM are ignored: torchrun sends one to who has lost a worker and is
    ending already, and Python, in the midst of its shutdown, would answer with a traceback.
    """
    try:
        try:
            record(marking, _WholeErrors())(command)
        finally:
            for name in (signal.SIGTERM, signal.SIGINT):
                signal.signal(name, signal.SIG_IGN)
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    except Exception:
        sys.exit(1)


def find_device(name: str | None = None) -> torch.device:
    """This worker's device: of several GPUs the one that has its number on this machine, or the CPU.

    Raises ValueError for a device that workers can't use, or with more workers than GPUs.
    """
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


def own_share(batch: Batch, rank: int, number: int) -> tuple[Batch, float]:
    """The rows of a batch that fall to one of `number` workers, and which part of the batch's labels they hold.

    Every row falls to one worker, and the parts sum to 1. Where rows are fewer than workers, who has none
    computes the first one with a part of 0, since gradients are added up by all workers or not at all.
    """
    rows = list(range(rank, len(batch.src), number)) or [0]
    own = Batch(batch.src[rows], batch.decoder_input[rows], batch.labels[rows], batch.pad_id)
    own_labels, labels = (int(part.labels.ne(part.pad_id).sum()) for part in (own, batch))
    return own, own_labels / labels if rank < len(batch.src) else 0.0


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
        if team.any(bool(signals)):
            raise KeyboardInterrupt
    return history


def steps_within(minutes: float, model: nn.Module, examples: Examples, recipe: Recipe) -> int:
    """`training.steps_within` by workers that are `joined`; what worker 0 measures holds for all of them."""
    team = _Team(model, next(model.parameters()).device, [])
    steps = training.steps_within(minutes, model, examples, recipe, team.take_step)
    return round(team.sum(steps if team.rank == 0 else 0.0))


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Meet the other workers, over NCCL on GPUs and over gloo on CPUs; at the end they part.

    `train` does it where the caller has not. Once in a process: torch can't do it twice.
    """
    on_gpu = device.type == "cuda"
    dist.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
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
        self,
        model: nn.Module,
        batch: Batch,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe,
        rate: float,
    ) -> float:
        """`training.train_step` on a batch that is shared out; returns the loss of the whole."""
        for group in optimizer.param_groups:
            group["lr"] = rate
        own, part = own_share(batch, self.rank, self.number)
        with self.own_random_numbers():
            logits = self.replica(own.src, own.decoder_input)  # (b, T, V)
        mean = training.sequence_loss(logits, own.labels, own.pad_id, recipe.label_smoothing)
        loss = part * mean  # so that the losses of all workers add up to that of the batch
        optimizer.zero_grad()
        (self.number * loss).backward()  # DDP takes the workers' mean; we want the sum
        optimizer.step()
        return self.sum(loss.item())

    @contextmanager
    def own_random_numbers(self) -> Iterator[None]:
        """Dropout differs between workers, yet their random states stay equal: one stands for all in a checkpoint."""
        seed = int(torch.randint(2**62, ()))
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed + self.rank)
            yield

    def agreed(self, over: bool) -> bool:
        """Whether the time is over, or a signal has come, for any worker."""
        return self.any(over or bool(self.signals))

    def any(self, flag: bool) -> bool:
        return self.sum(float(flag)) > 0

    def sum(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.item()


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Note SIGINT and SIGTERM instead of stopping at once, in the midst of what others wait for."""
    noted: list[int] = []
    before = {
        name: signal.signal(name, lambda number, frame: noted.append(number))
        for name in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield noted
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
