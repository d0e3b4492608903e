"""The way in: the commands, the lock, the environments, and what the README promises about them."""

import argparse
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.nbclaims import cells
from tests.times import HUNG
from tfm_lib.commands.cli import given_to_make, main, options_of
from tfm_lib.commands.copies import as_file
from tfm_lib.commands.lab import add_lessons, lab, reset_lesson, without_solutions
from tfm_lib.errors import BY_MAKE
from tfm_lib.lessons import LESSONS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")


def direct_requirements() -> dict[str, Requirement]:
    """What pyproject.toml asks for, by name."""
    more = PROJECT["project"]["optional-dependencies"].values()
    groups = [PROJECT["project"]["dependencies"], *more, *PROJECT["dependency-groups"].values()]
    return {requirement.name: requirement for group in groups for requirement in map(Requirement, group)}


def make(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    """Run make as from a fresh shell, also when these tests themselves run under make or conda."""
    ours = ("MAKE", "MFLAGS", "CONDA", "ARGS", "PYTHON", "UV", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=kept | environment, capture_output=True, text=True, timeout=HUNG
    )


# ----------------------------------------------------------------------------------------------------
# A learner never breaks the course by using it.


@pytest.fixture
def course(tmp_path: Path) -> tuple[Path, Path]:
    """Two lessons, and the folder for the learner's copies, which is not there yet."""
    lessons = tmp_path / "notebooks"
    lessons.mkdir()
    for name in ("00_start_here", "03_multi_head_attention"):
        (lessons / f"{name}.ipynb").write_bytes(saying(f"original {name}"))
    return lessons, tmp_path / "my_lessons"


def saying(text: str) -> bytes:
    """A notebook of one sentence, in the form of files."""
    return as_file(cells.notebook(cells.markdown(text)))


def contents(folder: Path) -> dict[str, str]:
    """The files of a folder, those of `saying` by their sentence."""
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    return {name: "".join(json.loads(t)["cells"][0]["source"]) if t[0] == "{" else t for name, t in texts.items()}


def test_lab_adds_what_is_new_and_overwrites_nothing(course):
    lessons, mine = course
    assert add_lessons(mine, lessons) == ["00_start_here", "03_multi_head_attention"]
    (mine / "00_start_here.ipynb").write_text("my work")
    (lessons / "00_start_here.ipynb").write_bytes(saying("original, corrected"))
    (lessons / "04_positional_encoding.ipynb").write_bytes(saying("new"))

    assert add_lessons(mine, lessons) == ["04_positional_encoding"]
    assert contents(mine) == {
        "00_start_here.ipynb": "my work",
        "03_multi_head_attention.ipynb": "original 03_multi_head_attention",
        "04_positional_encoding.ipynb": "new",
    }
    assert add_lessons(mine, lessons) == []


def test_an_interrupted_copy_is_made_again(course, monkeypatch):
    lessons, mine = course

    def interrupted(part, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", interrupted)
        add_lessons(mine, lessons)
    assert add_lessons(mine, lessons) == ["00_start_here", "03_multi_head_attention"]
    assert contents(mine) == contents(lessons)


@pytest.mark.parametrize("lesson", ["03", "3", "03_multi_head_attention"])
def test_reset_brings_a_fresh_copy_and_loses_nothing(course, lesson):
    lessons, mine = course
    copy, kept = reset_lesson(lesson, mine, lessons)
    assert (copy.name, kept) == ("03_multi_head_attention.ipynb", None)

    for number in (1, 2, 3):
        copy.write_text(f"my work {number}")
        _, kept = reset_lesson(lesson, mine, lessons)
        assert kept.read_text() == f"my work {number}"
    assert contents(mine) == {
        "03_multi_head_attention.ipynb": "original 03_multi_head_attention",
        "03_multi_head_attention_kept_1.ipynb": "my work 1",
        "03_multi_head_attention_kept_2.ipynb": "my work 2",
        "03_multi_head_attention_kept_3.ipynb": "my work 3",
    }


@pytest.mark.parametrize("lesson", ["07", "multi", "", "../00_start_here"])
def test_reset_names_the_lessons_that_there_are(course, lesson):
    lessons, mine = course
    with pytest.raises(ValueError, match=r"no lesson .*00_start_here, 03_multi_head_attention"):
        reset_lesson(lesson, mine, lessons)
    assert not mine.exists()


@pytest.fixture
def started(monkeypatch) -> list[list[str]]:
    """The command lines that JupyterLab would have been started with."""
    labapp = pytest.importorskip("jupyterlab.labapp")
    calls: list[list[str]] = []
    monkeypatch.setattr(labapp.LabApp, "launch_instance", lambda argv: calls.append(argv))
    for name in ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    return calls


def test_lab_opens_the_first_lesson(course, started):
    lessons, _ = course
    lab(argparse.Namespace(dir=lessons, jupyter=["--port=9999"]))
    [options] = started
    assert "--LabApp.default_url=/lab/tree/00_start_here.ipynb" in options
    assert f"--ServerApp.root_dir={lessons}" in options
    assert options[-1] == "--port=9999"


def test_settings_of_the_course_stand_behind_those_of_the_learner(course, started, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "mine")
    lab(argparse.Namespace(dir=course[0], jupyter=[]))
    mine, ours = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert mine == "mine" and [path.name for path in sorted(Path(ours).rglob("*.json"))] == [
        "course.json",
        "default_setting_overrides.json",
    ]


@pytest.mark.parametrize(("asked", "name"), [("08", "08_decoding"), ("09", "09_speed"), ("10", "10_scale")])
def test_reset_knows_lessons_by_their_numbers_of_today(tmp_path, asked, name):
    assert reset_lesson(asked, tmp_path)[0].stem == name


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="there is always a browser here")
def test_lab_opens_a_browser_only_where_there_is_a_screen(course, started, monkeypatch):
    arguments = argparse.Namespace(dir=course[0], jupyter=[])
    lab(arguments)
    monkeypatch.setenv("DISPLAY", ":0")
    lab(arguments)
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    lab(arguments)
    assert ["--no-browser" in options for options in started] == [True, False, True]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no root")
def test_lab_allows_root_only_to_root(course, started, monkeypatch):
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        lab(argparse.Namespace(dir=course[0], jupyter=[]))
    assert ["--allow-root" in options for options in started] == [True, False]


def test_lab_says_where_lessons_are_missing(tmp_path):
    with pytest.raises(ValueError, match=r"no 00_start_here\.ipynb in .*my_lessons"):
        lab(argparse.Namespace(dir=tmp_path, jupyter=[]))


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder in which the package lies as a wheel installs it: with the lessons inside it."""
    package = tmp_path_factory.mktemp("installed") / "tfm_lib"
    shutil.copytree(ROOT / "tfm_lib", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "notebooks", package / "notebooks", ignore=shutil.ignore_patterns(".*"))
    return package.parent


def test_benchmarks_are_ours_where_another_package_brings_a_folder_of_that_name():
    import benchmarks  # pyarrow 17 installs one

    assert benchmarks.__file__ == str(ROOT / "benchmarks/__init__.py")


def test_the_wheel_brings_the_lessons_to_where_they_are_looked_for():
    with (ROOT / "pyproject.toml").open("rb") as file:
        brought = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]
    assert brought == {name: f"tfm_lib/{name}" for name in ("notebooks", "benchmarks", "docs")}


@pytest.mark.parametrize(
    ("command", "says", "leaves"),
    [
        (["student"], "without their 136 solutions are in student_lessons", "student_lessons/01_attention.ipynb"),
        (["flashcards"], "cards from 19 lessons", "flashcards.apkg"),
        (["reset", "00"], "my_lessons/00_start_here.ipynb is fresh", "my_lessons/00_start_here.ipynb"),
        (["progress"], "01 attention: 0 of 8", None),
    ],
)
def test_the_commands_of_an_installed_package_find_the_lessons(installed, tmp_path, command, says, leaves):
    environment = os.environ | {"PYTHONPATH": str(installed)}
    ran = subprocess.run(
        [sys.executable, "-m", "tfm_lib", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert says in ran.stdout, ran.stdout + ran.stderr
    assert leaves is None or (tmp_path / leaves).is_file()
    assert not (installed / "my_lessons").exists()  # copies once went beside the installed package


def test_there_are_no_lessons_without_solutions_where_there_are_no_lessons(tmp_path):
    with pytest.raises(ValueError, match="no lesson in"):
        without_solutions(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_wrong_input_ends_in_one_line():
    command = [sys.executable, "-m", "tfm_lib", "reset", "99"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HUNG)
    assert result.returncode == 1
    assert result.stderr.startswith("error: no lesson '99'") and result.stderr.count("\n") == 1
    by_make = subprocess.run(command[:-1], capture_output=True, text=True, timeout=HUNG, env=os.environ | {BY_MAKE: ""})
    assert (by_make.returncode, by_make.stderr) == (2, "error: which lesson? make reset LESSON=03\n")


def test_the_commands_load_nothing_heavy():
    heavy = "{'torch', 'matplotlib', 'jupyterlab', 'd2l', 'transformers', 'pyarrow', 'genanki', 'mistune'}"
    code = "import sys, tfm_lib.commands.cli as m; args = m.parser().parse_args(['progress']); args.run(args); "
    code += f"print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.endswith("\n[]\n")


# ----------------------------------------------------------------------------------------------------
# What is installed.


@pytest.fixture(scope="module")
def lock() -> list[tuple[Requirement, int]]:
    """The requirements of the lock, each with the number of its hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=\S)", text.strip())
    return [(Requirement(block.split(" \\")[0]), block.count("--hash=sha256:")) for block in blocks]


