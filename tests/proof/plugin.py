"""What pytest loads (`addopts` in pyproject.toml): collects the notebooks, and sums up what ran."""

import os
import runpy
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.proof import environment
from tests.proof.collector import MARK, RANGE, ROUNDING, NotebookFile

environment.settle()  # before torch, which reads it
if startup := os.environ.get("PYTHONSTARTUP"):  # which kernels run by themselves
    runpy.run_path(startup)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Every notebook is collected, without --nbval."""
    return NotebookFile.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker a core; a single file needs none, since its tests stay together."""
    files = [Path(str(argument).split("::")[0]) for argument in config.args]
    return 0 if len({*files}) == 1 and files[0].is_file() else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with what takes long, so that none is left alone with it: notebooks, and then the longest files.

    That is a rule of thumb which needs no table; `--no-loadscope-reorder` keeps the order.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (item.path.suffix != ".ipynb", -item.path.stat().st_size))


class Summary:
    """Counts what ran, in all workers, and says it in one line."""

    def __init__(self) -> None:
        self.notebooks: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.roundings: list[str] = []
        self.ranges: defaultdict[str, list[float]] = defaultdict(list)
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.roundings += [line for name, line in report.user_properties if name == ROUNDING]
            for part, numbers in (found for name, found in report.user_properties if name == RANGE):
                self.ranges[part] += numbers
        file = report.location[0]
        if not file.endswith(".ipynb"):
            return
        self.notebooks.add(file)
        self.seconds += report.duration
        if report.when == "call":
            self.kinds.update(kind for name, kind in report.user_properties if name == MARK)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        for line in sorted(self.roundings):
            terminalreporter.write_line(line)
        for part, seen in self.ranges.items():
            terminalreporter.write_line(f"{part} was {min(seen):.4g} to {max(seen):.4g}")
        cells = self.kinds["strict cell"] + self.kinds["loose cell"]
        if not cells:
            return
        bounds = self.kinds["bound"]
        claims = self.kinds["claim"] + bounds
        reasons = environment.why_not_compared()
        from torch.backends.cpu import get_cpu_capability  # here, since workers have no need of torch in the plugin

        terminalreporter.write_line(
            f"notebooks: {len(self.notebooks)}, cells: {cells} ({self.kinds['strict cell'] / cells:.0%} strict), "
            f"claims: {claims}, of them {bounds} bound{'s' * (bounds != 1)}, seconds: {self.seconds:.0f}; outputs "
            + (f"not compared: {'; '.join(reasons)}" if reasons else "compared: this is the locked environment")
            + f"; rounding: {os.environ['TFM_ROUNDING']}, torch's instructions: {get_cpu_capability()}"
        )


def pytest_configure(config: pytest.Config) -> None:
    """Workers only report; the process that they report to counts."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary())
