"""Several workers do what one process does: the same losses, every example once, stops that all of them agree on.

Run by torchrun, this file is also the program of the workers: one start of two of them, which takes seconds, serves
many tests.
"""

import contextlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import distributed

from tests.commands.test_train_command import LEFT_BEHIND, write_pairs
from tests.learning.test_training import EXAMPLES as OF_ONE_LENGTH
from tests.learning.test_training import RECIPE, SIZES, VOCABULARY, go_on, same_weights
from tests.times import HUNG
from tfm_lib.commands.runs import checkpoint_of
from tfm_lib.commands.tasks import choose
from tfm_lib.learning import launching, training, workers
from tfm_lib.learning.checkpoints import History, State, load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.copying import CopyingTransformer

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
# Summaries of many lengths, so that rows and labels are shared out differently.
EXAMPLES = replace(OF_ONE_LENGTH, summaries=[ids * (n % 3 + 1) for n, ids in enumerate(OF_ONE_LENGTH.summaries)])
TWENTY = replace(RECIPE, steps=20, warmup_steps=5)
HALF = 4  # of the seven steps of RECIPE

pytestmark = [
    pytest.mark.skipif(not distributed.is_available(), reason="this build of torch has no torch.distributed"),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]


def small_model(dropout: float = 0.0, kind: type[Transformer] = Transformer) -> Transformer:
    training.set_seed(0)
    return kind(TransformerConfig(vocab_size=len(VOCABULARY), max_length=16, dropout=dropout, **SIZES))


KINDS = {kind.__name__: kind for kind in (Transformer, CopyingTransformer)}


def torchrun(number: int, *command: str) -> subprocess.CompletedProcess:
    """Run `python COMMAND` in that many workers, which end when the tests do."""
    python = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*python, f"--nproc-per-node={number}", *command], env=ENVIRONMENT, **pipes)
    try:
        out, err = process.communicate(timeout=HUNG)
    except BaseException:
        process.terminate()  # torchrun ends its workers
        process.wait()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


# --- what the workers do; each writes what it has seen


def keep_half(path: Path, model: Transformer, state: State) -> None:
    if len(state.history.step) == HALF:
        save_checkpoint(path, model, VOCABULARY, state)


def twenty_losses(train: Callable[..., History], kind: str) -> list[float]:
    return train(small_model(kind=KINDS[kind]).double(), EXAMPLES, TWENTY, progress=False).loss


def work(folder: Path, rank: int) -> dict:
    """All that the tests below ask of workers; `folder` holds `alone.safetensors`, a run stopped halfway."""
    seen = {name: twenty_losses(workers.train, name) for name in KINDS}
    model, _, state, _ = load_checkpoint(folder / "alone.safetensors")
    seen["one process went before"] = workers.train(model, EXAMPLES, RECIPE, start=state, progress=False).loss

    model, half = small_model(dropout=0.2), folder / "together.safetensors"
    history = workers.train(model, EXAMPLES, RECIPE, save=lambda s: keep_half(half, model, s), save_every=1)
    seen["with dropout"] = history.loss
    seen["weights"] = sum(parameter.double().norm().item() for parameter in model.parameters())
    resumed, _, state, _ = load_checkpoint(half)
    training.set_seed(99)
    workers.train(resumed, EXAMPLES, RECIPE, start=state, progress=False)
    seen["the very weights"] = same_weights(resumed, model)

    with workers._Team(model, torch.device("cpu"), []).worker_seed():
        seen["own draw"] = torch.rand(()).item()
    seen["common draw"] = torch.rand(()).item()

    readings = itertools.count(1)
    training.time = types.SimpleNamespace(perf_counter=lambda: (10.0 + 5 * rank) * next(readings))  # two speeds
    seen["steps within a minute"] = workers.steps_within(1.0, small_model(), EXAMPLES, RECIPE)

    over = 1e-9 if rank == 1 else math.inf  # by one clock, not by the other
    seen["steps in time"] = workers.train(small_model(), EXAMPLES, RECIPE, minutes=over, progress=False).step
    model, endless, last = small_model(), replace(RECIPE, steps=10**6), folder / "stopped.safetensors"
    forwards = itertools.count(1)  # no clock: a busy machine may take any time to get here
    model.register_forward_hook(
        lambda *_: os.kill(os.getpid(), signal.SIGTERM) if next(forwards) == HALF and rank == 1 else None
    )
    save = partial(save_checkpoint, last, model, VOCABULARY)
    try:
        workers.train(model, EXAMPLES, endless, save=save, progress=False)
    except KeyboardInterrupt:
        seen["stopped"] = True
    return seen


