"""The package keeps its shape: who imports whom, how long a module is, what an import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tfm_lib.checks import TOPICS

PACKAGE = Path(__file__).parent.parent / "tfm_lib"

# In the order in which the lessons meet them; each may import only from what is named beside it.
MAY_IMPORT = {
    "masks": set(),
    "attention": {"masks"},
    "positions": set(),
    "layers": {"attention"},
    "model": {"attention", "layers", "masks", "positions"},
    "newsroom": set(),
    "pairs": set(),
    "summaries": {"pairs"},
    "checkpoints": {"model", "summaries"},
    "training": {"checkpoints", "model", "summaries"},
    "workers": {"checkpoints", "model", "summaries", "training"},
    "choices": set(),
    "decoding": {"choices", "masks", "model"},
    "beam": {"choices", "decoding", "model"},
    "scoring": {"decoding", "model", "newsroom", "pairs", "summaries"},
    "tracing": {"attention", "model"},
    "figure": set(),
    "plots": {"figure"},
    "drawings": {"figure"},
    "pretrained": {"checkpoints", "model", "summaries"},
    "tasks": {"newsroom", "pairs", "summaries", "training"},
    "lab": set(),
    "questions": set(),
    "flashcards": {"questions"},
    "live": set(),
    "quiz": {"live", "questions"},
    "controls": {"figure", "live"},
    "widgets": {"controls", "figure", "live", "masks"},
    "clocks": {"controls", "figure", "live", "positions"},
    "watching": {"checkpoints", "controls", "figure", "live"},
    "newsdesk": {"newsroom", "summaries"},
    "summarizing": {
        *("choices", "decoding", "model", "summaries", "tracing"),
        *("controls", "figure", "live", "newsdesk"),
    },
}
MODULES = [path for path in sorted(PACKAGE.glob("*.py")) if path.stem not in ("__init__", "__main__")]


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


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_a_module_reads_on_one_or_two_screens(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 240


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
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


CHECKS = sorted((PACKAGE / "checks").glob("*.py"))
ENGINE = {"__init__", "exercise", "comparing", "running", "verdict", "progress_file"}


def test_nothing_of_the_package_needs_its_exercises():
    assert not [path.stem for path in MODULES if "checks" in imports(path)]


@pytest.mark.parametrize("path", [path for path in CHECKS if path.stem in ENGINE], ids=lambda p: p.stem)
def test_what_judges_exercises_knows_nothing_of_the_package_and_is_short(path):
    assert imports(path) <= {"checks"}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200


def test_each_other_file_of_checks_is_a_lesson():
    assert {path.stem for path in CHECKS} - ENGINE == set(TOPICS)


def test_importing_the_package_is_cheap_and_has_no_side_effect():
    code = "import sys; before = set(sys.modules); import tfm_lib; print(sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(out) == ["tfm_lib"]


def test_heavy_libraries_load_only_where_they_are_used():
    modules = "import tfm_lib.model, tfm_lib.decoding, tfm_lib.tracing, tfm_lib.training, tfm_lib.scoring"
    heavy = "{'matplotlib', 'ipywidgets', 'd2l', 'pyarrow'}"
    code = f"import sys; {modules}; print([name for name in sys.modules if name in {heavy}])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(out) == []
