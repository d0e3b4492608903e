"""The package keeps its shape: who imports whom, how long a module is, what an import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tfm_lib.ask.checks import TOPICS

PACKAGE = Path(__file__).parent.parent / "tfm_lib"

# The taught root, in the order in which the lessons meet it; each module may import what is named beside it, which
# stands before it.
MAY_IMPORT = {
    "masks": set(),
    "attention": {"masks"},
    "positions": set(),
    "layers": {"attention"},
    "model": {"attention", "layers", "masks", "positions"},
    "copying": {"attention", "model"},  # lesson 11 meets it, and checkpoints know it
    "newsroom": set(),
    "errors": set(),
    "pairs": {"errors"},
    "docstrings": {"pairs"},
    "vocabulary": set(),
    "batches": {"pairs", "vocabulary"},
    "files": set(),
    "recipes": set(),
    "next_token": set(),  # lesson 08 meets it, and checkpoints keep its rules
    "packed": set(),  # lesson 17 builds it, and checkpoints use it
    "checkpoints": {"copying", "files", "model", "next_token", "packed", "recipes", "vocabulary"},
    "pictures": {"attention", "checkpoints", "layers", "masks", "model", "vocabulary"},  # lesson 18 builds it
    "decoding": {"attention", "batches", "masks", "model", "next_token", "vocabulary"},
    "rouge": set(),
    "risk": {"batches", "decoding", "masks", "model", "recipes", "rouge"},
    "training": {"batches", "checkpoints", "recipes", "risk"},
    "workers": {"batches", "checkpoints", "errors", "training"},
    "tasks": {"batches", "model", "newsroom", "next_token", "pairs", "recipes", "vocabulary"},
    "head_start": {"attention", "copying", "model"},
    "beam": {"attention", "decoding", "model", "next_token"},
    "scoring": {"decoding", "newsroom", "pairs", "rouge"},
    "tracing": {"attention", "copying", "decoding", "model"},
    "texts": set(),
    "writing": {"batches", "beam", "checkpoints", "model", "next_token", "pretrained", "vocabulary"},
    "lessons": set(),
    "results": {
        "beam",
        "checkpoints",
        "decoding",
        "files",
        "model",
        "next_token",
        "rouge",
        "scoring",
        "show",
        "tasks",
        "vocabulary",
    },
    "runs": {
        "batches",
        "checkpoints",
        "copying",
        "errors",
        "head_start",
        "model",
        "next_token",
        "recipes",
        "results",
        "risk",
        "tasks",
        "training",
        "vocabulary",
        "workers",
    },
    "copies": set(),
    "lab": {"copies", "errors", "files", "lessons"},
    "checks": {"ask"},
}
COMMANDS = {
    "lessons",
    "copies",
    "lab",
    "runs",
    "results",
    "checks",
    "files",
    "errors",
    "texts",
}  # behind make, and not what is taught
# What shows and what asks may use all that is taught. A quiz shows no figure, but what a cell shows with a kernel and
# without one is the same for both.
TAUGHT = set(MAY_IMPORT) - {"runs", "results", "copies", "lab", "checks"}
FOLDERS = {
    "show": TAUGHT | {"show", "pretrained"},
    "ask": TAUGHT | {"ask", "pretrained"},
    "pretrained": TAUGHT - {"writing"} | {"pretrained"},
    "checkup": {"checkup"},  # it examines this package like any other
    "practice": {"practice", "model"},  # what is written with nothing but torch, and its way to ours
}
EXCEPTIONS = {"ask/quiz.py": {"show"}, "ask/exercises/your_own.py": {"checkup", "practice"}}
MODULES = [path for path in sorted(PACKAGE.glob("*.py")) if path.stem not in ("__init__", "__main__")]
IN_FOLDERS = [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]
# Longer than a module should be, each with its reason.
LONGER = {
    "attention": "the formula, the kernel and the heads are read together",
    "beam": "its cache and its search are read together",
    "decoding": "greedy, sampling and the cache are read together",
    "model": "one path from configuration to logits",
    "training": "the loop, and all that makes it stop and go on",
    "workers": "torchrun's failures are told in a line, which takes a fifth of it",
    "newsroom": "every rule of the language in one place",
    "figure": "its table of colors belongs to its style",
    "plots": "controls will leave it",
    "drawings": "three drawings, all of it coordinates",
    "attending": "the future and padding are told apart by the same means",
    "subject": "every convention that a model may have, in one place",
}


def imports(path: Path) -> set[str]:
    """What a file imports of the package, in whatever way: the parts right below `tfm_lib`."""
    here = ("tfm_lib", *path.relative_to(PACKAGE).parent.parts)
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = here[: len(here) + 1 - node.level] if node.level else ()
            module = node.module.split(".") if node.module else ()
            names |= {(*above, *module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {tuple(alias.name.split(".")) for alias in node.names}
    return {name[1] for name in names if name[0] == "tfm_lib" and len(name) > 1}


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("a.py", "import tfm_lib.plots"),
        ("a.py", "from tfm_lib.plots import draw"),
        ("a.py", "from tfm_lib import plots"),
        ("a.py", "def later(): from tfm_lib import plots as p"),
        ("a.py", "from . import plots"),
        ("a.py", "from .plots import draw"),
        ("part/a.py", "from ..plots import draw"),
        ("plots/a.py", "from . import other"),
        ("plots/a.py", "from .other import draw"),
        ("plots/part/a.py", "from ..other import draw"),
    ],
)
def test_every_way_to_import_is_seen(file, line, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"import torch.nn\nfrom os import path\n{line}\n")
    assert imports(path) == {"plots"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_a_module_imports_only_what_stands_before_it(path):
    assert path.stem in MAY_IMPORT, f"{path.name} is not in the table of modules"
    assert imports(path) <= MAY_IMPORT[path.stem]


def test_the_table_has_every_module_and_its_order_holds():
    order = list(MAY_IMPORT)
    assert set(order) == {path.stem for path in MODULES}
    before = {name: set(order[:place]) | set(FOLDERS) for place, name in enumerate(order)}
    assert {name: may - before[name] for name, may in MAY_IMPORT.items() if may - before[name]} == {}


@pytest.mark.parametrize("path", IN_FOLDERS, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_a_folder_imports_only_what_stands_before_it(path):
    inside = path.relative_to(PACKAGE)
    assert imports(path) <= FOLDERS[inside.parts[0]] | EXCEPTIONS.get(inside.as_posix(), set())


READ = [path for path in [*MODULES, *IN_FOLDERS] if path.parent.name != "exercises"]


@pytest.mark.parametrize("path", READ, ids=lambda p: p.stem)
def test_a_module_reads_on_one_or_two_screens(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 200 or (path.stem in LONGER and lines <= 260)


# At 350 lines an hour, the pace of careful reading, the model takes an evening and all that is taught twelve hours.
# A new part has to fit in; the second figure is to fall when the root is divided into folders.
BUDGETS = {
    "the model": (["masks", "attention", "positions", "layers", "model"], 850),
    "all that is taught": (sorted(set(MAY_IMPORT) - COMMANDS), 4250),
}


@pytest.mark.parametrize("what", BUDGETS)
def test_what_is_taught_can_be_read_from_end_to_end(what):
    names, most = BUDGETS[what]
    lines = {name: len((PACKAGE / f"{name}.py").read_text(encoding="utf-8").splitlines()) for name in names}
    assert sum(lines.values()) <= most, f"{what} is longer than its budget: {lines}"


@pytest.mark.parametrize("path", READ, ids=lambda p: p.stem)
def test_public_names_have_docstrings_and_type_hints(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{path.name} has no docstring"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{path.name}: {node.name} has no docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
            assert not bare and node.returns is not None, f"{path.name}: {node.name} lacks type hints {bare}"


ENGINE = ("exercise", "comparing", "running", "verdict", "progress_file")


@pytest.mark.parametrize("name", ENGINE)
def test_what_judges_exercises_knows_nothing_of_the_package(name):
    assert imports(PACKAGE / "ask" / f"{name}.py") <= {"ask", "files"}  # how a file is written whole


def test_each_file_of_exercises_is_a_lesson():
    assert {path.stem for path in (PACKAGE / "ask/exercises").glob("*.py")} - {"__init__"} == set(TOPICS)


SURROUNDINGS = """
import builtins, os, sys, threading, warnings

