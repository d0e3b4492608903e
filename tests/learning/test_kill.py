"""A training that is killed at any moment, or stopped, or finds the disk full, ends with the very same weights."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tfm_lib
from tests.learning.test_together import path
from tests.times import HUNG
from tfm_lib.learning.checkpoints import load_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")]

KILLS = 20
STEPS = 20
PATH = Path("set by the fixture that writes the data")
ERRORS = Path("errors.txt")
# The command itself, in a process of its own, but it saves after every step: so kills meet many writes in seconds.
SAVES_OFTEN = """
import functools
import signal
from tfm_lib.commands import cli
from tfm_lib.learning import training

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it

training.train = functools.partial(training.train, save_every=1)
cli.main()
"""


def start(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-c", SAVES_OFTEN, "train", "--data", "shop.jsonl", "--device", "cpu", *arguments]
    here = {"PYTHONPATH": str(Path(tfm_lib.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    with ERRORS.open("w") as errors:
        return subprocess.Popen(command, env=os.environ | here, stdout=subprocess.DEVNULL, stderr=errors)


def finish(process: subprocess.Popen) -> bytes:
    """Wait for a run to end well; returns its last checkpoint."""
    assert process.wait(timeout=HUNG) == 0, ERRORS.read_text()
    return PATH.read_bytes()


def ended_badly(process: subprocess.Popen) -> str:
    """Wait for a run to end with an error; returns its last line, which is no traceback's."""
    assert process.wait(timeout=HUNG) == 1
    errors = ERRORS.read_text()
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def written(path: Path) -> int:
    """When the file was written, in nanoseconds; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def parts() -> set[Path]:
    """What is being written, and what killed runs have left of it."""
    return set(PATH.parent.glob(f".{PATH.name}.*.part"))


def wait_until(true: Callable[[], bool], process: subprocess.Popen) -> None:
    while not true() and process.poll() is None:
        time.sleep(0.001)


def wait_for_saves(number: int, process: subprocess.Popen) -> None:
    for _ in range(number):
        before = written(PATH)
        wait_until(lambda before=before: written(PATH) != before, process)


def steps_on_disk() -> int | None:
    """How many steps the checkpoint has behind it, None where there is none; one that is not whole raises."""
    if not PATH.exists():
        return None
    state = load_checkpoint(PATH).state
    assert state is not None
    return len(state.history.step)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With articles of many lengths: they make several batches, so that the order of the data matters."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    rows = [
        {"article": f"on day {n} the shop sold {n} lamps " * draw.randint(1, 6), "summary": f"{n} lamps sold"}
        for n in range(80)
    ]
    Path("shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setitem(globals(), "PATH", path())


@pytest.fixture(scope="module")
def whole_run() -> list[bytes]:
    """The last checkpoint of a run that nothing interrupts, made by the first test that asks."""
    return []


def uninterrupted(whole_run: list[bytes]) -> bytes:
    if not whole_run:
        whole_run.append(finish(start("--steps", str(STEPS))))
        assert load_checkpoint(PATH).model.config.dropout > 0
        PATH.unlink()
    return whole_run[0]


def test_a_run_killed_twenty_times_ends_with_the_very_weights(whole_run):
    """Killed and resumed again and again, from its start to its end; every second time while it saves."""
    expected = uninterrupted(whole_run)
    draw = random.Random(0)
    began, moments, whole_runs = time.monotonic(), Counter[str](), 0
    while moments.total() < KILLS:
        before = parts()
        process = start("--resume") if PATH.exists() else start("--steps", str(STEPS))
        while_saving = moments.total() % 2 == 1
        wait_for_saves(draw.randint(0, 9) if moments.total() > 1 else 0, process)
        time.sleep(draw.random() * (0.02 if while_saving else 0.2))
        if while_saving:
            wait_until(lambda before=before: bool(parts() - before), process)
        process.kill()
        if process.wait() == -signal.SIGKILL:
            done = steps_on_disk()
            moments["no checkpoint yet" if done is None else f"{done} steps"] += 1
            print(f"kill {moments.total()}: {done} steps on the disk", "and a write cut short" * bool(parts() - before))
        if process.returncode == 0 or steps_on_disk() == STEPS:  # the end came first: compare, and begin anew
            assert PATH.read_bytes() == expected
            whole_runs += 1
            PATH.unlink()
    assert finish(start("--resume") if PATH.exists() else start("--steps", str(STEPS))) == expected, (
        "weights, Adam's averages, random state and history are not the same, bit for bit"
    )
    print(f"{dict(moments)}; {whole_runs + 1} ends compared, in {time.monotonic() - began:.0f} s")
    assert moments["no checkpoint yet"] >= 2 and len(moments) >= 6, "the moments are spread over the run"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stopped_run_says_how_to_go_on_and_does(name, whole_run):
    expected = uninterrupted(whole_run)
    process = start("--steps", str(STEPS))
    wait_for_saves(5, process)
    process.send_signal(getattr(signal, name))
    last = ended_badly(process)
    assert last == f"stopped; {PATH} is whole, and the same command with --resume goes on from it"
    done = steps_on_disk()
    assert done is not None and 4 <= done < STEPS and not parts()
    assert finish(start("--resume")) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the limits of another process")
def test_a_full_disk_ends_in_one_line_and_keeps_the_last_checkpoint(whole_run):
    import resource

    expected = uninterrupted(whole_run)
    process = start("--steps", str(STEPS))
    wait_for_saves(3, process)
    # From now on no file of this process grows beyond half of a checkpoint, as on a disk that is nearly full.
    half = len(expected) // 2
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (half, half))
    last = ended_badly(process)
    assert last.startswith(f"error: can't write {PATH} (") and "what was there is kept; free " in last
    assert (steps_on_disk() or 0) >= 2 and not parts()
    assert finish(start("--resume")) == expected