def test_the_lock_names_no_index_and_hashes_everything(lock):
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted| @ ", text)
    assert len(lock) > 100
    assert [str(requirement) for requirement, hashes in lock if not hashes] == []
    assert [str(requirement) for requirement, _ in lock if not str(requirement.specifier).startswith("==")] == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_lock_serves_every_platform(lock, platform, python):
    machine = {"linux": "x86_64", "darwin": "arm64", "win32": "AMD64"}[platform]
    environment = {"sys_platform": platform, "python_version": python, "python_full_version": f"{python}.0"}
    environment |= {"platform_machine": machine, "platform_python_implementation": "CPython"}
    chosen: dict[str, str] = {}
    for requirement, _ in lock:
        if requirement.marker is None or Marker(str(requirement.marker)).evaluate(environment):
            assert requirement.name not in chosen, f"{requirement.name} is locked twice"
            chosen[requirement.name] = str(requirement.specifier).removeprefix("==")
    for name, requirement in direct_requirements().items():
        assert requirement.specifier.contains(chosen[name]), f"{chosen[name]} is locked, not {requirement}"
    assert any(name.startswith("nvidia-") for name in chosen) == (platform == "linux")
    assert ("appnope" in chosen, "colorama" in chosen) == (platform == "darwin", platform == "win32")
    assert "rfc3987-syntax" not in chosen


