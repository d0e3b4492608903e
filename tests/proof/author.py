"""The commands of authors.

python -m tests.proof.author check [FILE ...]     executes lessons, says all that has to be mended, writes nothing
python -m tests.proof.author claims [FILE ...]    says which claims are lost or weaker than at the last commit
python -m tests.proof.author lessons [FILE ...]   executes lessons; writes those whose outputs really changed
python -m tests.proof.author stamp [FILE ...]     writes badges, first cells, folds, and the numbers in links to lessons
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

from tests.pages import links
from tests.proof import environment, lint, references, values
from tests.proof.anatomy import anatomy_findings
from tests.proof.cells import METADATA, code_cells, read, tags, write
from tests.proof.claims import operands
from tests.proof.folds import fold, fold_findings
from tests.proof.lint import BOOK, CELL_METADATA, PROSE, VERSIONS, where
from tests.proof.lists import changes as changed_claims
from tests.proof.outputs import clean, difference
from tests.proof.prose import sentences
from tests.proof.references import WAS, missing_sections, renumber, stale_links
from tests.proof.stamp import repository, stamp, stamp_readme
from tests.proof.values import Answer, Evaluate, answers, beside_code, findings
from tests.times import HUNG

MEND = {"loose": values.MEND, "number": lint.MEND, "reference": references.MEND}  # said once, at the end of `check`


class LessonFailed(Exception):
    """A lesson that does not run through; the message says which cell, and why."""


def execute(
    book: NotebookNode,
    folder: Path,
    read_prose: Callable[[NotebookNode, Evaluate], None] | None = None,
    rounding: str = "",
) -> NotebookNode:
    """A copy of the notebook, executed in a new kernel of this environment, under this one of its roundings.

    `read_prose` is called with each Markdown cell where it stands, and with what evaluates expressions there.
    Raises LessonFailed if a cell fails, unless it is tagged raises-exception.
    """
    fresh = deepcopy(book)
    kernel = KernelManager(kernel_name=CURRENT_ENV_KERNEL_NAME, kernel_spec_manager=NbvalKernelspecManager())
    client = NotebookClient(
        fresh, km=kernel, timeout=HUNG, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.reset_execution_trackers()
    env = environment.variables(rounding)
    with client.setup_kernel(cleanup_kc=True, stderr=subprocess.DEVNULL, env=env):
        for place, cell in enumerate(fresh.cells):
            if cell.cell_type == "markdown" and read_prose:
                read_prose(cell, beside_code(lambda expressions: ask(client, expressions), book, place))
            try:
                client.execute_cell(cell, place, execution_count=client.code_cells_executed + 1)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                reason = f"{error.ename}: {error.evalue}" if isinstance(error, CellExecutionError) else str(error)
                raise LessonFailed(f"{where(place, cell)}: {reason}") from None
    return fresh


def ask(client: NotebookClient, expressions: list[str]) -> list[Answer]:
    """What the kernel says of expressions, which bind no name and leave no trace."""
    wanted = {str(place): expression for place, expression in enumerate(expressions)}
    message = client.kc.execute("", silent=True, store_history=False, user_expressions=wanted)
    while True:
        reply = client.kc.get_shell_msg(timeout=HUNG)
        if reply["parent_header"].get("msg_id") == message:
            return answers(reply["content"]["user_expressions"], wanted)


def renew(book: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Takes over from `fresh` what really changed; returns what that is, a line each.

    Outputs that are not compared, and versions, are taken over only where something else changed, too.
    """
    changes = []
    for place, (cell, new) in enumerate(zip(book.cells, fresh.cells, strict=True)):
        if cell.cell_type != "code":
            continue
        ignored = "nbval-ignore-output" in tags(cell) and cell.execution_count is not None
        if not ignored and difference(cell.outputs, new.outputs, "pixels-vary" not in tags(cell)) is not None:
            changes.append(f"{where(place, cell)}: outputs")
        elif cell.outputs != clean(cell.outputs):
            changes.append(f"{where(place, cell)}: paths, loose streams or a live widget in its outputs")
        elif not (ignored or VERSIONS.search(cell.source)):
            new.outputs = cell.outputs
    counts = [cell.execution_count for cell in code_cells(book)]
    if counts != list(range(1, len(counts) + 1)):
        changes.append("the order of execution")
    if book.metadata != METADATA or any(set(cell.metadata) - CELL_METADATA for cell in book.cells):
        changes.append("metadata")
    if changes:
        book.metadata = deepcopy(METADATA)
        for cell in book.cells:
            cell.metadata = {key: value for key, value in cell.metadata.items() if key in CELL_METADATA}
        for count, (cell, new) in enumerate(zip(code_cells(book), code_cells(fresh), strict=True), start=1):
            cell.execution_count = count
            cell.outputs = clean(new.outputs)
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
    return changes


def lessons(paths: list[Path]) -> int:
    """Executes lessons and writes those that really changed; returns how many failed."""
    failed = 0
    for path in paths:
        started = time.monotonic()
        book = read(path)
        try:
            changes = renew(book, execute(book, path.parent))
        except LessonFailed as error:
            failed += 1
            print(f"{path.name}: FAILED, the file is as it was. {error}")
            continue
        if list(fold_findings(book)):
            fold(book)
            changes.append("which cells are folded")
        if changes:
            write(path, book)
        news = "written, since these changed: " + "; ".join(changes) if changes else "nothing changed"
        print(f"{path.name}: {news} ({time.monotonic() - started:.0f} s)", flush=True)
    return failed


