"""A notebook as pytest sees it: the lint, then cells, claims and solutions, in the order in which a reader meets them.

So the spine of a lesson runs without what stands behind it, and with the solutions of its exercises in their places.
Built on nbval, whose cells run in the notebook's kernel and collect the outputs.
"""

import ast
import re
from queue import Empty
from textwrap import indent
from typing import Any

import pytest
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError, find_metadata_tags

from tests.proof import anatomy, environment
from tests.proof.cells import read, tags
from tests.proof.lint import lint, where
from tests.proof.outputs import difference
from tests.proof.prose import Sentence, sentences
from tests.proof.references import missing_sections, stale_links
from tests.proof.values import Answer, answers, beside_code, findings
from tests.times import HUNG

ROUNDING, RANGE = "rounding", "range"  # the names of what a test of a rounding tells the summary
MARK = "proof"  # the name under which items tell the summary what they are
OUTPUTS_DIFFER = "Cell outputs differ"  # nbval's words
CHECKS = '__import__("tfm_lib.ask.checks", fromlist=["judge"])'


class ProofError(Exception):
    """What is wrong with a notebook, in words for its author."""


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
        yield Lint.from_parent(self, name="lint")
        claimed = 0
        for place, cell in enumerate(self.nb.cells):
            if "solution" in tags(cell):
                yield Solution.from_parent(self, name=f"solution {place + 1}", place=place)
            if cell.cell_type == "code":
                options = {"check": self.compare_outputs, "skip": False, "check_exception": False}
                options.update(find_metadata_tags(cell.metadata))
                yield Cell.from_parent(self, name=f"cell {place + 1}", cell_num=place + 1, cell=cell, options=options)
            elif cell.cell_type == "markdown":
                for sentence in sentences(cell.source):
                    if sentence.checks:
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
        """The kernel's answers, after `code` ran.

        Evaluated as user expressions, which bind no name and leave no trace in the history. Raises ProofError where
        the code fails or all that takes too long.
        """
        kernel = self.need_kernel()
        wanted = {str(place): expression for place, expression in enumerate(expressions)}
        message = kernel.kc.execute(code, silent=True, store_history=False, user_expressions=wanted)
        seconds = self.config.option.nbval_cell_timeout
        while True:
            try:
                reply = kernel.get_message("shell", timeout=seconds)
            except Empty:
                kernel.interrupt()
                raise ProofError(f"`{'`, `'.join(expressions)}` took longer than {seconds} s") from None
            if reply["parent_header"].get("msg_id") == message:
                content = reply["content"]
                if content["status"] != "ok":
                    raise ProofError(f"{content['ename']}: {content['evalue']}, from\n{indent(code, '    ')}")
                return answers(content["user_expressions"], wanted)


class Lint(pytest.Item):
    """What can be said of a notebook without running it."""

    def runtest(self) -> None:
        book = self.parent.nb
        found = [*lint(book), *anatomy.of_course(self.path, book)]
        for cell in book.cells:
            if cell.cell_type == "markdown":
                found += [*stale_links(cell.source, self.path), *missing_sections(cell.source, self.path)]
        if found:
            raise ProofError("\n".join(f"- {finding}" for finding in found))

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, ProofError):
            return f"{self.path.name}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: lint"


class Cell(IPyNbCell):
    """A code cell: it has to run and, in the locked environment, to show what the file shows."""

    def __init__(self, name, parent, cell_num, cell, options):
        super().__init__(name, parent, cell_num, cell, options)
        self.output_timeout = HUNG  # once the cell is done
        strict = not {"nbval-ignore-output", "pixels-vary"} & set(tags(cell))
        self.user_properties.append((MARK, "strict cell" if strict else "loose cell"))

    def setup(self) -> None:
        self.parent.need_kernel()

    def runtest(self) -> None:
        try:
            super().runtest()
        except NbCellError as error:
            if not str(error).startswith(OUTPUTS_DIFFER):
                self.parent.failed_cell = self.name
            raise
        except Exception:
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
            report.append("If the new output is right, `make lessons` writes it into the file.")
        return "\n".join(report)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"


class Claims(pytest.Item):
    """A sentence of the prose, held to what the cells above it computed."""

    def __init__(self, *, sentence: Sentence, place: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.sentence, self.place = sentence, place
        for note in sentence.checks:
            self.user_properties.append((MARK, "bound" if note.bound else note.kind))

    def setup(self) -> None:
        self.parent.need_kernel()

    def runtest(self) -> None:
        book = self.parent.nb
        evaluate = beside_code(self.parent.ask, book, self.place)
        if found := findings(self.sentence, evaluate, tight=self.parent.compare_outputs):
            place = where(self.place, book.cells[self.place])
            raise ProofError("\n".join(f"{place} says: {finding}" for finding in found))

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, ProofError):
            return f"{self.path.name}, {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"


class Solution(pytest.Item):
    """A folded solution where a reader puts it: into the notebook, among all that its cells have defined."""

    def __init__(self, *, place: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.place = place

    def setup(self) -> None:
        self.parent.need_kernel()

    def runtest(self) -> None:
        cells = self.parent.nb.cells
        [solution] = re.findall(r"^```python\n(.+?)^```$", cells[self.place].source, re.DOTALL | re.MULTILINE)
        name, answer = map(ast.unparse, ast.parse(cells[self.place - 1].source).body[-1].value.args)
        judged = f"{CHECKS}.judge({CHECKS}.find({name}), {answer})"
        [said] = self.parent.ask([f"(lambda found: (found.state, str(found)))({judged})"], code=solution)
        state, verdict = ("wrong", said.error) if said.error else ast.literal_eval(said.text)
        if state != "right":
            raise ProofError(f"in its notebook the solution is not right:\n{verdict}")

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, ProofError):
            return f"{self.path.name}, {where(self.place, self.parent.nb.cells[self.place])}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"
