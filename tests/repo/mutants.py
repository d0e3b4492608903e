"""Mutants of the taught modules, drawn by chance: one operator, constant, default or argument is changed at a time.

`python tests/repo/mutants.py 200 0` draws 200 of them with seed 0, runs the tests of its module on each, names those
that survive, and exits with 1 if these are more than a twentieth; names of modules after the numbers draw from those
alone. What people read stays as it is: docstrings, annotations, errors, f-strings.
The tests run in forks of one process that has imported torch already, since importing it so often would take minutes.
Source: DeMillo et al. 1978, "Hints on Test Data Selection"; the changes are mostly those of mutmut.
"""

import ast
import contextlib
import gc
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CPU_SECONDS = 60  # for one test file; a change that hangs it is noticed

# Each taught module, and the test files that hold it, in the order in which they run.
TESTS = {
    "masks": "model/test_masks model/test_attention model/test_model",
    "attention": "model/test_attention model/test_model writing/test_decoding model/test_variants model/test_d2l",
    "positions": "model/test_positions model/test_model model/test_variants",
    "layers": "model/test_layers model/test_model model/test_variants",
    "model": "model/test_model writing/test_decoding pretrained/test_generate model/test_variants",
    "writing/copying": "writing/test_copying",
    "writing/next_token": "writing/test_next_token writing/test_decoding",
    "writing/decoding": "writing/test_decoding writing/test_beam_search model/test_variants writing/test_copying"
    " writing/test_scoring",
    "writing/beam": "writing/test_beam_search pretrained/test_generate",
    "data/vocabulary": "data/test_batches writing/test_copying learning/test_training",
    "data/batches": "data/test_batches writing/test_copying learning/test_training",
    "data/pairs": "data/test_pairs data/test_records",
    "data/newsroom": "data/test_newsroom",
    "learning/training": "learning/test_training learning/test_checkpoints learning/test_workers",
    "learning/checkpoints": "learning/test_checkpoints learning/test_training",
    "learning/progress": "learning/test_training",
    "learning/resuming": "learning/test_training",
    "learning/launching": "learning/test_workers learning/test_together",
    "learning/workers": "learning/test_workers learning/test_together",
    "writing/rouge": "writing/test_scoring",
    "writing/scoring": "writing/test_scoring",
    "pretrained/summarizer": "pretrained/test_summarizer",
    "writing/tracing": "writing/test_tracing model/test_attention writing/test_copying",
}
ENOUGH = 0.95

OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
UNSEEN = ("device", "fused", "stable", "encoding")  # arguments that make no difference on a CPU under Linux


class Mutant(NamedTuple):
    module: str
    line: int
    change: str
    source: str  # of the whole module


def parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / f"tfm_lib/{module}.py").read_text(encoding="utf-8"))


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = parsed(module)
    for node in _executed(tree):
        was = ast.unparse(node).splitlines()[:1]
        for name, value in list(_changes(node)):
            before = getattr(node, name)
            setattr(node, name, value)
            change = "  ->  ".join(was + ast.unparse(node).splitlines()[:1])
            yield Mutant(module, node.lineno, change, ast.unparse(tree))
            setattr(node, name, before)


