"""What the claims of a sentence compare, and whether the sentence says just that: a claim is tight, see README.md."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from textwrap import indent
from typing import Any, NamedTuple

from nbformat import NotebookNode

from .claims import COMPARES, bounds, called, comparisons, constant, operands, parsed, work_out
from .prose import Note, Sentence

ROUNDING = 1e-3  # below such a bound two things are equal up to rounding, and the value says nothing
# Tensors, arrays and what else has numbers in it, as a text.
AS_JSON = (
    "__import__('json').dumps({}, default=lambda o: o.tolist() if hasattr(o, 'tolist') else "
    "list(o) if hasattr(o, '__iter__') else repr(o), skipkeys=True)"
)
MEND = (
    "Mend it in one of three ways: write the number that it is; write about, near, nearly, almost or roughly before it "
    "(5 %), or, for what comes after training, the range that several roundings give, `claim (range: 0.011..0.013): "
    "...`; or, if the point of the sentence is a bound, `claim (bound: REASON): ...`"
)


class Answer(NamedTuple):
    """What a kernel says of an expression: a text, or why there is none."""

    text: str | None
    error: str = ""


Evaluate = Callable[[list[str]], list[Answer]]


class ProofError(Exception):
    """What is wrong with a notebook, in words for its author."""


def ask(client: Any, expressions: list[str], timeout: float, code: str = "") -> list[Answer]:
    """What the kernel of a jupyter client says of expressions after `code` ran; they bind no name and leave no trace.

    Raises ProofError if the code fails, and `queue.Empty` after so many seconds.
    """
    wanted = {str(place): expression for place, expression in enumerate(expressions)}
    message = client.execute(code, silent=True, store_history=False, user_expressions=wanted)
    while (reply := client.get_shell_msg(timeout=timeout))["parent_header"].get("msg_id") != message:
        pass
    if (content := reply["content"])["status"] != "ok":
        raise ProofError(f"{content['ename']}: {content['evalue']}, from\n{indent(code, '    ')}")
    return [
        Answer(r["data"]["text/plain"]) if r["status"] == "ok" else Answer(None, f"{r['ename']}: {r['evalue']}")
        for r in map(content["user_expressions"].get, wanted)
    ]


def with_neighbors(evaluate: Evaluate, book: NotebookNode, place: int) -> Evaluate:
    """Evaluates in a Markdown cell, where claims know the code of its neighbors as `cell_above` and `cell_below`."""
    above = next((cell.source for cell in reversed(book.cells[:place]) if cell.cell_type == "code"), "")
    below = next((cell.source for cell in book.cells[place:] if cell.cell_type == "code"), "")

    def with_cells(expression: str) -> str:
        if not re.search(r"\bcell_(?:above|below)\b", expression):
            return expression
        return f"(lambda cell_above, cell_below: {expression})({above!r}, {below!r})"

    return lambda expressions: evaluate([with_cells(expression) for expression in expressions])


class Reading(NamedTuple):
    """One compared expression; `held` if constants hold it, `exact` if it is one by ==."""

    source: str
    held: bool
    exact: bool = False


def readings(expression: str) -> list[Reading]:
    """The expressions that a claim compares, each as one that can be evaluated by itself."""
    found = list(_walk(parsed(expression), []))
    held = {reading.source for reading in found if reading.held}
    return list({r.source: r for r in found if r.held or r.source not in held}.values())


def _walk(node: ast.AST, loops: list[ast.comprehension]) -> Iterator[Reading]:
    if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        yield from _walk(node.elt, [*loops, *node.generators])
    elif isinstance(node, ast.Compare):
        for source, held, exact in _compared(node):
            yield Reading(ast.unparse(ast.ListComp(parsed(source), loops)) if loops else source, held, exact)
    elif called(node) in ("allclose", "isclose", "equal") and len(node.args) >= 2:
        left, right = node.args[:2]
        yield from (Reading(ast.unparse(a), True, True) for a, b in ((left, right), (right, left)) if _filled(b))
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, loops)


def _compared(chain: ast.Compare) -> Iterator[Reading]:
    for left, right, exact in comparisons(chain):
        low, high = constant(left), constant(right)
        if (low is not None and high is not None) or (exact and {0, 1} & {low, high}):
            continue  # the latter are "none", "never", "the same", "all of it"
        if low is not None:
            yield Reading(ast.unparse(right), True, exact)
        elif high is not None and not exact and (centered := _distance(left)) is not None:
            yield Reading(ast.unparse(centered), True)
        elif high is not None:
            yield Reading(ast.unparse(left), exact or high > ROUNDING, exact)
        elif (ratio := _ratio(left, right)) is not None:
            yield Reading(ratio, not exact)
        else:
            yield from (Reading(ast.unparse(side), False) for side in (left, right))


def _filled(node: ast.AST) -> bool:
    """Whether this is a number, or a tensor made of one number."""
    if called(node) in ("tensor", "array") and node.args:
        return constant(node.args[0]) is not None
    return called(node) == "ones" or constant(node) is not None


def _distance(node: ast.AST) -> ast.AST | None:
    """x of `abs(x - 2)`, `(x - 2).abs()` or `(2 - x).abs().max()`."""
    while called(node) in ("max", "item") and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if called(node) != "abs":
        return None
    inner = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else node.args[0]
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
        for value, center in ((inner.left, inner.right), (inner.right, inner.left)):
            if constant(center) is not None:
                return value
    return None


def without_constant(node: ast.AST) -> ast.AST:
    """b of `3 * b`, `b / 3`, `b + 3` and `b - 3`."""
    if isinstance(node, ast.BinOp) and constant(node.left) is not None and isinstance(node.op, ast.Mult | ast.Add):
        return node.right
    return node.left if isinstance(node, ast.BinOp) and constant(node.right) is not None else node


def _ratio(left: ast.AST, right: ast.AST) -> str | None:
    """What is compared in `3 * a < b`: the ratio b / a; in `a + 3 < b` the difference."""
    for scaled, plain in ((left, right), (right, left)):
        if (part := without_constant(scaled)) is not scaled:
            sign = "-" if isinstance(scaled.op, ast.Add | ast.Sub) else "/"
            return f"({ast.unparse(plain)}) {sign} ({ast.unparse(part)})"
    return None


def values(answer: Answer) -> list[float]:
    """The numbers in what was evaluated; none if it is something else."""
    try:
        stack = [json.loads(ast.literal_eval(answer.text)) if answer.text else None]
    except (ValueError, TypeError, SyntaxError):
        return []
    for item in stack:  # which grows meanwhile
        stack += item if isinstance(item, list) else []
    return [float(item) for item in stack if isinstance(item, int | float) and not isinstance(item, bool)]


def values_compared(note: Note, evaluate: Evaluate) -> Iterator[tuple[Reading, list[float]]]:
    """What a claim compares, and the values that it has now."""
    parts = readings(note.content)
    return zip(parts, map(values, evaluate([AS_JSON.format(part.source) for part in parts])), strict=True)


def worked_out(expression: str) -> list[float]:
    """The numbers in all parts of arithmetic: 512, 8, 64 and 512 / 8."""
    numbers = []
    for node in ast.walk(parsed(expression)):
        if isinstance(node, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Call):
            with suppress(NameError, TypeError):  # inside a loop
                numbers.append(float(work_out(ast.unparse(node))))
    return numbers


def inputs(expression: str) -> list[float]:
    """The numbers that a claim hands to functions of the notebook: 10 in `norm(10 * x)`."""
    calls = [node for node in ast.walk(parsed(expression)) if called(node) and called(node) not in COMPARES]
    return [number for node in calls for argument in node.args for number in _written(argument)]


def _written(tree: ast.AST) -> list[float]:
    return [number for node in ast.walk(tree) if (number := constant(node)) is not None]


def findings(sentence: Sentence, evaluate: Evaluate, tight: bool) -> list[str]:
    """What is wrong with the claims of a sentence in this run: false ones and, where `tight`, loose ones."""
    claims = [note for note in sentence.checks if note.kind == "claim"]
    false = [finding for note in claims if (finding := _false(sentence, note, evaluate))]
    return false or (list(_loose(sentence, evaluate)) if tight else [])


def _false(sentence: Sentence, note: Note, evaluate: Evaluate) -> str | None:
    [truth] = evaluate([f"bool({note.content})"])
    if truth.text == "True":
        return None
    claim = f"{sentence.text}\nIts claim `{note.content}` "
    if truth.text is None:
        return f"{claim}raises {truth.error}"
    parts = operands(note.content)
    shown = [f"  {part} = {_cut(a.text)}" for part, a in zip(parts, evaluate(parts), strict=True) if a.text]
    return "\n".join([f"{claim}is false. In this run", *shown, "Mend the sentence and its claim, or the code."])


def _loose(sentence: Sentence, evaluate: Evaluate) -> Iterator[str]:
    missed, loose = [number for number in sentence.numbers if number.measured], []
    for note in sentence.checks:
        if note.bound or note.seen:
            missed = [number for number in missed if not any(map(bounds(note.content).enclose, number.values))]
            continue
        if note.kind == "arithmetic":
            compared = worked_out(note.content)
        else:
            pairs = list(values_compared(note, evaluate))
            compared = [*inputs(note.content), *(value for _, shown in pairs for value in shown)]
            loose += _loose_claim(sentence, note, pairs, compared)
        missed = [number for number in missed if not any(map(number.is_of, compared))]
    yield from loose
    if not loose and not any(note.kind == "cited" for note in sentence.notes):
        for number in missed:
            yield f"{sentence.text}\nIt writes {number.text}, and nothing that its claims compare is that. {MEND}"


def _loose_claim(
    sentence: Sentence, note: Note, pairs: list[tuple[Reading, list[float]]], compared: list[float]
) -> Iterator[str]:
    """Where a value of a claim is no number of its sentence, or the number before the claim is no value of it."""
    near = [number for number in sentence.numbers_of(note) if number.counts]
    stated = [number for number in sentence.stated(note) if number.counts]
    if len(stated) > 1 and stated[-1].start < stated[-2].start + len(stated[-2].text):
        del stated[-1]  # the 100 of "95 of 100"
    loose = False
    for part, shown in pairs:
        lost = [value for value in shown if not any(n.is_of(value) for n in sentence.numbers_anywhere)]
        if part.held and lost and (near if part.exact else stated):
            loose = True
            written = ", ".join(number.text for number in sentence.numbers if number.counts)
            yield f"{sentence.text}\nIt writes {written}, and `{part.source}` is {_short(lost)}. {MEND}"
    if loose or not stated or not any(part.held for part, _ in pairs):
        return
    if re.search(r"[$`]", sentence.source[stated[-1].start : note.start]):
        return  # what is compared may stand in math or code
    compared = [*compared, *(n for part, _ in pairs for n in _written(parsed(part.source)))]
    if not any(map(stated[-1].is_of, compared)):
        yield (
            f"{sentence.text}\nIt writes {stated[-1].text} before `{note.content}`, which compares "
            f"{_short(compared)}: put the claim right behind its number. {MEND}"
        )


def _short(numbers: list[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers[:3]) + (" ..." if len(numbers) > 3 else "")


def _cut(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."
