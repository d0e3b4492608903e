"""The form of a lesson, as CONTRIBUTING draws it: a spine for one evening, and behind it a second reading."""

import math
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from nbformat import NotebookNode

from tests.nbclaims.cells import placed, tags
from tests.pages.links import slug

SECTIONS = (5, 7)  # of a spine, at least and at most
MOST_WORDS, MOST_CELLS, MOST_AGREEMENTS, MOST_MINUTES = 3000, 50, 3, 30
WORDS_A_MINUTE, MINUTES_A_CELL, MOST_RUNNING = 180, 0.5, 2  # running: minutes
PRACTICE = "In practice"
MOST_WORDS_OF_PRACTICE, MOST_CELLS_OF_PRACTICE = 350, 4
COLUMNS = 88  # of code and of what it prints: a page and a laptop's screen have no more
DEEPER = "Deeper: "
OPPONENTS = "Deeper: claims that you will meet"  # deepens no section of its own
AFTER = ["Exercises", "Recap", "Questions", "Where to go next"]
LINK = re.compile(r"\]\(#([\w-]+)\)")


class Section(NamedTuple):
    """A heading of the second level and the cells up to the next one."""

    title: str
    cells: list[NotebookNode]

    @property
    def anchor(self) -> str:
        return slug(self.title)

    @property
    def links(self) -> list[str]:
        """The anchors of this lesson that its text leads to."""
        return [anchor for cell in self.cells if cell.cell_type == "markdown" for anchor in LINK.findall(cell.source)]


def anatomy_findings(book: NotebookNode) -> Iterator[str]:
    """How a lesson differs from the form above."""
    for check in (outline_findings, size_findings, minute_findings, deeper_findings, width_findings):
        yield from check(book)


def sections(book: NotebookNode) -> list[Section]:
    """The sections of a lesson, in order; what stands before the first one is left out."""
    found: list[Section] = []
    for cell in book.cells:
        undivided = cell.cell_type != "markdown" or "```" in cell.source
        for part in [cell.source] if undivided else re.split(r"\n(?=## )", cell.source):
            if cell.cell_type == "markdown" and part.startswith("## "):
                title = re.sub(r"<!--.*?-->|[`*]", "", part.partition("\n")[0][3:]).strip()
                found.append(Section(title, []))
            if found:
                found[-1].cells.append(NotebookNode(cell, source=part))
    return found


def spine(book: NotebookNode) -> list[NotebookNode]:
    """What a first reader reads: all up to In practice, the exercises or the recap."""
    ends = tuple(f"## {title}" for title in (PRACTICE, "Exercises", "Recap"))
    return [*takewhile(lambda cell: not cell.source.startswith(ends), book.cells)]


def words(cells: list[NotebookNode]) -> int:
    """The words of the prose, without claims and code."""
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return len(re.sub(r"<!--.*?-->|```.*?```", " ", prose, flags=re.DOTALL).split())


def shown(cell: NotebookNode) -> str:
    """What a code cell prints, streams and plain results."""
    parts = (o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in cell.get("outputs", []))
    return "".join(parts)


def outline_findings(book: NotebookNode) -> Iterator[str]:
    """The sections stand in their order, and exercises only where they belong."""
    found = sections(book)
    titles = [section.title for section in found]
    numbered = [title for title in titles if re.match(r"\d+ ", title)]
    deeper = [title for title in titles if title.startswith(DEEPER)]
    with_exercises = [section for section in found if any("exercise" in tags(cell) for cell in section.cells)]
    asked = [section for section in found if any("question" in tags(cell) for cell in section.cells)]
    wanted = [*numbered, PRACTICE, *(AFTER if with_exercises else AFTER[1:])]
    if deeper:
        wanted += ["Second reading", *deeper, *["Questions of the second reading"] * (len(asked) > 1)]
    if titles != wanted:
        yield f"its sections are {titles}; wanted {wanted}"
    if [title.split()[0] for title in numbered] != [str(n + 1) for n in range(len(numbered))]:
        yield f"the sections of its spine have not the numbers 1, 2, 3, ...: {numbered}"
    if not SECTIONS[0] <= len(numbered) <= SECTIONS[1]:
        yield f"its spine has {len(numbered)} sections; a first reader walks {SECTIONS[0]} to {SECTIONS[1]}"
    for section in with_exercises:
        if section.title != "Exercises" and not section.title.startswith(DEEPER):
            yield f"an exercise stands in section {section.title!r}; wanted in Exercises or in a Deeper section"


