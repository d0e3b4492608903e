"""Mutants of the taught modules, drawn by chance: one operator, constant, default or argument is changed at a time.

`python tests/mutants.py 200 0` draws 200 of them with seed 0, runs the tests of its module on each, names those that
survive, and exits with 1 if these are more than a twentieth; names of modules after the numbers draw from those alone.
What people read stays as it is: docstrings, annotations, errors, f-strings.
Source: DeMillo et al. 1978, "Hints on Test Data Selection"; the changes are mostly those of mutmut.
"""

import ast
import copy
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from mutations import ROOT, broken, outcome, prepare

# Each taught module, and the test files that hold it, in the order in which they run.
TESTS = {
    "masks": ["test_masks", "test_attention", "test_model"],
    "attention": ["test_attention", "test_layers", "test_decoding", "test_variants"],
    "positions": ["test_positions", "test_model", "test_variants"],
    "layers": ["test_layers", "test_model", "test_variants"],
    "model": ["test_model", "test_decoding", "test_generate", "test_variants"],
    "copying": ["test_copying"],
    "next_token": ["test_next_token", "test_decoding"],
    "decoding": ["test_decoding", "test_beam_search", "test_variants"],
    "beam": ["test_beam_search", "test_generate"],
    "vocabulary": ["test_batches", "test_copying", "test_training"],
    "batches": ["test_batches", "test_copying", "test_training"],
    "pairs": ["test_pairs"],
    "newsroom": ["test_newsroom"],
    "training": ["test_training", "test_checkpoints", "test_workers"],
    "checkpoints": ["test_checkpoints", "test_training"],
    "workers": ["test_workers", "test_together"],
    "rouge": ["test_scoring"],
    "scoring": ["test_scoring"],
    "writing": ["test_writing"],
    "tracing": ["test_tracing", "test_attention", "test_copying"],
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
    return ast.parse((ROOT / "tfm_lib" / f"{module}.py").read_text(encoding="utf-8"))


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = parsed(module)
    for node, put in _executed(tree):
        for other in _others(node):
            put(other)
            was, becomes = (ast.unparse(part).splitlines()[0] for part in (node, other))
            yield Mutant(module, node.lineno, f"{was}  ->  {becomes}", ast.unparse(tree))
            put(node)


def _executed(parent: ast.AST) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """What is executed below a node, each part with a function that puts another in its place."""
    for name, value in ast.iter_fields(parent):
        if name in ("annotation", "returns"):
            continue
        for at, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Raise) or _unseen(node):
                continue

            def put(other: ast.AST, name: str = name, at: int | None = at) -> None:
                if at is None:
                    setattr(parent, name, other)
                else:
                    getattr(parent, name)[at] = other

            yield node, put
            yield from _executed(node)


def _unseen(node: ast.AST) -> bool:
    """zip(strict=True) makes no difference either, but raises where a caller is wrong."""
    return isinstance(node, ast.keyword) and (node.arg in UNSEEN or ast.unparse(node) == "strict=True")


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""

    def changed(**fields: object) -> ast.AST:
        other = copy.copy(node)
        for name, value in fields.items():
            setattr(other, name, value)
        return other

    match node:
        case ast.Compare(ops=operators):
            for at, operator in enumerate(operators):
                yield changed(ops=[*operators[:at], OTHER[type(operator)](), *operators[at + 1 :]])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator):
            yield changed(op=OTHER[type(operator)]())
        case ast.UnaryOp(op=operator, operand=operand):
            yield changed(operand=ast.UnaryOp(operator, operand))  # twice is as good as not at all
        case ast.Constant(value=bool() as value):
            yield changed(value=not value)
        case ast.Constant(value=int() | float() as value):
            yield changed(value=value + 1 if isinstance(value, int) else 2 * value or 1.0)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp):  # these have mutants of their own
                yield changed(test=ast.UnaryOp(ast.Not(), test))
        case ast.Call(keywords=keywords):
            for at, keyword in enumerate(keywords):
                if keyword.arg not in (None, "strict", *UNSEEN):
                    yield changed(keywords=[*keywords[:at], *keywords[at + 1 :]])


def survives(mutant: Mutant) -> bool:
    """Whether all tests of its module pass on it. One that hangs them, or can't be imported, does not survive."""
    with broken({mutant.module: mutant.source}) as folder:
        return all(outcome(folder, tests) == 0 for tests in TESTS[mutant.module])


if __name__ == "__main__":
    prepare()
    number, seed, *modules = sys.argv[1:]
    everyone = [mutant for module in modules or TESTS for mutant in mutants(module)]
    drawn = Random(int(seed)).sample(everyone, min(int(number), len(everyone)))
    chosen = sorted({mutant.module for mutant in drawn})
    with broken({module: ast.unparse(parsed(module)) for module in chosen}) as folder:  # that is: not broken
        for tests in dict.fromkeys(tests for module in chosen for tests in TESTS[module]):
            if outcome(folder, tests):
                sys.exit(f"{tests} fails without any change, so that its failing is no proof")
    killed = len(drawn)
    for mutant in drawn:
        if survives(mutant):
            killed -= 1
            print(f"SURVIVED  {mutant.module}.py:{mutant.line}  {mutant.change}", flush=True)
    print(f"{killed} of {len(drawn)} mutants killed, {killed / len(drawn):.1%}; there are {len(everyone)}")
    sys.exit(killed < ENOUGH * len(drawn))
