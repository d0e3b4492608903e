"""The commands for a clone of the course, which prove it, measure it and publish it; make runs them, too."""

import inspect
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option

from tfm_lib.commands.lab import find_lesson
from tfm_lib.errors import BY_MAKE, CourseError
from tfm_lib.lessons import COURSE, IN_CLONE

ALONE = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}  # as the tests run by themselves
PAGES_NEED = ("sphinx", "myst_nb", "furo", "ziamath")  # the modules of the group `site`
AUTHOR = "tests.lessons.author"
MODULES = {  # what each command runs, which options it takes, and what it is for
    "test": ("pytest", "lesson args", "Prove every cell and every sentence."),
    "test-slow": ("pytest --dist worksteal -m slow", "lesson args", "The tests that take an hour."),
    "test-weekly": ("pytest --dist worksteal -m weekly", "lesson args", "The tests that take hours."),
    "test-browser": ("pytest -m browser -n 0", "args", "The lessons and the pages of `site` in a browser."),
    "lint": ("pytest tests/repo/test_lint.py -n 0", "args", "Style, types and workflows alone."),
    "bench": ("benchmarks.speed.speed", "args", "Speed beside other implementations."),
    "check": (f"{AUTHOR} check", "lesson", "List all that is wrong with the lessons."),
    "lessons": (f"{AUTHOR} lessons", "lesson", "Execute the lessons, and write what changed."),
    "claims": (f"{AUTHOR} claims", "lesson", "Compare the claims with the last commit."),
    "stamp": (f"{AUTHOR} stamp", "lesson", "Write badges, folds and the numbers in links."),
}
Lesson = Annotated[str | None, Option(help="only this one, by its number, such as 04")]
Args = Annotated[list[str] | None, Argument(help="what the program gets that this starts, after --")]


def command_of(name: str) -> Callable[..., None]:
    """The command of that name, with the options that what it runs can use."""
    _, taken, text = MODULES[name]

    def command(lesson: Lesson = None, args: Args = None) -> None:
        run_module(name, lesson, args or [])

    known = inspect.signature(command).parameters
    command.__signature__ = inspect.Signature([known[option] for option in taken.split()])  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = name, text
    return command


def run_module(name: str, lesson: str | None, args: list[str]) -> None:
    """Run the module of a command as `python -m` does, in the clone's folder."""
    enter_clone()
    module, *words = MODULES[name][0].split()
    if lesson is not None and name in ("test-slow", "test-weekly"):
        os.environ["LESSON"] = find_lesson(lesson)[:2]  # all its roundings
        words[-1:] = ["slow or weekly", "tests/lessons/test_roundings.py"]
    elif lesson is not None:
        words.append(f"notebooks/{find_lesson(lesson)}.ipynb")
    if name == "bench":
        os.environ.update(ALONE)
    sys.argv = [module, *words, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def enter_clone() -> None:
    """Work in the folder of the clone, whose `tests` and `benchmarks` go before all that is installed."""
    if not IN_CLONE or not (COURSE / "tests").is_dir():
        raise CourseError(
            "this is for a clone of the course; what is here is the package with its lessons, without tests"
        )
    os.environ.pop(BY_MAKE, None)  # tests are to find the same as without make
    os.chdir(COURSE)
    sys.path.insert(0, str(COURSE))


def site() -> None:
    """The lessons as web pages, in site/."""
    enter_clone()
    if not all(map(find_spec, PAGES_NEED)):
        install = f"uv pip install --python {sys.executable} --group site"
        raise CourseError(f"the web pages need more than conda brings: {install}")
    os.environ.update(ALONE)
    from sphinx.cmd.build import main

    with TemporaryDirectory() as work:
        if main(["-q", "-W", "--keep-going", "-c", "docs", "-d", f"{work}/doctrees", ".", f"{work}/site"]):
            sys.exit(1)
        shutil.rmtree("site", ignore_errors=True)
        shutil.move(f"{work}/site", "site")
    print("The pages are in site/; the first one is site/index.html.")


COMMANDS = (*map(command_of, MODULES), site)
