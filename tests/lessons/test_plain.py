"""What is counted of a lesson's English, and what is not."""

import pytest

from tests import ROOT
from tests.lessons import plain
from tests.nbclaims.cells import code, markdown, notebook

FILLER = "This sentence has exactly sixteen words, because its only purpose is to fill the page here."


def hits(text: str) -> list[str]:
    return [habit.name for habit, found in plain.count([text]).hits.items() if found]


@pytest.mark.parametrize(
    ("text", "habit"),
    [
        ("None of it.", "four words or fewer"),
        ("So the heads that are equal stay equal.", "begins with So, And, But"),
        ("What protects the future is the mask.", "a statement that begins with What"),
        ("But what is more, whoever writes it alone meets it alone.", "whoever, somebody, nobody"),
        ("It is a number of this lesson, and not a bound.", "', and not', ', and no'"),
        ("The first of the heads has 0.61 here.", "has and a number"),
        ("It is divided by the root of the width.", "a calque"),
        ("The heads move alike in every single step.", "a calque"),
        ("Which of the words does it see?", "a question"),
    ],
)
def test_a_habit_is_seen(text, habit):
    assert habit in hits(text)


@pytest.mark.parametrize(
    "text",
    [
        FILLER,
        "*Reading: 5 minutes. Running: none.*\n\n*Difficulty 1 of 5 · 5 minutes · trains nobody*",
        "## What nobody does\n\n| What | nobody |\n|---|---|\n| Whoever | alike |",
        "```python\nnobody = 1\n\nwhoever = 2\n```\n\n$$\\text{nobody}$$",
        "It is divided by the square root of `nobody` and of the width $nobody$.",
        "**Work.** The scores of all heads cost as much as those of one.",
        "Nobody.<!-- plain: the answer of Odysseus -->",
        "What does the first head of this layer attend to in the end?<!-- plain: a guess -->",
    ],
)
def test_what_is_no_prose_or_excused_has_no_habit(text):
    assert hits(text) == []


def test_words_are_those_that_are_read_aloud():
    text = "The [whole layer](x.ipynb) calls `F.softmax(x, dim=-1)` on $a + b$, *once*<!-- claim: x == 1 -->."
    assert plain.count([text]).read == ["The whole layer calls code on X, once."]


def test_of_a_question_only_its_explanations_are_prose():
    answer = "<details><summary>Answer</summary>\n\n**A.** It is so.\n\n- B: Not this.\n\n</details>"
    source = f"**Why?**\n\n- A: Nobody.\n\n{answer}"
    nudge = markdown("<details><summary>A nudge</summary>\n\nLook.\n\n</details>")
    book = notebook(markdown(source, "question"), nudge, code("nobody = 1"))
    assert sorted(plain.count_lesson(book).read) == ["It is so.", "Look.", "Not this."]


WHAT = "What protects the future is the mask, because it hides each key that comes after the query."


@pytest.mark.parametrize(
    ("texts", "findings"),
    [
        (["Nobody knows which one it is, and so all have to try each of the three in turn."] * 3, ["whoever,"]),
        (["It is one of the short sentences."], ["7.0 words in the mean; wanted 14 to 19"]),
        ([FILLER] * 18 + ["and ".join(["one word "] * 13) + "x."], ["1 of its 19 sentences have more than 35 words"]),
        ([WHAT] * 2, []),  # a habit has room in a short text
        ([WHAT] * 3, ["begins with What"]),
        ([WHAT] * 3 + [FILLER] * 800, []),  # and a rate in a long one
    ],
)
def test_too_much_is_a_finding(texts, findings):
    found = [*plain.findings(plain.count(texts))]
    assert len(found) == len(findings) and all(part in finding for part, finding in zip(findings, found, strict=True))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_other_texts_are_as_plain(name):
    counted = plain.count([(ROOT / name).read_text(encoding="utf-8").removeprefix("---\nnosearch: true\n---")])
    assert {habit.name: found for habit, found in counted.hits.items() if len(found) > counted.most(habit)} == {}
