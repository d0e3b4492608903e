"""What holds a sentence to its claim: its numbers, its direction, its links, and what a change loses."""

import json
from copy import deepcopy

import nbformat
import pytest
import torch

from tests.proof import author, lists, references, roundings
from tests.proof.cells import code, markdown, notebook, write
from tests.proof.lint import prose_findings
from tests.proof.numbers import numbers_in
from tests.proof.order import order_findings
from tests.proof.prose import sentences
from tests.proof.values import Answer, beside_code, findings, readings

KERNEL = {
    "torch": torch,
    "x": 64.13,
    "share": 0.4712,
    "heads": 5,
    "norms": {"post": 3.42, "pre": 1.0},
    "rows": torch.tensor([1.0, 1.0]),
    "losses": [0.98, 1.04],
    "gap": 3e-7,
    "stories": 20_000,
    "right": 95,
}


def kernel(expressions):
    return [Answer(repr(eval(expression, dict(KERNEL)))) for expression in expressions]


def loose(prose: str, tight: bool = True) -> list[str]:
    return [finding for sentence in sentences(prose) for finding in findings(sentence, kernel, tight)]


# ---- numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("about half of it", {"half": 0.5}),
        ("a third of it, two thirds.", {"a third": 1 / 3, "two thirds": 2 / 3}),
        ("three quarters less", {"three quarters": 0.75}),
        ("a quarter of a million numbers", {"a quarter of a million": 250_000}),
        ("every word gets a sixth.", {"a sixth": 1 / 6}),
        ("below a hundred-millionth.", {"a hundred-millionth": 1e-8}),
        ("twice as far, and doubled", {"twice": 2, "doubled": 2}),
        ("Three times that", {"Three times": 3}),
        ("a thousand times less, or tenfold", {"a thousand times": 1000, "tenfold": 10}),
        ("1.3 million times less", {"1.3 million times": 1.3}),
        ("twenty thousand stories", {"twenty thousand": 20_000}),
        ("half a million and 20,000", {"half a million": 500_000, "20,000": 20_000}),
        ("nine of ten", {"nine of ten": 9}),
        ("ninety-five of a hundred texts", {"ninety-five of a hundred": 95}),
        ("95 out of 100", {"95 out of 100": 95}),
        ("about 99 headlines of 100", {"99 headlines of 100": 99}),
        ("It fits into eight lines and 12 cells.", {"eight lines": 8, "12 cells": 12}),
        ("prints five versions", {"five versions": 5}),
        ("2.5 million, 12.3k", {"2.5 million": 2.5, "12.3k": 12.3}),
    ],
)
def test_numbers_in_words_are_measured(text, found):
    assert {
        n.text: pytest.approx(n.values[0]) for n in numbers_in(text) if n.measured and n.text != "a hundred"
    } == found


@pytest.mark.parametrize(
    "text",
    [
        "two heads of width 64, the third row, a third demand, one of the ten, worker 2 of 3",
        "in half precision, on the other half, once or twice, read it twice, half an hour",
        "hundreds of calls, several times, a few hundred thousand, how many times, zero times infinity",
        "Difficulty 2 of 5, Three questions tell, Double-click, in 2017, at width 512",
    ],
)
def test_words_that_state_nothing_measured_are_left_alone(text):
    assert [number.text for number in numbers_in(text) if number.measured] == []


def test_a_question_states_nothing():
    [stem, wrong] = sentences("**A step takes half of it. How much?**\n\n- A: Twice as much, or a third of it.")[1:]
    assert stem.numbers == wrong.numbers == []


# ---- the value is the number


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
        "After training it is 62 to 66<!-- claim (range: 62..66): 55 < x < 70 -->.",
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
        (
            "At width 64.1 it is about 70<!-- claim: 60 < x < 72 -->.",
            "It writes 70 before `60 < x < 72`, which compares 64.13",
        ),
        ("It is 64.2<!-- claim: 63 < x < 66 -->.", "It writes 64.2, and `x` is 64.13"),
        ("About 6 times<!-- claim: 3 < norms['post'] / norms['pre'] < 7 --> as far.", "is 3.42"),
        ("Less than a quarter<!-- claim: x / 2000 < 1 / 4 --> of it.", "`x / 2000` is 0.032065"),
        ("An eighth<!-- claim: x / 2000 < 1 / 8 --> of it.", "`x / 2000` is 0.032065"),
        ("More than twice<!-- claim: norms['post'] > 2 * norms['pre'] --> as far.", "(norms['pre'])` is 3.42"),
        ("Thirty thousand<!-- claim: 0 < stories < 30_000 --> stories.", "`stories` is 20000"),
        ("There are 6<!-- claim: heads == 5 --> heads.", "It writes 6, and `heads` is 5"),
        ("All six heads<!-- claim: heads == 5 --> agree.", "It writes six, and `heads` is 5"),
        ("Each is 1.00<!-- claim: all(0.9 < v < 1.1 for v in losses) -->.", "is 1.04"),
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


