"""The first code cell of every lesson and the badges, made from the address in pyproject.toml; and folds."""

import re

from nbformat import NotebookNode

from tests.lessons.address import colab_badge, pages
from tests.lessons.folds import fold
from tests.nbclaims.cells import code, placed

SETUP_ID = "setup"
BADGE = re.compile(r"\n*\[!\[Open in Colab\]\([^)]*\)\]\([^)]*\)")

SETUP = '''\
# @title Set-up: if the course is installed, this cell does nothing
import os
from importlib.util import find_spec

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores
if find_spec("tfm_lib") is None:
    import importlib
    import subprocess
    import sys
    from pathlib import Path
    from zipfile import ZipFile, is_zipfile

    class NotInstalled(Exception):
        def _render_traceback_(self):  # these words stand alone, without a traceback
            return [str(self)]

    def wheels():  # beside the notebook, where uploads go, too; or on Drive
        beside = Path(globals().get("__vsc_ipynb_file__", "lesson.ipynb")).parent
        for folder in (".", "drive/*", "drive/*/*", "drive/*/*/*"):
            found = filter(is_zipfile, beside.glob(f"{folder}/tfm_lib-*.whl"))
            if newest := sorted(found, key=lambda file: file.stat().st_mtime):
                return newest

FETCH
    if not wheels():
        raise NotInstalled("""\\
WORDS""")
    wheel = wheels()[-1]
    code = ZipFile(wheel).read("tfm_lib/commands/install.py").decode()
    run = [sys.executable, "-", wheel]
    ran = subprocess.run(run, input=code, capture_output=True, text=True)
    importlib.invalidate_caches()
    if ran.returncode or find_spec("tfm_lib") is None:
        again = "It is installed: restart the kernel, and run this cell again."
        raise NotInstalled(ran.stderr or again)
    print(ran.stdout.strip())
'''
ON_DRIVE = """\
    if not wheels() and "google.colab" in sys.modules:
        from contextlib import suppress

        from google.colab import drive

        print("No tfm_lib-*.whl is uploaded; Google asks if it may be on your Drive.")
        with suppress(Exception):  # the answer was no
            drive.mount(str(Path("drive").absolute()))"""
FROM_REPOSITORY = """\
    if not wheels():
        print("Fetching the course. To keep your work: File > Save a copy in Drive")
        course = "git+ADDRESS"
        fetch = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", course]
        subprocess.run(fetch)"""
WORDS = """\
The course is not installed where this notebook runs, so its cells cannot run yet.
In Colab: open the folder at the left, upload the file tfm_lib-*.whl, and run this cell
again when all of it is there; or put it on your Drive, at most two folders deep.
Elsewhere: put the file beside this notebook, and run this cell again. If you have a
clone of the course, run `make lab` in it, or choose its .venv as the kernel.
`make colab`, in a clone, writes a folder with the lessons and this file.
To read without installing anything, open the web pages of the course:
PAGES"""


def setup_source(address: str) -> str:
    """The first code cell of every lesson."""
    fetch = FROM_REPOSITORY.replace("ADDRESS", address) if address else ON_DRIVE
    words = WORDS.replace("PAGES", pages(address) or "`make site`, in a clone, writes them into site/")
    return SETUP.replace("FETCH", fetch).replace("WORDS", words).rstrip("\n")


def is_setup(cell: NotebookNode) -> bool:
    """True for the cell that `stamp` wrote."""
    return cell.get("id") == SETUP_ID


def stamp(book: NotebookNode, name: str, address: str) -> None:
    """Writes badge, first code cell and folds into a lesson; the badge stands after the line under the title.

    Raises ValueError if the lesson does not begin with a title cell.
    """
    if not book.cells or book.cells[0].cell_type != "markdown":
        raise ValueError(f"{name} does not begin with a Markdown cell; its title, '# ...', belongs there")
    title = book.cells[0]
    paragraphs = BADGE.sub("", title.source).strip("\n").split("\n\n")
    if address:
        paragraphs.insert(2, colab_badge(address, name))
    title.source = "\n\n".join(paragraphs)

    setup = next(filter(is_setup, book.cells), code(""))
    setup.update(id=SETUP_ID, source=setup_source(address))
    book.cells = [cell for cell in book.cells if cell is not setup]
    first_code = next((place for place, _ in placed(book, "code")), len(book.cells))
    book.cells.insert(first_code, setup)
    fold(book)
