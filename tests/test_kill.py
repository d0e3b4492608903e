"""A training that is killed at any moment, or stopped, or finds the disk full, ends with the very same weights."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import tfm_lib
from tfm_lib.checkpoints import load_checkpoint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

KILLS = 20
STEPS = 20
PATH = Path("runs/shop-seed0/checkpoint.safetensors")
# The command itself, in a process of its own, but it saves after every step: so kills meet many writes in seconds.
SAVES_OFTEN = """
import functools
from tfm_lib import __main__, training

training.train = functools.partial(training.train, save_every=1)
__main__.main()
"""


def start(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-c", SAVES_OFTEN, "train", "--data", "shop.jsonl", "--device", "cpu", *arguments]
    here = {"PYTHONPATH": str(Path(tfm_lib.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=os.environ | here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def start_or_resume() -> subprocess.Popen:
    return start("--resume") if PATH.exists() else start("--steps", str(STEPS))


def finish(process: subprocess.Popen) -> None:
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 0, errors


def wait_for(path: Path, process: subprocess.Popen) -> float:
    """Look for a file until it is there or the process has ended; returns the seconds that took."""
    began = time.monotonic()
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, float, float]:
    """A run that nothing interrupts: its folder, its last checkpoint, seconds to the first one and to the end.

    Articles of many lengths make several batches, so that the order of the data matters; dropout is on.
    """
    folder = tmp_path_factory.mktemp("whole")
    draw = random.Random(0)
    rows = [
        {"article": f"on day {n} the shop sold {n} lamps " * draw.randint(1, 6), "summary": f"{n} lamps sold"}
        for n in range(80)
    ]
    (folder / "shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = Path.cwd()
    os.chdir(folder)
    try:
        began = time.monotonic()
        process = start("--steps", str(STEPS))
        first = wait_for(PATH, process)
        finish(process)
        end = time.monotonic() - began
        assert load_checkpoint(PATH).model.config.dropout > 0
        return folder, PATH.read_bytes(), first, end
    finally:
        os.chdir(before)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_run: tuple) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.jsonl").write_bytes((whole_run[0] / "shop.jsonl").read_bytes())


def steps_on_disk() -> int | None:
    """How many steps the checkpoint has behind it, None where there is none; one that is not whole raises."""
    if not PATH.exists():
        return None
    state = load_checkpoint(PATH).state
    assert state is not None
    return len(state.history.step)


def names(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_run_killed_twenty_times_ends_with_the_very_weights(whole_run: tuple[Path, bytes, float, float]) -> None:
    """Killed and resumed again and again, from before the first checkpoint to the end; every second time in a write."""
    _, expected, first, end = whole_run
    draw = random.Random(0)
    earliest, latest = 0.7 * first, 0.9 * end
    moments = [earliest + (latest - earliest) * (k + draw.random()) / KILLS for k in range(KILLS)]
    draw.shuffle(moments)
    found: list[int | None] = []
    writing = ends = 0
    part = PATH.with_name(PATH.name + ".part")
    while len(found) < KILLS:
        process = start_or_resume()
        number = len(found)
        try:
            process.communicate(timeout=moments[number])
        except subprocess.TimeoutExpired:
            if number % 2:
                wait_for(part, process)
                time.sleep(0.01 * draw.random())
            process.kill()
            process.communicate()
        if process.returncode == -signal.SIGKILL:
            writing += part.exists()
            found.append(steps_on_disk())
            assert len([name for name in names(PATH.parent) if name.endswith(".part")]) <= 1
            print(f"kill {number + 1}: after {moments[number]:.2f} s, steps on the disk: {found[-1]}", part.exists())
        else:  # it was over before its moment came: compare, and begin anew, a little earlier
            assert process.returncode == 0
            assert PATH.read_bytes() == expected
            ends += 1
            PATH.unlink()
            moments[number] *= 0.9
    finish(start_or_resume())
    assert PATH.read_bytes() == expected, "weights, Adam's averages, random state and history, bit for bit"
    assert not part.exists()
    print(f"{KILLS} kills, {writing} in a write, {found.count(None)} before a checkpoint, {ends + 1} ends compared")
    print(f"the first checkpoint after {first:.1f} s, the end after {end:.1f} s")
    assert writing and None in found and len(set(found)) > 5, "the moments are spread over the run"


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on_and_does(which: signal.Signals, whole_run: tuple) -> None:
    process = start("--steps", str(STEPS))
    wait_for(PATH, process)
    time.sleep(0.3)
    process.send_signal(which)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "Traceback" not in errors
    assert errors.splitlines()[-1] == f"stopped; {PATH} is whole, and the same command with --resume goes on from it"
    done = steps_on_disk()
    assert done is not None and done < STEPS and names(PATH.parent) == [PATH.name]
    finish(start("--resume"))
    assert PATH.read_bytes() == whole_run[1]


def test_a_full_disk_ends_in_one_line_and_keeps_the_last_checkpoint(whole_run: tuple) -> None:
    import resource

    process = start("--steps", str(STEPS))
    wait_for(PATH, process)
    # From now on no file of this process grows beyond half of a checkpoint, as on a disk that is nearly full.
    half = len(whole_run[1]) // 2
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (half, half))
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "Traceback" not in errors
    last = errors.splitlines()[-1]
    assert last.startswith(f"error: can't write {PATH} (") and "what was there is kept; free " in last
    assert steps_on_disk() is not None and names(PATH.parent) == [PATH.name]
    finish(start("--resume"))
    assert PATH.read_bytes() == whole_run[1]
