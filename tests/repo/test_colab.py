"""Colab, imitated: a learner with one folder on Drive, or one who follows a badge; and other ways to run a notebook.

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
from tests.repo.published import publish
from tests.times import HUNG
from tfm_lib.show.live import VIEW

pytestmark = [
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
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"
FROM_DRIVE, FROM_BADGE = ((OURS, way) for way in ("drive", "badge"))
EACH = [(runtime, way) for way in ("badge", "drive") for runtime in RUNTIMES if way == "badge" or runtime == "2026.01"]


def each(**cases: list) -> pytest.MarkDecorator:
    """The test in these runtimes, slow or weekly, each with the way by which the course comes into it."""
    marked = [(case, mark) for mark, of_mark in cases.items() for case in of_mark]
    chosen = [pytest.param(case, id="-".join((*case, mark)), marks=getattr(pytest.mark, mark)) for case, mark in marked]
    return pytest.mark.parametrize("colab", chosen, indirect=True)


# What a program has a kernel do before the first cell. Colab has its own package imported; VS Code changes the folder,
# as of CodeSnippets in https://github.com/microsoft/vscode-jupyter, src/platform/common/constants.ts.
BEFORE = {
    "colab": "import google.colab",
    "nbclient": "",
    "vscode": """\
import os as _VSCODE_os
import sys as _VSCODE_sys
%cd "{0}"
if _VSCODE_os.getcwd() not in _VSCODE_sys.path:
    _VSCODE_sys.path.insert(0, _VSCODE_os.getcwd())

del _VSCODE_sys
del _VSCODE_os
__vsc_ipynb_file__ = "{0}/{1}"
%config Completer.use_jedi = False
import matplotlib
%matplotlib inline
_VSCode_defaultMatplotlib_Params = dict(matplotlib.rcParams)
""",
}
# Of that package, what the first cell and anywidget use: Drive appears below the folder of the notebook.
GOOGLE = {
    "__init__": "from google.colab import drive, output",
    "drive": "def mount(place):\n    import os\n    os.symlink({drive!r}, place)",
    "output": "def enable_custom_widget_manager():\n    pass",
}
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
    """An environment like Colab's; in its folder `content` a notebook runs, and Drive holds what was put there."""

    name: str
    folder: Path
    address: str  # of the repository, or "" where the course is on Drive
    before: dict[str, str]  # versions before the set-up cell ran
    refused: str  # what the set-up cell shows while there is no course
    message: str  # what it prints when it has installed the course

    @property
    def packages(self) -> dict[str, metadata.Distribution]:
        """What is installed now, by name."""
        [site] = self.folder.glob("env/lib/python*/site-packages")
        return {canonicalize_name(found.name): found for found in metadata.distributions(path=[str(site)])}

    def lesson(self, name: str) -> NotebookNode:
        """A lesson as the learner opens it: from Drive, or from GitHub with its badge."""
        if not self.address:
            return read(self.folder / f"drive/MyDrive/course/{name}.ipynb")
        book = read(self.folder / f"course/notebooks/{name}.ipynb")
        stamp(book, f"{name}.ipynb", self.address)
        return book

    def run(self, book: NotebookNode, name: str, program: str = "colab") -> str:
        """Executes a notebook as a program would; returns what a cell that fails shows, or nothing."""
        content = self.folder / "content"
        kernels = KernelSpecManager(kernel_dirs=[f"{self.folder}/kernels"])
        kernel = KernelManager(kernel_name="colab", kernel_spec_manager=kernels)
        resources = {"metadata": {"path": str(self.folder if program == "vscode" else content)}}
        book.cells.insert(0, code(BEFORE[program].format(content, name)))
        client = NotebookClient(book, km=kernel, timeout=HUNG, resources=resources)
        started: list[str] = []
        client.on_cell_start = lambda cell, cell_index: started.append(cell.id)
        try:
            client.execute(cleanup_kc=True, stderr=subprocess.DEVNULL)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            shown = re.sub(r"\x1b\[[\d;]*m", "", str(error))
            return f"Colab {self.name}, {name} in {program}, cell {started[-1]}: {shown}"
        finally:
            del book.cells[0]
        return ""

    def walk(self, name: str, program: str = "colab") -> None:
        """Every cell of a lesson runs, each of its controls answers, and its first cell has nothing to do."""
        book = self.lesson(name)
        cells, turn = code_cells(book), code(TURN)
        turn.id = "turn"
        book.cells.append(turn)
        if failure := self.run(book, f"{name}.ipynb", program):
            pytest.fail(failure, pytrace=False)
        assert [cell.outputs for cell in cells if is_setup(cell)] == [[]]  # the course is there already
        live = [cell for cell in cells if any(VIEW in output.get("data", {}) for output in cell.outputs)]
        warned = {cell.id: output.text for cell in live for output in cell.outputs if output.get("name") == "stderr"}
        assert live
        assert not warned
        assert turn.outputs == []  # here stands what went wrong behind a button