def test_false_claims_are_named_anywhere():
    [finding] = loose("It is 64.1<!-- claim (bound: why not): x > 65 -->.", tight=False)
    assert "Its claim `x > 65` is false. In this run\n  x = 64.13" in finding


def test_what_a_claim_compares():
    shown = {part.source: part.held for part in readings("a.mean() < 3 and abs(b - 2) < 0.1 and gap < 1e-5 and c == d")}
    assert shown == {"a.mean()": True, "b": True, "gap": False, "c": False, "d": False}
    assert [r.source for r in readings("a < b / 4 and c > 2 + d")] == ["(a) / (b)", "(c) - (d)"]
    assert json.loads(eval(kernel(["__import__('json').dumps(losses)"])[0].text)) == KERNEL["losses"]


def test_a_claim_may_count_the_lines_of_its_neighbors():
    book = notebook(code("a = 1\nb = 2"), markdown("Two lines."), markdown("Then one."), code("c = 3"))
    evaluate = beside_code(kernel, book, 1)
    asked = ["len(cell_above.splitlines())", "[cell_below for _ in losses][0]", "heads"]
    assert [answer.text for answer in evaluate(asked)] == ["2", "'c = 3'", "5"]


# ---- the direction


def turned(prose: str) -> list[str]:
    return [finding for sentence in sentences(prose) for finding in order_findings(sentence)]


CLAIM = "<!-- claim (bound: it grows): moves['post-norm'][-1] > 3 * moves['pre-norm'][-1] -->"


@pytest.mark.parametrize(
    "prose",
    [
        f"Post-norm moves more than three times as far as pre-norm{CLAIM}.",
        "The first won more often than the second<!-- claim: first > second -->.",
        "It is smaller<!-- claim: a < b -->.",
        "The larger the one, the longer the other<!-- claim: a < b -->.",
        "It is not larger<!-- claim: a <= b -->.",
        "Never more than one half<!-- claim (bound: for all): a <= 0.5 -->.",
    ],
)
def test_a_claim_in_the_order_of_its_sentence_passes(prose):
    assert turned(prose) == []


@pytest.mark.parametrize(
    ("prose", "message"),
    [
        (f"Pre-norm moves more than three times as far as post-norm{CLAIM}.", "names them the other way round"),
        (f"Post-norm moves less than three times as far as pre-norm{CLAIM}.", "the sentence says 'less'"),
        ("The second won more often than the first<!-- claim: first > second -->.", "compares first with second"),
        ("It is smaller<!-- claim: a > b -->.", "compare in its order"),
        ("It is more than 0.3<!-- claim (bound: it varies): a < 0.3 -->.", "says that it is more than that"),
        ("It is less than a half<!-- claim (bound: it varies): a > 0.5 -->.", "says that it is less than that"),
    ],
)
def test_a_sentence_turned_round_is_named(prose, message):
    assert any(message in finding for finding in turned(prose)), turned(prose)


# ---- references


