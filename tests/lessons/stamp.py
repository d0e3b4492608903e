"""The first code cell of every lesson and the badges, made from the address in pyproject.toml; and folds."""

import re
import tomllib
from pathlib import Path

from nbformat import NotebookNode

from tests import ROOT
from tests.lessons.folds import fold
from tests.nbclaims.cells import code, code_cells

SETUP_ID = "setup"
ADDRESS = re.compile(r"https://github\.com/[A-Za-z0-9-]+/[A-Za-z0-9._-]*[A-Za-z0-9_-]")
BADGE = re.compile(r"\n*\[!\[Open in Colab\]\([^)]*\)\]\([^)]*\)")

HERE = """\
# @title Set-up: if the course is installed, this cell does nothing
from importlib.util import find_spec

if find_spec("tfm_lib") is None:
    how = "Clone the course, run `make lab` in its folder, and open this lesson there."
    raise ModuleNotFoundError(f"tfm_lib is missing. {how}")
"""
COLAB = """\
# @title Set-up: if the course is installed, this cell does nothing
import subprocess
import sys
from importlib import metadata, util

pip = [sys.executable, "-m", "pip"]
if util.find_spec("tfm_lib") is None:
    print("Installing the course. To keep your work: File > Save a copy in Drive")
    course = ["git+ADDRESS", "d2l==1.0.3"]
    subprocess.run([*pip, "install", "-q", "--no-deps", *course], check=True)
wanted = [need for need in metadata.requires("tfm_lib") if "extra ==" not in need]
wanted += ["torchvision", "pandas", "scipy"]
found = metadata.distributions
if missing := [need for need in wanted if not any(found(name=need.split(">=")[0]))]:
    with open("already_here.txt", "w") as here:  # these packages stay as they are
        subprocess.run([*pip, "list", "--format=freeze"], stdout=here, check=True)
    as_before = ["--no-warn-conflicts", "-c", here.name]
    subprocess.run([*pip, "install", "-q", *as_before, *missing], check=True)
"""


def repository(pyproject: Path = ROOT / "pyproject.toml") -> str:
    """The address of the repository, or "" while it has none.

    Raises ValueError if the address has not the form that badges and pip need.
    """
    address = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["course"]["repository"]
    if address and (not ADDRESS.fullmatch(address) or address.endswith(".git")):
        raise ValueError(
            f"[tool.course] repository in pyproject.toml is {address!r}; Colab opens lessons from GitHub only: "
            'write "https://github.com/OWNER/NAME", without .git and without a slash at the end'
        )
    return address


def setup_source(address: str) -> str:
    """The first code cell of every lesson."""
    return (COLAB.replace("ADDRESS", address) if address else HERE).rstrip("\n")


def badge(address: str, name: str) -> str:
    """The badge that opens the lesson of that file name in Colab."""
    target = address.replace("https://github.com", "https://colab.research.google.com/github", 1)
    picture = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({picture})]({target}/blob/main/notebooks/{name})"


START = "## Start\n"  # of the README, where whoever cannot install is offered a machine
CONTAINER = re.compile(r"\n\[!\[Open in Codespaces\]\([^)]*\)\]\([^)]*\)\n")


def stamp_readme(text: str, address: str) -> str:
    """The README with the badge that opens the container of `.devcontainer`, which the heading Start is followed by."""
    text = CONTAINER.sub("", text)
    if not address:
        return text
    picture = "https://github.com/codespaces/badge.svg"
    target = address.replace("https://github.com", "https://codespaces.new", 1)
    return text.replace(START, f"{START}\n[![Open in Codespaces]({picture})]({target})\n", 1)


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
        paragraphs.insert(2, badge(address, name))
    title.source = "\n\n".join(paragraphs)

    setup = next(filter(is_setup, code_cells(book)), None)
    if setup is None:
        setup = code("")
        setup.id = SETUP_ID
    else:
        book.cells.remove(setup)
    first_code = next((place for place, cell in enumerate(book.cells) if cell.cell_type == "code"), len(book.cells))
    book.cells.insert(first_code, setup)
    setup.source = setup_source(address)
    fold(book)
