"""A training that is killed at any moment, or stopped, or finds the disk full, ends with the very same weights."""

import contextlib
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import pytest

from tests.commands.test_train_command import write_rows
from tests.learning.test_together import ended, path, start
from tfm_lib.learning.checkpoints import load_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")]

KILLS = 20
STEPS = 20
# The command itself, but it saves after every step: so kills meet many writes in seconds.
SAVES_OFTEN = """
import functools
import signal
from tfm_lib.commands import cli
from tfm_lib.learning import training

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it

training.train = functools.partial(training.train, save_every=1)
cli.main()
"""


def begin() -> Popen:
    return start("--steps", str(STEPS), program=("-c", SAVES_OFTEN))


def resume() -> Popen:
    return start("--resume", program=("-c", SAVES_OFTEN))


class Run(NamedTuple):
    file: Path  # its checkpoint
    whole: bytes  # which is this one in the end, where nothing interrupts it

    def written(self) -> int:
        """When the checkpoint was written, in nanoseconds; 0 where there is none."""
        try:
            return self.file.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def wait_for_saves(self, number: int, process: Popen) -> None:
        for _ in range(number):
            before = self.written()
            while self.written() == before and process.poll() is None:
                time.sleep(0.001)

    def parts(self) -> set[Path]:
        """What is being written, and what killed processes have left of it."""
        return set(self.file.parent.glob(f".{self.file.name}.*.part"))

    def steps(self) -> int | None:
        """How many steps the checkpoint holds, None where there is none; one that is not whole raises."""
        return len(load_checkpoint(self.file).state.history.step) if self.file.exists() else None

    def finish(self, process: Popen) -> None:
        assert ended(process)[0] == 0
        assert self.file.read_bytes() == self.whole, (
            "weights, Adam's averages, random state and history are not the same, bit for bit"
        )


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory) -> Iterator[Run]:
    """In a folder with articles of many lengths: they make several batches, so that the order of the data matters."""
    draw = random.Random(0)
    pairs = [(f"on day {n} the shop sold {n} lamps " * draw.randint(1, 6), f"{n} lamps sold") for n in range(80)]
    with contextlib.chdir(tmp_path_factory.mktemp("shop")):
        write_rows("shop.jsonl", pairs)
        assert ended(begin())[0] == 0
        assert load_checkpoint(path()).model.config.dropout > 0
        yield Run(path(), path().read_bytes())


@pytest.fixture
def run(whole_run) -> Run:
    """That run before it begins, without what was left by processes that another test has killed."""
    for file in (whole_run.file, *whole_run.parts()):
        file.unlink(missing_ok=True)
    return whole_run


def test_a_run_killed_twenty_times_ends_with_the_very_weights(run):
    """Killed and resumed again and again, from its start to its end; every second time while it saves."""
    draw = random.Random(0)
    began, moments, whole_runs = time.monotonic(), Counter[str](), 0
    while moments.total() < KILLS:
        before = run.parts()
        process = resume() if run.file.exists() else begin()
        while_saving = moments.total() % 2 == 1
        run.wait_for_saves(draw.randint(0, 9) if moments.total() > 1 else 0, process)
        time.sleep(draw.random() * (0.02 if while_saving else 0.2))
        while while_saving and not run.parts() - before and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        if process.wait() == -signal.SIGKILL:
            moments[f"{run.steps()} steps"] += 1
            print(f"kill {moments.total()}: {run.steps()} steps", "and a write cut short" * bool(run.parts() - before))
        if process.returncode == 0 or run.steps() == STEPS:  # the end came first: compare, and begin again
            assert run.file.read_bytes() == run.whole
            whole_runs += 1
            run.file.unlink()
    run.finish(resume() if run.file.exists() else begin())
    print(f"{dict(moments)}; {whole_runs + 1} ends compared, in {time.monotonic() - began:.0f} s")
    assert moments["None steps"] >= 2 and len(moments) >= 6, "the moments are spread over the run"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stopped_run_says_how_to_go_on_and_does(name, run):
    process = begin()
    run.wait_for_saves(5, process)
    process.send_signal(getattr(signal, name))
    goes_on = f"stopped; {run.file} is whole, and the same command with --resume goes on from it"
    assert ended(process) == (1, goes_on)
    assert 4 <= run.steps() < STEPS and not run.parts()
    run.finish(resume())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the limits of another process")
def test_a_full_disk_ends_in_one_line_and_keeps_the_last_checkpoint(run):
    import resource

    process = begin()
    run.wait_for_saves(3, process)
    # From now on no file of this process grows beyond half of a checkpoint, as on a disk that is nearly full.
    half = len(run.whole) // 2
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (half, half))
    status, last = ended(process)
    assert status == 1 and last.startswith(f"error: can't write {run.file} (")
    assert "what was there is kept; free " in last and run.steps() >= 2 and not run.parts()
    run.finish(resume())