@pytest.fixture
def course(tmp_path):
    write(
        tmp_path / "01_first.ipynb", notebook(markdown("# First\n\n## 1. Start"), markdown("## 2. `Keys` and *more*"))
    )
    second = [
        "# Second\n\n## 1. New words<!-- was: old-words -->",
        "## Deeper: what $h$ heads cost<!-- was: 4-price -->",
    ]
    write(tmp_path / "02_second.ipynb", notebook(*map(markdown, second)))
    return tmp_path


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("[lesson 07](07_first.ipynb)", "[lesson 01](01_first.ipynb)"),
        (
            "[lesson 01, section 9](01_first.ipynb#9-keys-and-more)",
            "[lesson 01, section 2](01_first.ipynb#2-keys-and-more)",
        ),
        ("[x](../notebooks/01_first.ipynb#keys-and-more)", "[x](../notebooks/01_first.ipynb#2-keys-and-more)"),
        ("[05, section 3](05_second.ipynb#3-old-words)", "[02, section 1](02_second.ipynb#1-new-words)"),
        ("[section 7](#7-new-words)", "[section 1](#1-new-words)"),
        ("[section 4](#4-price)", "[“what $h$ heads cost”](#deeper-what-h-heads-cost)"),
        ("[Price](#deeper-price)", "[what $h$ heads cost](#deeper-what-h-heads-cost)"),
        ("[what $h$ heads cost](#deeper-what-h-heads-cost)", None),
        (
            "[lesson 02, section 6](02_second.ipynb#6-what-h-heads-cost)",
            "[lesson 02, “what $h$ heads cost”](02_second.ipynb#deeper-what-h-heads-cost)",
        ),
        (
            "[lesson 05, “the price”](05_second.ipynb#deeper-price)",
            "[lesson 02, “what $h$ heads cost”](02_second.ipynb#deeper-what-h-heads-cost)",
        ),
        ("[the “new words”](#deeper-new-words)", "[the section 1](#1-new-words)"),
        ("[gone](01_first.ipynb#3-gone) `[lesson 07](07_first.ipynb)` [a](https://a.org#b)", None),
    ],
)
def test_links_get_the_numbers_of_today(course, written, right):
    path = course / "02_second.ipynb"
    assert references.renumber(written, path, course) == (right or written)
    assert bool(list(references.stale_links(written, path, course))) == (right is not None)
    assert list(references.stale_links(right or written, path, course)) == []


def test_a_section_that_is_not_there_is_named(course):
    path = course / "01_first.ipynb"
    assert list(references.missing_sections("See section 2, and section 5.4 of the paper.", path)) == []
    [finding] = references.missing_sections("See section 3.", path)
    assert "no section 3 in this lesson" in finding


# ---- values that depend on rounding


@pytest.mark.parametrize(
    ("prose", "wrong"),
    [
        ("It takes 64 to 65<!-- claim (range: 63.9..64.6): 60 < x < 70 -->.", ""),
        ("It keeps 44 to 47 %<!-- claim (range: 0.44..0.47): 0.4 < share < 0.5 -->.", ""),
        ("It is about 64<!-- claim (range: 63.1..66): 60 < x < 70 -->.", ""),
        ("It is 64<!-- claim (range: 63.9..64.4): 60 < x < 70 -->.", "so its sentence gives this range"),
        ("It is about 64<!-- claim (range: 58..66): 50 < x < 70 -->.", "so its sentence gives this range"),
        ("It takes 62 to 65<!-- claim (range: 63.9..64.6): 60 < x < 70 -->.", "so its sentence gives this range"),
        ("It takes 64 to 65<!-- claim (range: 63.9..64.6): 64 < x < 70 -->.", "must hold for all of its range"),
        ("It takes 65 to 64<!-- claim (range: 64.6..63.9): 60 < x < 70 -->.", "first number must be the smaller one"),
    ],
)
def test_a_sentence_gives_the_range_that_was_seen(prose, wrong):
    found = " ".join(prose_findings(prose))
    assert wrong in found if wrong else not found


def test_a_range_is_no_number_to_be_met():
    [sentence] = sentences("It takes 62 to 63<!-- claim (range: 62..63): 60 < x < 70 -->.")
    assert findings(sentence, kernel, tight=True) == []
    [note] = sentence.checks
    assert roundings.values_held(note, kernel) == {"x": [64.13]}


def test_what_a_rounding_did_is_kept_until_the_lesson_changes(tmp_path, monkeypatch):
    runs: list[str] = []
    monkeypatch.setattr(roundings, "CACHE", tmp_path / "kept")
    monkeypatch.setattr(
        roundings, "_executed", lambda _, rounding: runs.append(rounding) or roundings.Outcome(loose=[str(len(runs))])
    )
    lesson = tmp_path / "01_x.ipynb"
    write(lesson, notebook(markdown("# T")))
    assert [roundings.outcome(lesson, name).loose for name in ("default", "default", "best")] == [["1"], ["1"], ["2"]]
    write(lesson, notebook(markdown("# Another title")))
    assert roundings.outcome(lesson, "default").loose == ["3"]
    assert len(list((tmp_path / "kept").iterdir())) == 2, "what no longer holds is gone"