def surroundings():
    settings = {"excepthook": sys.excepthook, "displayhook": sys.displayhook, "limit": sys.getrecursionlimit()}
    return {
        "modules": list(sys.modules),
        "finders": [str(finder) for finder in (*sys.meta_path, *sys.path_hooks, *sys.path)],
        "builtins": list(vars(builtins)),
        "warnings": [str(warning) for warning in warnings.filters],
        "environment": [f"{name}={value}" for name, value in os.environ.items()],
        "settings": [f"{name}={value}" for name, value in settings.items()],
        "threads": [thread.name for thread in threading.enumerate()],
    }

before = surroundings()
import tfm_lib
print({name: [x for x in after if x not in before[name]] for name, after in surroundings().items()})
"""


def test_importing_the_package_is_cheap_and_adds_nothing_but_its_finder_of_former_names():
    """That finder serves notebooks from before the folders, until these names are given up."""
    out = subprocess.run([sys.executable, "-c", SURROUNDINGS], capture_output=True, text=True, check=True).stdout
    added = {name: found for name, found in ast.literal_eval(out).items() if found}
    assert added == {"modules": ["tfm_lib"]}


def test_heavy_libraries_load_only_where_they_are_used():
    modules = "import tfm_lib.model, tfm_lib.decoding, tfm_lib.tracing, tfm_lib.training, tfm_lib.scoring"
    heavy = "{'matplotlib', 'ipywidgets', 'd2l', 'pyarrow'}"
    code = f"import sys; {modules}; print([name for name in sys.modules if name in {heavy}])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(out) == []
