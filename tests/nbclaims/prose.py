"""Finds the sentences of a Markdown cell, the numbers that they state, and the claims and sources that they carry.

Everything that is no prose (code, math, links, headings, versions) is masked by filler of the same length first, so
that places in the masked text and in the source are the same.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode

from .cells import markdown_cells
from .numbers import Number, numbers_in

HIDDEN, COMMENT, MARKER = "\x00", "\x01", "\x02"  # fillers: what is no prose, HTML comments, list markers

# What is no prose, in the order in which it is looked for at each place.
NO_PROSE = re.compile(
    r"""
      (?P<fence>   ^(?P<ticks>```+|~~~+).*?(?:^(?P=ticks)|\Z)     )
    | (?P<comment> <!--.*?(?:-->|\Z)                              )
    | (?P<code>    (?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`)       )
    | (?P<math>    \$\$.+?\$\$ | \$[^$\n]+\$ | \\begin\{(?P<env>\w+\*?)\}.+?\\end\{(?P=env)\})
    | (?P<heading> ^[ ]{0,3}\#{1,6}[ ](?:(?!<!--)[^\n])*          )
    | (?P<badge>   \[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)              )
    | (?P<link>    !?\[[^\]]*\]\([^)]*\) | https?://\S+           )
    | (?P<tag>     </?[a-zA-Z][^>]*>                              )
    | (?P<marker>  ^[ ]*(?:[-*+]|\d+[.)])(?=[ ])                  )
    | (?P<version> (?:\b(?:versions?|arXiv:?|CC[ ]BY|v|[Cc]hapters?|[Ss]ections?|[Ff]igures?|[Tt]ables?|[Ee]quations?
                     |Python|PyTorch|torch|NumPy|numpy|CUDA|JupyterLab|d2l|matplotlib|transformers)[ ]?\(?|§[ ]?)
                   \d+(?:\.\d+)+(?:(?:,|[ ]to|[ ]and|[ ]or)[ ]\d+\.\d+)* | \b\d+(?:\.\d+){2,}             )
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
ABBREVIATIONS = ("e.g", "i.e", "vs", "cf", "approx", "al", "Fig", "Eq", "Sec", "Dr", "No")
SENTENCE_END = re.compile(rf"[.!?][)\"'*_]*(?:[ \t]*{COMMENT}+)*(?=\s+[^a-z\s{COMMENT}]|\s*\Z)")
ASKED = re.compile(r"- [A-Z]: |\*\*.*\?\*\*$")
UNIT_START = re.compile(rf"\n[ \t]*\n|\n(?={MARKER}|[ ]*\|)")

EXACT_FORM = re.compile(
    r"<!-- (?:(?P<kind>claim)(?: \((?:bound: (?P<bound>[^()<>]*[^()<>\s])"
    r"|range: (?P<low>-?\d+(?:\.\d+)?)\.\.(?P<high>-?\d+(?:\.\d+)?))\))?"
    r"|(?P<other>cited|arithmetic)): (?P<content>.*\S) -->"
)


@dataclass(frozen=True)
class Note:
    """An HTML comment that the proof reads: a claim, arithmetic, or the source of a number."""

    kind: str
    content: str
    bound: str = ""  # why the sentence states a bound
    seen: tuple[float, float] | None = None  # the range of the value over roundings, where it is not always the same
    start: int = 0  # its place in the sentence
    end: int = 0

    @property
    def label(self) -> str:
        """How lists and messages call its kind: claim, claim (range: 1..2), claim (bound), arithmetic, cited."""
        if self.seen:
            return f"claim (range: {self.seen[0]:g}..{self.seen[1]:g})"
        return "claim (bound)" if self.bound else self.kind


@dataclass(frozen=True)
class Sentence:
    """One sentence, list item or table row: its source, and the same with everything masked that is no prose."""

    source: str
    masked: str
    asked: bool = False  # of a question or its choices, which state nothing

    @cached_property
    def text(self) -> str:
        """What a reader sees: the source without its comments."""
        return " ".join(re.sub(r"\s*<!--.*?(-->|\Z)", "", self.source, flags=re.DOTALL).split())

    @cached_property
    def numbers(self) -> list[Number]:
        """The numbers that the prose states; in questions and their choices, which state nothing, those in digits."""
        numbers = numbers_in(self.masked)
        asks = self.asked or self.text.rstrip('*_)"').endswith("?")
        return [n for n in numbers if re.match(r"\W?\d", n.text)] if asks else numbers

    @cached_property
    def numbers_anywhere(self) -> list[Number]:
        """Those, and the numbers that stand in math or code."""
        return numbers_in(self.text)

    @cached_property
    def notes(self) -> list[Note]:
        """The claims, arithmetic and sources of the sentence, in order."""
        found = []
        for start, comment in comments(self.source, self.masked):
            if match := EXACT_FORM.fullmatch(comment):
                kind, bound = match["kind"] or match["other"], match["bound"] or ""
                seen = (float(match["low"]), float(match["high"])) if match["low"] else None
                found.append(Note(kind, match["content"], bound, seen, start, start + len(comment)))
        return found

    def numbers_of(self, note: Note) -> list[Number]:
        """The numbers before a note, since the last one that has some: a claim stands behind its words."""
        ends = [0, *(earlier.end for earlier in self.notes if earlier.end <= note.start)]
        for begin in reversed(ends):
            if self.masked[begin : note.start].strip(f" .,;:{COMMENT}"):
                return [number for number in self.numbers if begin <= number.start < note.start]
        return []

    @property
    def checks(self) -> list[Note]:
        """The notes that are evaluated: claims and arithmetic."""
        return [note for note in self.notes if note.kind != "cited"]

    def stated(self, note: Note) -> list[Number]:
        """Of the numbers before a note those that are measured or in digits."""
        return [number for number in self.numbers_of(note) if number.measured or re.search(r"\d", number.text)]


def comments(source: str, masked: str) -> list[tuple[int, str]]:
    """The HTML comments of a masked text, as the source has them, with their places; one inside code is none."""
    runs = ((run.start(), source[run.start() : run.end()]) for run in re.finditer(f"{COMMENT}+", masked))
    parts = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
    return [(start + part.start(), part[0]) for start, run in runs for part in parts.finditer(run)]


def mask(source: str) -> str:
    """The text with everything replaced that is no prose, character for character; line ends stay."""

    def filler(match: re.Match) -> str:
        fill = COMMENT if match["comment"] else MARKER if match["marker"] else HIDDEN
        return re.sub(r"[^\n]", fill, match[0])

    return NO_PROSE.sub(filler, source)


def sentences(source: str) -> list[Sentence]:
    """The sentences of a Markdown cell, in order. List items, table rows and headings are sentences of their own."""
    masked = mask(source)
    found, start = [], 0
    units = [*(match.end() for match in UNIT_START.finditer(masked)), len(masked)]
    for unit_end in units:
        while start < unit_end:
            end = _sentence_end(masked, start, unit_end)
            if masked[start:end].strip():
                first = start + len(source[start:]) - len(source[start:].lstrip())
                line = source[source.rfind("\n", 0, first) + 1 :].partition("\n")[0]
                found.append(Sentence(source[start:end], masked[start:end], bool(ASKED.match(line))))
            start = end
    return found


def notes(book: NotebookNode) -> list[tuple[Sentence, Note]]:
    """All notes of a notebook, with their sentences."""
    texts = (sentence for cell in markdown_cells(book) for sentence in sentences(cell.source))
    return [(sentence, note) for sentence in texts for note in sentence.notes]


def _sentence_end(masked: str, start: int, unit_end: int) -> int:
    for match in SENTENCE_END.finditer(masked, start, unit_end):
        if not masked[start : match.start()].endswith(ABBREVIATIONS):
            return match.end()
    return unit_end
