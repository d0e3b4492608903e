"""What the claims of a sentence compare, and whether the sentence says just that: a claim is tight.

Every value that a claim keeps between constants is, rounded as the sentence writes it, a number of the sentence; and
every measured number of the sentence is such a value, as is the last number before a claim. Words such as *about* allow
5 %, `claim (bound: reason)` names a bound that encloses, and `claim (range: 0.011..0.013)` the values that were seen
under several roundings.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode

from tests.proof.claims import COMPARES, bounds, constant, operands, work_out
from tests.proof.prose import Note, Sentence

ROUNDING = 1e-3  # below such a bound two things are equal up to rounding, and the value says nothing
# Tensors, arrays and what else has numbers in it, as a text.
AS_JSON = (
    "__import__('json').dumps({}, default=lambda o: o.tolist() if hasattr(o, 'tolist') else "
    "list(o) if hasattr(o, '__iter__') else repr(o), skipkeys=True)"
)
MEND = (
    "Mend it in one of three ways: write the number that it is; write about, near, nearly, almost or roughly before it "
    "(5 %), or, for what comes after training, the range that several roundings give, `claim (range: 0.011..0.013): "
    "...`; or, if the point of the sentence is a bound, "
    "`claim (bound: REASON): ...`"
)


@dataclass(frozen=True)
class Answer:
    """What a kernel says of an expression: a text, or why there is none."""

    text: str | None
    error: str = ""


def answers(replies: dict[str, Any], wanted: dict[str, str]) -> list[Answer]:
    """The user expressions of a kernel's reply, in the order of what was asked."""
    found = []
    for key in wanted:
        reply = replies[key]
        if reply["status"] == "ok":
            found.append(Answer(reply["data"]["text/plain"]))
        else:
            found.append(Answer(None, f"{reply['ename']}: {reply['evalue']}"))
    return found


Evaluate = Callable[[list[str]], list[Answer]]


def beside_code(evaluate: Evaluate, book: NotebookNode, place: int) -> Evaluate:
    """Evaluates in a Markdown cell, where claims know the code of its neighbors as `cell_above` and `cell_below`."""
    above = next((cell.source for cell in reversed(book.cells[:place]) if cell.cell_type == "code"), "")
    below = next((cell.source for cell in book.cells[place:] if cell.cell_type == "code"), "")

    def with_cells(expression: str) -> str:
        if not re.search(r"\bcell_(?:above|below)\b", expression):
            return expression
        return f"(lambda cell_above, cell_below: {expression})({above!r}, {below!r})"

    return lambda expressions: evaluate([with_cells(expression) for expression in expressions])


@dataclass(frozen=True)
class Reading:
    """One compared expression; `held` if constants hold it, `exact` if it is one by ==."""

    source: str
    held: bool
    exact: bool = False


def readings(expression: str) -> list[Reading]:
    """The expressions that a claim compares, each as one that can be evaluated by itself."""
    found = list(_walk(ast.parse(expression.strip(), mode="eval").body, []))
    held = {reading.source for reading in found if reading.held}
    return list({r.source: r for r in found if r.held or r.source not in held}.values())


def _walk(node: ast.AST, loops: list[ast.comprehension]) -> Iterator[Reading]:
    if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        yield from _walk(node.elt, [*loops, *node.generators])
    elif isinstance(node, ast.Compare):
        for reading in _compared(node):
            tree: Any = ast.parse(reading.source, mode="eval").body
            source = ast.unparse(ast.ListComp(tree, loops)) if loops else reading.source
            yield Reading(source, reading.held, reading.exact)
    elif isinstance(node, ast.Call) and _name(node) in ("allclose", "isclose", "equal") and len(node.args) >= 2:
        left, right = node.args[:2]
        for value, other in ((left, right), (right, left)):
            if _filled(other) is not None:
                yield Reading(ast.unparse(value), True, True)
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, loops)


