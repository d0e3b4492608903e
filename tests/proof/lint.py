"""What can be checked of a notebook without running it. Each function yields its findings as sentences."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator

import nbformat
from nbformat import NotebookNode

from tests.proof.cells import METADATA, code_cells, tags
from tests.proof.claims import Bounds, ClaimError, bounds, check_arithmetic, check_claim
from tests.proof.folds import TITLE, fold_findings
from tests.proof.numbers import numbers_in
from tests.proof.order import order_findings
from tests.proof.prose import COMMENT, EXACT_FORM, Note, Sentence, comments, mask, sentences
from tests.proof.references import bare_references
from tests.proof.stamp import is_setup, repository, setup_source
from tests.proof.values import worked_out
from tfm_lib.show.live import VIEW

MAX_LINES = 25
MAX_BOUNDS = 1 / 10  # of the claims of a lesson
KNOWN_TAGS = {
    "nbval-ignore-output": "the output truly cannot repeat; the cell's metadata says the reason",
    "pixels-vary": "what the picture shows depends on how sums are rounded, its words do not; the metadata say why",
    "raises-exception": "the error is what the lesson shows",
    "expects-nan": "the nan or inf is what the lesson shows",
    "question": "a question, its choices and its answer, in a Markdown cell of their own",
    "opening": "a question that is asked before the lesson, too",
    "deeper": "the heading of a section of the second reading",
    "guess": "what the reader is to guess first: learners' copies come without this output",
    "exercise": "the text of an exercise, and the code cell with the learner's answer",
    "exercises": "the imports of the section of exercises",
    "solution": "the hints and the solution of an exercise, folded",
}
# The last one shows a section collapsed in JupyterLab, the one before it a cell in Colab.
CELL_METADATA = {"tags", "reason", "jupyter", "cellView", "jp-MarkdownHeadingCollapsed"}
MEND = (
    "Add `<!-- claim: EXPRESSION -->` that encloses it, `<!-- arithmetic: 3 * 2 == 6 -->` if it is worked out by hand, "
    "or `<!-- cited: SOURCE -->` if someone else measured it"
)
NAN = re.compile(r"(?<![A-Za-z_])-?(nan|inf)(?![A-Za-z_])")
MACHINE_PATH = re.compile(r"(?<![\w.])(?:/home/|/root/|/tmp/|/work/|/Users/|[A-Za-z]:\\+Users\b)")
VERSIONS = re.compile(r"__version__|\bmetadata\.version\(|\bimportlib\.metadata\b.*\bversion\b")


def lint(book: NotebookNode) -> list[str]:
    """Everything that is wrong with the notebook of a lesson, a sentence each; empty if nothing is."""
    found = [finding for check in BOOK.values() for finding in check(book)]
    for place, cell in enumerate(book.cells):
        if cell.cell_type == "markdown":
            found += [f"{where(place, cell)}: {finding}" for finding in prose_findings(cell.source)]
    return found


def where(place: int, cell: NotebookNode) -> str:
    """A cell as a reader finds it: its number among all cells, and the start of its text."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"{cell.cell_type} cell {place + 1} ({first[:40].strip()!r})"


