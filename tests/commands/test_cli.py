"""The command line: what it refuses, what it loads, what make hands to it, and what it hands on."""

import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.times import HUNG
from tfm_lib.ask import checks
from tfm_lib.commands import cli, course
from tfm_lib.commands.cli import TFM, given_to_make, main, parameters, run
from tfm_lib.errors import BY_MAKE, CourseError
from tfm_lib.lessons import COURSE

EXERCISES = sum(len(checks.exercises(topic)) for topic in checks.TOPICS)


@pytest.mark.parametrize("by_make", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("train --steps 0", "--steps wants a whole number from 1 on, got 0"),
        ("train --steps 2.5", "--steps wants a whole number from 1 on, got 2.5"),
        ("train --minutes 0", "--minutes wants a number above 0, such as 10 or 0.5, got 0"),
        ("train --minutes nan", "--minutes wants a number above 0, such as 10 or 0.5, got nan"),
        ("train --minutes inf", "--minutes wants a number above 0, such as 10 or 0.5, got inf"),
        ("train --minutes ten", "--minutes wants a number above 0, such as 10 or 0.5, got ten"),
        ("write --beams 0", "--beams wants a whole number from 1 on, got 0"),
        ("train --seed 4294967296", "--seed wants a whole number from 0 to 4294967295, got 4294967296"),
        ("train --fields body,", "--fields wants the names of two fields, such as body,subject, got body,"),
        ("train --fields a,b,c", "--fields wants the names of two fields, such as body,subject, got a,b,c"),
        ("train --copy 2", "--copy '2' is not one of '0', '1'"),
        ("train --task foo", "--task 'foo' is not one of 'ten_pairs', 'newsroom'"),
        ("train --epochs 3", "tfm train has no option --epochs; its options: --copy --data --device "),
        ("site --task x", "tfm site has no option --task; its options: none"),
        ("foo", "No such command 'foo'. There are: lab, reset, progress, student, answers, "),
        ("reset", "Missing argument 'lesson'."),
    ],
)
def test_wrong_options_end_in_one_line_before_anything_is_read(options, message, by_make, capsys, monkeypatch):
    if by_make:
        monkeypatch.setenv(BY_MAKE, "")
        message = re.sub("--([a-z]+)", lambda name: name[1].upper(), message).replace("tfm ", "make ")
        message = re.sub("Missing argument .*", "which lesson? make reset LESSON=03", message)
    with pytest.raises(SystemExit) as end:
        run(*options.split(), *(["--data", "there_is_none.jsonl"] if "train " in options else []))
    text = capsys.readouterr().err
    assert end.value.code == 2 and text.startswith(f"error: {message}") and text.count("\n") == 1


@pytest.mark.parametrize("command", [[], *([name] for name in TFM.commands)], ids=lambda words: "".join(words) or "tfm")
def test_help_is_readable(command, capsys):
    run(*command, "--help")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Usage: tfm ") and max(map(len, lines)) <= 80
    assert "..." not in "".join(lines[1:]).replace("args...", "").replace("jupyter...", ""), "something is cut off"
    for option in parameters(command[0]).values() if command else ():
        assert option.param_type_name == "argument" or option.help, option.name


