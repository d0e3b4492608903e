"""References from text to lessons: ordinary links, whose numbers and titles follow the lessons, as CONTRIBUTING shows.

    [lesson 08, section 3](08_decoding.ipynb#3-greedy)

The name of the file without its number says which lesson is meant, the anchor without its number which section. Where a
heading gets other words, a comment behind it, `<!-- was: greedy -->`, leads the links there until they are stamped.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from tests import ROOT
from tests.nbclaims.cells import markdown_cells, placed, where
from tests.nbclaims.prose import sentences
from tests.pages.links import markdown_of, slug

LESSONS = ROOT / "notebooks"
HEADING = re.compile(
    r"^ {0,3}#{1,6} (?P<title>(?:(?!<!--)[^\n])*?)\s*(?P<was><!-- was: (?P<old>[\w-]+) -->)?\s*$", re.MULTILINE
)
MEND = (
    "Write [lesson 08](08_decoding.ipynb) or [lesson 08, section 3](08_decoding.ipynb#3-greedy), and [lesson 03, "
    "“what it costs”](03_multi_head_attention.ipynb#deeper-what-it-costs) for a Deeper section; `make stamp` keeps the "
    "numbers and titles right when lessons and sections move"
)
WAS = re.compile(r"<!-- was: [\w-]+ -->")
LINK = re.compile(
    r"\[(?P<text>[^\]\[]*)\]\((?P<folder>(?:[\w.]+/)*)(?P<file>\d\d_\w+\.ipynb)?(?:#(?P<anchor>[^)\s]+))?\)"
)
FENCE = re.compile(r"^(```+|~~~+).*?^\1", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"^(?:\d+|deeper)-+")
QUOTED = re.compile(r"“[^”]*”")
BARE = re.compile(r"\b[Ll]essons? \d\d(?! to \d\d)(?:(?:, \d\d)*,? (?:and|or) \d\d)?(?<! to \d\d)\b")


class Heading(NamedTuple):
    """A heading of a lesson: its anchor, as GitHub and the pages form it, and the names by which links know it."""

    anchor: str
    names: set[str]
    title: str

    @property
    def number(self) -> str | None:
        """The number of its section, or None."""
        found = re.match(r"\d+(?=-)", self.anchor)
        return found[0] if found else None


def headings(sources: Iterable[str]) -> list[Heading]:
    """The headings of Markdown cells, in order."""
    return _headings(tuple(sources))


@cache
def _headings(sources: tuple[str, ...]) -> list[Heading]:  # those of a lesson are asked for by each link to it
    found = []
    for source in sources:
        for match in HEADING.finditer(FENCE.sub(_filler, source)):
            anchor = slug(re.sub(r"[`*]", "", match["title"]))
            known = [anchor, match["old"] or anchor]
            names = {*known, *(NUMBER.sub("", name) for name in known)}
            found.append(Heading(anchor, names, match["title"].removeprefix("Deeper: ")))
    return found


def renumber(source: str, path: Path, lessons: Path = LESSONS) -> str:
    """The Markdown `source` of a cell or text in the file `path`, with the numbers of its links as they should be.

    A link that leads nowhere stays as it is: the test of links names it.
    """
    by_name = {lesson.name[3:]: lesson for lesson in sorted(lessons.glob("[0-9][0-9]_*.ipynb"))}

    def renew(match: re.Match) -> str:
        target = by_name.get(match["file"][3:]) if match["file"] else path if path.suffix == ".ipynb" else None
        if target is None or masked[match.start()] == "`":
            return match[0]
        text, anchor = match["text"], match["anchor"]
        if match["file"]:
            text = re.sub(r"(?<=[Ll]esson )\d\d|^\d\d(?=, section )", target.name[:2], text)
        if anchor:
            name = NUMBER.sub("", anchor)
            found = next((heading for heading in headings(markdown_of(target)) if {anchor, name} & heading.names), None)
            if found is None:
                return match[0]
            text, anchor = _named_anew(text, name, found), found.anchor
        file = match["folder"] + target.name if match["file"] else ""
        return f"[{text}]({file}{'#' + anchor if anchor else ''})"

    masked = _without_code(source)
    return LINK.sub(renew, source)


def _named_anew(text: str, old_name: str, heading: Heading) -> str:
    """The words of a link as they call the heading today, by its number or, in the second reading, by its title."""
    if heading.anchor.startswith("deeper-"):  # a section of the second reading
        if slug(text) == old_name and not QUOTED.search(text):
            return heading.title
        former = QUOTED if QUOTED.search(text) else re.compile(r"\bsection \d+")
        return former.sub(lambda _: f"“{heading.title}”", text)
    if heading.number:
        return re.sub(r"(?<=section )\d+", heading.number, QUOTED.sub(f"section {heading.number}", text))
    return text


def _without_code(source: str) -> str:
    return re.sub(r"`[^`\n]+`", _filler, FENCE.sub(_filler, source))


def _filler(match: re.Match) -> str:
    return re.sub(r"[^\n]", "`", match[0])


def stale_links(source: str, path: Path, lessons: Path = LESSONS) -> Iterator[str]:
    """Links whose numbers or titles are not those of the lesson and section that they lead to."""
    new = renumber(source, path, lessons)
    before, after = LINK.findall(source), LINK.findall(new)
    for old, right in zip(before, after, strict=True):
        if old != right:
            yield f"the link {old[0]!r} leads to {right[2] or 'section'} {right[3]}: `make stamp` writes {right[0]!r}"


def bare_references(source: str) -> Iterator[str]:
    """Sentences that send the reader to a lesson by its number alone, which nothing follows when lessons move.

    A range ("lessons 01 to 06") only mentions.
    """
    for sentence in sentences(source):
        for match in BARE.finditer(sentence.masked):
            yield f"{match[0]!r} is no link: {sentence.text!r}. {MEND}"


def link_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """Links whose numbers are not those of today, and sections of the lesson that a text names and that it has not."""
    numbers = {heading.number for heading in headings(cell.source for cell in markdown_cells(book))}
    for place, cell in placed(book, "markdown"):
        yield from (f"{where(place, cell)}: {finding}" for finding in stale_links(cell.source, path))
        for sentence in sentences(cell.source):
            for match in re.finditer(r"\b[Ss]ection (\d+)\b(?!\.\d| of the paper)", sentence.masked):
                if match[1] not in numbers:
                    yield f"{where(place, cell)}: there is no section {match[1]} in this lesson: {sentence.text!r}"