def test_every_dependency_has_a_lower_bound_and_a_reason():
    for name, requirement in direct_requirements().items():
        assert re.match(r">=|==", str(requirement.specifier)), f"{name} needs a lowest version"
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in direct_requirements():
        assert re.search(rf'^  "{re.escape(name)}[=>][^"]*", +# \w', text, re.MULTILINE), f"{name} needs a reason"


def test_conda_gets_what_pyproject_asks_for():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["channels"] == ["conda-forge"]
    conda = {r.name: r.specifier for r in map(Requirement, environment["dependencies"])}
    wanted = {name: requirement.specifier for name, requirement in direct_requirements().items()}

    del wanted["d2l"]  # make adds it, without its pins; conda brings what it imports
    for group in ("ci", "bench", "site", "browser"):  # for measuring and publishing; each says what it lacks
        for requirement in map(Requirement, PROJECT["dependency-groups"][group]):
            del wanted[requirement.name]
    [d2l] = [table for table in PROJECT["tool"]["uv"]["dependency-metadata"] if table["name"] == "d2l"]
    wanted = {name: SpecifierSet() for name in d2l["requires-dist"]} | wanted
    for ours, theirs in (("torch", "pytorch"), ("huggingface-hub", "huggingface_hub")):  # names that differ
        wanted[theirs] = wanted.pop(ours)
    assert conda == wanted | {
        "python": SpecifierSet(f"{PROJECT['project']['requires-python']},<3.15"),
        "make": SpecifierSet(),
        "uv": SpecifierSet(">=0.8"),
    }