def _compared(node: ast.Compare) -> Iterator[Reading]:
    sides = [node.left, *node.comparators]
    low = any(
        (constant(small) or 0) > 0
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
        for small in (
            [left] if isinstance(op, ast.Lt | ast.LtE) else [right] if isinstance(op, ast.Gt | ast.GtE) else []
        )
    )
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(op, ast.Gt | ast.GtE):
            left, right = right, left  # now left <= right
        elif not isinstance(op, ast.Lt | ast.LtE | ast.Eq):
            continue
        exact = isinstance(op, ast.Eq)
        low_end, high_end = constant(left), constant(right)
        if low_end is not None and high_end is not None:
            continue
        if exact and {0, 1} & {low_end, high_end}:
            continue  # "none", "never", "the same", "all of it"
        if low_end is not None:
            yield Reading(ast.unparse(right), True, exact)
        elif high_end is not None:
            if not exact and (centered := _distance(left)) is not None:
                yield Reading(ast.unparse(centered), True)
            else:
                yield Reading(ast.unparse(left), exact or low or high_end > ROUNDING, exact)
        elif (ratio := _ratio(left, right)) is not None:
            yield Reading(ratio, not exact)
        else:
            yield Reading(ast.unparse(left), False)
            yield Reading(ast.unparse(right), False)