def lose() -> None:
    """Fail as a worker does that has lost another one: torchrun sends it signals, and finds it in its shutdown."""
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signal.default_int_handler)  # as the command does
        weakref.finalize(workers, os.kill, os.getpid(), name)  # called in the shutdown
    raise RuntimeError("connection closed by peer")


# --- what the tests ask


class Run(NamedTuple):
    folder: Path
    seen: list[dict]  # by each worker
    shown: str


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("together")
    model, half = small_model(), folder / "alone.safetensors"
    training.train(model, EXAMPLES, RECIPE, save=lambda s: keep_half(half, model, s), save_every=1, progress=False)
    done = torchrun(2, "-m", "tests.learning.test_together", str(folder))
    assert {path.name for path in folder.glob("*.json")} == {"0.json", "1.json"}, done.stderr
    return Run(folder, [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)], done.stderr)


def gap(one: list[float], other: list[float]) -> float:
    """The largest difference, as a part of the value."""
    return max(abs(a - b) / abs(a) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_losses_are_those_of_one_process(kind, together):
    alone = twenty_losses(training.train, kind)
    assert len(alone) == 20 and alone[-1] < 0.9 * alone[0]
    assert all(gap(alone, seen[kind]) < 1e-12 for seen in together.seen)


def test_one_worker_shows_progress(together):
    # A bar says 0 once; the last step it says again when it closes, if steps are slow.
    assert together.shown.count("| 0/7 steps") == 1 and "| 7/7 steps, loss" in together.shown


def test_all_workers_hold_the_same_weights_though_their_dropout_differs(together):
    first, second = together.seen
    for name in ("weights", "with dropout", "common draw"):
        assert first[name] == second[name]
    assert first["own draw"] != second["own draw"]
    assert [seen["the very weights"] for seen in together.seen] == [True, True], (
        "after a new start from half of the run"
    )


def test_two_workers_go_on_from_one_process(together):
    alone = training.train(small_model(), EXAMPLES, RECIPE, progress=False).loss
    for seen in together.seen:
        assert seen["one process went before"][:HALF] == alone[:HALF]
        assert gap(alone, seen["one process went before"]) < 1e-5


def test_one_process_goes_on_from_two_workers(together):
    _, history = go_on(together.folder / "together.safetensors", EXAMPLES)
    expected = together.seen[0]["with dropout"]
    assert history.loss[:HALF] == expected[:HALF] and len(history.loss) == len(expected)
    assert gap(expected, history.loss) < 0.2, "its dropout draws other numbers"


def test_workers_agree_on_how_many_steps_a_minute_holds_and_when_it_is_over(together):
    assert [seen["steps within a minute"] for seen in together.seen] == [120, 120], "20 in 10 s, as worker 0 has it"
    assert [seen["steps in time"] for seen in together.seen] == [[1], [1]]


def test_workers_stop_together_when_one_gets_a_signal(together):
    assert [seen["stopped"] for seen in together.seen] == [True, True]
    state = load_checkpoint(together.folder / "stopped.safetensors").state
    assert len(state.history.step) == HALF, "the step in which it came is done and kept"


def test_a_worker_that_is_ending_is_deaf_to_signals(together):
    """Python once told a traceback of a signal in its shutdown; torchrun still learns what the error was."""
    assert "RuntimeError: connection closed by peer" in together.shown and "exitcode  : 1 " in together.shown
    assert "KeyboardInterrupt" not in together.shown and "Exception ignored" not in together.shown


# --- the command


def path(data: str = "shop.jsonl") -> Path:
    """Where the run on these pairs keeps its checkpoint."""
    return checkpoint_of(choose(None, Path(data)))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("shop.jsonl"), 80)


