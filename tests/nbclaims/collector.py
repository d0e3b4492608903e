"""A notebook as pytest sees it: the lint, then cells and claims in the order in which a reader meets them.

Built on nbval, whose cells run in the notebook's kernel and collect the outputs.
"""

from queue import Empty
from textwrap import indent
from typing import Any

import pytest
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError, find_metadata_tags

from . import environment
from .cells import read, tags, where
from .lint import lint
from .outputs import difference
from .project import project
from .prose import Sentence, sentences
from .values import Answer, ProofError, ask, findings, with_neighbors

KIND = "nbclaims"  # the name under which items tell the summary what they are
LOOSE_TAGS = {"nbval-ignore-output", "pixels-vary"}  # of cells whose outputs may differ, or only their pictures
OUTPUTS_DIFFER = "Cell outputs differ"  # nbval's words


class NotebookFile(IPyNbFile):
    """A notebook and its kernel, which starts with the first item that needs it."""

    failed_cell: str | None = None  # the cell whose error makes all that follows meaningless

    def setup(self) -> None:
        """Nothing yet: the lint needs no kernel."""

    def collect(self):
        """The lint, then cells and claims in the order in which a reader meets them."""
        try:
            self.nb = read(self.path)
        except (ValueError, KeyError, AttributeError) as error:
            raise self.CollectError(f"{self.path.name} is not a notebook of format 4: {error}") from None
        self.compare_outputs = not environment.why_not_compared()
        if project.linted(self.path):
            yield Lint.from_parent(self, name="lint")
        claimed = 0
        for place, cell in enumerate(self.nb.cells):
            for more in project.items:
                yield from more(self, place, cell)
            lacking = project.lacking & {*tags(cell)}
            if cell.cell_type == "code":
                options = {"check": self.compare_outputs and not lacking, "skip": False, "check_exception": False}
                options.update(find_metadata_tags(cell.metadata))
                yield Cell.from_parent(self, name=f"cell {place + 1}", cell_num=place + 1, cell=cell, options=options)
            elif cell.cell_type == "markdown" and not lacking:
                for sentence in (sentence for sentence in sentences(cell.source) if sentence.checks):
                    claimed += 1
                    yield Claims.from_parent(self, name=f"claims {claimed}", sentence=sentence, place=place)

    def need_kernel(self) -> RunningKernel:
        """The running kernel of the notebook; skips the item if an earlier cell failed."""
        if self.failed_cell:
            pytest.skip(f"{self.failed_cell} failed, and this needs it")
        if self.kernel is None:
            startup = self.config.option.nbval_kernel_startup_timeout
            self.kernel = RunningKernel(CURRENT_ENV_KERNEL_NAME, cwd=str(self.path.parent), startup_timeout=startup)
        return self.kernel

    def ask(self, expressions: list[str], code: str = "") -> list[Answer]:
        """The kernel's answers, after `code` ran. Raises ProofError where that fails or takes too long."""
        kernel, seconds = self.need_kernel(), self.config.option.nbval_cell_timeout
        try:
            return ask(kernel.kc, expressions, seconds, code)
        except Empty:
            kernel.interrupt()
            raise ProofError(f"`{'`, `'.join(expressions)}` took longer than {seconds} s") from None


class NotebookItem(pytest.Item):
    """Something to prove of a notebook in its kernel; `place` is that of its cell."""

    parent: NotebookFile

    def __init__(self, *, place: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.place = place

    def setup(self) -> None:
        self.parent.need_kernel()

    def repr_failure(self, excinfo, style=None):
        if not isinstance(excinfo.value, ProofError):
            return super().repr_failure(excinfo, style)
        place = "\n" if self.place is None else f", {where(self.place, self.parent.nb.cells[self.place])}: "
        return f"{self.path.name}{place}{excinfo.value}"

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"


class Lint(NotebookItem):
    """What can be said of a notebook without running it."""

    def setup(self) -> None:
        """It needs no kernel."""

    def runtest(self) -> None:
        cells, lines = self.parent.nb.cells, []
        for _, message, place in lint(self.path, self.parent.nb):
            lines.append(f"- {message}" if place is None else f"- {where(place, cells[place])}: {message}")
        if lines:
            raise ProofError("\n".join(lines))


class Claims(NotebookItem):
    """A sentence of the prose, held to what the cells above it computed."""

    def __init__(self, *, sentence: Sentence, **kwargs: Any):
        super().__init__(**kwargs)
        self.sentence = sentence
        self.user_properties += [(KIND, "bound" if note.bound else note.kind) for note in sentence.checks]

    def runtest(self) -> None:
        evaluate = with_neighbors(self.parent.ask, self.parent.nb, self.place)
        if faults := findings(self.sentence, evaluate, tight=self.parent.compare_outputs):
            raise ProofError("\n".join(faults))


class Cell(IPyNbCell):
    """A code cell: it has to run and, in the locked environment, to show what the file shows."""

    def __init__(self, name, parent, cell_num, cell, options):
        super().__init__(name, parent, cell_num, cell, options)
        self.output_timeout = self.config.option.nbval_cell_timeout  # once the cell is done
        self.user_properties.append((KIND, "loose cell" if LOOSE_TAGS & {*tags(cell)} else "strict cell"))

    def setup(self) -> None:
        self.parent.need_kernel()

    def runtest(self) -> None:
        try:
            super().runtest()
        except Exception as error:
            if not str(error).startswith(OUTPUTS_DIFFER):
                self.parent.failed_cell = self.name
            raise
        raised = any(output.output_type == "error" for output in self.test_outputs)
        if self.options["check_exception"] and not raised:
            self.raise_cell_error("Cell is tagged raises-exception, and nothing was raised")

    def compare_outputs(self, test, ref, skip_compare=None) -> bool:
        self.comparison_traceback = [difference(ref, test, pixels="pixels-vary" not in tags(self.cell))]
        return self.comparison_traceback == [None]

    def repr_failure(self, excinfo, style=None):
        error = excinfo.value
        if not isinstance(error, NbCellError):
            return super().repr_failure(excinfo)
        place = f"{self.path.name}, {where(self.cell_num - 1, self.cell)}"
        report = [f"{place}: {error}", indent(self.cell.source, "    "), error.inner_traceback or ""]
        if str(error).startswith(OUTPUTS_DIFFER):
            report.append(project.how_to_update)
        return "\n".join(report)

    reportinfo = NotebookItem.reportinfo