def _name(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _filled(node: ast.AST) -> float | None:
    """The number that a tensor made of one number holds."""
    if isinstance(node, ast.Call) and _name(node) in ("tensor", "array") and node.args:
        return constant(node.args[0])
    if isinstance(node, ast.Call) and _name(node) == "ones":
        return 1.0
    return constant(node)


def _distance(node: ast.AST) -> ast.AST | None:
    """x of `abs(x - 2)`, `(x - 2).abs()` or `(2 - x).abs().max()`."""
    while isinstance(node, ast.Call) and _name(node) in ("max", "item") and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if not (isinstance(node, ast.Call) and _name(node) == "abs"):
        return None
    inner = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else node.args[0]
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
        for value, other in ((inner.left, inner.right), (inner.right, inner.left)):
            if constant(other) is not None:
                return value
    return None


def without_constant(node: ast.AST) -> ast.AST:
    """b of `3 * b`, `b / 3`, `b + 3` and `b - 3`."""
    if isinstance(node, ast.BinOp):
        if constant(node.left) is not None and isinstance(node.op, ast.Mult | ast.Add):
            return node.right
        if constant(node.right) is not None:
            return node.left
    return node


def _ratio(left: ast.AST, right: ast.AST) -> str | None:
    """What is compared in `3 * a < b`: the ratio b / a; in `a + 3 < b` the difference."""
    for one, other in ((left, right), (right, left)):
        part = without_constant(one)
        if part is not one and isinstance(one, ast.BinOp):
            sign = "-" if isinstance(one.op, ast.Add | ast.Sub) else "/"
            return f"({ast.unparse(other)}) {sign} ({ast.unparse(part)})"
    return None


def values(answer: Answer) -> list[float]:
    """The numbers in what was evaluated; none if it is something else."""
    try:
        found = json.loads(ast.literal_eval(answer.text)) if answer.text else None
    except (ValueError, TypeError, SyntaxError):
        return []
    flat, stack = [], [found]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            flat.append(float(item))
    return flat


def worked_out(expression: str) -> list[float]:
    """The numbers in all parts of arithmetic: 512, 8, 64 and 512 / 8."""
    found = []
    for node in ast.walk(ast.parse(expression.strip(), mode="eval")):
        if isinstance(node, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Call):
            with suppress(NameError, TypeError):  # inside a loop
                found.append(float(work_out(ast.unparse(node))))
    return found


def inputs(expression: str) -> list[float]:
    """The numbers that a claim hands to functions of the notebook: 10 in `norm(10 * x)`."""
    calls = [node for node in ast.walk(ast.parse(expression.strip(), mode="eval")) if isinstance(node, ast.Call)]
    arguments = [part for node in calls if _name(node) not in COMPARES for arg in node.args for part in ast.walk(arg)]
    return [number for part in arguments if (number := constant(part)) is not None]


def _written(source: str) -> list[float]:
    nodes = ast.walk(ast.parse(source, mode="eval"))
    return [number for node in nodes if (number := constant(node)) is not None]


def findings(sentence: Sentence, evaluate: Evaluate, tight: bool) -> list[str]:
    """What is wrong with the claims of a sentence in this run: false ones and, where `tight`, loose ones."""
    found = []
    for note in sentence.checks:
        if note.kind == "claim" and (false := _false(sentence, note, evaluate)):
            found.append(false)
    return found or (list(_loose(sentence, evaluate)) if tight else [])


def _false(sentence: Sentence, note: Note, evaluate: Evaluate) -> str | None:
    [truth] = evaluate([f"bool({note.content})"])
    if truth.text == "True":
        return None
    said = f"{sentence.text}\nIts claim `{note.content}` "
    if truth.text is None:
        return f"{said}raises {truth.error}"
    parts = operands(note.content)
    shown = [
        f"  {part} = {_shorten(answer.text)}"
        for part, answer in zip(parts, evaluate(parts), strict=True)
        if answer.text
    ]
    return "\n".join([f"{said}is false. In this run", *shown, "Mend the sentence and its claim, or the code."])


def _loose(sentence: Sentence, evaluate: Evaluate) -> Iterator[str]:
    numbers, anywhere = sentence.numbers, sentence.numbers_anywhere
    missed, loose = [number for number in numbers if number.measured], False
    for note in sentence.checks:
        if note.bound or note.seen:
            held = bounds(note.content)
            missed = [number for number in missed if not any(map(held.enclose, number.values))]
        elif note.kind == "arithmetic":
            sides = worked_out(note.content)
            missed = [number for number in missed if not any(map(number.is_of, sides))]
        else:
            given = inputs(note.content)
            missed = [number for number in missed if not any(map(number.is_of, given))]
            near = [number for number in sentence.numbers_of(note) if number.counts]
            stated = [number for number in near if number.measured or re.search(r"\d", number.text)]
            if len(stated) > 1 and stated[-1].start < stated[-2].start + len(stated[-2].text):
                del stated[-1]  # the 100 of "95 of 100"
            parts, compared = readings(note.content), [*given]
            for part, answer in zip(parts, evaluate([AS_JSON.format(part.source) for part in parts]), strict=True):
                shown = values(answer)
                compared += [*shown, *_written(part.source)]
                missed = [number for number in missed if not any(number.is_of(value) for value in shown)]
                lost = [value for value in shown if not any(n.is_of(value) for n in anywhere)]
                if part.held and lost and (near if part.exact else stated):
                    loose = True
                    written = ", ".join(number.text for number in numbers if number.counts)
                    yield f"{sentence.text}\nIt writes {written}, and `{part.source}` is {_short(lost)}. {MEND}"
            last = stated[-1:] if any(part.held for part in parts) and not loose else []
            if last and re.search(r"[$`]", sentence.source[last[0].start : note.start]):
                last = []  # what is compared may stand in math or code
            if last and not any(last[0].is_of(value) for value in compared):
                loose = True
                yield (
                    f"{sentence.text}\nIt writes {last[0].text} before `{note.content}`, which compares "
                    f"{_short(compared)}: put the claim right behind its number. {MEND}"
                )
    if not loose and not any(note.kind == "cited" for note in sentence.notes):
        for number in missed:
            yield f"{sentence.text}\nIt writes {number.text}, and nothing that its claims compare is that. {MEND}"


def _short(numbers: list[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers[:3]) + (" ..." if len(numbers) > 3 else "")


def _shorten(text: str | None, most: int = 300) -> str:
    text = text or ""
    return text if len(text) <= most else f"{text[:most]} ..."