def size_findings(book: NotebookNode) -> Iterator[str]:
    """What one evening holds; what one needs at work stays short, too."""
    cells = spine(book)
    practice = [cell for section in sections(book) if section.title == PRACTICE for cell in section.cells]
    agreements = sum("largest difference" in shown(cell) for cell in cells)
    for part, count, most, what in (
        ("spine", words(cells), MOST_WORDS, "words"),
        ("spine", len(cells), MOST_CELLS, "cells"),
        ("spine", agreements, MOST_AGREEMENTS, "printed agreements"),
        (PRACTICE, words(practice), MOST_WORDS_OF_PRACTICE, "words"),
        (PRACTICE, len(practice), MOST_CELLS_OF_PRACTICE, "cells"),
    ):
        if count > most:
            yield f"its {part} has {count} {what}; at most {most}: move some to Deeper sections"


def minute_findings(book: NotebookNode) -> Iterator[str]:
    """The minutes of reading on the card are those of the spine, with every cell run and looked at."""
    cells = spine(book)
    code = sum(cell.cell_type == "code" for cell in cells)
    least = words(cells) / WORDS_A_MINUTE + code * MINUTES_A_CELL
    low, high = math.floor(least), math.ceil(least + MOST_RUNNING)
    stated = re.search(r"^\*Reading: (\d+) minutes", book.cells[0].source if book.cells else "", re.MULTILINE)
    wanted = f"{low} to {high}: {words(cells)} words / {WORDS_A_MINUTE} + {code} code cells / 2 + running"
    if stated is None:
        yield f"its first cell has no card that begins '*Reading: N minutes', with N from {wanted}"
    elif not low <= int(stated[1]) <= high:
        yield f"its card says {stated[1]} minutes of reading; wanted {wanted}"
    elif int(stated[1]) > MOST_MINUTES:
        yield f"its card says {stated[1]} minutes of reading; an evening has {MOST_MINUTES}"


def deeper_findings(book: NotebookNode) -> Iterator[str]:
    """Deeper sections are tagged, say what they are for, and are linked both ways with what they deepen."""
    found = sections(book)
    numbered = {section.anchor: section for section in found if re.match(r"\d+ ", section.title)}
    deeper = [section for section in found if section.title.startswith(DEEPER)]
    for cell in book.cells:
        starts = cell.cell_type == "markdown" and cell.source.startswith(f"## {DEEPER}")
        if ("deeper" in tags(cell)) != starts:
            yield f"cell {cell.id} ({cell.source[:32]!r}): headings '## {DEEPER}...' have the tag `deeper`, only they"
    listed = [anchor for section in found if section.title == "Second reading" for anchor in section.links]
    if listed != (anchors := [section.anchor for section in deeper]):
        yield f"its second reading lists {listed}; wanted a link to each Deeper section in their order, {anchors}"
    for section in deeper:
        first = section.cells[0].source.partition("\n")[2].strip().partition("\n\n")[0]
        if not re.fullmatch(r"\*[^*\n].*[^*]\*", first):
            yield f"{section.title!r} begins {first!r}; wanted, in the heading's cell and in italics, what it is for"
            continue
        deepened = [anchor for anchor in LINK.findall(first) if anchor in numbered]
        if not deepened and section.title != OPPONENTS:
            yield f"{section.title!r}: its first line has no link to the section that it deepens, [section 3](#3-...)"
        for anchor in deepened:
            if section.anchor not in numbered[anchor].links:
                yield f"section {numbered[anchor].title!r} has no link to what deepens it: [...](#{section.anchor})"


def width_findings(book: NotebookNode) -> Iterator[str]:
    """Lines that neither a page nor a laptop cuts off."""
    for place, cell in placed(book, "code"):
        printed = [output for output in cell.outputs if set(output.get("data", ())) <= {"text/plain"}]
        for kind, text in (("its code", cell.source), ("what it prints", shown(NotebookNode(outputs=printed)))):
            longest = max(text.splitlines(), key=len, default="")
            if len(longest) > COLUMNS:
                yield f"cell {place + 1}: {kind} has {len(longest)} columns, at most {COLUMNS}: {longest.strip()!r}"
