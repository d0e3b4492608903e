"""The whole course as a book: the lessons and the pages to look up, which Pandoc reads and Typst sets as one PDF."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

import pypandoc
import typst
from nbformat import NotebookNode

from docs.paper.cells import TITLE, code, on_paper, pictures, printed, read, tags, unfolded
from tfm_lib.files import write_whole
from tfm_lib.lessons import COURSE, FIRST_BEYOND, LESSONS, Lesson

HERE = Path(__file__).resolve().parent
TO_LOOK_UP = ("symbols", "landscape", "checkup", "scaling")
MARKDOWN = "gfm+tex_math_dollars+gfm_auto_identifiers+raw_attribute"
RENAMED = {"dot.circle": "dot.o"}  # signs that Typst calls by another name than this Pandoc
FOLDER = re.compile(r"(?<=\]\()(?:\.\./)?(?:notebooks|docs)/")  # of a link: in the book all files lie side by side


def titled(words: str) -> str:
    """A title that stays with what follows it."""
    return f"`#titled({json.dumps(words, ensure_ascii=False)})`{{=typst}}"


def printed_fold(name: str, text: str) -> list[str]:
    """A folded part, unfolded: its name goes before its first words, or above code."""
    return [titled(name), text] if text.startswith("```") else [f"**{name}.** {text}"]


class Chapter:
    """A lesson in print: its text in order, then what a reader turns to after trying: solutions and answers."""

    def __init__(self, lesson: Lesson, folder: Path) -> None:
        self.name, self.folder = lesson.name, folder
        self.text: list[str] = []
        self.solutions: list[str] = []
        self.answers: list[str] = []
        for cell in read(lesson):
            self.text += self.read(cell) if cell.cell_type == "markdown" else self.run(cell)

    def read(self, cell: NotebookNode) -> list[str]:
        """The Markdown of a text; what is folded there goes to the end of the chapter, or follows it."""
        text, folds = unfolded(on_paper(cell.source))
        if "question" in tags(cell):
            number = f"{len(self.answers) + 1}."
            self.answers.append(indent(folds[0][1], "    ").replace("    ", f"{number:4}", 1))
            return [indent(text, "    ").replace("    ", f"{number:4}", 1)]
        parts = [part for fold in folds for part in printed_fold(*fold)]
        if "solution" not in tags(cell):
            return [text, *parts]
        exercise = next(line for line in reversed("\n".join(self.text).splitlines()) if line.startswith("### Exercise"))
        self.solutions += [f"#{exercise}", *parts]
        return [text]

    def run(self, cell: NotebookNode) -> list[str]:
        """The Markdown of a cell's code, of what it writes, and of its pictures."""
        parts = []
        if code(cell) and (title := TITLE.match(cell.source)):
            parts.append(titled(title[1]))
        if "getsource" in cell.source:
            parts.append(f"````python\n{printed(cell)}\n````")
        elif source := code(cell):
            parts.append(f"````python\n{source}\n````")
            if output := printed(cell):
                parts.append(f"````shown\n{output}\n````")
        for output in cell.outputs:
            if "text/markdown" in output.get("data", {}):
                parts += self.read(NotebookNode(source=output.data["text/markdown"], metadata={}))
        for number, picture in enumerate(pictures(cell)):
            file = f"{self.name}-{cell.id}-{number}.png"
            Path(self.folder, file).write_bytes(picture.png)
            caption, words = (json.dumps(text, ensure_ascii=False) for text in picture[1:])
            width = min(1, picture.pixels[0] / 1110)
            place = ", placement: auto" * (picture.pixels[1] > 0.7 * picture.pixels[0])  # text fills the page before it
            parts.append(f'````{{=typst}}\n#picture("{file}", {width:.0%}, {caption}, {words}{place})\n````')
        return parts

    def __str__(self) -> str:
        ends = {"## Hints and solutions": self.solutions, "## Answers to the questions": self.answers}
        end = [part for heading, parts in ends.items() if parts for part in (heading, *parts)]
        return FOLDER.sub("", "\n\n".join([*self.text, *end]))


def page(name: str, folder: Path) -> str:
    """A page of docs in print: each picture once with its caption, a text of its own there, and all its words."""
    text = on_paper((COURSE / f"docs/{name}.md").read_text(encoding="utf-8"))

    def figure(found: re.Match[str]) -> str:
        shutil.copy(COURSE / "docs" / found[2], folder)
        words, caption = (json.dumps(" ".join(found[part].split()), ensure_ascii=False) for part in (1, 3))
        return f'````{{=typst}}\n#picture("{found[2]}", 100%, {caption}, {words})\n````\n'

    return FOLDER.sub("", re.sub(r"!\[([^\]]*)\]\(([^)]+)\)\n\n\*(.*?)\*\n(?=\n)", figure, text, flags=re.DOTALL))


def write_book(out: Path) -> None:
    """Writes the book as a PDF. Raises RuntimeError where a formula or a link has no form in print."""
    part_one = [lesson for lesson in LESSONS if lesson.place[1] < FIRST_BEYOND]
    parts: dict[str, list[Lesson] | tuple[str, ...]] = {
        "Part one: the model of the paper": part_one,
        "Part two: beyond the paper": [lesson for lesson in LESSONS if lesson not in part_one],
        "To look up": TO_LOOK_UP,
    }
    with TemporaryDirectory() as work:
        folder = Path(work)
        files = [Path(shutil.copy(HERE / "preface.md", folder))]
        for number, (part, chapters) in enumerate(parts.items()):
            files.append(folder / f"part{number}")
            files[-1].write_text(f"```{{=typst}}\n#part({json.dumps(part)})\n```\n", encoding="utf-8")
            for chapter in chapters:
                files.append(folder / (f"{chapter}.md" if isinstance(chapter, str) else f"{chapter.name}.ipynb"))
                text = page(chapter, folder) if isinstance(chapter, str) else str(Chapter(chapter, folder))
                title, rest = text.split("\n", 1)
                label = files[-1].name.replace(".", "")  # as Pandoc calls the whole file, which it does not label
                files[-1].write_text(f"{title}\n`#metadata(none)<{label}>`{{=typst}}\n{rest}", encoding="utf-8")
        typeset(files, folder, out)


def typeset(files: list[Path], folder: Path, out: Path) -> None:
    """Sets Markdown files, whose links to each other become links within the book."""
    options = ["--file-scope", "--shift-heading-level-by=1", "--columns=10000", f"--lua-filter={HERE / 'book.lua'}"]
    command = [pypandoc.get_pandoc_path(), f"--from={MARKDOWN}", "--to=typst", *options, *(f.name for f in files)]
    body = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    for file in (HERE / "book.typ", COURSE / "docs/newsroom.png"):
        shutil.copy(file, folder)
    project = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for old, new in RENAMED.items():
        body = body.replace(old, new)
    head = f'#import "book.typ": *\n#show: book.with("{project["version"]}")\n'
    Path(folder, "main.typ").write_text(head + body, encoding="utf-8")
    write_whole(out, typst.compile(folder / "main.typ", ignore_system_fonts=True))
