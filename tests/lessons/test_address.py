"""Where the course is published, on a copy; and the first cell of a lesson, where the course is not installed."""

import io
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests import ROOT
from tests.lessons import address, author
from tests.lessons.stamp import setup_source
from tests.nbclaims.cells import read
from tests.pages import links

GITHUB, PAGES = "https://github.com/Ada/course", "https://ada.github.io/course/"
WHEEL = "tfm_lib-1.0.0-py3-none-any.whl"
INSTALL = "tfm_lib/commands/install.py"


@pytest.fixture
def clone(tmp_path, monkeypatch) -> Path:
    """What an address is written into, as a copy on which the author's commands work."""
    lesson = "notebooks/00_start_here.ipynb"
    for name in (*address.STAMPED, lesson):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(author, "ROOT", tmp_path)
    monkeypatch.setattr(links, "TEXTS", [tmp_path / "README.md"])
    monkeypatch.setattr(address, "ROOT", tmp_path)
    return tmp_path


def test_one_command_writes_the_address_everywhere_and_takes_it_back(clone):
    if address.repository():
        author.main(["address", ""])
    before = {path: path.read_text(encoding="utf-8") for path in clone.rglob("*.*") if path.is_file()}
    assert author.main(["address", GITHUB]) == 0
    readme, project, citation = ((clone / name).read_text(encoding="utf-8") for name in address.STAMPED)
    start = readme.partition("## Start\n")[2]
    assert start.startswith("\n[![Open in Codespaces](") and "(https://codespaces.new/Ada/course)\n" in start
    assert f"[read the lessons on the web]({PAGES})" in start
    assert f"```sh\ngit clone {GITHUB} && cd course\nmake lab " in readme
    wanted = {"Repository": GITHUB, "Documentation": PAGES}
    assert tomllib.loads(project)["project"]["urls"] == wanted and address.repository() == GITHUB
    cited = yaml.safe_load(citation)
    assert (cited["repository-code"], cited["url"]) == (GITHUB, PAGES)
    title, *_, setup = read(clone / "notebooks/00_start_here.ipynb").cells[:2]
    badge = title.source.split("\n\n")[2]
    assert badge.startswith("[![Open in Colab](") and "Ada/course/blob/main/notebooks/00_start_here.ipynb)" in badge
    assert PAGES in setup.source
    after = {path: path.read_text(encoding="utf-8") for path in before}
    assert all(after[path] != text for path, text in before.items())
    author.main(["address", GITHUB])
    assert after == {path: path.read_text(encoding="utf-8") for path in before}, "once is enough"
    author.main(["address", ""])
    assert before == {path: path.read_text(encoding="utf-8") for path in before}


@pytest.mark.parametrize(
    "wrong", ["github.com/a/b", "https://github.com/a", "https://github.com/a/b.git", "https://x.org/a/b"]
)
def test_an_address_of_another_form_is_refused_and_nothing_is_written(clone, wrong):
    before = {name: (clone / name).read_bytes() for name in address.STAMPED}
    assert "OWNER/NAME" in author.main(["address", wrong])
    assert before == {name: (clone / name).read_bytes() for name in address.STAMPED}


def test_what_is_stamped_is_that_of_pyproject():
    for name, stamped in address.STAMPED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert stamped(text, address.repository()) == text, "run `make address`"


# ---- the first cell


