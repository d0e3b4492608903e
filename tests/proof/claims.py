"""What a claim may be. A claim is an expression over the names of its notebook that must be true.

    The variance is near 64<!-- claim: 60 < scores.var() < 68 -->.

It is evaluated as an expression, so it can bind no name; what else would change the notebook's state is refused
here. And it has to hold its sentence to its number: a claim that is true of something else proves nothing.
"""

import ast
import builtins
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

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
ARITHMETIC = {name: getattr(math, name) for name in ("log", "log2", "log10", "sqrt", "exp", "pi", "sin", "cos")} | {
    "abs": abs,
    "round": round,
    "sum": sum,
    "range": range,
}
MAX_RELATIVE_WIDTH = 2.0  # bounds further apart than twice the number say little about it


class ClaimError(ValueError):
    """A claim that breaks a rule; the message says which, and what to write instead."""


@dataclass(frozen=True)
class Bounds:
    """What the comparisons of one claim say in numbers: exact values, and intervals with two ends."""

    values: frozenset[float]
    intervals: tuple[tuple[float, float], ...]
    lows: frozenset[float] = frozenset()  # what something has to be above
    highs: frozenset[float] = frozenset()
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)  # of each compared expression

    def enclose(self, number: float) -> bool:
        """True if the claim names `number`, or keeps something between two bounds around it."""
        if any(
            math.isclose(number, value, rel_tol=1e-9, abs_tol=1e-12) for value in self.values | self.lows | self.highs
        ):
            return True
        return any(
            low <= number <= high and (number == 0 or high - low <= MAX_RELATIVE_WIDTH * abs(number))
            for low, high in self.intervals
        )


def check_claim(expression: str) -> None:
    """Raises ClaimError unless `expression` is one expression that reads the notebook and changes nothing."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ClaimError(f"is not a Python expression ({error.msg})") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            raise ClaimError("assigns or waits; a claim only compares values that the cells above it made")
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if CHANGES_STATE.fullmatch(name):
                raise ClaimError(f"calls {name}(), which may change state; compute it in a cell, and compare here")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not any(not hasattr(builtins, name) for name in names):
        raise ClaimError(
            "reads no name of the notebook, so it can never become false; what is worked out by hand is "
            "`<!-- arithmetic: 512 / 8 == 64 -->`"
        )


def check_arithmetic(expression: str) -> None:
    """Raises ClaimError unless `expression` is true, and made of written numbers and functions of `math` alone."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if any(isinstance(node, ast.Attribute | ast.Lambda) for node in ast.walk(tree)) or names - set(ARITHMETIC):
            raise ClaimError("is no arithmetic: it holds names that are not functions of math; make it a claim")
        holds = work_out(expression)
    except (SyntaxError, ArithmeticError, TypeError, ValueError) as error:
        if isinstance(error, ClaimError):
            raise
        raise ClaimError(f"cannot be worked out ({error})") from None
    if holds is not True:
        raise ClaimError("is false")


def work_out(expression: str) -> Any:
    """What arithmetic comes to."""
    return eval(compile(expression.strip(), "<arithmetic>", "eval"), {"__builtins__": {}}, dict(ARITHMETIC))


@dataclass
class _Ends:
    """The bounds of one compared expression, as its comparisons are read."""

    low: float = -math.inf
    high: float = math.inf


@dataclass
class _Reader(ast.NodeVisitor):
    """Collects the numbers that a claim compares with; an index, a keyword or a rounding is no such number."""

    values: set[float] = field(default_factory=set)
    ends: dict[str, _Ends] = field(default_factory=lambda: defaultdict(_Ends))
    lows: set[float] = field(default_factory=set)
    highs: set[float] = field(default_factory=set)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            if isinstance(operator, ast.Gt | ast.GtE):
                left, right = right, left
            elif isinstance(operator, ast.Eq) and (value := constant(right)) is not None:
                self.ends[ast.dump(left)] = _Ends(value, value)
                continue
            elif not isinstance(operator, ast.Lt | ast.LtE):
                continue
            low, high = constant(left), constant(right)
            self.lows |= {end for end in (low, _factor(left)) if end is not None}  # 3 * b < a: a / b is above 3
            self.highs |= {end for end in (high, _factor(right)) if end is not None}  # a < b / 4: a / b is below 1 / 4
            if low is not None and high is None:
                ends = self.ends[ast.dump(right)]
                ends.low = max(ends.low, low)
            elif high is not None and low is None:
                ends = self.ends[ast.dump(left)]
                ends.high = min(ends.high, high)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        self.visit(node.func)
        for argument in node.args:  # a bare number is an axis or a size, unless values are compared
            if name in COMPARES or constant(argument) is None:
                self.visit(argument)

    def generic_visit(self, node: ast.AST) -> None:
        value = constant(node)
        if value is None:
            super().generic_visit(node)
        else:
            self.values.add(value)


def constant(node: ast.AST) -> float | None:
    """The number that `node` writes out (`-2`, `1 / 3`, `2 ** 10`), or None."""
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return float(node.value) if number else None
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        parts = list(ast.walk(node))
        arithmetic = ast.Constant | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop
        if all(isinstance(part, arithmetic) for part in parts):
            try:
                value = eval(compile(ast.Expression(node), "<claim>", "eval"), {"__builtins__": {}})
                return float(value)
            except (ArithmeticError, TypeError, ValueError):
                return None
    return None


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
    reader = _Reader()
    reader.visit(ast.parse(expression.strip(), mode="eval"))
    ends = {part: (e.low, e.high) for part, e in reader.ends.items()}
    closed = tuple(pair for pair in ends.values() if all(map(math.isfinite, pair)))
    return Bounds(frozenset(reader.values), closed, frozenset(reader.lows), frozenset(reader.highs), ends)


def operands(expression: str) -> list[str]:
    """What to show when a claim is false, as source: its compared parts, or the names that it hands to functions."""
    tree = ast.parse(expression.strip(), mode="eval")
    nodes = list(ast.walk(tree))
    called = {id(name) for node in nodes if isinstance(node, ast.Call) for name in ast.walk(node.func)}
    bound = {name.id for node in nodes if isinstance(node, ast.comprehension) for name in _names(node.target)}
    parts = [part for node in nodes if isinstance(node, ast.Compare) for part in (node.left, *node.comparators)]
    parts = parts or [name for name in _names(tree) if id(name) not in called]
    shown = [p for p in parts if _names(p) and not any(name.id in bound for name in _names(p))]
    return list(dict.fromkeys(ast.unparse(part) for part in shown))


def _names(tree: ast.AST) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
