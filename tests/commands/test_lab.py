"""A learner never breaks the course by using it: copies of lessons, and JupyterLab around them."""

import json
import os
import sys
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.nbclaims import cells
from tfm_lib.commands.copies import as_file
from tfm_lib.commands.lab import _load_jupyter_server_extension, add_lessons, lab, reset_lesson, without_solutions


@pytest.fixture
def course(tmp_path: Path) -> tuple[Path, Path]:
    """Two lessons, and the folder for the learner's copies, which is not there yet."""
    lessons = tmp_path / "notebooks"
    lessons.mkdir()
    for name in ("00_start_here", "03_multi_head_attention"):
        (lessons / f"{name}.ipynb").write_bytes(notebook_of(f"original {name}"))
    return lessons, tmp_path / "my_lessons"


def notebook_of(text: str) -> bytes:
    """A notebook of one sentence, in the form of files."""
    return as_file(cells.notebook(cells.markdown(text)))


def contents(folder: Path) -> dict[str, str]:
    """The files of a folder, those of `notebook_of` by their sentence."""
    texts = {path.stem: path.read_text() for path in folder.iterdir()}
    return {name: "".join(json.loads(t)["cells"][0]["source"]) if t[0] == "{" else t for name, t in texts.items()}


def test_lab_adds_what_is_new_and_overwrites_nothing(course, monkeypatch):
    lessons, mine = course
    with monkeypatch.context() as patch, pytest.raises(OSError):  # an interruption leaves no half lesson
        patch.setattr(Path, "replace", lambda *_: Path("nowhere").stat())
        add_lessons(mine, lessons)
    assert add_lessons(mine, lessons) == ["00_start_here", "03_multi_head_attention"]
    (mine / "00_start_here.ipynb").write_text("my work")
    (lessons / "00_start_here.ipynb").write_bytes(notebook_of("original, corrected"))
    (lessons / "04_positional_encoding.ipynb").write_bytes(notebook_of("new"))
    assert add_lessons(mine, lessons) == ["04_positional_encoding"]
    assert contents(mine) == {
        "00_start_here": "my work",
        "03_multi_head_attention": "original 03_multi_head_attention",
        "04_positional_encoding": "new",
    }
    assert add_lessons(mine, lessons) == []


@pytest.mark.parametrize("lesson", ["03", "3", "03_multi_head_attention"])
def test_reset_brings_a_fresh_copy_and_loses_nothing(course, lesson):
    lessons, mine = course
    copy, old = reset_lesson(lesson, mine, lessons)
    assert (copy.name, old) == ("03_multi_head_attention.ipynb", None)
    for number in (1, 2, 3):
        copy.write_text(f"my work {number}")
        _, old = reset_lesson(lesson, mine, lessons)
        assert old.stem == f"03_multi_head_attention_kept_{number}"
    name = "03_multi_head_attention"
    assert contents(mine) == {name: f"original {name}"} | {f"{name}_kept_{n}": f"my work {n}" for n in (1, 2, 3)}


@pytest.mark.parametrize("lesson", ["07", "multi", "", "../00_start_here"])
def test_reset_names_the_lessons_that_there_are(course, lesson):
    lessons, mine = course
    with pytest.raises(ValueError, match=r"no lesson .*00_start_here, 03_multi_head_attention"):
        reset_lesson(lesson, mine, lessons)
    assert not mine.exists()


def test_there_are_no_lessons_without_solutions_where_there_are_no_lessons(tmp_path):
    with pytest.raises(ValueError, match="no lesson in"):
        without_solutions(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def started(monkeypatch) -> list[list[str]]:
    """The command lines that JupyterLab would have been started with."""
    labapp = pytest.importorskip("jupyterlab.labapp")
    calls: list[list[str]] = []
    monkeypatch.setattr(labapp.LabApp, "launch_instance", lambda argv: calls.append(argv))
    for name in ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "mine")
    monkeypatch.setenv("OMP_WAIT_POLICY", "mine")
    return calls


def test_lab_opens_the_first_lesson_with_our_settings_behind_the_learners(course, started):
    lab(course[0], ["--port=9999"])
    [options] = started
    assert "--LabApp.default_url=/lab/tree/00_start_here.ipynb" in options
    assert f"--ServerApp.root_dir={course[0]}" in options and options[-1] == "--port=9999"
    mine, ours = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert mine == "mine" == os.environ["OMP_WAIT_POLICY"]
    assert {path.name for path in Path(ours).rglob("*.json")} == {"course.json", "default_setting_overrides.json"}


SCREEN, REMOTE = {"DISPLAY": ":0"}, {"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="there is always a browser here, or no root")
@pytest.mark.parametrize(
    ("environment", "user", "options"),
    [
        ({}, 1000, {"--no-browser"}),
        (SCREEN, 1000, set()),
        (SCREEN, 0, {"--allow-root"}),
        (SCREEN | REMOTE, 0, {"--no-browser", "--allow-root"}),
    ],
)
def test_lab_opens_a_browser_where_there_is_a_screen_and_root_is_let_in(
    environment, user, options, course, started, monkeypatch
):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    lab(course[0])
    assert {"--no-browser", "--allow-root"}.intersection(*started) == options


def test_the_address_is_said_when_the_server_listens(capsys):
    """Jupyter's server loads extensions, and then asks its loop to listen: it refused whoever came at once."""
    server = MagicMock(public_url="http://here")
    todo = []
    server.io_loop.add_callback = lambda call, *args: todo.append(partial(call, *args))
    _load_jupyter_server_extension(server)
    server.io_loop.add_callback(print, "listens")
    for turn in todo:
        turn()
    assert capsys.readouterr().out.splitlines() == ["listens", "The lessons are open at http://here"]


def test_lab_says_where_lessons_are_missing(tmp_path):
    with pytest.raises(ValueError, match=r"no 00_start_here\.ipynb in .*my_lessons"):
        lab(tmp_path)
