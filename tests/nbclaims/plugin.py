"""pytest's hooks: collects the notebooks, and sums up what ran."""

import os
import runpy
from collections import Counter
from pathlib import Path

import pytest

from . import environment
from .collector import KIND, NotebookFile
from .project import project


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Settles the environment once all plug-ins are loaded, and before a conftest imports torch, which reads it."""
    environment.settle()
    if startup := os.environ.get("PYTHONSTARTUP"):  # which kernels run by themselves
        runpy.run_path(startup)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Every notebook is collected, without --nbval."""
    return NotebookFile.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None


class Summary:
    """Counts what ran, in all workers, and says it in one line."""

    def __init__(self) -> None:
        self.notebooks: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.location[0]
        if file.endswith(".ipynb"):
            self.notebooks.add(file)
            self.seconds += report.duration
            if report.when == "call":
                self.kinds.update(kind for name, kind in report.user_properties if name == KIND)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        if not (cells := self.kinds["strict cell"] + self.kinds["loose cell"]):
            return
        bounds = self.kinds["bound"]
        compared = "compared: this is the locked environment" if project.lock else "compared"
        if reasons := environment.why_not_compared():
            compared = f"not compared: {'; '.join(reasons)}"
        terminalreporter.write_line(
            f"notebooks: {len(self.notebooks)}, cells: {cells} ({self.kinds['strict cell'] / cells:.0%} strict), "
            f"claims: {self.kinds['claim'] + bounds}, of them {bounds} bound{'s' * (bounds != 1)}, "
            f"seconds: {self.seconds:.0f}; outputs {compared}; rounding: {os.environ[project.rounding_variable]}"
        )


def pytest_configure(config: pytest.Config) -> None:
    """Workers only report; the process that they report to counts."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary())
