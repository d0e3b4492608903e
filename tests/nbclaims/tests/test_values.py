"""What holds a sentence to its claim where a kernel has the values: the value is the number."""

import json

import numpy as np
import pytest

from ..cells import code, markdown, notebook
from ..claims import bounds, operands
from ..prose import sentences
from ..values import Answer, findings, readings, with_neighbors

KERNEL = {
    "x": 64.13,
    "share": 0.4712,
    "heads": 5,
    "norms": {"post": 3.42, "pre": 1.0},
    "rows": np.ones(2),
    "losses": [0.98, 1.04],
    "gap": 3e-7,
    "stories": 20_000,
    "right": 95,
}


def kernel(expressions):
    return [Answer(repr(eval(expression, dict(KERNEL)))) for expression in expressions]


def loose(prose: str, tight: bool = True) -> list[str]:
    return [finding for sentence in sentences(prose) for finding in findings(sentence, kernel, tight)]


def test_bounds_are_read_in_both_directions():
    claim = bounds("68 > v >= 60 and abs(w - 0.5) < 1 / 8 and -3 < x[7].mean(dim=9) and x[7].mean(dim=9) < -2")
    assert [n for n in (59.9, 60, 64, 68, 0.5, 0.125, -2.5, 7, 9) if claim.enclose(n)] == [60, 64, 68, 0.5, 0.125, -2.5]


def test_shown_values_are_the_compared_parts():
    assert operands("0 < a.mean() < 2 * b") == ["a.mean()", "2 * b"]
    assert operands("all(x < limit for x in xs)") == ["limit"]
    assert operands("torch.equal(a, b)") == ["a", "b"]


@pytest.mark.parametrize(
    "prose",
    [
        "At width 64 it is 64.1<!-- claim: 63 < x < 66 -->, in 8 rows.",
        "In row 1 it is 1.04, at step 1<!-- claim: 1.03 < losses[1] < 1.05 -->.",
        "It is near 66<!-- claim: 60 < x < 68 -->, in 2 runs *about* $66$<!-- claim: 60 < x < 68 -->.",
        "It is 47 %<!-- claim: 0.4 < share < 0.5 --> or 0.47<!-- claim: abs(share - 0.47) < 0.01 -->.",
        "The five heads agree<!-- claim: heads == 5 -->, all 5<!-- claim: heads == 5 -->.",
        "It moves 3.4 times<!-- claim: norms['post'] > 3.3 * norms['pre'] --> as far.",
        "Each is about 1<!-- claim: all(0.9 < v < 1.1 for v in losses) -->, or 1.0<!-- claim: (rows == 1).all() -->.",
        "After training it is 62 to 63<!-- claim (range: 62..63): 55 < x < 70 -->.",
        "It is never below 50<!-- claim (bound: it depends on the seed): x > 50 -->.",
        "They agree<!-- claim: gap < 1e-5 --> in 3 cases.",
        "It is 4,000 times<!-- claim: stories == 4_000 * heads --> as many.",
        "Twenty thousand<!-- claim: stories == 20_000 --> of them, 95 of 100<!-- claim: right == 95 -->.",
        "By hand it is 12<!-- arithmetic: 3 * 4 == 12 --> and a third<!-- arithmetic: 4 / 12 == 1 / 3 -->.",
        "The words only hold<!-- claim: 0 < x < 1000 -->.",
        "Others measured 0.7<!-- cited: a table -->.",
    ],
)
def test_a_tight_claim_passes(prose):
    assert loose(prose) == []


@pytest.mark.parametrize(
    ("prose", "value"),
    [
        ("The variance is near 70<!-- claim: 60 < x < 72 -->.", "`x` is 64.13"),
        ("At 64.1 it is about 70<!-- claim: 60 < x < 72 -->.", "70 before `60 < x < 72`, which compares 64.13"),
        ("It is 64.2<!-- claim: 63 < x < 66 -->.", "It writes 64.2, and `x` is 64.13"),
        ("About 6 times<!-- claim: 3 < norms['post'] / norms['pre'] < 7 --> as far.", "is 3.42"),
        ("Less than a quarter<!-- claim: x / 2000 < 1 / 4 --> of it.", "`x / 2000` is 0.032065"),
        ("An eighth<!-- claim: x / 2000 < 1 / 8 --> of it.", "`x / 2000` is 0.032065"),
        ("More than twice<!-- claim: norms['post'] > 2 * norms['pre'] --> as far.", "(norms['pre'])` is 3.42"),
        ("Thirty thousand<!-- claim: 0 < stories < 30_000 --> stories.", "`stories` is 20000"),
        ("There are 6<!-- claim: heads == 5 --> heads.", "It writes 6, and `heads` is 5"),
        ("All six heads<!-- claim: heads == 5 --> agree.", "It writes six, and `heads` is 5"),
        ("Each is 1.00<!-- claim: all(0.9 < v < 1.1 for v in losses) -->.", "is 0.98, 1.04"),
        ("It is 64.1<!-- claim: 63 < x < 66 -->, and 0.3.", "It writes 0.3, and nothing that its claims compare"),
        ("Nine of ten<!-- claim: right == 95 --> are.", "`right` is 95"),
        ("By hand a third<!-- arithmetic: 4 / 8 == 1 / 2 -->.", "It writes a third"),
        ("They agree to 1e-5<!-- claim: gap < 1e-5 -->.", "It writes 1e-5"),
    ],
)
def test_a_loose_claim_is_named_with_its_value(prose, value):
    [finding] = loose(prose)
    assert value in finding and "(bound: REASON)" in finding and "(range: " in finding and "about, near" in finding
    assert loose(prose, tight=False) == [], "elsewhere the comparison alone must hold"


def test_what_a_claim_compares():
    shown = {part.source: part.held for part in readings("a.mean() < 3 and abs(b - 2) < 0.1 and gap < 1e-5 and c == d")}
    assert shown == {"a.mean()": True, "b": True, "gap": False, "c": False, "d": False}
    assert [r.source for r in readings("a < b / 4 and c > 2 + d")] == ["(a) / (b)", "(c) - (d)"]
    assert json.loads(eval(kernel(["__import__('json').dumps(losses)"])[0].text)) == KERNEL["losses"]


def test_a_claim_may_count_the_lines_of_its_neighbors():
    book = notebook(code("a = 1\nb = 2"), markdown("Two lines."), markdown("Then one."), code("c = 3"))
    evaluate = with_neighbors(kernel, book, 1)
    asked = ["len(cell_above.splitlines())", "[cell_below for _ in losses][0]", "heads"]
    assert [answer.text for answer in evaluate(asked)] == ["2", "'c = 3'", "5"]