def start(*arguments: str, program: Sequence[str] = ("-m", "tfm_lib")) -> subprocess.Popen:
    """`train` on few pairs in the current folder, in a session of its own, as in a terminal."""
    command = [sys.executable, *program, "train", "--data", "shop.jsonl", "--device", "cpu", *arguments]
    options = {"env": ENVIRONMENT, "stdout": subprocess.DEVNULL, "start_new_session": True}
    with Path("errors.txt").open("w") as errors:
        return subprocess.Popen(command, stderr=errors, **options)


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """The exit status, and the last line of what was told; no process is left."""
    try:
        status = process.wait(timeout=HUNG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    errors = Path("errors.txt").read_text()
    assert "Traceback" not in errors
    return status, (errors.splitlines() or [""])[-1]


def wait_for_training(process: subprocess.Popen) -> None:
    """Until a step is done: then there is a checkpoint, too. (The progress bar need not show each step.)"""
    while not re.search(r"\b[1-9]\d*/\d", Path("errors.txt").read_text()) and process.poll() is None:
        time.sleep(0.05)
    assert path().exists() and process.poll() is None, Path("errors.txt").read_text()


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_in_one_line(elsewhere):
    psutil = pytest.importorskip("psutil", reason="finds the workers; comes with JupyterLab")
    process = start("--workers", "2", "--steps", "30000")
    wait_for_training(process)
    team = {worker.environ()["RANK"]: worker for worker in psutil.Process(process.pid).children()}
    team["1"].kill()
    assert ended(process) == (
        1,
        "error: worker 1 of 2 (counted from 0) was ended by SIGKILL; "
        f"{path()} is whole, and the same command with --resume goes on from it",
    )
    assert not any(worker.is_running() for worker in team.values())
    assert not load_checkpoint(path()).state.finished


@pytest.mark.slow
def test_stopped_at_the_terminal_two_workers_are_gone_on_from_by_three_and_by_one(elsewhere):
    process = start("--workers", "2", "--steps", "400")
    goes_on = f"{path()} is whole, and the same command with --resume goes on from it"
    for number in (3, 1):
        wait_for_training(process)
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches torchrun and every worker
        assert ended(process) == (1, f"stopped; {goes_on}")
        process = start("--resume", "--workers", str(number))
    assert ended(process)[0] == 0
    state = load_checkpoint(path()).state
    assert state.finished and state.history.loss[-1] < state.history.loss[0]
    assert {path.name for path in path().parent.iterdir()} == LEFT_BEHIND


@pytest.mark.slow
def test_an_error_of_workers_is_told_once(elsewhere):
    status, last = ended(start("--workers", "2", "--resume"))
    assert (status, last) == (1, f"error: nothing to resume: there is no {path()}; train without --resume")
    assert Path("errors.txt").read_text().count("\n") == 1


@pytest.mark.slow
def test_the_newsroom_is_learned_alike(elsewhere):
    """The command as readers type it, in single precision, where rounding grows over the steps: 2e-5 was measured."""
    losses = []
    for number in (1, 2):
        command = [sys.executable, "-m", "tfm_lib", "train", "--task", "newsroom", "--device", "cpu"]
        command += ["--workers", str(number), "--minutes", "1"]
        subprocess.run(command, env=ENVIRONMENT, check=True, timeout=HUNG)
        losses.append(History.load(Path("runs/newsroom-seed0/history.json")).loss[:50])
        Path("runs/newsroom-seed0/checkpoint.safetensors").unlink()
    assert len(losses[0]) == len(losses[1]) == 50
    assert gap(*losses) < 1e-4


if __name__ == "__main__":
    with workers.joined(torch.device("cpu")):
        rank = int(os.environ["RANK"])
        Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(work(Path(sys.argv[1]), rank)))
    if rank == 0:
        launching.run(lose)
