"""The quiz in a real browser: choices are answered, the reader is told the score, and finds it again."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ask.test_questions import CHOSEN
from tests.ask.test_quiz import COURSE, lessons  # noqa: F401, a fixture
from tests.show.controls import LAPTOP, PHONE, opened
from tfm_lib.ask.quiz import quiz

pytestmark = pytest.mark.browser


class Page:
    """What a reader sees of a quiz, and does with it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.questions = root.locator("fieldset")

    def choose(self, question: int, letter: str) -> None:
        self.row(question, letter).click()

    def row(self, question: int, letter: str) -> Any:
        return self.questions.nth(question).locator("button", has_text=re.compile(rf"^{letter}\b"))

    def marks(self, question: int) -> list[str]:
        return self.questions.nth(question).locator(".tfm-letter").all_inner_texts()

    def comment(self, question: int) -> str:
        return self.questions.nth(question).locator("[aria-live]").inner_text()

    @property
    def verdict(self) -> str:
        return self.root.get_by_role("status").inner_text()

    def begin_anew(self) -> Any:
        return self.root.get_by_role("button", name="begin anew")


@pytest.fixture
def page(browser, tmp_path, lessons) -> Iterator[Page]:  # noqa: F811
    with opened(browser, tmp_path, quiz("01_x")) as root:
        yield Page(root)


def test_a_wrong_choice_is_explained_and_the_reader_chooses_again(page):
    assert [page.comment(question) for question in range(3)] == ["", "", ""]
    page.choose(0, "C")
    assert page.comment(0) == "✗ C is not it. It is often."
    page.choose(0, "A")
    assert page.comment(0).startswith("✗ A is not it. This confuses ")
    page.choose(0, "B")
    assert page.comment(0) == "✓ B is right. It is.\n\none\ntwo\n\nReally."
    assert page.marks(0) == ["A ✗", "B ✓", "C ✗"]
    assert page.marks(1) == ["A", "B", "C"] and page.comment(1) == ""
    green, orange = (page.row(0, letter).evaluate("row => getComputedStyle(row).borderColor") for letter in "BC")
    assert green != orange


def test_the_score_counts_right_answers_and_those_at_the_first_try(page):
    assert page.verdict == "Score: 0 of 3 right, 0 at the first try."
    page.choose(0, "A")
    assert page.verdict == "Score: 0 of 3 right, 0 at the first try."
    page.choose(0, "B")
    page.choose(2, "B")
    assert page.verdict == "Score: 2 of 3 right, 1 at the first try."
    page.choose(2, "A")  # curious what is wrong with it
    assert page.comment(2).startswith("✗ A is not it")
    assert page.verdict == "Score: 2 of 3 right, 1 at the first try."


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ([], "2 of 2 right at the first try: go on to lesson 02."),
        ([1], "1 of 2 right at the first try: read this lesson."),
        ([0, 1], "0 of 2 right at the first try: read this lesson."),
    ],
)
def test_the_opening_quiz_says_whether_to_read(browser, tmp_path, lessons, wrong, verdict):  # noqa: F811
    with opened(browser, tmp_path, quiz("01_x", opening=True)) as root:
        page = Page(root)
        assert root.inner_text().startswith("Read or skip?")
        for question in range(2):
            assert page.verdict == f"{question} of 2 answered."
            page.choose(question, "C" if question in wrong else "B")
        assert page.verdict == verdict
        for question in range(2):
            page.choose(question, "B")
        assert page.verdict == verdict


def test_what_was_chosen_is_there_after_a_reload_until_the_reader_begins_anew(page):
    for question, letter in ((0, "C"), (0, "B"), (0, "A"), (1, "A")):
        page.choose(question, letter)
    page.root.page.reload()
    page.root.page.wait_for_function("document.querySelector('.tfm-control').shown")
    assert page.verdict == "Score: 1 of 3 right, 0 at the first try."
    assert [page.marks(question) for question in range(3)] == [["A", "B ✓", "C ✗"], ["A ✗", "B", "C"], ["A", "B", "C"]]
    assert page.comment(0).startswith("✓ B is right.") and page.comment(1).startswith("✗ A is not it.")
    page.begin_anew().click()
    assert page.verdict == "Score: 0 of 3 right, 0 at the first try."
    assert page.comment(0) == page.comment(1) == "" and page.marks(0) == page.marks(1) == ["A", "B", "C"]
    assert page.begin_anew().is_disabled() and page.row(0, "A").evaluate("row => row === document.activeElement")
    page.root.page.reload()
    page.root.page.wait_for_function("document.querySelector('.tfm-control').shown")
    assert page.root.evaluate("root => root.shown") == {"answered": 0, "solved": 0, "atOnce": 0}


