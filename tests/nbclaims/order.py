"""Comparisons in words: a sentence and its claim compare in the same direction and in the same order.

    Post-norm moves 3.4 times as far as pre-norm<!-- claim: 3.35 < moves["post"] / moves["pre"] < 3.45 -->.
    The post-norm vectors are longer than those of pre-norm<!-- claim: post_norm > pre_norm -->.

Few rules, which leave alone what they do not understand: a clause with several comparatives or a negation is free.
"""

import ast
import math
import re
from collections.abc import Iterator

from .claims import bounds, constant, parsed
from .prose import Note, Sentence
from .values import without_constant

MORE = re.compile(
    r"(?<!no )(?<!any )(?<!once )\b(?:more|larger|greater|longer|higher|faster|above|over)\b(?! or less)", re.IGNORECASE
)
LESS = re.compile(r"\b(?:less|smaller|fewer|lower|shorter|slower|below|under)\b", re.IGNORECASE)
NEGATION = re.compile(r"\b(?:not|no|never|hardly|neither|nor|none|without|cannot|nothing)\b|n't\b", re.IGNORECASE)


def order_findings(sentence: Sentence) -> Iterator[str]:
    """Where a claim compares two things of the notebook, or bounds a number, the other way round than its sentence."""
    for note, clause in clauses(sentence):
        if note.kind != "claim":
            continue
        try:
            tree = parsed(note.content)
        except SyntaxError:
            continue  # what is no expression is found elsewhere
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                yield from _compared(sentence, clause, note, node)
        yield from _bounded(sentence, note)


def clauses(sentence: Sentence) -> list[tuple[Note, str]]:
    """Each claim with what a reader sees around it: from the comment before it to the next one."""
    starts = [0, *(note.end for note in sentence.notes)]
    ends = [*(note.start for note in sentence.notes), len(sentence.source)]
    parts = [" ".join(sentence.source[a:b].split()) for a, b in zip(starts, ends, strict=True)]
    return [(note, f"{before} {after}") for note, before, after in zip(sentence.notes, parts, parts[1:], strict=False)]


def _compared(sentence: Sentence, clause: str, note: Note, node: ast.Compare) -> Iterator[str]:
    operator, left, right = node.ops[0], without_constant(node.left), without_constant(node.comparators[0])
    if not isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) or constant(left) is not None:
        return
    bounded = constant(right) is not None
    if bounded:
        if not (isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div)):
            return
        left, right = left.left, left.right  # more than 3 times: `post / pre > 3`
    claim = f"the claim `{note.content}` of {sentence.text!r}"
    if turned := _turned(clause, left, right):
        yield f"{claim} compares {turned[0]} with {turned[1]}, and the sentence names them the other way round"
        return
    ups, downs = MORE.findall(clause), LESS.findall(clause)
    if len(ups + downs) != 1 or NEGATION.search(clause) or bounded:
        return
    if isinstance(operator, ast.Gt | ast.GtE) != bool(ups):
        [word] = ups + downs
        yield f"{claim} compares with `{'<' if ups else '>'}`, and the sentence says {word!r}: compare in its order"


def _turned(clause: str, left: ast.AST, right: ast.AST) -> tuple[str, str] | None:
    left_words, right_words = _words(left), _words(right)
    first, second = _found(clause, left_words - right_words), _found(clause, right_words - left_words)
    if first and second and min(first) > max(second):
        return first[min(first)], second[max(second)]
    return None


def _words(node: ast.AST) -> set[str]:
    names = [getattr(part, name, "") for part in ast.walk(node) for name in ("id", "attr", "value")]
    text = " ".join(name for name in names if isinstance(name, str))
    return {word for word in re.split(r"[^a-z]+", text.lower()) if len(word) > 2}


def _found(text: str, words: set[str]) -> dict[int, str]:
    pattern = "|".join(sorted(map(re.escape, words))) or r"(?!)"
    return {match.start(): match[1] for match in re.finditer(rf"\b({pattern})(?:e?s)?\b", text.lower())}


def _bounded(sentence: Sentence, note: Note) -> Iterator[str]:
    """More than 3 times is `x > 3`; less than a quarter is `x < 1 / 4`."""
    claim = bounds(note.content)
    for number in sentence.numbers:
        value = number.values[-1] if number.text.endswith("%") else number.values[0]
        low, high = (any(math.isclose(value, end) for end in ends) for ends in (claim.lows, claim.highs))
        hedges = {same.hedge for same in sentence.numbers if value in same.values}
        if low != high and ("up" if low else "down") not in hedges and hedges - {""}:
            yield (
                f"the claim `{note.content}` of {sentence.text!r} has {number.text} as its "
                f"{'lower' if low else 'upper'} bound, and the sentence says that it is "
                f"{'less' if low else 'more'} than that"
            )
            return
