"""What holds a sentence to its claim before anything runs: its numbers, its form, its direction."""

import pytest

from ..cells import markdown, notebook
from ..lint import lint
from ..numbers import numbers_in
from ..project import project
from ..prose import sentences


def prose_findings(prose: str) -> list[str]:
    return [message for _, message, _ in lint(None, notebook(markdown(prose)))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("about half of it", {"half": 0.5}),
        ("a quarter of a million numbers", {"a quarter of a million": 250_000}),
        ("below a hundred-millionth.", {"a hundred-millionth": 1e-8}),
        ("twice as far, and doubled", {"twice": 2, "doubled": 2}),
        ("a thousand times less, or tenfold", {"a thousand times": 1000, "tenfold": 10}),
        ("1.3 million times less", {"1.3 million times": 1.3}),
        ("half a million and 20,000", {"half a million": 500_000, "20,000": 20_000}),
        ("nine of ten", {"nine of ten": 9}),
        ("95 out of 100", {"95 out of 100": 95}),
        ("about 99 headlines of 100", {"99 headlines of 100": 99}),
        ("It fits into eight lines and 12 cells.", {"eight lines": 8, "12 cells": 12}),
        ("2.5 million, 12.3k", {"2.5 million": 2.5, "12.3k": 12.3}),
        ("two heads of width 64, the third row, a third demand, one of the ten, worker 2 of 3", {}),
        ("in half precision, on the other half, once or twice, read it twice, half an hour", {}),
        ("hundreds of calls, several times, a few hundred thousand, how many times, zero times infinity", {}),
        ("Difficulty 2 of 5, Three questions tell, Double-click, in 2017, at width 512", {}),
    ],
)
def test_which_numbers_are_measured(text, found):
    assert {n.text: pytest.approx(n.values[0]) for n in numbers_in(text) if n.measured} == found


CLAIM = "<!-- claim (bound: it grows): moves['post-norm'][-1] > 3 * moves['pre-norm'][-1] -->"


@pytest.mark.parametrize(
    "prose",
    [
        "Variance is near 64<!-- claim: 60 < v < 68 -->.",
        "It is 47 %<!-- claim: 0.46 < share < 0.48 -->.",
        "It is 3 times larger<!-- claim: 2.9 < a / b < 3.1 -->, or 2.5<!-- cited: Table 1 --> there.",
        "The loss is below 0.1<!-- claim: loss < 0.1 -->.",
        "It is below 0.1<!-- claim (bound: it goes on falling): loss < 0.1 -->, and 0.7<!-- claim: x < 0.7 -->.",
        "Half of 512 is 256<!-- arithmetic: 256 / 512 == 1 / 2 -->.",
        "```\na  b .\n```\n\n| a  | b |\n|---|---|\n\nA line  \nand ... `a  b` end.",
        "It grows from 0.5 to 2,000.5<!-- claim: first == 0.5 and 2000 < last < 2001 -->.",
        "They agree to 1e-5<!-- claim: torch.allclose(a, b, atol=1e-5) and abs(a - b).max() < 1e-5 -->.",
        "The weights sum to one<!-- claim: abs(w.sum() - 1) < 1e-6 -->.",
        "It only looks like a change<!-- claim: model.training is False and len(rows.__dir__()) > 0 -->.",
        "About $64$ in 12 runs<!-- claim: 60 < v < 68 -->.",
        "One is `v`<!-- claim: v == 1 -->, and 1<!-- claim: v == 1 --> is $v$<!-- claim: v == 1 -->.",
        "Take Python 3.11, torch 2.15.0, [chapter 3.2](http://a/1.5), `x = 0.5`, $0.5$ and section 3.2, 3 heads.",
        "Python 3.11 to 3.14, GPT-3.5, equation (3.1), 2 \N{MULTIPLICATION SIGN} 3 and 2x3 numbers of 16-bit.",
        "# Chapter 3.2\n\n```python\nx = 0.5\n```\n\n$$\nx = 0.5\n$$",
        "| what | share |\n|---|---|\n| first | 0.5 <!-- claim: x == 0.5 --> |",
        "Half is 0.5. <!-- claim: x == 0.5 -->\nThe next sentence has none.",
        "**A step takes half of it. How much?**\n\n- A: Twice as much, or a third of it.",
        "It takes 64 to 65<!-- claim (range: 63.9..64.6): 60 < x < 70 -->.",
        "It keeps 44 to 47 %<!-- claim (range: 0.44..0.47): 0.4 < share < 0.5 -->.",
        "It is about 64<!-- claim (range: 63.1..66): 60 < x < 70 -->.",
        f"Post-norm moves more than three times as far as pre-norm{CLAIM}.",
        "The first won more often than the second<!-- claim: first > second -->.",
        "It is smaller<!-- claim: a < b -->.",
        "The larger the one, the longer the other<!-- claim: a < b -->.",
        "It is not larger<!-- claim: a <= b -->.",
        "Never more than one half<!-- claim (bound: for all): a <= 0.5 -->.",
    ],
)
def test_sound_prose_passes(prose):
    assert prose_findings(prose) == []


