"""Colab, imitated: what it has, its set-up cell, and every lesson with that cell, on each Python that is here.

What runs is the last commit, since Colab installs from the repository. The first run downloads gigabytes.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT, UV
from tests.lessons.stamp import is_setup, setup_source, stamp
from tests.nbclaims.cells import code, code_cells, notebook, read
from tests.times import HUNG
from tfm_lib.show.live import VIEW

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(UV is None, reason="uv builds the environments"),
    pytest.mark.skipif(sys.platform == "win32", reason="Colab is Linux"),
]
LESSONS = [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
# Of all that Colab has, what the lessons or the kernel come to use; first with everything as new as can be. What
# comes along with it is there in Colab, too, but for JupyterLab, which Colab's notebook, older than 7, does not need.
NEWEST = (
    "torch torchvision numpy pandas scipy matplotlib requests ipywidgets==7.7.1 notebook<7 ipykernel transformers pip"
)
# As they were in January 2026: https://github.com/googlecolab/backend-info at commit bd8aaa4.
OLDER = """
    torch==2.9.0 torchvision==0.24.0 numpy==2.0.2 pandas==2.2.2 scipy==1.16.3 matplotlib==3.10.0 requests==2.32.4
    ipywidgets==7.7.1 ipykernel==6.17.1 transformers==4.57.6 pip==24.1.2 setuptools==75.2.0 ipython==7.34.0
    jupyter_client==7.4.9 notebook==6.5.7 traitlets==5.7.1 tornado==6.5.1 pyzmq==26.2.1 safetensors==0.7.0
    tokenizers==0.22.2 tqdm==4.67.1 pyarrow==18.1.0 mistune==3.2.0 nltk==3.9.1 absl-py==1.4.0 pillow==11.3.0
"""
RUNTIMES = {version: (version, NEWEST) for version in ("3.11", "3.12", "3.13", "3.14")} | {"2026.01": ("3.12", OLDER)}
# Every control and quiz comes with its script, its data and its model. What is chosen in a quiz is there when its cell
# is run again. (What the scripts do is seen in a browser: test_browser_controls.py.)
TURN = """\
import os
from tfm_lib.ask.quiz import quiz
from tfm_lib.show.live import Live

for live in [shown for shown in Out.values() if isinstance(shown, Live)]:
    state = live.widget.get_state()
    assert f"function {state['name']}(" in state["_esm"] and "export default" in state["_esm"], state["name"]
    assert state["data"] and state["_css"], state["name"]

os.environ.pop("TFM_NO_PROGRESS", None)
for live in [shown for shown in Out.values() if isinstance(shown, Live)]:
    if getattr(live.widget, "name", None) != "lessonQuiz":
        continue
    lesson, part = live.widget.data["name"].split()
    about = {"lesson": lesson, "opening": part == "opening", "deeper": part == "deeper"}
    quiz(**about).widget.answers = {live.widget.data["questions"][0]["key"]: "A"}
    assert quiz(**about).widget.answers, f"{lesson} keeps no answer"
"""


class Colab(NamedTuple):
    """An environment like Colab's, with the course in it."""

    name: str
    folder: Path
    address: str  # of the repository
    before: dict[str, str]  # versions before the set-up cell ran

    @property
    def packages(self) -> dict[str, metadata.Distribution]:
        """What is installed now, by name."""
        [site] = self.folder.glob("env/lib/python*/site-packages")
        return {canonicalize_name(found.name): found for found in metadata.distributions(path=[str(site)])}

    def run(self, book: NotebookNode, name: str) -> None:
        """Executes a notebook where Colab would, in a folder without the lessons; a cell that fails ends the test."""
        kernels = KernelSpecManager(kernel_dirs=[str(self.folder / "kernels")])
        kernel = KernelManager(kernel_name="colab", kernel_spec_manager=kernels)
        resources = {"metadata": {"path": str(self.folder / "content")}}
        client = NotebookClient(book, km=kernel, timeout=HUNG, resources=resources)
        started, failure = [], None
        client.on_cell_start = lambda cell, cell_index: started.append(cell.id)
        try:
            client.execute(cleanup_kc=True, stderr=subprocess.DEVNULL)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failure = re.sub(r"\x1b\[[\d;]*m", "", str(error))
        if failure:
            pytest.fail(f"Colab {self.name}, {name}, cell {started[-1]}: {failure}", pytrace=False)


def versions(packages: dict[str, metadata.Distribution]) -> dict[str, str]:
    return {name: package.version for name, package in packages.items()}


def publish(course: Path) -> None:
    """A repository with the last commit alone: from a clone that was cut short, as in CI, pip would clone forever."""
    course.mkdir()
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=course, input=files, check=True)
    someone = "-c user.name=someone -c user.email=someone -c commit.gpgsign=false"
    for command in ("init --quiet", "add --all --force", f"{someone} commit --quiet --message course"):
        subprocess.run(["git", *command.split()], cwd=course, check=True)


@pytest.fixture(scope="module", params=RUNTIMES)
def colab(request, tmp_path_factory) -> Iterator[Colab]:
    """A fresh environment in which the set-up cell has run; the address of the repository is that of a folder."""
    version, wanted = RUNTIMES[request.param]
    find = [UV, "python", "find", "--system", "--no-python-downloads", version]
    found = subprocess.run(find, capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"uv finds no Python {version}")
    folder = tmp_path_factory.mktemp("colab")
    python = str(folder / "env/bin/python")
    for command in (
        ["venv", "--python", found.stdout.strip(), "env"],
        ["pip", "install", "--python", python, *wanted.split()],
        ["pip", "uninstall", "--python", python, "jupyterlab"],
    ):
        subprocess.run([UV, "--quiet", *command], cwd=folder, check=True)
    publish(folder / "course")
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Colab", "language": "python", "env": {"IPYTHONDIR": str(folder)}}
    for name in ("content", "kernels/colab"):
        (folder / name).mkdir(parents=True)
    (folder / "kernels/colab/kernel.json").write_text(json.dumps(spec))

    empty = Colab(request.param, folder, (folder / "course").as_uri(), {})
    running = empty._replace(before=versions(empty.packages))
    running.run(notebook(code(setup_source(running.address))), "set-up")
    yield running
    shutil.rmtree(folder)


def test_set_up_adds_what_the_course_needs_and_replaces_nothing(colab):
    packages = colab.packages
    after = versions(packages)
    replaced = {name: (was, after.get(name)) for name, was in colab.before.items() if after.get(name) != was}
    assert not replaced
    added = after.keys() - colab.before.keys()
    needed = {canonicalize_name(Requirement(need).name) for name in added for need in packages[name].requires or ()}
    assert added - needed == {"tfm-lib", "d2l"}
    print(f"Colab {colab.name}: added {', '.join(f'{name} {after[name]}' for name in sorted(added))}")


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_cell_of_a_lesson_runs_and_its_controls_answer(colab, lesson):
    [path] = colab.folder.glob(f"env/lib/python*/site-packages/tfm_lib/notebooks/{lesson}.ipynb")
    book = read(path)
    stamp(book, path.name, colab.address)
    cells, turn = code_cells(book), code(TURN)
    turn.id = "turn"
    book.cells.append(turn)
    colab.run(book, path.name)

    assert [cell.outputs for cell in cells if is_setup(cell)] == [[]]  # the course is there already
    live = [cell for cell in cells if any(VIEW in output.get("data", {}) for output in cell.outputs)]
    warned = {cell.id: output.text for cell in live for output in cell.outputs if output.get("name") == "stderr"}
    assert live
    assert not warned
    assert turn.outputs == []  # here stands what went wrong behind a button
