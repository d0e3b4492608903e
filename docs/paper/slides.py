"""A deck of slides for each lesson: its pictures, formulas, short code, predictions and recap, as Pandoc makes them."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

import pypandoc
from fontTools import subset
from nbformat import NotebookNode

from docs.paper.cells import code, pictures, printed, read, tags, unfolded
from tfm_lib.lessons import LESSONS, Lesson

HERE = Path(__file__).resolve().parent
REVEAL = Path(distribution("sphinx-revealjs").locate_file("sphinx_revealjs/_static/revealjs"))  # brings reveal.js along
FONT = Path(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf"))
BLOCKS = (0x20, 0x250), (0x370, 0x400), (0x2000, 0x2400), (0x27E6, 0x27F0), (0x1D400, 0x1D800)  # of signs in formulas
MARKDOWN = "gfm+attributes+fenced_divs+bracketed_spans+implicit_figures+tex_math_dollars"
OPTIONS = "--to=revealjs --standalone --embed-resources --mathml --slide-level=2 --css=slides.css"
SHOWN = {"width": 1280, "height": 720, "margin": 0, "center": "false", "hash": "true", "slideNumber": "true"}
SENTENCE = re.compile(r".+?(?<!et al)(?<!\bvs)(?:[.!?][\"”)]?(?=\s|$)|$)", re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:)[^)]*\)")
FORMULA = re.compile(r"\$\$.+?\$\$(?:\s*\$\$.+?\$\$)*", re.DOTALL)
GUESS = re.compile(r"([^\n]*?)\*\*Guess first:\*\* ([^\n]*?\?)")
MISTAKE = re.compile(r"^\d\. (\*\*.+?)[.,:]?\*\*", re.MULTILINE)
ROOM = 1110, 530  # pixels for code, and for what it prints
SMALLEST = 18  # pixels, of letters in code


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return [" ".join(sentence.split()) for sentence in SENTENCE.findall(text.strip())]


def lead(text: str, least: int, most: int = 150) -> str:
    """The first sentence of a text; where it has fewer letters, the second one, too, if both have at most so many."""
    first = sentences(text)[:2]
    return " ".join(first if first and len(first[0]) < least and sum(map(len, first)) < most else first[:1])


def alone(text: str) -> str:
    """A text for a slide, on which no cell is next and nothing follows a colon."""
    return re.sub(":$", ".", text.replace("The next cell", "A program").replace("the next cell", "a program"))


def plain(text: str) -> str:
    """Words as Markdown that says no more than they."""
    return re.sub(r"([\\`*_$\[\]<>|#~])", r"\\\1", text)


def slide(title: str, body: str, kind: str = "", notes: str = "") -> str:
    """A slide in Markdown; its notes are for who speaks."""
    speech = f"\n\n::: notes\n{notes}\n:::" if notes else ""
    return f"## {title} {{.{kind or 'text'}}}\n\n{body}{speech}"


def sized(pixels: float, body: str) -> str:
    """A part of a slide in letters of this size."""
    return f'::: {{style="font-size: {pixels:.0f}px"}}\n{body}\n:::'


def sections(cells: list[NotebookNode]) -> Iterator[tuple[str, list[NotebookNode]]]:
    """The sections of the first part of a lesson, by their headings."""
    title, found = "", list[NotebookNode]()
    for cell in cells:
        is_text = cell.cell_type == "markdown"
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE) if is_text else [cell.source]:
            if is_text and part.startswith("## "):
                yield title, found
                title, found = part.splitlines()[0][3:], []
                if title == "Second reading":
                    return
            found.append(NotebookNode(cell, source=part))
    yield title, found


class Deck:
    """The slides of a lesson, in its order; its pictures are files of a folder."""

    def __init__(self, lesson: Lesson, folder: Path) -> None:
        self.lesson, self.folder = lesson, folder
        self.slides: list[str] = []
        parts, recap = dict(sections(read(lesson))), ""
        self.open(parts.pop(""))
        for title, cells in parts.items():
            text = LINK.sub(r"\1", cells[0].source.partition("\n")[2].strip())
            if title[0].isdigit():
                self.teach(title, text, cells)
            elif title == "In practice":
                prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
                if mistakes := MISTAKE.findall(LINK.sub(r"\1", prose)):
                    body = "\n".join(f"{number}. {words}.**" for number, words in enumerate(mistakes, 1))
                    self.slides.append(slide("In practice: mistakes that raise no error", body))
            elif title == "Recap":
                recap = slide(title, sized(min(27, (5.3e5 / len(text)) ** 0.5), text))
            elif title == "Questions":
                for cell in cells:
                    if "opening" in tags(cell):
                        self.ask(cell)
        self.slides.append(recap)

    def open(self, cells: list[NotebookNode]) -> None:
        """The title, what one can do after the lesson, and the questions that open it."""
        title, aim = cells[0].source.split("\n\n")[:2]
        self.slides.append(slide(title.removeprefix("# "), LINK.sub(r"\1", aim), "opening"))
        outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
        [asked] = [data["text/markdown"] for data in outputs if "text/markdown" in data]
        questions = asked[asked.index("1. ") :]
        self.slides.append(slide("What do you think?", questions, "ask"))

    def teach(self, title: str, text: str, cells: list[NotebookNode]) -> None:
        """A section: how it begins, its pictures, formulas and predictions, and a short piece of code."""
        self.slides.append(slide(title, alone(lead(text.split("\n\n")[0], 80, 250)), "section", text))
        shown = short([cell for cell in cells if cell.cell_type == "code"])
        for cell in cells:
            if cell.cell_type == "markdown":
                self.tell(title, alone(LINK.sub(r"\1", unfolded(cell.source)[0])))
            else:
                for number, picture in enumerate(pictures(cell)):
                    file = f"{cell.id}-{number}.png"
                    Path(self.folder, file).write_bytes(picture.png)
                    words = plain(picture.caption)
                    width, height = picture.pixels
                    kind = "picture .tall" if width < 1.8 * height else "picture"
                    self.slides.append(slide(title, f"![{words}]({file})", kind, plain(picture.words)))
                if cell in shown:
                    self.slides.append(slide(title, listing(cell), "code"))

    def tell(self, title: str, text: str) -> None:
        """The formulas of a text, each after the sentence before it, and what it asks to be guessed."""
        for found in FORMULA.finditer(text):
            before = sentences(text[: found.start()].strip().split("\n\n")[-1])
            signs = re.sub(r"\\(begin|end)\{\w+\}", "", found[0]).replace("\\qquad", "xxxxx")
            signs = re.sub(r"\\[a-zA-Z]+", "xx", signs)
            longest = max(len(re.sub(r"[{}^_\s]", "", line)) for line in signs.split("$$"))
            formula = sized(max(24, min(50, 2100 / longest)), found[0])
            self.slides.append(slide(title, f"{before[-1] if before else ''}\n\n{formula}", "formula"))
        for before, question in GUESS.findall(text):
            context = " ".join(sentences(before)[-3:])
            self.slides.append(slide("Guess first", f"{context}\n\n**{question[0].upper()}{question[1:]}**", "ask"))

    def ask(self, cell: NotebookNode) -> None:
        """A question with its choices; the answer comes at the next press, and its reasons are notes."""
        text, [(_, answer)] = unfolded(cell.source)
        question, choices = text.split("\n\n", 1)
        body = f"{choices}\n\n. . .\n\n{answer.split(chr(10) * 2)[0]}"
        self.slides.append(slide(question.strip("*"), body, "choose", answer))


def size(cell: NotebookNode) -> int:
    """How large the letters of a cell and of what it prints can be, in pixels."""
    lines = f"{code(cell)}\n{printed(cell)}".splitlines()
    return int(min(26, ROOM[0] / 0.61 / max(map(len, lines)), ROOM[1] / 1.35 / (len(lines) + 1)))


def short(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The cells of a section that a slide can show: those to guess and one more, a definition if there is one."""
    fits = [cell for cell in cells if code(cell) and size(cell) >= SMALLEST and not pictures(cell)]
    guessed = [cell for cell in fits if "guess" in tags(cell)]
    rest = sorted((cell for cell in fits if cell not in guessed), key=lambda cell: "def " not in cell.source)
    return guessed + rest[:1]


