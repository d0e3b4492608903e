"""JupyterLab on the learner's own copies of the lessons, which nothing here ever overwrites."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tfm_lib.commands.copies import as_file, learners_copy
from tfm_lib.commands.options import expanded
from tfm_lib.errors import CourseError, brought_by, option
from tfm_lib.files import write_whole
from tfm_lib.lessons import COURSE, IN_CLONE, PACKAGE, course_file

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

FOLDER = course_file("notebooks")
# In a clone the learner's copies lie in it, wherever a command is run; an installed package has the current folder.
ROOT = COURSE if IN_CLONE else Path.cwd()
MY_LESSONS = ROOT / "my_lessons"
# Settings of JupyterLab that begin as suits the course; what a learner sets in its menus goes before them.
SETTINGS = PACKAGE / "jupyter"
OPTIONS = (  # of JupyterLab
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.custom_css=True",
    "--Application.log_level=ERROR",
    "--ServerApp.answer_yes=True",  # or Ctrl+C would ask, and go on without a word when nobody answers
    "--KernelManager.transport_encryption=auto",  # else each kernel warns that it has none
    "--FileContentsManager.pre_save_hook=tfm_lib.show.live.store_static_forms",
)
SOLUTION = re.compile(r"<details><summary>Solution</summary>.*?</details>\n*", re.DOTALL)
LEFT = re.compile(r"<summary>\s*Solution.*", re.IGNORECASE)  # what `SOLUTION` does not take out


def add_lessons(target: Path, source: Path = FOLDER) -> list[str]:
    """Copy into `target` the lessons of `source` that it does not have yet, and return their names.

    A file that is there is a learner's work: it is never overwritten. So an interruption must leave no half of one.
    """
    new = [lesson for lesson in sorted(source.glob("*.ipynb")) if not (target / lesson.name).exists()]
    for lesson in new:
        write_whole(target / lesson.name, as_file(learners_copy(lesson)))
    return [lesson.stem for lesson in new]


def find_lesson(lesson: str, source: Path = FOLDER) -> str:
    """The name of a lesson of `source`, by its number ("03", "3") or name; ValueError if there is none."""
    names = [path.stem for path in sorted(source.glob("*.ipynb"))]
    number = lesson.zfill(2) if lesson.isdecimal() else None
    for name in names:
        if lesson == name or number == name.split("_")[0]:
            return name
    raise CourseError(f"no lesson {lesson!r}; give the number or the name of one of: {', '.join(names)}")


def reset_lesson(lesson: str, target: Path = MY_LESSONS, source: Path = FOLDER) -> tuple[Path, Path | None]:
    """Put a fresh copy of `lesson`, as `find_lesson` knows it, into `target`.

    Returns the fresh copy and the name under which the old one lives on, None if there was none.
    """
    name, old = find_lesson(lesson, source), None
    copy = target / f"{name}.ipynb"
    if copy.exists():
        names = (target / f"{name}_kept_{count}.ipynb" for count in range(1, sys.maxsize))
        old = copy.rename(next(path for path in names if not path.exists()))
    write_whole(copy, as_file(learners_copy(source / copy.name)))
    return copy, old


def without_solutions(source: Path, target: Path) -> int:
    """Write the lessons of `source` into `target` without the solutions of their exercises.

    Returns how many there were. Hints, checks and all else stay. What `target` has under the same names is replaced.
    Raises CourseError where `source` has no lesson, or one that would hand a solution out.
    """
    lessons = sorted(source.glob("*.ipynb"))
    if not lessons:
        raise CourseError(f"no lesson in {source}; install the course anew, or give the folder that has them")
    removed, books = 0, dict[Path, bytes]()
    for lesson in lessons:
        book = learners_copy(lesson)
        for cell in book["cells"]:
            if cell["cell_type"] == "markdown":  # whatever its tags, which not every tool keeps
                text, count = SOLUTION.subn("", "".join(cell["source"]))
                if left := LEFT.search(text):
                    raise CourseError(f"{lesson}: a solution that isn't folded as the others: {left[0]!r}")
                cell["source"] = (text.rstrip() if count else text).splitlines(keepends=True)
                removed += count
        books[target / lesson.name] = as_file(book)
    for path, content in books.items():
        write_whole(path, content)
    return removed


Copies = Annotated[Path | None, Option(parser=expanded, help="authors give notebooks", show_default="my_lessons")]
Jupyter = Annotated[list[str] | None, Argument(help="options for JupyterLab, after --")]


def lab(dir: Copies = None, jupyter: Jupyter = None) -> None:
    """Open the lessons in JupyterLab."""
    folder = (dir or MY_LESSONS).resolve()
    if dir is None and (added := add_lessons(folder)):
        print(f"Added to {folder.name}/, where your work stays yours: {', '.join(added)}", flush=True)
    first = folder / "00_start_here.ipynb"
    if not first.is_file():
        given = option("dir", dir)
        raise CourseError(f"no {first.name} in {folder}; without {given} the lessons are copied to {MY_LESSONS.name}/")

    with brought_by("lessons", "the lab"):
        from jupyterlab.labapp import LabApp

    learners = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = f"{learners}{os.pathsep}{SETTINGS}" if learners else str(SETTINGS)
    # The whole course is served, since lessons link to its files; a folder elsewhere is served alone.
    root = ROOT if folder.is_relative_to(ROOT) else folder
    where = [f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab/tree/{first.relative_to(root).as_posix()}"]
    browser = [] if _has_browser() else ["--no-browser"]
    user = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    LabApp.launch_instance(argv=[*where, *OPTIONS, *browser, *user, *(jupyter or ())])


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """By this, and by a file of `SETTINGS`, JupyterLab's server finds the next function."""
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: "ServerApp") -> None:
    """Have JupyterLab's server take our style where the learner has none, and say in one line where it runs."""
    server.static_custom_path.insert(-1, str(SETTINGS / "custom"))
    server.log.addFilter(lambda record: record.funcName != "start_app")
    loop = server.io_loop  # extensions are loaded before the server asks it to listen: hence one turn more
    loop.add_callback(loop.add_callback, lambda: print(f"The lessons are open at {server.public_url}", flush=True))


def _has_browser() -> bool:
    """Whether there is a screen for a browser: without one Python would start a text browser in the terminal."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def reset(lesson: Annotated[str, Argument(help='its number or name, such as "03"')]) -> None:
    """A fresh copy of one lesson; the old one is kept."""
    copy, old = reset_lesson(lesson)
    kept = f"; your old one is {old.relative_to(ROOT)}" if old else ""
    print(f"{copy.relative_to(ROOT)} is fresh{kept}. If it is open: File > Reload Notebook from Disk")