@pytest.mark.weekly
@needs_make
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


# ----------------------------------------------------------------------------------------------------
# make.


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
# What each target hands to Python, besides what `site` does with its checks and folders.
COMMANDS = {
    "help": [],
    "lab": ["-m tfm_lib lab"],
    "test": ["-m pytest"],
    "test-slow": ["-m pytest --dist worksteal -m slow"],
    "test-weekly": ["-m pytest --dist worksteal -m weekly"],
    "test-browser": ["-m sphinx", "-m pytest -m browser -n 0"],
    "lint": ["-m pytest tests/repo/test_lint.py -n 0"],
    "train": ["-m tfm_lib train"],
    "write": ["-m tfm_lib write"],
    "export": ["-m tfm_lib export"],
    "flashcards": ["-m tfm_lib flashcards"],
    "reset": ["-m tfm_lib reset"],
    "progress": ["-m tfm_lib progress"],
    "student": ["-m tfm_lib student"],
    "bench": ["-m benchmarks.speed"],
    "site": ["-m sphinx"],
    "check": ["-m tests.lessons.author check"],
    "lessons": ["-m tests.lessons.author lessons"],
    "claims": ["-m tests.lessons.author claims"],
    "stamp": ["-m tests.lessons.author stamp"],
    "clean": [],
}


@pytest.fixture
def called(tmp_path: Path) -> Callable[..., list[list[str]]]:
    """Runs make in a clone whose Python writes down how it was called: (target, options) -> its arguments."""
    clone, environment = tmp_path / "clone", tmp_path / "tfm-course"
    clone.mkdir()
    (environment / "bin").mkdir(parents=True)
    for name in ("Makefile", "environment.yml", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, clone)
    (clone / "uv").touch()
    (clone / "notebooks").mkdir()
    for lesson in LESSONS:
        (clone / "notebooks" / lesson.file.name).touch()
    (environment / ".tfm-installed").touch()
    python = environment / "bin/python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "if sys.argv[1] == '-c':\n"
        "    if 'shlex' in sys.argv[2]:  # words of an option: they are split for real, and come back here\n"
        "        code = f'import sys; sys.executable = {os.path.abspath(__file__)!r}; {sys.argv[2]}'\n"
        "        os.execv(sys.executable, [sys.executable, '-c', code, *sys.argv[3:]])\n"
        "    sys.exit()\n"
        "if sys.argv[2] == 'sphinx':\n"
        "    os.mkdir(sys.argv[-1])\n"
        "    del sys.argv[3:]\n"
        "open('called', 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "given = os.environ.get('TFM_BY_MAKE', '').split()\n"
        "json.dump({name: os.environ[name] for name in given}, open('given', 'w'))\n"
    )
    python.chmod(0o755)

    def run(*arguments: str, **variables: str) -> list[list[str]]:
        """What Python was called with; a command of the course gets the options that were given to make, too."""
        (clone / "called").write_text("")
        before = set(os.listdir(clone))
        result = make(*arguments, cwd=clone, CONDA_PREFIX=str(environment), UV="./uv", **variables)
        assert set(os.listdir(clone)) - before <= {"site", "given"}, "something was executed"
        if result.returncode:
            raise ValueError(result.stdout + result.stderr)
        ran = [json.loads(line) for line in (clone / "called").read_text().splitlines()]
        given = json.loads((clone / "given").read_text()) if ran else {}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**given, BY_MAKE: " ".join(given)}.items():
                patch.setenv(name, value)
            return [[*one, *given_to_make(one[2])] if one[1] == "tfm_lib" else one for one in ran]

    return run


def names_of(command: str, *, switches: bool = False) -> list[str]:
    """The options of a command as make calls them: those with a value, or the switches."""
    options = [action for action in options_of(command) if action.option_strings]
    return [action.dest.upper() for action in options if (action.nargs == 0) == switches]


def targets() -> list[str]:
    return re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split()


@needs_make
@pytest.mark.parametrize("target", [*COMMANDS, *sorted(set(targets()) - set(COMMANDS))])
def test_each_target_runs_its_command(called, target):
    ran = called(target)
    assert [" ".join(words) for words in ran] == COMMANDS[target]