def test_a_question_that_has_changed_is_asked_anew_and_the_others_are_not(browser, tmp_path, lessons):  # noqa: F811
    from tests.ask.test_questions import write_lesson
    from tests.show.controls import write_page

    with opened(browser, tmp_path, quiz("01_x")) as root:
        page = Page(root)
        page.choose(0, "B")
        page.choose(1, "B")
        write_lesson(lessons, CHOSEN, CHOSEN.replace("Is $a < b$ in `x$y`?", "Second, in other words?"))
        write_page(tmp_path, quiz("01_x"))
        root.page.reload()
        root.page.wait_for_function("document.querySelector('.tfm-control').shown")
        assert page.verdict == "Score: 1 of 2 right, 1 at the first try." and page.marks(1) == ["A", "B", "C"]


@pytest.mark.parametrize("kept", ["{", "5", '"AB"', '{"KEY": 5}', '{"KEY": "AZ"}', '{"KEY": ["A"]}'])
def test_what_others_left_in_the_browser_does_no_harm(page, kept):
    place, key = "tfm:lessonQuiz:01_x spine", quiz("01_x").widget.data["questions"][0]["key"]
    page.choose(0, "C")
    assert page.root.page.evaluate("place => localStorage.getItem(place)", place) == f'{{"{key}":"C"}}'
    page.root.page.evaluate("([place, kept]) => localStorage.setItem(place, kept)", [place, kept.replace("KEY", key)])
    page.root.page.reload()
    page.root.page.wait_for_function("document.querySelector('.tfm-control').shown")
    assert page.verdict == "Score: 0 of 3 right, 0 at the first try." and page.marks(0) == ["A", "B", "C"]


def test_where_a_browser_keeps_nothing_the_quiz_runs(page):
    page.root.page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})")
    page.root.page.reload()
    page.root.page.wait_for_function("document.querySelector('.tfm-control').shown")
    page.choose(0, "B")
    assert page.verdict == "Score: 1 of 3 right, 1 at the first try."


def test_it_is_answered_by_keyboard_alone(page):
    keyboard = page.root.page.keyboard
    for key in ("Tab", "Enter", "Tab", "Space"):
        keyboard.press(key)
    assert page.marks(0) == ["A ✗", "B ✓", "C"]
    for _ in range(2):
        keyboard.press("Tab")
    keyboard.press("Space")
    assert page.marks(1)[0] == "A ✗"
    page.begin_anew().focus()
    keyboard.press("Enter")
    assert page.verdict.startswith("Score: 0 of 3")


def test_a_whole_row_is_the_target_and_a_finger_hits_it(browser, tmp_path, lessons):  # noqa: F811
    with opened(browser, tmp_path, quiz("01_x"), PHONE) as root:
        page = Page(root)
        row = page.row(1, "C").bounding_box()
        assert row["width"] > 0.95 * root.bounding_box()["width"] and row["height"] >= 32
        page.row(1, "C").click(position={"x": row["width"] - 4, "y": row["height"] - 4})
        assert page.comment(1).startswith("✗ C is not it.")


@pytest.mark.parametrize(("viewport", "scheme"), [(LAPTOP, "light"), (PHONE, "dark")], ids=["laptop", "phone"])
def test_it_fits_its_screen_and_all_can_read_it(browser, tmp_path, viewport, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, tmp_path, quiz("04_positional_encoding"), viewport, scheme) as root:
        for rows in root.locator("fieldset").all():
            rows.locator("button").first.click()  # right or wrong
        assert {*root.locator("[aria-live]").evaluate_all("all => all.map(e => e.dataset.verdict)")} == {
            "right",
            "wrong",
        }
        root.screenshot(path=Path(os.environ.get("SCREENSHOTS") or tmp_path) / f"quiz_{scheme}.png")
        assert root.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        found = Axe().run(root.page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
        assert [f"{one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"]] == []


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_the_quizzes_of_a_real_lesson_can_be_won_and_its_formulas_are_drawn(browser, tmp_path, lesson):
    for part, questions in (("opening", lesson.opening), ("spine", lesson.spine), ("deeper", lesson.deeper)):
        if not questions:
            continue  # no second reading
        live = quiz(lesson.name, opening=part == "opening", deeper=part == "deeper")
        with opened(browser, tmp_path, live) as root:
            page = Page(root)
            for place, question in enumerate(questions):
                for choice in sorted(question.choices, key=lambda choice: not choice.why_not):
                    page.choose(place, choice.letter)
                    verdict = "✗ {} is not it." if choice.why_not else "✓ {} is right."
                    assert page.comment(place).startswith(verdict.format(choice.letter))
            assert page.verdict.startswith("0 of 3 right" if part == "opening" else f"Score: {len(questions)} of")
            sizes = "all => all.map(e => e.getBoundingClientRect()).map(({width, height}) => [width, height])"
            assert all(width > 3 and height > 3 for width, height in root.locator("math").evaluate_all(sizes))
            assert not re.search(r"\\[a-z(]|\$", root.inner_text()), "a formula is not drawn"