def check(path: Path) -> Iterator[tuple[str, str, str]]:
    """All that has to be mended in a lesson, executed once: the cell's id, a kind, and what is wrong.

    Of the kind "bound" are the bounds that it states, beside their values: they are to be looked at.
    """
    book = read(path)
    for kind, of_book in BOOK.items():
        yield from (("", kind, finding) for finding in of_book(book))
    yield from (("", "anatomy", finding) for finding in anatomy_findings(book))
    for cell in (cell for cell in book.cells if cell.cell_type == "markdown"):
        for kind, of_prose in PROSE.items():
            yield from ((cell.id, kind, finding) for finding in of_prose(cell.source))
        named = [*stale_links(cell.source, path), *missing_sections(cell.source, path)]
        yield from ((cell.id, "link", finding) for finding in named)
    yield from (("", "link", f"{link} leads nowhere") for link in links.broken(path))

    claimed: list[tuple[str, str, str]] = []

    def read_prose(cell: NotebookNode, evaluate: Evaluate) -> None:
        for sentence in sentences(cell.source):
            for finding in findings(sentence, evaluate, tight=True) if sentence.checks else []:
                kind = "claim" if "\nIts claim" in finding else "loose"
                claimed.append((cell.id, kind, finding))
            for note in (note for note in sentence.checks if note.bound):
                [shown] = evaluate(operands(note.content)[:1] or [note.content])
                claimed.append((cell.id, "bound", f"`{note.content}`, and it is {shown.text}, since: {note.bound}"))

    try:
        fresh = execute(book, path.parent, read_prose)
    except LessonFailed as error:
        fresh = book
        claimed.append(("", "run", f"{error}; what stands below it was not checked"))
    yield from claimed
    for old, new in zip(code_cells(book), code_cells(fresh), strict=True):
        pixels = "pixels-vary" not in tags(old)
        if "nbval-ignore-output" not in tags(old) and (why := difference(old.outputs, clean(new.outputs), pixels)):
            yield old.id, "output", f"{why}\n(`lessons` writes it)"


def check_all(paths: list[Path]) -> int:
    """Prints what has to be mended in lessons, and how much of each kind; returns how many findings there are."""
    total: Counter[str] = Counter()
    for path in paths:
        counts: Counter[str] = Counter()
        for cell, kind, finding in check(path):
            counts[kind] += kind != "bound"
            short = finding.removesuffix(MEND.get(kind, "")).replace("\n", "\n    ")
            print(f"{path.stem[:2]} {cell or '-'} {kind}: {short}")
        notes = [n for c in read(path).cells if c.cell_type == "markdown" for s in sentences(c.source) for n in s.notes]
        claims, bounds = sum(n.kind == "claim" for n in notes), sum(bool(n.bound) for n in notes)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common() if count) or "nothing to mend"
        print(f"{path.name}: {kinds}; claims: {claims}, of them {bounds} bounds", flush=True)
        total += counts
    for kind in MEND.keys() & total.keys():
        print(f"{kind}: {MEND[kind]}.")
    return total.total()


def stamp_all(paths: list[Path], texts: list[Path]) -> None:
    """Writes badge, first code cell and folds into lessons, and the numbers of links into lessons and other texts."""
    address = repository()
    books = {path: read(path) for path in paths}
    for path, book in books.items():
        stamp(book, path.name, address)
        for cell in (cell for cell in book.cells if cell.cell_type == "markdown"):
            cell.source = renumber(cell.source, path)
    for path in texts:
        old = path.read_text(encoding="utf-8")
        new = renumber(old, path)
        if path.name == "README.md":
            new = stamp_readme(new, address)
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(f"{path.name}: written")
    for path, book in books.items():
        if texts:  # all links were led to the new words of a heading
            for cell in book.cells:
                cell.source = WAS.sub("", cell.source) if cell.cell_type == "markdown" else cell.source
        print(f"{path.name}: {'written' if write(path, book) else 'nothing changed'}")
    print(f"The address is {address}." if address else "No address in pyproject.toml yet, so no badge.")


def main(arguments: list[str]) -> int | str:
    """Runs a command; returns what the process ends with."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.author", description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["check", "claims", "lessons", "stamp"])
    parser.add_argument("files", nargs="*", type=Path, help="lessons; all of notebooks/ if none is named")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.files] or sorted((environment.ROOT / "notebooks").glob("*.ipynb"))
    if missing := [str(path) for path in paths if not path.is_file()]:
        return f"There is no file {', '.join(missing)}."
    if options.command == "stamp":
        try:
            stamp_all(paths, [] if options.files else [text for text in links.TEXTS if text.suffix == ".md"])
        except ValueError as error:
            return str(error)
        return 0
    if options.command == "claims":
        for path in paths:
            print(
                "\n".join(f"{path.stem[:2]} {change}" for change in changed_claims(path))
                or f"{path.stem[:2]} as it was"
            )
        return 0
    environment.settle()
    if reasons := environment.why_not_compared():
        return "Committed outputs are always those of the locked environment, and here " + "; ".join(reasons)
    return 1 if (check_all(paths) if options.command == "check" else lessons(paths)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