def test_wrong_input_ends_in_one_line():
    command = [sys.executable, "-m", "tfm_lib", "reset", "99"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("error: no lesson '99'; give the number")


def test_commands_of_an_installed_package_find_the_lessons_and_load_no_torch(tmp_path):
    installed = tmp_path / "installed"  # as a wheel installs it: with the lessons inside the package
    for name, target in (("tfm_lib", "tfm_lib"), ("notebooks", "tfm_lib/notebooks")):
        shutil.copytree(COURSE / name, installed / target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    heavy = {"torch", "matplotlib", "jupyterlab", "d2l", "transformers", "pyarrow", "rich"}
    code = f"""
import sys
from tfm_lib.commands.cli import run
for words in (["progress"], ["student"], ["reset", "00"], ["flashcards"]):
    run(*words)
print(sorted({heavy} & sys.modules.keys()))
import tfm_lib.pretrained.summarizer
print(sorted({{"nltk", "scipy", "rouge_score"}} & sys.modules.keys()))
try:
    run("check")
except ValueError as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    for line in (
        "01 attention: 0 of 8, ",
        f"The lessons without their {EXERCISES} solutions are in student_lessons",
        "my_lessons/00_start_here.ipynb is fresh",
        "cards from 19 lessons are in flashcards.apkg",
        "[]\n[]\nthis is for a clone of the course",
    ):
        assert line.replace("/", os.sep) in ran.stdout, ran.stdout + ran.stderr
    for name in ("student_lessons/01_attention.ipynb", "flashcards.apkg", "my_lessons/00_start_here.ipynb"):
        assert (tmp_path / name).is_file()
    assert not (installed / "my_lessons").exists()  # copies once went beside the installed package


# --- what make hands over

OPTIONS = [(command, name) for command in TFM.commands for name in parameters(command)]


def by_make(command: str, **options: str) -> list[str]:
    """What a command gets of these options of make."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**options, BY_MAKE: " ".join(options)}.items():
            patch.setenv(name, value)
        return given_to_make(command)


@pytest.mark.parametrize(("command", "name"), OPTIONS, ids=map("-".join, OPTIONS))
def test_each_option_reaches_its_command(command, name):
    """None is forgotten: an option that is left out would be obeyed by nobody, and nobody would say so."""
    parameter = parameters(command)[name]
    if parameter.param_type_name == "argument":
        arrives = ["--", "1"]
    else:
        arrives = [f"--{name}" if parameter.is_flag else f"--{name}=1"]
    assert by_make(command, **{name.upper(): "1"}) == arrives


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0~"), min_size=1))
@example("it's a fire")
@example("--text $HOME # 100% `touch executed` \\")
def test_options_reach_the_command_as_they_are_typed(value):
    def parsed(command: str, **options: str) -> dict:
        return TFM.commands[command].make_context(command, by_make(command, **options)).params

    assert parsed("write", TEXT=value, FILE=value).items() >= {"text": value, "file": value}.items()
    assert parsed("train", DATA=value)["data"] == Path(value)
    assert parsed("reset", LESSON=value) == {"lesson": value}
    # What is more words than one: quotes and backslashes join them, as in a shell, and nothing else is special.
    for command, name in (("test", "ARGS"), ("lab", "JUPYTER")):
        try:
            words = shlex.split(value)
        except ValueError as error:
            with pytest.raises(CourseError, match=re.escape(f"{name}={value}: {error}")):
                by_make(command, **{name: value})
        else:
            assert [*(parsed(command, **{name: value})[name.lower()] or ())] == words


def test_make_switches_on_what_is_1_and_nothing_else():
    assert by_make("train", RESUME="1", SEED="3") == ["--resume", "--seed=3"]
    for value in ("0", "it's"):
        with pytest.raises(CourseError, match=re.escape(f"RESUME=1 or nothing, not RESUME={value}")):
            by_make("train", RESUME=value)


def test_an_option_that_the_command_does_not_have_is_refused(capsys, monkeypatch):
    """Else FILE=pairs.jsonl would be left out in silence, and ten pairs be learned."""
    monkeypatch.setenv(BY_MAKE, "")
    for command, options in {"train": {"FILE": "pairs.jsonl"}, "test": {"DATA": "x"}, "lab": {"TASKS": "x"}}.items():
        with pytest.raises(SystemExit):
            run(command, *by_make(command, **options))
        assert f"make {command} has no option {next(iter(options))}; its options: " in capsys.readouterr().err


@pytest.fixture
def program(monkeypatch) -> Callable[..., None]:
    """The whole program, with these arguments, in this process, which keeps its own handlers of signals."""
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)

    def call(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["tfm", *arguments])
        main()

    return call


def test_what_a_command_starts_is_not_given_its_options_again(program, tmp_path, monkeypatch, capsys):
    """Else `tfm train` in a terminal of JupyterLab would be refused the options of `make lab`."""
    monkeypatch.setenv(BY_MAKE, "DIR")
    monkeypatch.setenv("DIR", str(tmp_path))
    program("progress")
    assert f"{EXERCISES} open" in capsys.readouterr().out
    assert sys.argv == ["tfm", "progress", f"--dir={tmp_path}"] and os.environ[BY_MAKE] == ""
    assert given_to_make("train") == given_to_make("--help") == []


# --- what a command of a clone runs


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """The modules that would have been run, as one types them."""
    for name in (BY_MAKE, "LESSON", *course.ALONE):  # given back after the test
        monkeypatch.setenv(name, "mine")
    monkeypatch.chdir(COURSE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [])
    calls: list[str] = []
    monkeypatch.setattr(runpy, "run_module", lambda *args, **options: calls.append(shlex.join(sys.argv)))
    return calls


ROUNDINGS = "'slow or weekly' tests/lessons/test_roundings.py"
LESSON_4 = "notebooks/04_positional_encoding.ipynb"


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ("test", "pytest"),
        ("test --lesson 4 -- -k 'masks or heads'", f"pytest {LESSON_4} -k 'masks or heads'"),
        ("test-slow -- -x", "pytest --dist worksteal -m slow -x"),
        ("test-slow --lesson 04", f"pytest --dist worksteal -m {ROUNDINGS}"),
        ("test-weekly", "pytest --dist worksteal -m weekly"),
        ("test-weekly --lesson 4", f"pytest --dist worksteal -m {ROUNDINGS}"),
        ("test-browser", "pytest -m browser -n 0"),
        ("lint", "pytest tests/repo/test_lint.py -n 0"),
        ("bench -- --rounds 3", "benchmarks.speed.speed --rounds 3"),
        ("check --lesson 04", f"{course.AUTHOR} check {LESSON_4}"),
        ("lessons --lesson 4", f"{course.AUTHOR} lessons {LESSON_4}"),
        ("claims", f"{course.AUTHOR} claims"),
        ("stamp", f"{course.AUTHOR} stamp"),
    ],
)
def test_a_command_of_a_clone_runs_its_module(ran, words, module):
    run(*shlex.split(words))
    assert ran == [module] and find_spec(module.split()[0]) is not None
    assert BY_MAKE not in os.environ and sys.path[0] == str(COURSE)
    assert os.environ["LESSON"] == ("04" if ROUNDINGS in module else "mine")
    alone = {name: os.environ[name] for name in course.ALONE}
    assert alone == (course.ALONE if words.startswith("bench") else dict.fromkeys(course.ALONE, "mine"))


# --- how a command begins and ends


def test_commands_have_threads_wait_and_end_quietly_when_nobody_reads_on(program, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "mine")
    monkeypatch.setattr(cli, "run", lambda *arguments: None)
    program()
    assert os.environ["OMP_WAIT_POLICY"] == "mine"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    program()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    code = "from tfm_lib.commands import cli; cli.run = lambda *_: print('line\\n' * 100_000); cli.main()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        ran.stdout.close()
        assert ran.wait(HUNG) == 0 and ran.stderr.read() == b""


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("too many values to unpack"), ValueError, "^too many"),
        (CourseError("steps must be positive, got 0"), SystemExit, "^error: steps must be positive, got 0$"),
        (FileNotFoundError(2, "No such file", "nowhere"), SystemExit, "^error: .*No such file: 'nowhere'$"),
        (KeyboardInterrupt(), SystemExit, "^stopped$"),
    ],
)
def test_a_bug_shows_its_traceback_and_a_check_of_ours_one_line(error, kind, message, program, monkeypatch):
    monkeypatch.setattr(cli, "run", Mock(side_effect=error))
    with pytest.raises(kind, match=message):
        program()
