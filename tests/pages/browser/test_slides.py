"""The slides in a real browser, from a folder: nothing runs over an edge, nothing is tiny, nothing is fetched."""

import pytest

from tests.pages.browser.reader import alone
from tfm_lib.lessons import LESSONS

pytestmark = pytest.mark.browser
SIZE = {"width": 1280, "height": 720}
# What runs over the edge of the slide that is shown, and what is written in smaller letters than these.
SEEN = """least => {
    const seen = [...Reveal.getCurrentSlide().querySelectorAll("*")].filter(e => !e.closest("aside") && e.clientWidth);
    const box = e => e.getBoundingClientRect(), told = e => `${e.tagName}: ${e.textContent.slice(0, 60)}`;
    const over = seen.filter(e => box(e).right > 1280 || box(e).bottom > 720 || box(e).left < 0 || box(e).top < 0);
    const small = seen.filter(e => /^(P|LI|CODE|H2|FIGCAPTION)$/.test(e.tagName)
        && parseFloat(getComputedStyle(e).fontSize) < least);
    return [over.map(told), small.map(told)];
}"""


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    from docs.paper.slides import write_slides

    folder = tmp_path_factory.mktemp("slides")
    assert write_slides(folder) == len(LESSONS)
    return folder


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_each_slide_has_room_for_all_that_it_says(browser, decks, lesson):
    with alone(browser, viewport=SIZE) as context:
        page = context.new_page()
        page.goto((decks / f"{lesson.name}.html").as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        page.evaluate("document.fonts.ready.then(() => Reveal.configure({transition: 'none'}))")
        count = page.evaluate("Reveal.getTotalSlides()")
        for number in range(count):
            page.evaluate("place => Reveal.slide(place)", number)
            assert page.evaluate(SEEN, 18) == [[], []], f"slide {number}: runs over an edge, or is small"
        assert 15 <= count <= 45
        assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0 && image.alt)")
