"""The commands of authors.

python -m tests.proof.author lessons [FILE ...]   executes lessons; writes those whose outputs really changed
python -m tests.proof.author stamp [FILE ...]     writes badges and first cells from pyproject.toml's address
"""

import argparse
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

from tests.proof import environment
from tests.proof.cells import METADATA, code_cells, read, tags, write
from tests.proof.lint import CELL_METADATA, where
from tests.proof.outputs import clean, difference, same_pictures
from tests.proof.stamp import repository, stamp

TIMEOUT = 300  # seconds a cell


class LessonFailed(Exception):
    """A lesson that does not run through; the message says which cell, and why."""


def execute(book: NotebookNode, folder: Path) -> NotebookNode:
    """A copy of the notebook, executed in a new kernel of this environment.

    Raises LessonFailed if a cell fails, unless it is tagged raises-exception.
    """
    fresh = deepcopy(book)
    kernel = KernelManager(kernel_name=CURRENT_ENV_KERNEL_NAME, kernel_spec_manager=NbvalKernelspecManager())
    client = NotebookClient(
        fresh, km=kernel, timeout=TIMEOUT, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    place = [0]
    client.on_cell_start = lambda cell, cell_index: place.__setitem__(0, cell_index)
    try:
        client.execute(cleanup_kc=True, stderr=subprocess.DEVNULL)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        reason = f"{error.ename}: {error.evalue}" if isinstance(error, CellExecutionError) else str(error)
        raise LessonFailed(f"{where(place[0], fresh.cells[place[0]])}: {reason}") from None
    return fresh


def renew(book: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Takes over from `fresh` what really changed; returns what that is, a line each.

    Outputs that are not compared are taken over only where something else changed, too.
    """
    changes = []
    for place, (cell, new) in enumerate(zip(book.cells, fresh.cells, strict=True)):
        if cell.cell_type != "code":
            continue
        ignored = "nbval-ignore-output" in tags(cell) and cell.execution_count is not None
        if not ignored and difference(cell.outputs, new.outputs) is not None:
            changes.append(f"{where(place, cell)}: outputs")
        elif not ignored and not same_pictures(cell.outputs, new.outputs):
            changes.append(f"{where(place, cell)}: a picture")
        elif cell.outputs != clean(cell.outputs):
            changes.append(f"{where(place, cell)}: paths, loose streams or a live widget in its outputs")
        elif not ignored:
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
        if changes:
            write(path, book)
        news = "written, since these changed: " + "; ".join(changes) if changes else "nothing changed"
        print(f"{path.name}: {news} ({time.monotonic() - started:.0f} s)", flush=True)
    return failed


def stamp_all(paths: list[Path]) -> None:
    """Writes badge and first code cell into lessons, where they are not there already."""
    address = repository()
    for path in paths:
        book = read(path)
        stamp(book, path.name, address)
        print(f"{path.name}: {'written' if write(path, book) else 'nothing changed'}")
    print(f"The address is {address}." if address else "No address in pyproject.toml yet, so no badge.")


def main(arguments: list[str]) -> int | str:
    """Runs a command; returns what the process ends with."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.author", description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["lessons", "stamp"])
    parser.add_argument("files", nargs="*", type=Path, help="lessons; all of notebooks/ if none is named")
    options = parser.parse_args(arguments)
    paths = options.files or sorted((environment.ROOT / "notebooks").glob("*.ipynb"))
    if missing := [str(path) for path in paths if not path.is_file()]:
        return f"There is no file {', '.join(missing)}."
    if options.command == "stamp":
        try:
            stamp_all(paths)
        except ValueError as error:
            return str(error)
        return 0
    environment.settle()
    if reasons := environment.why_not_compared():
        return "Committed outputs are always those of the locked environment, and here " + "; ".join(reasons)
    return 1 if lessons(paths) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
