"""Runs a lesson in a new kernel, and takes over what changed in it."""

import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

from tests.lessons import plugin  # noqa: F401 (it says what decides the outputs of lessons)
from tests.lessons.rules import CELL_METADATA, VERSIONS
from tests.nbclaims import environment
from tests.nbclaims.cells import METADATA, code_cells, tags, where
from tests.nbclaims.outputs import clean, difference
from tests.nbclaims.values import Evaluate, ask, with_neighbors
from tests.times import HUNG


class LessonFailed(Exception):
    """A lesson that does not run through; the message says which cell, and why."""


ReadProse = Callable[[int, Evaluate], None]


def execute(book: NotebookNode, folder: Path, read_prose: ReadProse | None = None, rounding: str = "") -> NotebookNode:
    """A copy of the notebook, executed in a new kernel of this environment, under this one of its roundings.

    `read_prose` is called at each Markdown cell, with its place and with what evaluates expressions there.
    Raises LessonFailed if a cell fails, unless it is tagged raises-exception.
    """
    fresh = deepcopy(book)
    kernel = KernelManager(kernel_name=CURRENT_ENV_KERNEL_NAME, kernel_spec_manager=NbvalKernelspecManager())
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(fresh, km=kernel, timeout=HUNG, record_timing=False, resources=resources)
    client.reset_execution_trackers()
    env = environment.variables(rounding)
    with client.setup_kernel(cleanup_kc=True, stderr=subprocess.DEVNULL, env=env):
        for place, cell in enumerate(fresh.cells):
            if cell.cell_type == "markdown" and read_prose:
                read_prose(place, with_neighbors(lambda expressions: ask(client.kc, expressions, HUNG), book, place))
            try:
                client.execute_cell(cell, place, execution_count=client.code_cells_executed + 1)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                reason = f"{error.ename}: {error.evalue}" if isinstance(error, CellExecutionError) else str(error)
                raise LessonFailed(f"{where(place, cell)}: {reason}") from None
    return fresh


def changed(cell: NotebookNode, fresh: NotebookNode) -> str | None:
    """How a fresh cell shows something else than the one in the file; None also where outputs are not compared."""
    if "nbval-ignore-output" in tags(cell) and cell.execution_count is not None:
        return None
    return difference(cell.outputs, clean(fresh.outputs), "pixels-vary" not in tags(cell))


def renew(book: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Takes over from `fresh` what really changed; returns what that is, a line each.

    Outputs that are not compared, and versions, are taken over only where something else changed, too.
    """
    changes = []
    for place, (cell, new) in enumerate(zip(book.cells, fresh.cells, strict=True)):
        if cell.cell_type != "code":
            continue
        ignored = "nbval-ignore-output" in tags(cell) and cell.execution_count is not None
        if changed(cell, new) is not None:
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
    if not changes:
        return []
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
