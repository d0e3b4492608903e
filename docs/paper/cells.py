"""What a lesson's cells say on paper and on slides, where no cell runs and nothing is pressed or unfolded."""

import re
import struct
import tomllib
from base64 import b64decode
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from tfm_lib.lessons import Lesson

WORDING = tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))
# What lessons say alike where cells run, and what stands in its place on paper.
EVERYWHERE = {
    re.compile(r"<!--.*?-->", re.DOTALL): "",
    re.compile(r' ?<span class="knob">.*?</span>', re.DOTALL): "",  # what is turned or pressed
    re.compile(r" ?\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)"): "",  # badges
    re.compile(r"^### The same questions, to read$", re.MULTILINE): "",
    re.compile(r"The cell after the set-up asks a few questions about the lesson\."): "A few questions follow.",
    re.compile(r"The quiz below the set-up tells you"): "The questions below tell you",
    re.compile(r"\bfolded (?=cells?\b|meter|counter|script|program)"): "",
    re.compile(
        r"Fill in the cell below (?:a|the) task.*", re.DOTALL
    ): "Hints and solutions are at the end of the lesson.",
}
FOLD = re.compile(r"<details><summary>(.*?)</summary>\n(.*?)</details>\n?", re.DOTALL)
TITLE = re.compile(r"# @title (.+)\n")  # of a cell that is folded everywhere
CHECKED = re.compile(r"^from tfm_lib\.ask\.checks import check\n+|\n*^check\(.*\n?", re.MULTILINE)
# Set-up, quizzes, progress and the versions serve the notebook.
SERVICE = re.compile(
    r"^import platform$|importlib\.metadata|^(quiz|progress)\(|"
    r"^from (importlib\.util|tfm_lib\.ask\.(quiz|progress)|IPython\.display) ",
    re.MULTILINE,
)


class Picture(NamedTuple):
    """A picture that a cell shows, the sentence under it, and all that it says in words."""

    png: bytes
    caption: str
    words: str

    @property
    def pixels(self) -> tuple[int, int]:
        """Its width and height."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height


def read(lesson: Lesson) -> list[NotebookNode]:
    """The cells of a lesson, whose texts say what holds on paper.

    Raises ValueError where the lesson lost a sentence that wording.toml rewords.
    """
    cells: list[NotebookNode] = nbformat.read(lesson.file, as_version=4).cells
    texts = [cell for cell in cells if cell.cell_type == "markdown"]
    for cell in texts:
        cell.source = on_paper(cell.source)
    for old, new in WORDING.get(lesson.number, {}).items():
        if not (found := [cell for cell in texts if old in cell.source]):
            raise ValueError(f"lesson {lesson.number} no longer says {old!r}; change it in docs/paper/wording.toml")
        for cell in found:
            cell.source = cell.source.replace(old, new)
    return cells


def on_paper(text: str) -> str:
    """Markdown without claims and badges, and without what needs a running cell or a control."""
    for away, instead in EVERYWHERE.items():
        text = away.sub(instead, text)
    return text.strip()


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def unfolded(source: str) -> tuple[str, list[tuple[str, str]]]:
    """Markdown without its folded parts, and these: what each is called, and what it says."""
    return FOLD.sub("", source).strip(), [(name, text.strip()) for name, text in FOLD.findall(source)]


def pictures(cell: NotebookNode) -> list[Picture]:
    """The pictures that a cell shows."""
    shown = [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    about = (output.metadata["image/png"] for output in shown)
    return [Picture(b64decode(o.data["image/png"]), x["caption"], x["alt"]) for o, x in zip(shown, about, strict=True)]


def printed(cell: NotebookNode) -> str:
    """What a cell writes; of an exercise nothing, since it has not been done."""
    if "exercise" in tags(cell):
        return ""
    texts = [output.text for output in cell.outputs if output.output_type == "stream"]
    texts += ["\n".join(output.traceback) for output in cell.outputs if output.output_type == "error"]
    texts += [
        output.data["text/plain"].partition(" Run this cell")[0] + "\n"
        for output in cell.outputs
        if "data" in output and output.data.keys() == {"text/plain"}
    ]
    return "".join(texts).rstrip()


def code(cell: NotebookNode) -> str:
    """The code to read: none where a cell only draws or serves the notebook; of an exercise what is given."""
    folded = TITLE.match(cell.source)
    draws = pictures(cell) and (folded or cell.id.startswith("control-"))
    if draws or (folded and "tfm_lib.show.figure" in cell.source):
        return ""
    if "exercises" in tags(cell) or SERVICE.search(cell.source):
        return ""
    return CHECKED.sub("", TITLE.sub("", cell.source)).replace("the folded cell", "the cell").strip()
