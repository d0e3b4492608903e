"""The commands of docs/scaling.md are right: what can run without a cluster runs here."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.test_cli import by_make
from tests.commands.test_train_command import write_pairs
from tests.learning.test_together import ENVIRONMENT, ROOT, path, torchrun
from tests.times import HUNG
from tfm_lib.learning.checkpoints import load_checkpoint

BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs/scaling.md").read_text(encoding="utf-8"), re.DOTALL)
SHELL = [text for language, text in BLOCKS if language == "sh"]


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are for Linux and macOS")


def one(*words: str) -> str:
    """The block of commands that holds all of these words."""
    [found] = [text for text in SHELL if all(word in text for word in words)]
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.slow
def test_fsdp_around_our_layers_trains_as_one_process_does(tmp_path):
    [program] = [text for language, text in BLOCKS if language == "python"]
    (tmp_path / "fsdp.py").write_text(program)
    assert any(text.endswith("torchrun --standalone --nproc-per-node 2 fsdp.py\n") for text in SHELL)
    losses = []
    for number in (1, 2):
        done = torchrun(number, str(tmp_path / "fsdp.py"))
        assert done.returncode == 0, done.stderr
        parameters = re.findall(r"holds (\S+) of (\S+)", done.stdout)
        held, whole = zip(*([int(count.replace(",", "")) for count in row] for row in parameters), strict=True)
        assert len(held) == number and max(held) < 1.02 / number * whole[0]
        losses.append([float(loss) for loss in re.findall(r"step \d: loss (\S+)", done.stdout)])
    assert losses[1] == pytest.approx(losses[0], rel=2e-3) and len(losses[0]) == 5
    assert losses[1][-1] < 0.7 * losses[1][0]


def test_make_passes_the_number_of_workers_on():
    given = dict(word.split("=") for word in one("make train").split()[2:])
    assert by_make("train", **given) == [f"--{name.lower()}={value}" for name, value in given.items()]
    assert "WORKERS" in given


def here(command: str) -> str:
    """A command of the page with this Python's torchrun, one worker a node, and nodes that all are this machine."""
    for there, instead in {
        ".venv/bin/torchrun": f"{sys.executable} -m torch.distributed.run",
        "--nproc-per-node 4": "--nproc-per-node 1",
        ":29500": f":{free_port()}",
        "--minutes": "--device cpu --steps 3 --minutes",
    }.items():
        assert there in command
        command = command.replace(there, instead)
    return command.replace("node1:", "localhost:")


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("pairs.jsonl"), 40)


@pytest.mark.slow
def test_two_nodes_train_together(pairs):
    command = here(one("--nnodes 2"))
    nodes = [subprocess.Popen(["bash", "-c", f"exec {command}"], env=ENVIRONMENT) for _ in range(2)]
    try:
        assert [node.wait(timeout=HUNG) for node in nodes] == [0, 0]
    finally:
        for node in nodes:
            node.terminate()
    assert load_checkpoint(path("pairs.jsonl")).state.finished


@pytest.mark.slow
def test_the_slurm_script_runs(pairs, tmp_path):
    """With stand-ins for Slurm's own commands: srun starts each node's task, scontrol names the nodes."""
    script = one("#SBATCH")
    assert script.startswith("#!/bin/bash\n#SBATCH")
    stand_ins = {
        "srun": '#!/bin/bash\n"$@" & first=$!\n"$@" & second=$!\nwait $first && wait $second\n',
        "scontrol": '#!/bin/bash\necho localhost; echo "$3" >&2\n',
    }
    for name, text in stand_ins.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train.sh").write_text(here(script))
    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}
    slurm["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-eu", "train.sh"], env=ENVIRONMENT | slurm, check=True, timeout=HUNG)
    assert load_checkpoint(path("pairs.jsonl")).state.finished