@needs_make
def test_make_lists_every_target_and_all_its_options():
    lines = make("help").stdout.splitlines()
    assert [line for line in lines if len(line) > 100] == []
    entries = re.findall(r"^make ([a-z-]+) +(\S.*(?:\n {18}\S.*)*)$", "\n".join(lines), re.MULTILINE)
    assert [target for target, _ in entries] == targets() == list(COMMANDS)
    assert sum(text.count("\n") + 1 for _, text in entries) == len(lines)
    assert make().stdout.splitlines() == lines
    commands = re.search(r"^COMMANDS := (.*)$", MAKEFILE, re.MULTILINE)[1].split()
    for target, text in entries:
        recipe = re.search(rf"^{target}:.*\n((?:(?:\t|##).*\n)*)", MAKEFILE, re.MULTILINE)[1]
        options = ["ARGS"] * ("$(module)" in recipe) + ["LESSON"] * ("$(LESSONS)" in recipe)
        options += [action.dest.upper() for action in options_of(target)] if target in commands else []
        assert [name for name in options if not re.search(rf"\b{name}\b", text)] == [], target


AS_TYPED = [
    "it's a fire",
    "costs $5",
    "$$5 $HOME ${HOME}",
    "a # b",
    'say "hi"',
    "back\\slash\\",
    "two\nlines",
    "--text",
    "100%",
    "a,b) c;d|e&f>g <h *",
    "🔥 Zürich",
    "$(shell touch executed)",
    "$(touch executed)`touch executed`;touch executed",
]


@needs_make
def test_an_option_that_the_target_does_not_have_is_refused(called):
    """Else TASKS=newsroom would be left out in silence, and ten pairs be learned."""
    with pytest.raises(ValueError, match="make train has no option FILE=; its options: COPY= DATA= DEVICE= FIELDS= "):
        called("train", "FILE=pairs.jsonl")
    for target in ("student", "lab", "progress"):
        with pytest.raises(ValueError, match=f"make {target} has no option TASKS="):
            called(target, "TASKS=newsroom")
    for target in ("test", "site", "claims"):
        result = make("-n", target, "DATA=pairs.jsonl")
        assert result.returncode == 2 and f"make {target} has no option DATA=; make alone lists all" in result.stderr
    assert make("-n", "lab", "UV_DEFAULT_INDEX=https://mirror.example").returncode == 0


def test_what_a_command_starts_is_not_given_its_options_again(tmp_path, monkeypatch, capsys):
    """Else `tfm train` in a terminal of JupyterLab would be refused the options of `make lab`."""
    monkeypatch.setenv(BY_MAKE, "DIR")
    monkeypatch.setenv("DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tfm", "progress"])
    monkeypatch.setattr("signal.signal", lambda *arguments: None)  # this process keeps its own handlers
    main()
    assert "136 open" in capsys.readouterr().out
    assert sys.argv == ["tfm", "progress", f"--dir={tmp_path}"] and os.environ[BY_MAKE] == ""
    assert given_to_make("train") == given_to_make("--help") == []


@needs_make
@pytest.mark.parametrize("value", AS_TYPED)
def test_options_arrive_as_they_are_typed(called, value):
    """Both expand what they can: make, and the shell to which it hands a recipe's line."""
    for target in ("train", "write", "export", "lab"):
        names = names_of(target)
        [(_, _, _, *given)] = called(target, *(f"{name}={value}" for name in names))
        assert set(given) - {"--"} == {f"--{name.lower()}={value}" for name in names}, f"make {target}"
    assert called("reset", f"LESSON={value}") == [["-m", "tfm_lib", "reset", "--", value]]

    # What is more words than one: quotes and backslashes join them, as in a shell, and nothing else is special.
    try:
        words = shlex.split(value)
    except ValueError as error:
        for target, name in (("test", "ARGS"), ("lab", "JUPYTER")):
            with pytest.raises(ValueError, match=re.escape(f"{name}={value}: {error}")):
                called(target, f"{name}={value}")
    else:
        assert called("test", f"ARGS={value}") == [["-m", "pytest", *words]]
        assert called("lab", f"JUPYTER={value}") == [["-m", "tfm_lib", "lab", "--", *words]]
    assert called("test-slow", "ARGS=-k 'masks or heads'") == [
        ["-m", "pytest", "--dist", "worksteal", "-m", "slow", "-k", "masks or heads"]
    ]


