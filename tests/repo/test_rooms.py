"""The package keeps its shape: who imports whom, how long a module is, what an import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tfm_lib.ask.checks import TOPICS

PACKAGE = ROOT / "tfm_lib"

# From the bottom up: a room imports what stands before it. The first two are files in the root.
ROOMS = {
    "base": ["lessons", "files", "errors"],
    "model": ["masks", "attention", "positions", "layers", "model"],
    **dict.fromkeys(("data", "writing", "learning", "pretrained", "checkup", "practice", "show"), ()),
    **dict.fromkeys(("ask", "grading", "commands"), ()),
}
PLACES = {name: place for place, (room, files) in enumerate(ROOMS.items()) for name in files or [room]}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
# Longer than a module should be, each with its reason.
LONGER = {
    "attention": "the formula, the kernel and the heads are read together",
    "model": "one path from configuration to logits",
}
ENGINE = ("exercise", "comparing", "running", "verdict", "progress_file")  # how a file is written whole, it may know


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """What a file imports of the package, anywhere and by its full name: the parts right below `tfm_lib`."""
    names = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} imports from {'.' * node.level}; name it from tfm_lib on"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("tfm_lib.")}


def test_every_way_to_import_is_seen(tmp_path):
    ways = "import tfm_lib.a, torch.nn", "from tfm_lib.b import x", "from tfm_lib import c", "def f(): import tfm_lib.d"
    (tmp_path / "a.py").write_text("\n".join(ways))
    assert imports(tmp_path / "a.py") == {*"abcd"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_a_module_imports_what_stands_before_it_and_what_judges_exercises_nothing_of_the_package(path):
    room, files = path.relative_to(PACKAGE).parts[0].removesuffix(".py"), ROOMS["model"]
    assert {name for name in imports(path) if PLACES[name] > PLACES[room]} == set()
    assert room not in files or imports(path) <= set(files[: files.index(room)])
    assert path.parent.name != "ask" or path.stem not in ENGINE or imports(path) <= {"ask", "files"}


READ = [path for path in MODULES if path.parent.name != "exercises"]


@pytest.mark.parametrize("path", READ, ids=lambda p: p.stem)
def test_a_module_reads_on_one_or_two_screens(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 200 or (path.stem in LONGER and lines <= 260)


# Functions of more than 40 lines, each with its reason.
LONG_FUNCTIONS = {
    ("examine", "checkup"): "what it takes and gives back is told at length",
    ("write", "write"): "its options, and what is said about a text",
}


def test_a_function_is_seen_whole():
    lengths = {
        (path.stem, node.name): node.end_lineno - node.lineno + 1
        for path in READ
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef)
    }
    longer = {name for name, length in lengths.items() if length > 40}
    assert longer == set(LONG_FUNCTIONS) and max(lengths.values()) <= 50


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


# How many lines a room may have, exercises apart. What needs more takes something away first.
BUDGETS = {
    "base": 200,
    "model": 850,  # an evening at 350 lines an hour, the pace of careful reading
    "data": 1_600,
    "writing": 1_100,
    "learning": 950,
    "pretrained": 1_550,  # three families of published models, read and written, and the translators of a browser
    "checkup": 4_600,  # more than a hundred faults, in models of anybody's making
    "practice": 250,
    "show": 3_050,  # every figure and control of 19 lessons
    "ask": 1_450,
    "grading": 700,  # answers of strangers run behind walls
    "commands": 1_750,
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_stays_as_small_as_what_it_holds_allows(room):
    files = ROOMS[room] or [path for path in READ if path.relative_to(PACKAGE).parts[0] == room]
    assert lines([PACKAGE / f"{path}.py" if isinstance(path, str) else path for path in files]) <= BUDGETS[room]


def test_the_proof_and_the_makefile_stay_small():
    assert lines([*(PACKAGE.parent / "tests").rglob("*.py")]) <= 25_500
    assert lines([PACKAGE.parent / "Makefile"]) <= 110


def test_each_file_of_exercises_is_a_lesson():
    assert {path.stem for path in (PACKAGE / "ask/exercises").glob("*.py")} - {"__init__"} == set(TOPICS)


def test_importing_the_package_runs_nothing():
    tree = parsed(PACKAGE / "__init__.py")
    assert ast.get_docstring(tree) and len(tree.body) == 1


WRITING = """from tfm_lib.learning import training
from tfm_lib.writing import decoding, scoring, tracing
from tfm_lib.commands import write
from tfm_lib.pretrained.summarizer import Summarizer
assert Summarizer.load("newsroom").write("the library burned", beams=2)"""


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("import tfm_lib.show.live, tfm_lib.ask.questions, tfm_lib.ask.flashcards", "torch matplotlib ipywidgets"),
        ("import tfm_lib.ask.quiz", "torch matplotlib"),
        (WRITING, "matplotlib ipywidgets d2l pyarrow nltk scipy rouge_score"),
    ],
)
def test_heavy_libraries_load_only_where_they_are_used(code, unneeded):
    code += f"\nimport sys; print({set(unneeded.split())} & {{*sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "set()\n", ran.stderr
