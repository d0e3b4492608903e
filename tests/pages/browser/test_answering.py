"""Exercises that ask for one number are answered on their page, and judged there as in a notebook."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import nbformat
import pytest

from tests import ROOT
from tests.pages.browser.reader import alone
from tests.pages.test_site import pages
from tfm_lib.ask.checks import TOPICS, exercises
from tfm_lib.ask.verdict import judge

pytestmark = pytest.mark.browser
ASKED = [
    one
    for topic in TOPICS
    for one in exercises(topic)
    if one.cases is None and isinstance(one.reference(), int | float)
]
SCRIPT = ROOT / "docs/_static/answering.js"


@pytest.fixture(scope="module")
def forms(browser, tmp_path_factory) -> Iterator[Any]:
    """A page with the fields of all lessons, in the order of ASKED."""
    books = [pages.read_lesson(path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
    html = [field_of(cell) for book in books for cell in book.cells if cell.cell_type == "code"]
    file = tmp_path_factory.mktemp("answers") / "forms.html"
    with alone(browser) as context:
        page = context.new_page()
        file.write_text("".join(html) + f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>", encoding="utf-8")
        page.goto(file.as_uri())
        yield page.locator("form.answer")


def field_of(cell: nbformat.NotebookNode) -> str:
    return "".join(one.data["text/html"] for one in cell.outputs if 'class="answer"' in str(one.get("data", "")))


def said(form: Any, answer: str) -> str:
    form.locator("input").fill(answer)
    form.locator("input").press("Enter")
    return form.locator("output").inner_text()


def test_every_answer_and_every_mistake_is_judged_as_in_a_notebook(forms):
    assert forms.count() == len(ASKED) == 33
    for exercise, form in zip(ASKED, forms.all(), strict=True):
        for value in [exercise.reference(), *(one() for one in exercise.mistakes), 1.23456e-7]:
            if not isfinite(value):
                continue  # nobody writes it into a field
            verdict = judge(exercise, value)
            sign, words = {"right": ("✓", "Right. "), "wrong": ("✗", "")}[verdict.state]
            assert said(form, repr(value)) == f"{sign} {words}{verdict.why}", exercise.name


def test_a_number_is_read_as_people_write_it(forms):
    names = [one.name for one in ASKED]
    bytes_of_cache, weight = (forms.nth(names.index(name)) for name in ("families_and_scale.cache", "attention.crowd"))
    for right in ("1073741824", "1,073,741,824", "2 ** 30", "1024 * 1024 * (2048 / 2)"):
        assert said(bytes_of_cache, right).startswith("✓"), right
    for right in ("0.5", "0,501", " 1/2 ", "5e-1", ".50"):
        assert said(weight, right).startswith("✓"), right
    for nonsense in ("", "half", "1 2", "alert(1)", "e", "50 %", "1/0", "--", "0.5.1"):
        assert said(weight, nonsense).startswith("✗ A number is wanted"), nonsense