@needs_make
@pytest.mark.parametrize("number", ["4", "04"])
def test_one_lesson_is_checked_executed_and_proven_by_its_number(called, number):
    file = "notebooks/04_positional_encoding.ipynb"
    assert called("test", f"LESSON={number}") == [["-m", "pytest", file]]
    roundings = ["-m", "pytest", "--dist", "worksteal", "-m", "slow or weekly", "tests/lessons/test_roundings.py"]
    assert called("test-slow", f"LESSON={number}") == [roundings]
    for target in ("check", "lessons"):
        assert called(target, f"LESSON={number}") == [["-m", "tests.lessons.author", target, file]]
        with pytest.raises(ValueError, match=rf"There is no lesson {number}0; .* 00_start_here 01_attention"):
            called(target, f"LESSON={number}0")


@needs_make
def test_make_switches_on_what_is_1_and_nothing_else(called):
    for name in names_of("train", switches=True):
        assert called("train", f"{name}=1") == [["-m", "tfm_lib", "train", f"--{name.lower()}"]]
        for value in ("0", "it's", "$(shell touch executed)"):
            with pytest.raises(ValueError, match=re.escape(f"{name}=1 or nothing, not {name}={value}")):
                called("train", f"{name}={value}")


@needs_make
def test_make_uses_our_conda_environment_and_no_other(tmp_path):
    ours = tmp_path / "tfm-course"
    commands = make("-n", "lab", CONDA_PREFIX=str(ours)).stdout
    install = f'pip install --python "{ours}/bin/python" --no-deps {direct_requirements()["d2l"]} -e .'
    assert install in commands and f"{ours}/bin/python -m tfm_lib lab" in commands
    assert ".venv" not in commands.replace("into .venv", "")

    for other in ("", str(tmp_path / "base"), f"{ours}-old", str(ours / "envs" / "other")):
        commands = make("-n", "lab", CONDA_PREFIX=other).stdout
        assert "\n.venv/bin/python -m tfm_lib lab" in f"\n{commands}" and "tfm-course" not in commands


@needs_make
def test_make_passes_on_what_is_given_on_its_command_line_only(called):
    assert called("train", "SEED=3", "DEVICE=", DATA="/everywhere", RESUME="1") == [
        ["-m", "tfm_lib", "train", "--seed=3"]
    ]
    assert called("test", ARGS="-k masks", TEXT="$(shell touch executed)") == [["-m", "pytest"]]
    assert called("reset", LESSON="03") == [["-m", "tfm_lib", "reset"]]


@needs_make
def test_make_knows_the_builds_of_torch(clone):
    assert (
        "TORCH_BACKEND is cpu, xpu, auto or such as cu128"
        in make("lab", "TORCH_BACKEND=gpu", cwd=clone, UV="./uv").stderr
    )