@pytest.mark.slow
def test_a_rounding_reaches_the_kernel_and_what_it_changes_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(roundings, "CACHE", tmp_path / "kept")
    threads = code("import os\nthreads = int(os.environ['OMP_NUM_THREADS'])\nprint(threads)")
    threads.outputs = [nbformat.v4.new_output("stream", name="stdout", text="1\n")]
    loose = deepcopy(threads)
    loose.metadata["tags"] = ["nbval-ignore-output"]
    lesson = tmp_path / "01_x.ipynb"
    claim = markdown("There is 1.0<!-- claim: 0.9 < threads < 1.1 -->.")
    ranged = markdown("It takes 3 to 4<!-- claim (range: 3..4): 0 < threads < 5 -->.")
    write(lesson, notebook(markdown("# T"), threads, loose, claim, ranged))
    found = roundings.outcome(lesson, "threads")
    [strict], [changed], [false, outside] = found.strict, found.loose, found.claims
    assert strict.startswith("code cell 2") and strict.endswith("-1\n+2") and changed.startswith("code cell 3")
    assert "`0.9 < threads < 1.1` is false" in false
    assert "`threads` is 2, outside of the range 3..4" in outside and found.ranges == {"threads": [2]}
    write(lesson, notebook(markdown("# T"), threads, loose, claim))
    same = roundings.outcome(lesson, "default")
    assert not (same.strict or same.loose or same.claims or same.failed) and same.instructions == "DEFAULT"


# ---- what a change loses

ASKED = (
    "**Which?**\n\n- A: this\n- B: that\n\n<details><summary>Answer</summary>\n\n**B.** Because.\n\n"
    "- A: Never.\n\n</details>"
)


def claiming(prose: str, question: str = ASKED):
    asked = markdown(question)
    asked.metadata["tags"] = ["question"]
    return notebook(markdown(prose), asked)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("It is 5<!-- claim: 4.9 < x < 5.1 -->.", "Now it is 5<!-- claim: 4.95 < x < 5.05 -->.", []),
        ("It is 5<!-- claim: 4.9 < x < 5.1 -->.", "It is 5.", ["lost: It is 5. | claim: 4.9 < x < 5.1"]),
        (
            "It is 91 %<!-- claim: 0.905 < x < 0.915 -->.",
            "It is over 60 %<!-- claim (bound: any draw): x > 0.6 -->.",
            ["weaker: It is 91 %. | claim: 0.905 < x < 0.915 | is now claim (bound): x > 0.6"],
        ),
        ("It is 5<!-- claim: x == 5 -->.", "It is 5<!-- claim: 4 < x < 6 -->.", ["weaker: "]),
        ("It is 5<!-- claim: 4 < x < 6 -->.", "It is 4 to 5<!-- claim (range: 4.1..5): 4 < x < 6 -->.", ["weaker: "]),
        ("It is 6<!-- arithmetic: 2 * 3 == 6 -->.", "It is 6<!-- cited: them -->.", ["lost: "]),
    ],
)
def test_claims_that_are_lost_or_weaker_are_named(before, after, said):
    found = list(lists.differences(claiming(before), claiming(after)))
    assert len(found) == len(said)
    assert all(map(str.startswith, found, said)), found


def test_an_answer_that_changed_is_named():
    turned = ASKED.replace("A: this\n- B: that", "A: that\n- B: this")
    assert list(lists.differences(claiming("", ASKED), claiming("", turned))) == [
        "answer: Which? | was that | is now this"
    ]


# ---- all at once


def test_check_says_all_at_once_with_cells(tmp_path, capsys):
    write(
        tmp_path / "01_x.ipynb",
        notebook(
            markdown("# T\n\nSee lesson 06.  It is half of it."),
            code("x = 5.3"),
            markdown("It is 5.2<!-- claim: 5 < x < 6 -->, and false<!-- claim: x > 6 -->."),
            markdown("It is near 6<!-- claim: 5 < x < 7 -->."),
        ),
    )
    assert author.check_all([tmp_path / "01_x.ipynb"]) > 5
    said = capsys.readouterr().out
    for line in (
        "01 cell-0 reference: 'lesson 06' is no link",
        "01 cell-0 number: 'half' is measured",
        "01 cell-0 space: a reader sees two spaces",
        "01 cell-2 claim: It is 5.2, and false.\n    Its claim `x > 6` is false",
        "01 cell-3 loose: It is near 6.\n    It writes 6, and `x` is 5.3.",
        "claims: 3, of them 0 bounds",
        "loose: Mend it in one of three ways",
    ):
        assert line in said, said
