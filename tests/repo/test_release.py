"""The package as a stranger gets it: what is built, installed where there is nothing, and run from any folder.

What is built is the last commit. The first run downloads gigabytes.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import ROOT, UV
from tests.repo.published import checkout
from tests.repo.test_setup import PROJECT
from tests.times import HUNG

pytestmark = [pytest.mark.slow, pytest.mark.skipif(UV is None, reason="uv builds the package")]
VERSION = PROJECT["project"]["version"]
MEGABYTES = 15e6  # the most that the folder for Colab may take: the wheel, and its lessons once more
# What runs the tests; and no d2l, which is no dependency.
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "nbval", "nbclient", "protobuf")
ROOMS = [f"tests/{room}" for room in ("model", "data", "writing", "learning", "pretrained", "checkup", "ask", "show")]
ROOMS += [f"tests/commands/test_{name}.py" for name in ("copies", "install", "lab", "train_command")]
BIN = "Scripts" if sys.platform == "win32" else "bin"


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """The last commit, with what `uv build` makes of it in dist/: the sources, and from these the wheel."""
    folder = tmp_path_factory.mktemp("release") / "course"
    checkout(folder)
    subprocess.run([UV, "build", "--quiet"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(course) -> Path:
    return course / f"dist/tfm_lib-{VERSION}-py3-none-any.whl"


def test_what_is_built(course, wheel):
    """The wheel has the package, the lessons and what they read, and the licenses of all that; the sources have all."""
    with zipfile.ZipFile(wheel) as package:
        names = set(package.namelist())
        about = message_from_bytes(package.read(f"tfm_lib-{VERSION}.dist-info/METADATA"))
    lessons = {f"tfm_lib/notebooks/{path.name}" for path in course.glob("notebooks/*.ipynb")}
    package = {path.relative_to(course).as_posix() for path in course.glob("tfm_lib/**/*") if path.is_file()}
    records = {f"tfm_lib/{path.relative_to(course).as_posix()}" for path in course.glob("benchmarks/**/*.json")}
    licenses = {f"tfm_lib-{VERSION}.dist-info/licenses/{name}" for name in ("LICENSE", "LICENSE-text", "NOTICE")}
    rest = {f"tfm_lib-{VERSION}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    assert names == lessons | package | records | licenses | rest | {"tfm_lib/docs/transformer.py"}
    assert wheel.stat().st_size + sum(path.stat().st_size for path in course.glob("notebooks/*.ipynb")) < MEGABYTES

    assert about["License-Expression"] == "MIT AND CC-BY-4.0"
    needed = {Requirement(need).name for need in about.get_all("Requires-Dist")}
    assert "d2l" not in needed and {"torch", "jupyterlab", "sentencepiece"} <= needed
    with tarfile.open(course / f"dist/tfm_lib-{VERSION}.tar.gz") as sources:
        inside = {name.partition("/")[2] for name in sources.getnames()}
    assert {"tests/repo/test_release.py", "requirements.lock", "README.md", "NOTICE"} | package <= inside
    assert not [name for name in inside if re.match(r"(my_lessons|runs|site|colab|\.venv)/", name)]


def install(folder: Path, course: Path, wheel: Path, resolution: str) -> Path:
    """Python of a new environment with the wheel, its lessons' needs (no settings of our uv) and what runs tests."""
    groups = map(Requirement, PROJECT["dependency-groups"]["dev"])
    (folder / "tools.in").write_text("\n".join(str(need) for need in groups if need.name in TOOLS))
    python = folder / "env" / BIN / "python"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    chosen = ["--extra", "lessons", "--resolution", resolution, "--python-version", version, "-o", folder / "all.txt"]
    for command in (
        ["venv", "--python", sys.executable, folder / "env"],
        ["pip", "compile", "--no-config", "pyproject.toml", folder / "tools.in", *chosen],
        ["pip", "sync", "--python", python, folder / "all.txt"],
        ["pip", "install", "--python", python, "--no-deps", wheel],
    ):
        subprocess.run([UV, "--quiet", *command], cwd=course, check=True, stdout=subprocess.DEVNULL)
    return python


@pytest.fixture(scope="module", params=["lowest-direct", "highest"])
def python(request, tmp_path_factory, course, wheel) -> Iterator[Path]:
    """The Python of an environment with the oldest, or the newest, of all that the package supports."""
    folder = tmp_path_factory.mktemp("empty")
    yield install(folder, course, wheel, request.param)
    shutil.rmtree(folder)


def test_the_package_passes_its_tests_where_there_is_nothing_else(python, course, tmp_path):
    """In a copy of the repository without the package, so that what is tested is what was installed."""
    shutil.copytree(course, tmp_path / "course", ignore=shutil.ignore_patterns("tfm_lib", "dist"))
    command = [python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *ROOMS]
    ran = subprocess.run(command, cwd=tmp_path / "course", capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-5000:]


def test_lab_opens_the_lessons_in_any_folder(python, tmp_path):
    command = [python.with_name("tfm"), "lab", "--", "--no-browser", "--ip=127.0.0.1"]
    home = {
        name: str(tmp_path / "jupyter") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | home, stdout=subprocess.PIPE, text=True) as lab:
        try:
            added, opened = lab.stdout.readline(), lab.stdout.readline()
            assert added.startswith("Added to my_lessons/") and opened.startswith("The lessons are open at http://")
            with urllib.request.urlopen(opened.split()[-1], timeout=HUNG) as page:
                assert b"JupyterLab" in page.read()
        finally:
            lab.terminate()
    assert len(list((tmp_path / "my_lessons").glob("*.ipynb"))) == len(list(ROOT.glob("notebooks/*.ipynb")))


def test_offline_from_a_folder_of_wheels(course, wheel, tmp_path):
    """All but torch, of gigabytes, comes from the folder; pip may ask nobody."""
    python = install(tmp_path, course, wheel, "highest")
    pinned = (tmp_path / "all.txt").read_text().splitlines()
    pinned = [line for line in pinned if re.match(r"[a-z]", line) and not re.match(r"torch=|nvidia|cuda|triton", line)]
    (tmp_path / "rest.txt").write_text("\n".join(pinned))
    pip = [python, "-m", "pip", "--quiet"]
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, "pip"], check=True)
    subprocess.run([*pip, "wheel", "--no-deps", "-r", "rest.txt", "-w", "wheels"], cwd=tmp_path, check=True)
    names = [line.partition("=")[0] for line in pinned]
    subprocess.run([*pip, "uninstall", "--yes", "tfm-lib", *names], cwd=tmp_path, check=True)
    shutil.copy(wheel, tmp_path / "wheels")
    alone = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_NO_INDEX": "1"}
    offline = [*pip, "install", "--no-index", "--find-links", "wheels", "tfm-lib[lessons]"]
    subprocess.run(offline, cwd=tmp_path, env=os.environ | alone, check=True)
    write = [python.with_name("tfm"), "write", "--model", "newsroom", "--text", "The library in Lima burned on Monday."]
    wrote = subprocess.run(write, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(wrote.stdout.split()) > 3
