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


def put(file: str, complete: bool = True) -> Path:
    """A wheel; if it is not whole, one whose upload still goes on."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        wheel.writestr("tfm_lib/commands/install.py", "the installation")
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_bytes(buffer.getvalue() if complete else buffer.getvalue()[:-9])
    return Path(file)


def first_cell(published: str = "", **names) -> str | None:
    """Executes it; returns all that is shown of what it raises."""
    try:
        exec(setup_source(published), names)
    except Exception as error:
        [shown] = error._render_traceback_()  # what IPython shows of such an error, and nothing else
        return shown
    return None


@pytest.fixture
def ran(tmp_path, monkeypatch) -> list[tuple[list, str]]:
    """What the first cell runs, in a folder with a notebook and without the course."""
    commands = []

    def run(command, input="", **_):
        commands.append((command, input))
        return subprocess.CompletedProcess(command, 0, "Installed.\n", "")

    known = [None]  # before the installation, and after it
    monkeypatch.setattr("importlib.util.find_spec", lambda name: known.pop() if known else name)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    return commands


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
def test_the_first_cell_installs_the_wheel_that_is_beside_the_notebook_or_on_drive(ran, file, names, capsys):
    put(WHEEL.replace("1.0.0", "0.9"), complete=False)
    wheel = put(file)
    assert first_cell(**names) is None
    assert ran == [([sys.executable, "-", wheel], "the installation")]
    assert capsys.readouterr().out == "Installed.\n"


@pytest.mark.parametrize(("published", "pages"), [("", "make site"), (GITHUB, PAGES)])
def test_without_a_wheel_the_first_cell_says_what_to_do_in_plain_words(ran, published, pages):
    put(WHEEL, complete=False)
    shown = first_cell(published)
    assert "upload the file tfm_lib-*.whl" in shown and "`make colab`" in shown and pages in shown
    assert "Traceback" not in shown and max(map(len, shown.splitlines())) <= 88


@pytest.mark.parametrize("allowed", [True, False])
def test_in_colab_the_drive_is_opened_when_nothing_is_uploaded(ran, monkeypatch, allowed):
    google, colab, drive = map(ModuleType, ("google", "google.colab", "google.colab.drive"))
    google.colab, colab.drive = colab, drive
    mounted: list[str] = []

    def mount(folder: str) -> None:
        mounted.append(folder)
        if not allowed:
            raise ValueError("mount failed")
        put(f"drive/MyDrive/course/{WHEEL}")

    drive.mount = mount
    for module in (google, colab, drive):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    shown = first_cell()
    assert mounted == [str(Path("drive").absolute())]
    assert bool(ran) is allowed and (shown is None) is allowed


def test_with_an_address_the_repository_stands_for_the_wheel(ran, monkeypatch):
    run = subprocess.run

    def build(command, **rest):
        if "wheel" in command:
            put(WHEEL)
        return run(command, **rest)

    monkeypatch.setattr(subprocess, "run", build)
    assert first_cell(GITHUB) is None
    pip, installation = (command for command, _ in ran)
    assert pip[1:] == ["-m", "pip", "wheel", "-q", "--no-deps", f"git+{GITHUB}"]
    assert installation[-1] == Path(WHEEL)


def test_what_pip_complains_of_is_shown_alone(ran, monkeypatch):
    put(WHEEL)
    failed = subprocess.CompletedProcess([], 1, "", "No space left\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **options: failed)
    assert first_cell() == "No space left\n"