def listing(cell: NotebookNode) -> str:
    """A cell's code and what it prints, in letters as large as there is room for."""
    shown = f"\n\n```shown\n{printed(cell)}\n```" if printed(cell) else ""
    return sized(size(cell), f"```python\n{code(cell)}\n```{shown}")


def write_slides(out: Path, lessons: Sequence[Lesson] = LESSONS) -> int:
    """Writes a deck for each lesson, one file each, which a browser shows without any network; how many there are."""
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as work:
        options = subset.Options(flavor="woff", layout_features=["*"])
        with subset.load_font(str(FONT), options) as font:
            cut = subset.Subsetter(options)
            cut.populate(unicodes=[sign for block in BLOCKS for sign in range(*block)])
            cut.subset(font)
            subset.save_font(font, f"{work}/{FONT.stem}.woff", options)
        shutil.copy(HERE / "slides.css", work)
        for lesson in lessons:
            write_deck(lesson, Path(work), Path(work) / f"{lesson.name}.html")
        for lesson in lessons:  # once all are there
            shutil.move(f"{work}/{lesson.name}.html", out / f"{lesson.name}.html")
    return len(lessons)


def write_deck(lesson: Lesson, folder: Path, out: Path) -> None:
    """Writes the slides of a lesson, whose style and font are in the folder."""
    text = "\n\n".join(Deck(lesson, folder).slides)
    command = [pypandoc.get_pandoc_path(), f"--from={MARKDOWN}", *OPTIONS.split(), f"--output={out.resolve()}"]
    command += [f"--variable={name}={value}" for name, value in SHOWN.items()]
    command += [f"--variable=revealjs-url={REVEAL}", "--variable=theme=serif", f"--metadata=pagetitle={lesson.title}"]
    subprocess.run(command, cwd=folder, check=True, input=text, text=True)
