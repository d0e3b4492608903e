"""Notebooks as pytest sees them: one item for the lint, one a code cell, one a claim, in the order of the text.

Loaded by `addopts` in pyproject.toml. Built on nbval, whose collector reads the notebook and whose cells run it.
"""

from collections import Counter
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError, find_metadata_tags

from tests.proof import environment
from tests.proof.cells import read, tags
from tests.proof.claims import operands
from tests.proof.lint import lint, where
from tests.proof.outputs import difference
from tests.proof.prose import sentences

environment.settle()

SECONDS_A_CELL = 300
SECONDS_FOR_OUTPUT = 60  # after a cell is done, on a machine that is busy
MARK = "proof"  # the name under which items tell the summary what they are


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Every notebook is collected, without --nbval."""
    return NotebookFile.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker a core; a single file needs none, since its tests stay together."""
    files = [Path(str(argument).split("::")[0]) for argument in config.args]
    return 0 if len({*files}) == 1 and files[0].is_file() else None


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
        self.not_compared = environment.why_not_compared()
        self.compare_outputs = not self.not_compared
        yield Lint.from_parent(self, name="lint")
        claims = 0
        for place, cell in enumerate(self.nb.cells):
            if cell.cell_type == "code":
                options = {"check": self.compare_outputs, "skip": False, "check_exception": False}
                options.update(find_metadata_tags(cell.metadata))
                options["check"] = options["check"] and self.compare_outputs
                yield Cell.from_parent(self, name=f"cell {place + 1}", cell_num=place + 1, cell=cell, options=options)
            elif cell.cell_type == "markdown":
                for sentence in sentences(cell.source):
                    for expression in sentence.claims:
                        claims += 1
                        yield Claim.from_parent(
                            self, name=f"claim {claims}", expression=expression, sentence=sentence.text,
                            place=where(place, cell),
                        )

    def need_kernel(self) -> RunningKernel:
        """The running kernel of the notebook; skips the item if an earlier cell failed."""
        if self.failed_cell:
            pytest.skip(f"{self.failed_cell} failed, and this needs it")
        if self.kernel is None:
            startup = self.config.option.nbval_kernel_startup_timeout
            self.kernel = RunningKernel(CURRENT_ENV_KERNEL_NAME, cwd=str(self.path.parent), startup_timeout=startup)
        return self.kernel


class Lint(pytest.Item):
    """What can be said of a notebook without running it."""

    def runtest(self) -> None:
        if findings := lint(self.path, self.parent.nb):
            raise ProofError("\n".join(f"- {finding}" for finding in findings))

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
        self.output_timeout = SECONDS_FOR_OUTPUT
        strict = "nbval-ignore-output" not in tags(cell)
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
        self.comparison_traceback = [difference(ref, test)]
        return self.comparison_traceback == [None]

    def repr_failure(self, excinfo, style=None):
        report = f"{self.path.name}, {where(self.cell_num - 1, self.cell)}\n{super().repr_failure(excinfo)}"
        if str(excinfo.value).startswith(OUTPUTS_DIFFER):
            report += "\nIf the new output is right, `make lessons` writes it into the file."
        return report

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"


OUTPUTS_DIFFER = "Cell outputs differ"  # nbval's words


class Claim(pytest.Item):
    """A sentence of the prose, held to what the cells above it computed."""

    def __init__(self, *, expression: str, sentence: str, place: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.expression, self.sentence, self.place = expression, sentence, place
        self.user_properties.append((MARK, "claim"))

    def setup(self) -> None:
        self.parent.need_kernel()

    def runtest(self) -> None:
        truth = self.evaluate(f"bool({self.expression})")[0]
        if truth["status"] == "ok" and truth["data"]["text/plain"] == "True":
            return
        said = f"{self.place} says: {self.sentence}\nIts claim `{self.expression}` "
        if truth["status"] != "ok":
            raise ProofError(f"{said}raises {truth['ename']}: {truth['evalue']}")
        parts = operands(self.expression)
        values = zip(parts, self.evaluate(*parts), strict=True)
        shown = [f"  {part} = {_shorten(value['data']['text/plain'])}" for part, value in values if "data" in value]
        raise ProofError("\n".join([f"{said}is false. In this run", *shown, "Mend the sentence and its claim, or the code."]))

    def evaluate(self, *expressions: str) -> list[dict]:
        """The kernel's answers. Evaluated as user expressions, which bind no name and leave no trace in the history."""
        kernel = self.parent.kernel
        wanted = {str(place): expression for place, expression in enumerate(expressions)}
        message = kernel.kc.execute("", silent=True, store_history=False, user_expressions=wanted)
        while True:
            try:
                reply = kernel.get_message("shell", timeout=SECONDS_A_CELL)
            except Empty:
                kernel.interrupt()
                raise ProofError(f"the claim `{self.expression}` took longer than {SECONDS_A_CELL} s") from None
            if reply["parent_header"].get("msg_id") == message:
                return [reply["content"]["user_expressions"][key] for key in wanted]

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, ProofError):
            return f"{self.path.name}, {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name}: {self.name}"


class ProofError(Exception):
    """What is wrong with a notebook, in words for its author."""


def _shorten(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


class Summary:
    """Counts what ran, in all workers, and says it in one line."""

    def __init__(self) -> None:
        self.notebooks: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.location[0]
        if not file.endswith(".ipynb"):
            return
        self.notebooks.add(file)
        self.seconds += report.duration
        if report.when == "call":
            self.kinds.update(kind for name, kind in report.user_properties if name == MARK)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        cells = self.kinds["strict cell"] + self.kinds["loose cell"]
        if not cells:
            return
        reasons = environment.why_not_compared()
        terminalreporter.write_line(
            f"{len(self.notebooks)} notebooks, {cells} cells, {self.kinds['strict cell'] / cells:.0%} of them strict, "
            f"{self.kinds['claim']} claims, {self.seconds:.0f} s; outputs "
            + (f"not compared: {'; '.join(reasons)}" if reasons else "compared: this is the locked environment")
        )


def pytest_configure(config: pytest.Config) -> None:
    """Workers only report; the process that they report to counts."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary())
