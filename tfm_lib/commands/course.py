"""The commands for a clone of the course, which prove it, measure it and publish it; make runs them, too."""

import inspect
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option

from tfm_lib.commands.copies import as_file, learners_copy
from tfm_lib.commands.lab import FOLDER, find_lesson
from tfm_lib.commands.options import expanded
from tfm_lib.errors import BY_MAKE, CourseError
from tfm_lib.files import write_whole
from tfm_lib.lessons import COURSE, IN_CLONE, LESSONS

ALONE = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}  # as the tests run by themselves
NEEDS = {  # the modules of groups that conda does not bring
    "site": ("sphinx", "myst_nb", "furo", "ziamath"),
    "paper": ("pypandoc", "typst", "sphinx_revealjs"),
}
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
    "address": (f"{AUTHOR} address", "repository", "Write where the course is published, wherever it is said."),
}
Repository = Annotated[str, Option(help="https://github.com/OWNER/NAME, or nothing")]
Lesson = Annotated[str | None, Option(help="only this one, by its number, such as 04")]
Args = Annotated[list[str] | None, Argument(help="what the program gets that this starts, after --")]


def command_of(name: str) -> Callable[..., None]:
    """The command of that name, with the options that what it runs can use."""
    _, taken, text = MODULES[name]

    def command(lesson: Lesson = None, args: Args = None, repository: Repository = "") -> None:
        run_module(name, lesson, [repository] if name == "address" else args or [])

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
        here = "what is here is the package with its lessons, without tests"
        raise CourseError(f"this is for a clone of the course; {here}")
    os.environ.pop(BY_MAKE, None)  # tests are to find the same as without make
    os.chdir(COURSE)
    sys.path.insert(0, str(COURSE))


def enter_with(*groups: str) -> None:
    """Work in the clone, by what these groups bring. Raises CourseError where they are not installed."""
    enter_clone()
    if not all(find_spec(module) for group in groups for module in NEEDS[group]):
        install = " ".join(("uv pip install --python", sys.executable, *(f"--group {group}" for group in groups)))
        raise CourseError(f"this needs more than conda brings: {install}")


def site() -> None:
    """The lessons as web pages, in site/."""
    enter_with("site")
    os.environ.update(ALONE)
    from sphinx.cmd.build import main

    with TemporaryDirectory() as work:
        if main(["-q", "-W", "--keep-going", "-c", "docs", "-d", f"{work}/doctrees", ".", f"{work}/site"]):
            sys.exit(1)
        with TemporaryDirectory(dir=".") as beside:  # what was there stays until the new one is on its disk
            shutil.move(f"{work}/site", beside)
            shutil.rmtree("site", ignore_errors=True)
            os.replace(f"{beside}/site", "site")
    print("The pages are in site/; the first one is site/index.html.")


def colab(out: Annotated[Path, Option(parser=expanded, help="where to")] = Path("colab")) -> None:
    """The lessons, and the one file that they need, for Colab."""
    out = out.absolute()
    enter_clone()
    if not find_spec("hatchling"):
        raise CourseError(f"the package is built by hatchling: uv pip install --python {sys.executable} hatchling")
    lessons = sorted(FOLDER.glob("*.ipynb"))
    files = {lesson.name: as_file(learners_copy(lesson, colab=True)) for lesson in lessons}
    with TemporaryDirectory() as work:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", work]
        if subprocess.run(build, env=os.environ | {"HATCH_QUIET": "1"}).returncode:
            raise CourseError(f"hatchling could not build the package, as it says above; {out} is as it was")
        [built] = Path(work).glob("tfm_lib-*.whl")
        files[built.name] = built.read_bytes()
    wheel = out / built.name
    for name, content in files.items():
        write_whole(out / name, content)
    for old in out.glob("tfm_lib-*.whl"):
        if old != wheel:
            old.unlink()
    size = sum(file.stat().st_size for file in (wheel, *out.glob("*.ipynb"))) / 1e6
    print(
        f"{len(lessons)} lessons and {wheel.name} are in {out}, {size:.0f} MB. Put the folder on Google Drive and open"
    )
    print("a lesson with Colab; or upload a lesson and that file there. The first cell installs it.")


def slides(
    lesson: Lesson = None,
    out: Annotated[Path, Option(parser=expanded, help="where to", show_default="slides")] = COURSE / "slides",
) -> None:
    """A deck of slides for each lesson."""
    out = out.absolute()
    enter_with("site", "paper")
    chosen = find_lesson(lesson) if lesson else ""
    decks = import_module("docs.paper.slides").write_slides(out, [x for x in LESSONS if chosen in ("", x.name)])
    print(f"Decks of slides written to {out}: {decks}. A browser shows them, and needs no network.")


def book(
    out: Annotated[Path, Option(parser=expanded, help="where to", show_default="book.pdf")] = COURSE / "book.pdf",
) -> None:
    """The whole course as a PDF."""
    out = out.absolute()
    enter_with("paper")
    import_module("docs.paper.book").write_book(out)
    print(f"The book is in {out}, {out.stat().st_size / 2**20:.0f} MB.")


COMMANDS = (*map(command_of, MODULES), site, colab, slides, book)
