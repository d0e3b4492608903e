"""What a claim may be. A claim is an expression over the names of its notebook that must be true.

    The variance is near 64<!-- claim: 60 < scores.var() < 68 -->.

It is evaluated as an expression, so it can bind no name; what else would change the notebook's state is refused
here. And it has to hold its sentence to its number: a claim that is true of something else proves nothing.
"""

import ast
import builtins
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# Calls that change what they are called on, draw random numbers, or reach outside the notebook. The last line is
# for the methods that work in place: torch marks them by an underscore at the end.
CHANGES_STATE = re.compile(
    r"""
      append|extend|insert|pop|popitem|remove|clear|update|add|discard|sort|reverse|setdefault|__setitem__
    | setattr|delattr|__setattr__|exec|eval|open|print|input|next|send|close|write|__import__
    | seed|manual_seed|backward|step|zero_grad|train|load_state_dict|register_\w+
    | rand\w*|normal|uniform|multinomial|bernoulli|dropout|shuffle|choices?|sample|integers|standard_normal
    | \w*[^_]_
    """,
    re.VERBOSE,
)
COMPARES = frozenset(["isclose", "allclose", "equal", "array_equal", "tensor", "abs", "all", "any"])
ARITHMETIC = {name: getattr(math, name) for name in ("log", "log2", "log10", "sqrt", "exp", "pi", "sin", "cos")}
ARITHMETIC |= {"abs": abs, "round": round, "sum": sum, "range": range}
MAX_RELATIVE_WIDTH = 2.0  # bounds further apart than twice the number say little about it


class ClaimError(Exception):
    """A claim that breaks a rule; the message says which, and what to write instead."""


def parsed(expression: str) -> ast.expr:
    """The tree of an expression. Raises SyntaxError where it is none."""
    return ast.parse(expression.strip(), mode="eval").body


def called(node: ast.AST) -> str:
    """The name of the function or method that a call calls, or ""."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def check_claim(expression: str) -> None:
    """Raises ClaimError unless `expression` is one expression that reads the notebook and changes nothing."""
    try:
        tree = parsed(expression)
    except SyntaxError as error:
        raise ClaimError(f"is not a Python expression ({error.msg})") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            raise ClaimError("assigns or waits; a claim only compares values that the cells above it made")
        if CHANGES_STATE.fullmatch(name := called(node)):
            raise ClaimError(f"calls {name}(), which may change state; compute it in a cell, and compare here")
    if all(hasattr(builtins, name.id) for name in _names(tree)):
        raise ClaimError(
            "reads no name of the notebook, so it can never become false; what is worked out by hand is "
            "`<!-- arithmetic: 512 / 8 == 64 -->`"
        )


def check_arithmetic(expression: str) -> None:
    """Raises ClaimError unless `expression` is true, and made of written numbers and functions of `math` alone."""
    try:
        tree = parsed(expression)
        names = {name.id for name in _names(tree)}
        if any(isinstance(node, ast.Attribute | ast.Lambda) for node in ast.walk(tree)) or names - ARITHMETIC.keys():
            raise ClaimError("is no arithmetic: it holds names that are not functions of math; make it a claim")
        holds = work_out(expression)
    except (SyntaxError, ArithmeticError, TypeError, ValueError) as error:
        raise ClaimError(f"cannot be worked out ({error})") from None
    if holds is not True:
        raise ClaimError("is false")


def work_out(expression: str) -> Any:
    """What arithmetic comes to."""
    return eval(compile(expression.strip(), "<arithmetic>", "eval"), {"__builtins__": {}}, dict(ARITHMETIC))


def constant(node: ast.AST) -> float | None:
    """The number that `node` writes out (`-2`, `1 / 3`, `2 ** 10`), or None."""
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return float(node.value) if number else None
    arithmetic = ast.Constant | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop
    if isinstance(node, ast.UnaryOp | ast.BinOp) and all(isinstance(part, arithmetic) for part in ast.walk(node)):
        with suppress(ArithmeticError, TypeError, ValueError):
            return float(eval(compile(ast.Expression(node), "<claim>", "eval"), {"__builtins__": {}}))
    return None


class Comparison(NamedTuple):
    """`left < right` or, if `exact`, `left == right`; one with `>` is turned round."""

    left: ast.expr
    right: ast.expr
    exact: bool


def comparisons(node: ast.Compare) -> Iterator[Comparison]:
    """The comparisons of a chain such as `1 < x < 2`, without `in`, `is` and `!=`."""
    sides = [node.left, *node.comparators]
    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Gt | ast.GtE):
            yield Comparison(right, left, False)
        elif isinstance(operator, ast.Lt | ast.LtE | ast.Eq):
            yield Comparison(left, right, isinstance(operator, ast.Eq))


@dataclass
class Bounds:
    """What the comparisons of one claim say in numbers: values that it names, and ends of what it compares."""

    values: set[float]
    lows: set[float] = field(default_factory=set)  # what something has to be above
    highs: set[float] = field(default_factory=set)
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)  # of each compared expression

    def enclose(self, number: float) -> bool:
        """True if the claim names `number`, or keeps something between two bounds around it."""
        named = self.values | self.lows | self.highs
        return any(math.isclose(number, value, rel_tol=1e-9, abs_tol=1e-12) for value in named) or any(
            low <= number <= high and high - low <= (MAX_RELATIVE_WIDTH * abs(number) or sys.float_info.max)
            for low, high in self.ends.values()
        )


def _factor(node: ast.AST) -> float | None:
    """3 of `3 * b`, 1 / 4 of `b / 4`, 0.5 of `b + 0.5`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult | ast.Add | ast.Div):
        return None
    left, right = constant(node.left), constant(node.right)
    if isinstance(node.op, ast.Div):
        return 1 / right if right and left is None else None
    return left if right is None else right if left is None else None