def drawing(everyone: list[Mutant], seed: str) -> list[Mutant]:
    """All of them in an order by chance, of which a change in the code moves none but those that it makes or ends."""
    twins = Counter[tuple[str, str]]()  # a module may have the same change in several lines
    places = dict[Mutant, bytes]()
    for mutant in everyone:
        name = (mutant.module, mutant.change)
        places[mutant] = hashlib.blake2b(repr((seed, *name, twins[name])).encode()).digest()
        twins[name] += 1
    return sorted(everyone, key=places.__getitem__)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all that is executed below it."""
    yield node
    for name, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST) and name not in ("annotation", "returns") and _is_seen(part):
                yield from _executed(part)


def _is_seen(node: ast.AST) -> bool:
    """Whether a test could see a change in it. zip(strict=True) only raises, and only where a caller is wrong."""
    if isinstance(node, ast.keyword):
        return node.arg not in UNSEEN and ast.unparse(node) != "strict=True"
    return not isinstance(node, ast.JoinedStr | ast.Raise)


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Which field of a node may have which other value."""
    match node:
        case ast.Compare(ops=operators):
            for at, operator in enumerate(operators):
                yield "ops", [*operators[:at], OTHER[type(operator)](), *operators[at + 1 :]]
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator):
            yield "op", OTHER[type(operator)]()
        case ast.UnaryOp(op=operator, operand=operand):
            yield "operand", ast.UnaryOp(operator, operand)  # twice is as good as not at all
        case ast.Constant(value=bool() as value):
            yield "value", not value
        case ast.Constant(value=int() | float() as value):
            yield "value", value + 1 if isinstance(value, int) else 2 * value or 1.0
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp):  # these have mutants of their own
                yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.Call(keywords=keywords):
            for at, keyword in enumerate(keywords):
                if keyword.arg not in (None, "strict", *UNSEEN):
                    yield "keywords", [*keywords[:at], *keywords[at + 1 :]]


@contextlib.contextmanager
def broken(sources: dict[str, str]) -> Iterator[Path]:
    """A copy of the package and its tests in which these are the sources of some modules."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("tfm_lib", "tests", "benchmarks"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        for module, source in sources.items():
            Path(folder, "tfm_lib", f"{module}.py").write_text(source, encoding="utf-8")
        yield Path(folder)


def outcome(folder: Path, tests: str) -> int:
    """Pytest's exit status for one test file of the folder, run in a fork: 0 all passed, 1 some failed, -24 it hung."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    import resource

    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    os.chdir(folder)
    sys.path[0] = str(folder)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    arguments = [f"tests/{tests}.py", "-x", "--tb=no", "-p", "no:cacheprovider", "-c", os.devnull, "-m", "not slow"]
    os._exit(int(pytest.main([*arguments, f"--rootdir={folder}"])))


def survives(mutant: Mutant) -> bool:
    """Whether all tests of its module pass on it. One that hangs them, or can't be imported, does not survive."""
    with broken({mutant.module: mutant.source}) as folder:
        return all(outcome(folder, tests) == 0 for tests in TESTS[mutant.module].split())


def prepare() -> None:
    """Import what the forks need, so that each of them takes a second less."""
    import hypothesis
    import pytest  # noqa: F401
    import rouge_score.rouge_scorer  # noqa: F401
    import tokenizers  # noqa: F401
    import torch.distributed.run
    from safetensors import torch as _  # noqa: F401
    from tqdm import auto  # noqa: F401

    gc.freeze()
    torch.set_num_threads(1)
    hypothesis.settings.register_profile("mutations", database=None, derandomize=True)
    hypothesis.settings.load_profile("mutations")
    warnings.simplefilter("ignore", DeprecationWarning)  # forking while threads wait for their children is what we do


if __name__ == "__main__":
    prepare()
    number, seed, *modules = sys.argv[1:]
    everyone = [mutant for module in modules or TESTS for mutant in mutants(module)]
    drawn = drawing(everyone, seed)[: int(number)]
    chosen = sorted({mutant.module for mutant in drawn})
    with broken({module: ast.unparse(parsed(module)) for module in chosen}) as folder:  # that is: not broken
        for tests in dict.fromkeys(tests for module in chosen for tests in TESTS[module].split()):
            if outcome(folder, tests):
                sys.exit(f"{tests} fails without any change, so that its failing is no proof")
    killed = len(drawn)
    for mutant in drawn:
        if survives(mutant):
            killed -= 1
            print(f"SURVIVED  {mutant.module}.py:{mutant.line}  {mutant.change}", flush=True)
    print(f"{killed} of {len(drawn)} mutants killed, {killed / len(drawn):.1%}; there are {len(everyone)}")
    sys.exit(killed < ENOUGH * len(drawn))