def versions(packages: dict[str, metadata.Distribution]) -> dict[str, str]:
    return {name: package.version for name, package in packages.items()}


@pytest.fixture(scope="module")
def colab(request, tmp_path_factory) -> Iterator[Colab]:
    """A fresh environment in which the set-up cell has run: first without the course, then with it."""
    runtime, way = request.param
    version, wanted = RUNTIMES[runtime]
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
    places = {"IPYTHONDIR": str(folder), "PYTHONPATH": str(folder / "lib")}
    spec = {"argv": argv, "display_name": "Colab", "language": "python", "env": places}
    for name in ("content", "kernels/colab", "lib/google/colab", "drive/MyDrive"):
        (folder / name).mkdir(parents=True)
    (folder / "kernels/colab/kernel.json").write_text(json.dumps(spec))
    for name, text in GOOGLE.items():
        (folder / f"lib/google/colab/{name}.py").write_text(text.format(drive=str(folder / "drive")))

    setup = notebook(code(setup_source("")))
    empty = Colab(f"{runtime}, {way}", folder, "", {}, "", "")
    refused = empty.run(setup, "set-up")
    if way == "drive":  # as whoever has a clone puts it there
        command = [sys.executable, "-m", "tfm_lib", "colab", "--out", str(folder / "drive/MyDrive/course")]
        subprocess.run(command, cwd=folder / "course", check=True)
    address = (folder / "course").as_uri() if way == "badge" else ""
    running = empty._replace(address=address, before=versions(empty.packages), refused=refused)
    setup = notebook(code(setup_source(address)))
    if failure := running.run(setup, "set-up"):
        pytest.fail(failure, pytrace=False)
    lines = [output.text for output in setup.cells[0].outputs if output.get("name") == "stdout"]
    yield running._replace(message="".join(lines))
    shutil.rmtree(folder)


@each(slow=[FROM_DRIVE, FROM_BADGE], weekly=EACH)
def test_set_up_adds_what_the_course_needs_and_replaces_nothing(colab):
    packages = colab.packages
    after = versions(packages)
    replaced = {name: (was, after.get(name)) for name, was in colab.before.items() if after.get(name) != was}
    assert not replaced
    added = after.keys() - colab.before.keys()
    needed = {canonicalize_name(Requirement(need).name) for name in added for need in packages[name].requires or ()}
    assert added - needed == {"tfm-lib"}
    assert not added & {"jupyterlab", "genanki"}
    print(f"Colab {colab.name}: added {', '.join(f'{name} {after[name]}' for name in sorted(added))}")

    *_, line = colab.message.splitlines()
    assert line.startswith("Installed the course, version ") and line.endswith("all else is as it was.")
    assert "upload the file tfm_lib-*.whl" in colab.refused and "Traceback" not in colab.refused


# The tests above and these share environments: pytest runs together what one of them needs.


@each(slow=[FROM_DRIVE])
@pytest.mark.parametrize("lesson", LESSONS[:4])
def test_from_one_uploaded_folder_to_lesson_03_without_a_stop(colab, lesson):
    assert LESSONS[3].startswith("03_")
    colab.walk(lesson)


@each(slow=[FROM_BADGE])
def test_the_first_lesson_from_its_badge(colab):
    colab.walk(LESSONS[0])


@each(slow=[FROM_DRIVE])
@pytest.mark.parametrize("program", ["nbclient", "vscode"])
def test_without_jupyterlab_in_a_bare_nbclient_and_as_vs_code_starts_a_kernel(colab, program):
    assert "jupyterlab" not in colab.packages
    colab.walk(LESSONS[0], program)


@each(weekly=EACH)
@pytest.mark.parametrize("lesson", LESSONS)
def test_every_cell_of_a_lesson_runs_and_its_controls_answer(colab, lesson):
    colab.walk(lesson)