@needs_make
def test_make_measures_on_one_thread_but_leaves_learners_their_gpu(clone):
    """What the targets' Python finds in its environment."""
    seen = '"$OMP_NUM_THREADS:$CUDA_VISIBLE_DEVICES:$HF_HUB_OFFLINE:$PYTHONDONTWRITEBYTECODE"'
    script(clone / "python", f'[ "$1" = -c ] || echo {seen}')
    given = {
        "OMP_NUM_THREADS": "",
        "CUDA_VISIBLE_DEVICES": "7",
        "HF_HUB_OFFLINE": "",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for target, expected in {
        "lab": ":7::",
        "train": ":7::",
        "bench": "1::1:",
    }.items():
        assert make("--silent", target, cwd=clone, UV="./uv", **given).stdout.splitlines()[-1] == expected


@needs_make
def test_make_clean_keeps_the_learners_work(tmp_path):
    for name in ("Makefile", "environment.yml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("my_lessons/00.ipynb", "runs/model.safetensors", ".venv/x", ".uv/x", "tests/__pycache__/x"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert make("clean", cwd=tmp_path).returncode == 0
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"Makefile", "environment.yml", "my_lessons/00.ipynb", "runs/model.safetensors"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose uv and Python write down how they were called instead of installing."""
    for name in ("Makefile", "environment.yml", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    script(tmp_path / "python", "exit 0")
    script(
        tmp_path / "uv",
        'echo "$@" >> calls; [ "$1" = venv ] && mkdir -p .venv/bin && cp python .venv/bin/; exit 0',
    )
    return tmp_path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def calls(clone: Path, *arguments: str) -> list[str]:
    """How uv is called for one more `make lab`."""
    (clone / "calls").write_text("")
    result = make("lab", *arguments, cwd=clone, UV="./uv")
    assert result.returncode == 0, result.stderr
    return [" ".join(line.split()[:2]) for line in (clone / "calls").read_text().splitlines()]


@needs_make
def test_a_second_call_installs_nothing(clone):
    assert calls(clone) == ["venv --quiet", "pip sync", "pip install"]
    assert calls(clone) == []
    os.utime(clone / "requirements.lock", (2**31, 2**31))  # as after an update
    assert calls(clone) == ["pip sync", "pip install"]


@needs_make
def test_the_choice_of_a_build_sticks(clone):
    assert calls(clone) == ["venv --quiet", "pip sync", "pip install"]
    cpu = ["pip sync", "pip install", "pip install"]
    assert calls(clone, "TORCH_BACKEND=cpu") == cpu
    torch, *_ = [line for line in (clone / "calls").read_text().splitlines() if "--torch-backend cpu" in line]
    assert re.search(r"torch==\S+ torchvision==\S+$", torch)
    assert calls(clone) == []
    assert calls(clone, "TORCH_BACKEND=") == ["pip sync", "pip install"]
    assert calls(clone) == []
    assert calls(clone, "TORCH_BACKEND=cpu") == cpu

    rest = (clone / ".venv/without-torch.lock").read_text()
    assert not re.search(r"^(torch==|torchvision|triton|nvidia|cuda)", rest, re.MULTILINE)
    assert re.search(r"^numpy==\S+ .*\\\n    --hash=sha256:", rest, re.MULTILINE)


@needs_make
def test_make_says_that_the_venv_module_is_missing(clone):
    script(clone / "python3", "mkdir .uv; exit 1")
    result = make("lab", cwd=clone, PATH=f"{clone}:/usr/bin:/bin", UV=".uv/bin/uv")
    assert result.returncode != 0 and "sudo apt install python3-venv" in result.stdout
    assert not (clone / ".uv").exists()


@needs_make
@pytest.mark.parametrize(
    ("uv", "python"),
    [("exit 2", "exit 0"), ("mkdir -p .venv/bin; cp python .venv/bin/", "exit 1")],
    ids=["uv finds none", "the one that was named is too old"],
)
def test_make_says_which_python_it_wants(clone, uv, python):
    script(clone / "uv", uv)
    script(clone / "python", python)
    result = make("lab", cwd=clone, UV="./uv", PYTHON="python3.9")
    assert result.returncode != 0 and "Python 3.11 to 3.14" in result.stdout
    assert not (clone / ".venv").exists()


def test_ci_runs_the_same_proof():
    run = ROOT / ".ci/run"
    assert run.read_text(encoding="utf-8").rstrip().endswith("exec make test")
    assert sys.platform == "win32" or os.access(run, os.X_OK)

    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    assert jobs["locked"]["strategy"]["matrix"]["python"] == PYTHONS
    assert {include["resolution"] for include in jobs["bounds"]["strategy"]["matrix"]["include"]} == {
        "lowest-direct",
        "highest",
    }
    assert yaml.safe_load(WORKFLOW)["permissions"] == {"contents": "read"}
    uses = re.findall(r"uses: (\S+)", WORKFLOW)
    assert uses and all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in uses)
    assert "cron:" in WORKFLOW and ".ci/run" in WORKFLOW and "macos-latest" in WORKFLOW
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]:  # which `make test` leaves out
        name = marker.partition(":")[0]
        assert any(f"make test-{name}" in run or f"-m {name}" in run for run in runs), f"no job runs what is {name}"
    [oldest_and_newest] = [run for run in runs if "uv pip compile" in run]
    for extra in PROJECT["project"]["optional-dependencies"]:  # which the tests import
        assert f"--extra {extra} " in oldest_and_newest
    assert jobs["links"]["if"] == "github.event_name == 'schedule' || github.event_name == 'workflow_dispatch'"


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_a_job_waits_only_for_events_that_start_its_workflow(path):
    """A job that waits for 'scheduled' never runs, and no run says so."""
    text = path.read_text(encoding="utf-8")
    triggers = yaml.load(text, yaml.BaseLoader)["on"]  # plain YAML reads `on` as True
    assert set(re.findall(r"github\.event_name *[!=]= *'(\w+)'", text)) <= set(triggers)


# ----------------------------------------------------------------------------------------------------
# What the README and its neighbors say.


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_named_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"`(make [^`]*)`", text))
    for line in re.findall(r"^make ([^#>\n]*)", blocks, re.MULTILINE):
        for word in shlex.split(line):
            variable, _, value = word.partition("=")
            if value:
                assert re.search(rf"\b{variable}\b", makefile), f"make knows no {variable}"
            else:
                assert re.search(rf"^{word}:.*##", makefile, re.MULTILINE), f"there is no `make {word}`"


def test_the_readme_has_the_table_of_lessons():
    rows = re.findall(r"^\| \[(\d\d) ([^\]]+)\]\(notebooks/([^)]+)\) \| ([^|]+) \|$", README, re.MULTILINE)
    wanted = [(lesson, lesson.question.replace("\n", " ")) for lesson in LESSONS]
    assert rows == [(x.number, x.title, f"{x.name}.ipynb", ask[0].lower() + ask[1:]) for x, ask in wanted]


def test_the_table_of_lessons_is_the_folder():
    assert [lesson.file for lesson in LESSONS] == sorted((ROOT / "notebooks").glob("*.ipynb"))
    for lesson in LESSONS:
        first = "".join(json.loads(lesson.file.read_text(encoding="utf-8"))["cells"][0]["source"])
        assert first.startswith(f"# {lesson.number} · {lesson.title}\n")


def test_powershell_steps_are_those_that_ci_runs():
    [block] = re.findall(r"```powershell\n(.*?)```", README, re.DOTALL)
    steps = [line.split("#")[0].strip() for line in block.strip().splitlines()]
    *install, start, test = steps
    commands = [line.strip() for line in WORKFLOW.splitlines()]
    assert [step for step in [*install, test] if step not in commands] == []
    assert start == r".venv\Scripts\python -m tfm_lib lab"


def test_the_readme_says_what_python_and_which_environment():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in README
    supported = f"{PROJECT['project']['requires-python']},<3.15"
    assert f"SUPPORTED := {supported}\n" in makefile and f'--python "{supported}"' in README
    name = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["name"]
    assert f"conda activate {name}" in README


@needs_make
def test_the_container_installs_the_small_build_and_opens_the_lessons():
    """What `.devcontainer` runs are the README's targets; each option is one that JupyterLab's server has."""
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    created, attached = (shlex.split(container[f"post{step}Command"]) for step in ("Create", "Attach"))
    assert created == ["make", "progress", "TORCH_BACKEND=cpu"] and attached[:2] == ["make", "lab"]
    assert all(make("-n", *command[1:]).returncode == 0 for command in (created, attached))
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


def test_the_sizes_in_the_readme():
    sizes = {d.name: sum(file.size or 0 for file in d.files or []) for d in importlib.metadata.distributions()}
    gpu = sum(size for name, size in sizes.items() if re.match(r"nvidia|cuda|triton", name))
    if not gpu:
        pytest.skip("torch came without CUDA here")
    assert "6.5 GB on disk, more than half of it" in " ".join(README.split())
    assert 6.25e9 < sum(sizes.values()) < 6.75e9
    assert gpu > sum(sizes.values()) / 2


def test_licences():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    prose = (ROOT / "LICENSE-text").read_text(encoding="utf-8")
    assert prose.startswith("Attribution 4.0 International\n") and "Section 8 -- Interpretation." in prose
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == ["MIT", "CC-BY-4.0"]
