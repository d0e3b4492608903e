"""The quiz in a real browser: choices are answered, the reader is told the score, and finds it again."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.ask.test_questions import CHOSEN, write_lesson
from tests.ask.test_quiz import COURSE, lessons  # noqa: F401, a fixture
from tests.pages.browser.reader import shown
from tests.show.controls import PHONE, write_page
from tfm_lib.ask.quiz import quiz

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("lessons")]


class Page:
    """What a reader sees of a quiz, and does with it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.questions = root.locator("fieldset")

    def choose(self, *choices: str) -> None:
        """Each is a question, counted from 0, and a letter: "0C"."""
        for question, letter in choices:
            self.row(int(question), letter).click()

    def row(self, question: int, letter: str) -> Any:
        return self.questions.nth(question).locator("button", has_text=re.compile(rf"^{letter}\b"))

    def marks(self, question: int) -> list[str]:
        return self.questions.nth(question).locator(".tfm-letter").all_inner_texts()

    def comment(self, question: int) -> str:
        return self.questions.nth(question).locator("[aria-live]").inner_text()

    @property
    def verdict(self) -> str:
        return self.root.get_by_role("status").inner_text()

    def reload(self) -> None:
        self.root.page.reload()
        self.root.page.wait_for_function("document.querySelector('.tfm-control').shown")


@pytest.fixture
def page(show: Callable) -> Page:
    return Page(show(quiz("01_x")))


def test_a_wrong_choice_is_explained_and_the_reader_chooses_again(page):
    assert [page.comment(question) for question in range(3)] == ["", "", ""]
    for choice, comment in (("0C", "✗ C is not it. It is often."), ("0A", "✗ A is not it. This confuses ")):
        page.choose(choice)
        assert page.comment(0).startswith(comment)
    page.choose("0B")
    assert page.comment(0) == "✓ B is right. It is.\n\none\ntwo\n\nReally."
    assert page.marks(0) == ["A ✗", "B ✓", "C ✗"]
    assert page.marks(1) == ["A", "B", "C"] and page.comment(1) == ""
    green, orange = (page.row(0, letter).evaluate("row => getComputedStyle(row).borderColor") for letter in "BC")
    assert green != orange


def test_the_score_counts_right_answers_and_those_at_the_first_try(page):
    for choice, right, first in (("0A", 0, 0), ("0B", 1, 0), ("2B", 2, 1), ("2A", 2, 1)):  # curious what is wrong
        page.choose(choice)
        assert page.verdict == f"Score: {right} of 3 right, {first} at the first try."
    assert page.comment(2).startswith("✗ A is not it")


@pytest.mark.parametrize(
    ("choices", "verdict"),
    [
        ("BB", "2 of 2 right at the first try: go on to lesson 02."),
        ("BC", "1 of 2 right at the first try: read this lesson."),
        ("CC", "0 of 2 right at the first try: read this lesson."),
    ],
)
def test_the_opening_quiz_says_whether_to_read(show, choices, verdict):
    root = show(quiz("01_x", opening=True))
    page = Page(root)
    assert root.inner_text().startswith("Read or skip?")
    for question, letter in enumerate(choices):
        assert page.verdict == f"{question} of 2 answered."
        page.choose(f"{question}{letter}")
    for _ in range(2):
        assert page.verdict == verdict
        page.choose("0B", "1B")


def test_what_was_chosen_is_there_after_a_reload_until_the_reader_begins_anew(page):
    page.choose("0C", "0B", "0A", "1A")
    page.reload()
    assert page.verdict == "Score: 1 of 3 right, 0 at the first try."
    assert [page.marks(question) for question in range(3)] == [["A", "B ✓", "C ✗"], ["A ✗", "B", "C"], ["A", "B", "C"]]
    assert page.comment(0).startswith("✓ B is right.") and page.comment(1).startswith("✗ A is not it.")
    begin_anew = page.root.get_by_role("button", name="begin anew")
    begin_anew.press("Enter")
    assert page.comment(0) == page.comment(1) == "" and page.marks(0) == page.marks(1) == ["A", "B", "C"]
    assert begin_anew.is_disabled() and page.row(0, "A").evaluate("row => row === document.activeElement")
    page.reload()
    assert shown(page.root) == {"answered": 0, "solved": 0, "atOnce": 0}


def test_a_question_that_has_changed_is_asked_anew_and_the_others_are_not(page, lessons, tmp_path):  # noqa: F811
    page.choose("0B", "1B")
    write_lesson(lessons, CHOSEN, CHOSEN.replace("Is $a < b$ in `x$y`?", "Second, in other words?"))
    write_page(tmp_path, quiz("01_x"))
    page.reload()
    assert page.verdict == "Score: 1 of 2 right, 1 at the first try." and page.marks(1) == ["A", "B", "C"]


@pytest.mark.parametrize("stored", ["{", "5", '"AB"', '{"KEY": 5}', '{"KEY": "AZ"}', '{"KEY": ["A"]}'])
def test_what_others_left_in_the_browser_does_no_harm(page, stored):
    place, key = "tfm:lessonQuiz:01_x spine", quiz("01_x").widget.data["questions"][0]["key"]
    page.choose("0C")
    assert page.root.page.evaluate("place => localStorage.getItem(place)", place) == f'{{"{key}":"C"}}'
    page.root.page.evaluate("item => localStorage.setItem(...item)", [place, stored.replace("KEY", key)])
    page.reload()
    assert page.verdict == "Score: 0 of 3 right, 0 at the first try." and page.marks(0) == ["A", "B", "C"]


def test_where_a_browser_keeps_nothing_the_quiz_runs(page):
    page.root.page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})")
    page.reload()
    page.choose("0B")
    assert page.verdict == "Score: 1 of 3 right, 1 at the first try."


def test_it_is_answered_by_keyboard_alone(page):
    for key in ("Tab", "Enter", "Tab", "Space", "Tab", "Tab", "Space"):
        page.root.page.keyboard.press(key)
    assert page.marks(0) == ["A ✗", "B ✓", "C"] and page.marks(1)[0] == "A ✗"


def test_a_whole_row_is_the_target_and_a_finger_hits_it(show):
    page = Page(show(quiz("01_x"), PHONE))
    row = page.row(1, "C").bounding_box()
    assert row["width"] > 0.95 * page.root.bounding_box()["width"] and row["height"] >= 32
    page.row(1, "C").click(position={"x": row["width"] - 4, "y": row["height"] - 4})
    assert page.comment(1).startswith("✗ C is not it.")


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_the_formulas_of_a_real_lesson_are_drawn_in_questions_choices_and_comments(show, monkeypatch, lesson):
    monkeypatch.undo()  # of the lessons that are made up
    for part in ("opening", "spine", "deeper"):
        if not getattr(lesson, part):
            continue  # no second reading
        root = show(quiz(lesson.name, opening=part == "opening", deeper=part == "deeper"))
        for button in root.locator("fieldset button").all():
            button.click()
            sizes = "all => all.map(e => e.getBoundingClientRect()).map(({width, height}) => Math.min(width, height))"
            assert min(root.locator("math").evaluate_all(sizes), default=9) > 3
            assert not re.search(r"\\[a-z(]|\$", root.inner_text()), "a formula is not drawn"
