"""Every control in a real browser: it can be turned by keyboard, fits its screens, says what it shows, answers at once.

What each computes is held against `tfm_lib` in the tests named after it. Where the environment variable SCREENSHOTS
names a folder, pictures and a table of times are left there.
"""

import pytest

from tests.pages.browser.reader import middle, on_both_screens_and_schemes, pictures, too_wide, violations, words
from tests.pages.browser.test_curve import Run, as_on_a_page
from tests.show.controls import CONTROLS, LAPTOP, PHONE, turn_every_knob
from tests.times import Answer, report
from tfm_lib.ask.quiz import quiz
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.live_curve import live_curve

pytestmark = pytest.mark.browser
FRAME, WITH_MODEL = 16, 50  # milliseconds, the goals of a median
every_control = pytest.mark.parametrize("name", CONTROLS)


def long_curve():
    curve = live_curve(20_000)
    curve(Run(*(7 / (1 + step / 500) for step in range(16_000))))
    return as_on_a_page(curve)


@every_control
def test_it_begins_as_its_stored_picture_and_every_knob_answers_by_keyboard_and_at_once(show, tmp_path, name):
    live = CONTROLS[name]()
    root, goal = show(live), WITH_MODEL if live.data[ON_PAGES]["weights"] else FRAME
    assert words(root) == live.data["text/plain"]
    first, numbers = root.locator(".tfm-words").evaluate(
        "p => [p.firstChild, p.lastChild].map(one => one.textContent.replaceAll('\xa0', ' '))"
    )
    assert ". " not in first and first + numbers == words(root)
    assert root.page.evaluate("document.getAnimations().length") == 0, "nothing moves by itself"
    answers = [Answer(name, knob, times, goal) for knob, times in turn_every_knob(root).items()]
    report(answers, pictures(tmp_path) / f"{name}_answers.md")


OTHERS: dict = {"live_curve": long_curve, "quiz": lambda: quiz("01_attention")}


@pytest.mark.parametrize("name", [*CONTROLS, *OTHERS])
@on_both_screens_and_schemes
def test_it_fits_its_screen_and_all_can_read_it(show, tmp_path, name, viewport, scheme):
    root = show((CONTROLS | OTHERS)[name](), viewport, scheme)
    if name == "quiz":  # a choice that is right, or wrong, is said; a page scrolls through its questions
        for button in root.locator("button").all()[:2]:
            button.click()
    else:  # beside a lesson's text JupyterLab's bars take 150 of the 900 pixels
        assert root.bounding_box()["height"] <= viewport["height"] - (150 if viewport is LAPTOP else -600)
    root.screenshot(path=pictures(tmp_path) / f"{name}_{scheme}.png")
    assert not too_wide(root.page, viewport) and violations(root.page, preload=False) == []
    assert name != "live_curve" or words(root).startswith("Step 16000 of 20000: ")  # it opened late
    small = root.evaluate(
        "root => [...root.querySelectorAll('text')].filter(e => e.textContent && e.checkVisibility())"
        ".map(e => [e.textContent, e.getBoundingClientRect().height]).filter(([, height]) => height < 11)"
    )
    assert small == [], "letters that are too small"


def on_phone(show, name, touched):
    """A control on a phone, in a page that scrolls, and the part of it that a finger will touch, in view."""
    root = show(CONTROLS[name](), PHONE, has_touch=True, is_mobile=True)
    root.page.add_style_tag(content="body { padding: 900px 0 }")
    root.locator(touched).evaluate("e => e.scrollIntoView({block: 'center'})")
    return root, root.locator(touched)


def swipe(touched, right, down):
    """A finger on the middle of an element, and across the screen; how far the page has scrolled under it."""
    page = touched.page
    finger = page.context.new_cdp_session(page)
    x, y, before = *middle(touched), page.evaluate("scrollY")

    def touch(kind, *points):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})
        page.wait_for_timeout(30)

    touch("touchStart", {"x": x, "y": y})
    for part in range(1, 7):
        touch("touchMove", {"x": x + right * part / 6, "y": y + down * part / 6})
    touch("touchEnd")
    return page.evaluate("scrollY") - before


@pytest.mark.parametrize(
    ("name", "handle"),
    [
        ("query_among_keys", "[aria-label=query]"),
        ("picture_control", "[aria-label='place of the shape']"),
        ("sinusoid_control", ".tfm-held >> nth=2"),
    ],
)
def test_a_finger_drags_it_and_the_page_stays(show, name, handle):
    """Browsers heed touch-action on a whole drawing only, so that a page once ran away under the finger."""
    root, dragged = on_phone(show, name, handle)
    before = words(root)
    assert swipe(dragged, 30, 70) == 0 and words(root) != before
    assert swipe(root.locator(".tfm-words"), 0, 70) < -20, "beside it a finger scrolls"


@pytest.mark.parametrize("name", ["cache_control", "steps_control"])
def test_a_finger_reads_a_chart_sideways_and_scrolls_up_and_down(show, name):
    root, chart = on_phone(show, name, ".tfm-held")
    assert swipe(chart, 90, 0) == 0
    before = words(root)
    assert swipe(chart, -120, 0) == 0 and words(root) != before
    assert swipe(chart, 0, 70) < -20
