"""Finds the sentences of a Markdown cell, the numbers that they state, and the claims and sources that they carry.

Everything that is no prose (code, math, links, headings, versions) is masked by filler of the same length first, so
that places in the masked text and in the source are the same.
"""

import re
from dataclasses import dataclass
from functools import cached_property

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
UNIT_START = re.compile(rf"\n[ \t]*\n|\n(?={MARKER}|[ ]*\|)")

WORDS = dict(two=2, three=3, four=4, five=5, six=6, seven=7, eight=8, nine=9, ten=10, eleven=11, twelve=12)
DIGITS = r"[-\N{MINUS SIGN}]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
NUMBER = rf"(?P<number>(?<![\w.,])(?<![A-Za-z]-){DIGITS})(?!\d|\.\d|D\b|-(?!fold)[A-Za-z])"
COMPARED = r"(?:as|more|less|fewer|faster|slower|larger|smaller|longer|shorter|bigger|greater|the)\b"
BY = r"[x\N{MULTIPLICATION SIGN}]"
FACTOR = rf"[ ]?times\b|-fold\b|{BY}(?!\w|[ ]?\d)|[ ]{BY}(?=[ ]{COMPARED})"
ANY_NUMBER = re.compile(rf"{NUMBER}(?:[ ]?(?P<percent>%|percent\b|per cent\b)|(?P<factor>{FACTOR}))?")
WORD_FACTOR = re.compile(rf"\b(?P<word>{'|'.join(WORDS)}) times {COMPARED}", re.IGNORECASE)
EXACT_FORM = re.compile(r"<!-- (?P<kind>claim|cited): (?P<content>.*\S) -->")


@dataclass(frozen=True)
class Number:
    """A number as the prose writes it; `values` is what a claim may call it (47 % is 47 or 0.47)."""

    text: str
    values: tuple[float, ...]
    measured: bool


@dataclass(frozen=True)
class Note:
    """An HTML comment that the proof reads: a claim, or the source of a number."""

    kind: str
    content: str


@dataclass(frozen=True)
class Sentence:
    """One sentence, list item or table row: its source, and the same with everything masked that is no prose."""

    source: str
    masked: str

    @cached_property
    def text(self) -> str:
        """What a reader sees: the source without its comments."""
        return " ".join(re.sub(r"\s*<!--.*?(-->|\Z)", "", self.source, flags=re.DOTALL).split())

    @cached_property
    def numbers(self) -> list[Number]:
        """The numbers that the prose states; measured are decimals, percentages and factors."""
        return numbers_in(self.masked)

    @cached_property
    def numbers_anywhere(self) -> list[Number]:
        """Those, and the numbers that stand in math or code."""
        return numbers_in(self.text)

    @cached_property
    def notes(self) -> list[Note]:
        """The claims and sources of the sentence, in order."""
        found = (EXACT_FORM.fullmatch(comment) for comment in comments(self.source, self.masked))
        return [Note(match["kind"], match["content"]) for match in found if match]

    @cached_property
    def claims(self) -> list[str]:
        """The expressions of the sentence's claims."""
        return [note.content for note in self.notes if note.kind == "claim"]


def comments(source: str, masked: str) -> list[str]:
    """The HTML comments of a masked text, as the source has them; one inside code is none."""
    found = (source[run.start() : run.end()] for run in re.finditer(f"{COMMENT}+", masked))
    return [part for run in found for part in re.findall(r"<!--.*?(?:-->|\Z)", run, re.DOTALL)]


def numbers_in(text: str) -> list[Number]:
    """All numbers of a text, with what a claim may call each."""
    found = []
    for match in ANY_NUMBER.finditer(text):
        value = float(match["number"].replace(",", "").replace("\N{MINUS SIGN}", "-"))
        measured = bool(match["percent"] or match["factor"] or re.search(r"[.eE]", match["number"]))
        found.append(Number(match[0], (value, value / 100) if match["percent"] else (value,), measured))
    for match in WORD_FACTOR.finditer(text):
        found.append(Number(match[0], (float(WORDS[match["word"].lower()]),), True))
    return found


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
                found.append(Sentence(source[start:end], masked[start:end]))
            start = end
    return found


def _sentence_end(masked: str, start: int, unit_end: int) -> int:
    for match in SENTENCE_END.finditer(masked, start, unit_end):
        if not masked[start : match.start()].endswith(ABBREVIATIONS):
            return match.end()
    return unit_end