class Place:
    """A folder with a notebook and without the course, and what its first cell runs there."""

    def __init__(self) -> None:
        self.ran: list[tuple[list, str]] = []
        self.result = subprocess.CompletedProcess([], 0, "Installed.\n", "")

    def put(self, file: str, complete: bool = True) -> Path:
        """A wheel; if it is not whole, one whose upload still goes on."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as wheel:
            wheel.writestr(INSTALL, "the installation")
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(buffer.getvalue() if complete else buffer.getvalue()[:-9])
        return Path(file)

    def run(self, published: str = "", **names) -> str | None:
        """Executes the cell there; returns all that is shown of what it raises."""
        try:
            exec(setup_source(published), names)
        except Exception as error:
            [shown] = error._render_traceback_()  # what IPython shows of such an error, and nothing else
            return shown
        return None


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    here = Place()

    def run(command, input="", **_):
        here.ran.append((command, input))
        return here.result

    known = [None]  # before the installation, and after it
    monkeypatch.setattr("importlib.util.find_spec", lambda name: known.pop() if known else name)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    return here


@pytest.mark.parametrize("published", ["", GITHUB])
def test_the_first_cell_is_short_and_does_nothing_where_the_course_is(published, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = setup_source(published)
    assert len(source.splitlines()) <= 50 and max(map(len, source.splitlines())) <= 88
    monkeypatch.setenv("OMP_WAIT_POLICY", "mine")  # so that it comes back
    monkeypatch.delenv("OMP_WAIT_POLICY")
    exec(source, {})
    assert not list(tmp_path.iterdir()) and capsys.readouterr().out == ""
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


@pytest.mark.parametrize(
    ("file", "names"),
    [
        (WHEEL, {}),
        ("tfm_lib-1.0.0-py3-none-any (1).whl", {}),
        (f"drive/MyDrive/{WHEEL}", {}),
        (f"drive/Shareddrives/a/b/{WHEEL}", {}),
        (f"lessons/{WHEEL}", {"__vsc_ipynb_file__": "lessons/00_start_here.ipynb"}),  # whose kernel runs elsewhere
    ],
)
def test_the_first_cell_installs_the_wheel_that_is_beside_the_notebook_or_on_drive(place, file, names, capsys):
    place.put(WHEEL.replace("1.0.0", "0.9"), complete=False)
    wheel = place.put(file)
    assert place.run(**names) is None
    assert place.ran == [([sys.executable, "-", wheel], "the installation")]
    assert capsys.readouterr().out == "Installed.\n"


@pytest.mark.parametrize(("published", "pages"), [("", "make site"), (GITHUB, PAGES)])
def test_without_a_wheel_the_first_cell_says_what_to_do_in_plain_words(place, published, pages):
    place.put(WHEEL, complete=False)
    shown = place.run(published)
    assert "upload the file tfm_lib-*.whl" in shown and "`make colab`" in shown and pages in shown
    assert "Traceback" not in shown and max(map(len, shown.splitlines())) <= 88


@pytest.mark.parametrize("allowed", [True, False])
def test_in_colab_the_drive_is_opened_when_nothing_is_uploaded(place, monkeypatch, allowed):
    google, colab, drive = map(ModuleType, ("google", "google.colab", "google.colab.drive"))
    google.colab, colab.drive = colab, drive
    mounted: list[str] = []

    def mount(folder: str) -> None:
        mounted.append(folder)
        if not allowed:
            raise ValueError("mount failed")
        place.put(f"drive/MyDrive/course/{WHEEL}")

    drive.mount = mount
    for module in (google, colab, drive):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    shown = place.run()
    assert mounted == [str(Path("drive").absolute())]
    assert bool(place.ran) is allowed and (shown is None) is allowed


def test_with_an_address_the_repository_stands_for_the_wheel(place, monkeypatch):
    run = subprocess.run

    def build(command, **rest):
        if "wheel" in command:
            place.put(WHEEL)
        return run(command, **rest)

    monkeypatch.setattr(subprocess, "run", build)
    assert place.run(GITHUB) is None
    pip, installation = (command for command, _ in place.ran)
    assert pip[1:] == ["-m", "pip", "wheel", "-q", "--no-deps", f"git+{GITHUB}"]
    assert installation[-1] == Path(WHEEL)


def test_what_pip_complains_of_is_shown_alone(place):
    place.put(WHEEL)
    place.result = subprocess.CompletedProcess([], 1, "", "No space left\n")
    assert place.run() == "No space left\n"