def format_findings(book: NotebookNode) -> Iterator[str]:
    """The file itself: valid, with ids, and without what an editor left in it."""
    ids = [cell.get("id") for cell in book.cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "every cell needs an id of its own: open the lesson in JupyterLab and save it"
    else:
        try:
            nbformat.validate(book)
        except nbformat.ValidationError as error:
            yield f"is not a valid notebook: {error.message}"
    if book.metadata != METADATA:
        yield "its metadata is not just kernelspec python3 and language_info name: `make lessons` cleans it"
    for place, cell in enumerate(book.cells):
        if extra := set(cell.metadata) - CELL_METADATA:
            yield f"{where(place, cell)} has metadata {sorted(extra)}: `make lessons` cleans it"
        if unknown := set(tags(cell)) - set(KNOWN_TAGS):
            yield f"{where(place, cell)} has tags {sorted(unknown)}; the known ones are {sorted(KNOWN_TAGS)}"


def title_findings(book: NotebookNode) -> Iterator[str]:
    """A lesson begins with its title."""
    first = book.cells[0] if book.cells else None
    if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
        yield "the first line of a lesson is its title, '# ...', in a Markdown cell"


def setup_findings(book: NotebookNode) -> Iterator[str]:
    """The first code cell is the same in every lesson, and one shows the versions."""
    code = code_cells(book)
    if not code or not is_setup(code[0]) or code[0].source != setup_source(repository()):
        yield "the first code cell is not the set-up cell of the course: `make stamp` writes it"
    if not any(VERSIONS.search(cell.source) and not is_setup(cell) for cell in code):
        yield "no cell shows the versions that the lesson ran with (`__version__`)"


def execution_findings(book: NotebookNode) -> Iterator[str]:
    """The lesson was executed from top to bottom before it was committed."""
    counts = [cell.execution_count for cell in code_cells(book)]
    if None in counts:
        missing = [place + 1 for place, c in enumerate(book.cells) if c.cell_type == "code" and not c.execution_count]
        yield f"cells {missing} were not executed before the commit: `make lessons` executes them"
    elif counts != list(range(1, len(counts) + 1)):
        yield f"the execution counts are {counts} and not 1, 2, 3, ...: `make lessons` executes from top to bottom"


def output_findings(book: NotebookNode) -> Iterator[str]:
    """Errors, nan and pictures are meant, no widget is stored, and outputs that are not compared say why."""
    for place, cell in enumerate(book.cells):
        if cell.cell_type != "code":
            continue
        here, marks = where(place, cell), set(tags(cell))
        free = marks & {"nbval-ignore-output", "pixels-vary"}
        if free and not str(cell.metadata.get("reason", "")).strip():
            yield f"{here} is not compared ({free.pop()}); say why as `reason` in its metadata"
        text = "".join(o.get("text", "") + str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs)
        if "expects-nan" not in marks and (found := NAN.search(text)):
            yield f"{here} shows {found[0]!r}: mend it, or tag the cell expects-nan if the lesson means it"
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in marks:
                yield f"{here} ends in {output.ename}: mend it, or tag it raises-exception if the lesson means it"
            if VIEW in output.get("data", {}):
                yield f"{here} stores a live widget, which no reader's kernel knows: `make lessons` cleans it"
            for mime in output.get("data", {}):
                alt = output.metadata.get(mime, {}).get("alt", "")
                if mime.startswith("image/") and not alt.strip():
                    yield f"{here} shows a figure without alt text: make it a tfm_lib.show.figure.Figure, with one"
                elif mime.startswith("image/") and alt not in str(output.data.get("text/plain", "")):
                    yield f"{here} shows a figure whose text/plain is not its alt text, so its message is not compared"


def source_findings(book: NotebookNode) -> Iterator[str]:
    """No long cell, no path of a machine, nothing that keeps a cell from running."""
    for place, cell in enumerate(book.cells):
        here = where(place, cell)
        outputs = [
            {**o, "data": {m: v for m, v in o.get("data", {}).items() if not m.startswith("image/")}}
            for o in cell.get("outputs", [])
        ]
        if found := MACHINE_PATH.search(re.sub(r"\\u001b\[[\d;]*m", " ", cell.source + json.dumps(outputs))):
            yield f"{here} holds a path of one machine ({found[0]}...)"
        if cell.cell_type != "code":
            continue
        lines = sum(1 for line in cell.source.splitlines() if line.strip() and not line.startswith(TITLE))
        if not lines:
            yield f"{here} is empty"
        if lines > MAX_LINES:
            yield f"{here} has {lines} lines; {MAX_LINES} are the most that a reader takes in at once"
        if re.search(r"^\s*#\s*(NBVAL|PYTEST_VALIDATE)_", cell.source, re.MULTILINE):
            yield f"{here} speaks to nbval in a comment that readers see: use a tag"


def caption_findings(book: NotebookNode) -> Iterator[str]:
    """A measured number in the words of a figure is computed from what is drawn: no literal text holds one."""
    for place, cell in enumerate(book.cells):
        if cell.cell_type != "code":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            continue  # the run says so
        assigned: dict[str, list[ast.AST]] = defaultdict(list)
        for node in ast.walk(tree):
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                if isinstance(node, ast.Assign | ast.AugAssign) and isinstance(target, ast.Name):
                    assigned[target.id].append(node.value)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            words = [keyword.value for keyword in call.keywords if keyword.arg in ("alt", "caption", "message")]
            if getattr(call.func, "attr", getattr(call.func, "id", "")).endswith("Figure"):
                words += call.args[:1]
            for text in words:
                parts = assigned[text.id] if isinstance(text, ast.Name) else [text]
                literal = " ".join(map(_literal, parts))
                for number in numbers_in(literal):
                    if number.measured:
                        yield (
                            f"{where(place, cell)} writes {number.text!r} into the words of a figure: {literal[:100]!r}"
                            ". Compute it from what is drawn, in an f-string"
                        )


def _literal(node: ast.AST) -> str:
    """The text that stands in the code; what is computed is left out."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) if isinstance(part, ast.Constant) else "\N{WHITE SQUARE}" for part in node.values)
    return _literal(node.left) + _literal(node.right) if isinstance(node, ast.BinOp) else ""


def bound_findings(book: NotebookNode) -> Iterator[str]:
    """Few claims of a lesson only bound: a number says more."""
    cells = (cell for cell in book.cells if cell.cell_type == "markdown")
    claims = [n for cell in cells for s in sentences(cell.source) for n in s.notes if n.kind == "claim"]
    loose = sum(bool(claim.bound) for claim in claims)
    if loose > max(1, MAX_BOUNDS * len(claims)):
        yield f"{loose} of its {len(claims)} claims are bounds; one in ten is the most: write numbers instead"


def prose_findings(source: str) -> Iterator[str]:
    """Everything that is wrong with a Markdown cell."""
    for check in PROSE.values():
        yield from check(source)


def form_findings(source: str) -> Iterator[str]:
    """Comments have a known form and stand where nobody sees them; pictures have their words."""
    masked = mask(source)
    for comment in comments(source, masked):
        if re.fullmatch(r"<!-- was: [\w-]+ -->", comment):
            yield f"{comment} is for `make stamp`, which leads the links to the heading's new words and takes it away"
        elif not EXACT_FORM.fullmatch(comment):
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
    for gap in re.finditer(f"[ \t]{COMMENT}+(?=[.,;:!?)])", masked):
        before = source[: gap.start()].split()[-1]
        yield f"the space before a comment shows before a mark: join it to its word: {before!r}<!-- ..."
    if re.search(r"!\[\s*\]\(", source) or re.search(r"<img(?![^>]*\balt=[\"'][^\"'\s])", source):
        yield 'a picture has no alt text: write what it shows between the brackets of `![...](...)`, or in alt="..."'


def number_findings(source: str) -> Iterator[str]:
    """The numbers of a Markdown cell have claims or sources, and the claims are such that they can be checked."""
    for sentence in sentences(source):
        yield from sentence_findings(sentence)


def order_of_words_findings(source: str) -> Iterator[str]:
    """Claims compare in the direction and order of their sentences."""
    for sentence in sentences(source):
        yield from order_findings(sentence)


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


def sentence_findings(sentence: Sentence) -> Iterator[str]:
    """The claims of one sentence hold it to its numbers."""
    held: list[Bounds] = []
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
            held.append(Bounds(frozenset(worked_out(claim)), ()))
            continue
        held.append(bounds(claim))
        if note.seen:
            yield from (f"the claim `{claim}` of {sentence.text!r} {why}" for why in range_findings(sentence, note))
        numbers = sentence.numbers_anywhere
        near = sentence.numbers_of(note)
        stated = [number.text for number in near if number.measured or re.search(r"\d", number.text)]
        if stated and held[-1].values - {0, 1} and not _any_enclosed(numbers, held[-1]):
            sound = False
            yield (
                f"the claim `{claim}` does not enclose the number of its sentence ({', '.join(stated)}): "
                f"{sentence.text!r}. Compare with that number, or give bounds around it, not further apart than twice "
                "the number"
            )
    if not sound or any(note.kind == "cited" for note in sentence.notes):
        return  # a claim that has to be mended anyway, or a number that someone else measured
    for number in sentence.numbers:
        if number.measured and not any(_any_enclosed([number], claim) for claim in held):
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


def _any_enclosed(numbers: list, claim: Bounds) -> bool:
    return any(claim.enclose(value) for number in numbers for value in number.values)


# All checks, by the word under which authors find them. `BOOK` reads a notebook, `PROSE` the source of a Markdown cell.
BOOK: dict[str, Callable[[NotebookNode], Iterator[str]]] = {
    "format": format_findings,
    "title": title_findings,
    "set-up": setup_findings,
    "execution": execution_findings,
    "output": output_findings,
    "source": source_findings,
    "fold": fold_findings,
    "caption": caption_findings,
    "bounds": bound_findings,
}
PROSE: dict[str, Callable[[str], Iterator[str]]] = {
    "form": form_findings,
    "number": number_findings,
    "order": order_of_words_findings,
    "reference": bare_references,
    "space": space_findings,
}