@pytest.mark.parametrize(
    ("prose", "message"),
    [
        ("It takes 0.5 of it.", "'0.5' is measured"),
        ("It is 10\N{MULTIPLICATION SIGN} slower.", "'10\N{MULTIPLICATION SIGN}' is measured"),
        ("From 0.5 to 0.7<!-- claim: x == 0.5 -->.", "'0.7' is measured"),
        ("- one 0.5 <!-- claim: x == 0.5 -->\n- two 0.7", "'0.7' is measured"),
        ("Near 64<!-- claim: 0 < v < 1000 -->.", "does not enclose"),
        ("It is 2<!-- claim: round(v, 2) == 5 -->.", "does not enclose"),
        ("It is 2<!-- claim: v[2] == 5 -->.", "does not enclose"),
        ("It is  so.", "a reader sees two spaces in 'It is  so.'"),
        ("It is 2 <!-- claim: v == 2 --> or so.", "a reader sees two spaces"),
        ("It is *so* , as `x` .", "a reader sees a space before a mark"),
        ("It is 6<!-- arithmetic: 3 * 3 == 6 -->.", "is false"),
        ("It is 6<!-- arithmetic: v == 6 -->.", "is no arithmetic"),
        ("It is 0.5<!-- claim (bound): v < 0.5 -->.", "with `(bound: REASON)` or `(range: LOW..HIGH)`"),
        ("Text\n<!-- claim: v == 1 --> more", "a claim begins the line"),
        ("It is one <!-- claim: v == 1 -->, and more", "a reader sees a space before a mark in 'It is one , and more'"),
        ("| a <!-- claim: v | w --> |", "in a table holds a `|`"),
        ("Text <!-- claim: v == '-->' --> more", "`-->` stands outside a comment"),
        ("Text<!-- claims: v == 1 -->.", "is neither `<!-- claim: EXPRESSION -->`"),
        ("Text<!-- claim: v ==\n 1 -->.", "is neither `<!-- claim: EXPRESSION -->`"),
        ("Text<!-- cited: -->.", "nor `<!-- cited: SOURCE -->`"),
        ("It is so<!-- claim: v = 1 -->.", "is not a Python expression"),
        ("It is so<!-- claim: (v := 1) == 1 -->.", "assigns or waits"),
        ("It is so<!-- claim: v.append(1) is None -->.", "calls append(), which may change state"),
        ("It is so<!-- claim: v.add_(1) > 0 -->.", "calls add_(), which may change state"),
        ("It is so<!-- claim: torch.randn(2).sum() < 9 -->.", "calls randn()"),
        ("It is so<!-- claim: torch.manual_seed(0) == g -->.", "calls manual_seed()"),
        ("It is so<!-- claim: len([1]) == 1 -->.", "reads no name of the notebook"),
        ("It is 64<!-- claim (range: 63.9..64.4): 60 < x < 70 -->.", "so its sentence gives this range"),
        ("It is about 64<!-- claim (range: 58..66): 50 < x < 70 -->.", "so its sentence gives this range"),
        ("It takes 62 to 65<!-- claim (range: 63.9..64.6): 60 < x < 70 -->.", "so its sentence gives this range"),
        ("It takes 64 to 65<!-- claim (range: 63.9..64.6): 64 < x < 70 -->.", "must hold for all of its range"),
        ("It takes 65 to 64<!-- claim (range: 64.6..63.9): 60 < x < 70 -->.", "first number must be the smaller one"),
        (f"Pre-norm moves more than three times as far as post-norm{CLAIM}.", "names them the other way round"),
        (f"Post-norm moves less than three times as far as pre-norm{CLAIM}.", "the sentence says 'less'"),
        ("The second won more often than the first<!-- claim: first > second -->.", "compares first with second"),
        ("It is smaller<!-- claim: a > b -->.", "compare in its order"),
        ("It is more than 0.3<!-- claim (bound: it varies): a < 0.3 -->.", "says that it is more than that"),
        ("It is less than a half<!-- claim (bound: it varies): a > 0.5 -->.", "says that it is less than that"),
    ],
)
def test_unsound_prose_is_named(prose, message):
    findings = prose_findings(prose)
    assert any(message in finding for finding in findings), findings


def test_a_project_allows_comments_that_its_own_rules_read(monkeypatch):
    remark = "Text<!-- todo: ask Eve -->."
    assert prose_findings(remark)
    monkeypatch.setattr(project, "remarks", {"todo"})
    assert not prose_findings(remark)
    assert prose_findings(remark.replace("todo", "done")) and prose_findings("Text<!-- todo: -->.")


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("Cf. e.g. 0.5<!-- claim: a -->. Then `b. C`<!-- claim: b -->! <!-- claim: c -->\n\n- d <!-- claim: d -->",
         [("Cf. e.g. 0.5.", ["a"]), ("Then `b. C`!", ["b", "c"]), ("- d", ["d"])]),
        ("## T 0.5 <!-- claim: a -->\n\n`<!-- claim: b -->`", [("## T 0.5", ["a"]), ("``", [])]),
    ],
)  # fmt: skip
def test_sentences_keep_their_claims_and_one_in_code_is_none(source, parts):
    found = [(sentence.text, [note.content for note in sentence.notes]) for sentence in sentences(source)]
    assert found == parts
