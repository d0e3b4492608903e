"""What can be checked of a notebook without running it: a measured number has a claim, and the claim is one.

Each rule yields its findings as sentences. A project adds its own, see project.py.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from .cells import placed
from .claims import Bounds, ClaimError, bounds, check_arithmetic, check_claim
from .numbers import Number
from .order import order_findings
from .project import ProseRule, project
from .prose import COMMENT, EXACT_FORM, Note, Sentence, comments, mask, notes, sentences
from .values import worked_out

MAX_BOUNDS = 1 / 10  # of the claims of a notebook
MEND = (
    "Add `<!-- claim: EXPRESSION -->` that encloses it, `<!-- arithmetic: 3 * 2 == 6 -->` if it is worked out by hand, "
    "or `<!-- cited: SOURCE -->` if someone else measured it"
)


class Finding(NamedTuple):
    """What is wrong, the name of the rule that says so, and the cell, if it is in the prose of one."""

    rule: str
    message: str
    place: int | None = None


def lint(path: Path, book: NotebookNode) -> Iterator[Finding]:
    """Everything that is wrong with a notebook, by the rules of this file and of the project."""
    for name, of_book in ({"bounds": bound_findings} | project.book_rules).items():
        yield from (Finding(name, message) for message in of_book(path, book))
    for place, cell in placed(book, "markdown"):
        for name, of_prose in (PROSE | project.prose_rules).items():
            yield from (Finding(name, message, place) for message in of_prose(cell.source))


def bound_findings(path: Path, book: NotebookNode) -> Iterator[str]:
    """Few claims of a notebook only bound: a number says more."""
    claims = [note for _, note in notes(book) if note.kind == "claim"]
    loose = sum(bool(note.bound) for note in claims)
    if loose > max(1, MAX_BOUNDS * len(claims)):
        yield f"{loose} of its {len(claims)} claims are bounds; one in ten is the most: write numbers instead"


def form_findings(source: str) -> Iterator[str]:
    """Comments have a known form and stand where nobody sees them; pictures have their words."""
    masked = mask(source)
    for _, comment in comments(source, masked):
        remark = re.fullmatch(r"<!-- (\w+): .*\S -->", comment)
        if re.fullmatch(r"<!-- was: [\w-]+ -->", comment):
            yield f"{comment} is for `make stamp`, which leads the links to the heading's new words and takes it away"
        elif not EXACT_FORM.fullmatch(comment) and not (remark and remark[1] in project.remarks):
            yield (
                f"the comment {comment[:60]!r} is neither `<!-- claim: EXPRESSION -->`, with "
                "`(bound: REASON)` or `(range: LOW..HIGH)` before the colon perhaps, nor `<!-- arithmetic: EXPRESSION "
                "-->` nor `<!-- cited: SOURCE -->` on one line, with just these spaces"
            )
    if "-->" in masked:
        yield "a `-->` stands outside a comment; no claim may hold one, since it ends the comment"
    visible = "".join(s if m != "\x00" else " " for s, m in zip(source, masked, strict=True))
    for line in visible.splitlines():
        if re.match(r"[\s>]*(?:(?:[-*+]|\d+[.)])\s+)?<!-- claim", line):
            yield f"a claim begins the line {line[:50]!r}; Markdown takes that as raw HTML: put it after its words"
        if re.match(r"\s*\|", line) and any("|" in c for c in re.findall(r"<!--.*?-->", line)):
            yield f"a claim or source in a table holds a `|`, which ends its column: {line[:60]!r}"
    if re.search(r"!\[\s*\]\(", source) or re.search(r"<img(?![^>]*\balt=[\"'][^\"'\s])", source):
        yield 'a picture has no alt text: write what it shows between the brackets of `![...](...)`, or in alt="..."'


def space_findings(source: str) -> Iterator[str]:
    """What a reader sees has one space between words and none before a mark: comments leave more behind easily."""
    seen = "".join(
        "" if m == COMMENT else "_" if m in "\x00\x02" and s != "\n" else s
        for s, m in zip(source, mask(source), strict=True)
    )
    for line in seen.splitlines():
        if line.lstrip().startswith("|"):
            continue
        for match in re.finditer(r"(?<=\S)(?:  +(?=\S)| +(?=[.,;:!?](?:\s|$)))", line):
            around = line[max(0, match.start() - 25) : match.end() + 15]
            kind = "two spaces" if len(match[0]) > 1 else "a space before a mark"
            yield f"a reader sees {kind} in {around!r}"


def number_findings(sentence: Sentence) -> Iterator[str]:
    """The numbers of a sentence have claims or sources, and the claims are such that they hold it to its numbers."""
    limits: list[Bounds] = []
    sound = True
    for note in sentence.checks:
        claim = note.content
        try:
            (check_claim if note.kind == "claim" else check_arithmetic)(claim)
        except ClaimError as error:
            yield f"the {note.kind} `{claim}` of {sentence.text!r} {error}"
            sound = False
            continue
        if note.kind == "arithmetic":
            limits.append(Bounds({*worked_out(claim)}))
            continue
        limits.append(bounds(claim))
        if note.seen:
            yield from (f"the claim `{claim}` of {sentence.text!r} {why}" for why in range_findings(sentence, note))
        stated = [number.text for number in sentence.stated(note)]
        if stated and limits[-1].values - {0, 1} and not _any_enclosed(sentence.numbers_anywhere, limits[-1]):
            sound = False
            yield (
                f"the claim `{claim}` does not enclose the number of its sentence ({', '.join(stated)}): "
                f"{sentence.text!r}. Compare with that number, or give bounds around it, not further apart than twice "
                "the number"
            )
    if not sound or any(note.kind == "cited" for note in sentence.notes):
        return  # a claim that has to be mended anyway, or a number that someone else measured
    for number in sentence.numbers:
        if number.measured and not any(_any_enclosed([number], claim) for claim in limits):
            yield f"{number.text!r} is measured, and no claim checks it: {sentence.text!r}. {MEND}"


def range_findings(sentence: Sentence, note: Note) -> Iterator[str]:
    """A claim whose value depends on rounding encloses the range that was seen, and its sentence says this range."""
    low, high = note.seen
    if not low < high:
        yield f"names the range {low:g}..{high:g}, whose first number must be the smaller one"
    if not (bounds(note.content).enclose(low) and bounds(note.content).enclose(high)):
        yield f"must hold for all of its range {low:g}..{high:g}: widen its bounds"
    stated = [number for number in sentence.numbers_of(note) if number.counts]
    scales = (1, 100) if stated and len(stated[-1].values) > 1 else (1,)  # in "44 to 47 %" both are percent
    as_range = len(stated) > 1 and any(stated[-2].is_of(s * low) and stated[-1].is_of(s * high) for s in scales)
    if not as_range and not (stated and stated[-1].about and stated[-1].is_of(low) and stated[-1].is_of(high)):
        yield (
            f"was seen in {low:g}..{high:g}, so its sentence gives this range (0.011 to 0.013) or, where 5 % cover it, "
            "one number after *about*"
        )


def _any_enclosed(numbers: list[Number], claim: Bounds) -> bool:
    return any(claim.enclose(value) for number in numbers for value in number.values)


# The rules for the source of a Markdown cell, by the word under which authors find them.
PROSE: dict[str, ProseRule] = {
    "form": form_findings,
    "number": lambda source: chain.from_iterable(map(number_findings, sentences(source))),
    "order": lambda source: chain.from_iterable(map(order_findings, sentences(source))),
    "space": space_findings,
}