def bounds(expression: str) -> Bounds:
    """The numbers that a claim holds its sentence to."""
    tree = parsed(expression)
    found = Bounds({*_numbers(tree)}, ends=defaultdict(lambda: (-math.inf, math.inf)))
    for chain in (node for node in ast.walk(tree) if isinstance(node, ast.Compare)):
        for left, right, exact in comparisons(chain):
            low, high = constant(left), constant(right)
            if exact:
                if high is not None:
                    found.ends[ast.dump(left)] = (high, high)
                continue
            found.lows |= {end for end in (low, _factor(left)) if end is not None}  # 3 * b < a: a / b is above 3
            found.highs |= {end for end in (high, _factor(right)) if end is not None}  # a < b / 4: it is below 1 / 4
            if (low is None) != (high is None):
                part = ast.dump(right if high is None else left)
                least, most = found.ends[part]
                found.ends[part] = (least, min(most, high)) if low is None else (max(least, low), most)
    return found


def _numbers(node: ast.AST) -> Iterator[float]:
    """The numbers that a claim compares with; an index, a keyword or a rounding is no such number."""
    if (value := constant(node)) is not None:
        yield value
        return
    parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Subscript):
        parts = [node.value]
    elif isinstance(node, ast.Call):  # a bare number is an axis or a size, unless values are compared
        parts = [node.func, *(a for a in node.args if called(node) in COMPARES or constant(a) is None)]
    for part in parts:
        yield from _numbers(part)


def operands(expression: str) -> list[str]:
    """What to show when a claim is false, as source: its compared parts, or the names that it hands to functions."""
    nodes = list(ast.walk(parsed(expression)))
    functions = {id(name) for node in nodes if isinstance(node, ast.Call) for name in _names(node.func)}
    loop_names = {name.id for node in nodes if isinstance(node, ast.comprehension) for name in _names(node.target)}
    parts = [part for node in nodes if isinstance(node, ast.Compare) for part in (node.left, *node.comparators)]
    parts = parts or [node for node in nodes if isinstance(node, ast.Name) and id(node) not in functions]
    shown = [part for part in parts if (names := {name.id for name in _names(part)}) and not names & loop_names]
    return list(dict.fromkeys(ast.unparse(part) for part in shown))


def _names(tree: ast.AST) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
